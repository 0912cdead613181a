"""What a scope costs beside the same question to the whole index.

    uv run python benchmarks/scope.py                  # 18,000 sections, made here, with vectors of hashed words
    uv run python benchmarks/scope.py --sections 2000

A process asks the same questions plainly and in a scope, in turn. `new scope` is what it takes once to find out what a
scope leaves, `again` what a question in it takes more than a plain one. The first scope of a process also reads what
all scopes are decided by. Times are medians, of the processor.
"""

import argparse
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1]))

from retriever import AskRequest, Scope
from retriever.api import open_retriever
from retriever.retriever import Retriever
from tests.fake_encoder import FakeEncoder

PER_FILE = 15  # sections
FOLDERS = 12
WORDS = [
    f"{start}{middle}{end}" for start in "bdfgklmnprst" for middle in ("a", "e", "io", "u") for end in ("n", "rt", "ll")
]
WEIGHTS = [1 / (number + 5) for number in range(len(WORDS))]  # some words are in most sections, most in few
ROUNDS = 15
SCOPES = (
    Scope(folders=("folder1",)),
    Scope(tags=("area",)),
    Scope(tags=("tag3",), since="2015"),
    Scope(where=("status=draft",), not_folders=("folder2",)),
    Scope(without=(WORDS[7],)),
    Scope(folders=("folder3",), without=(WORDS[9], WORDS[11])),
    Scope(folders=("folder4",), phrases=(f"{WORDS[1]} {WORDS[2]}",)),
    Scope(phrases=(f"{WORDS[1]} {WORDS[2]}",)),
    Scope(phrases=(f"{WORDS[40]} {WORDS[50]}",)),
)


def make_documents(folder: Path, sections: int) -> None:
    """Files with front matter in folders; every section has words of its own and of its folder."""
    draw = random.Random(6)
    for number in range(sections // PER_FILE):
        place = folder / f"folder{number % FOLDERS}" / f"page{number}.md"
        place.parent.mkdir(parents=True, exist_ok=True)
        day = f"20{10 + number % 15}-{1 + number % 12:02}-{1 + number % 28:02}"
        status = "draft" if number % 9 else "final"
        parts = [f"---\ndate: {day}\ntags: [tag{number % 40}, area/part{number % 7}]\nstatus: {status}\n---"]
        for part in range(PER_FILE):
            words = " ".join(draw.choices(WORDS, WEIGHTS, k=60))
            parts.append(f"{'#' if not part else '##'} {draw.choice(WORDS)} {number} {part}\n\n{words}")
        place.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def time_ms(work: Callable[[], object]) -> float:
    """How long it takes once, of the processor, so that a busy machine changes it little."""
    begun = time.thread_time()
    work()
    return 1000 * (time.thread_time() - begun)


def compare(retriever: Retriever, questions: Sequence[str], scope: Scope) -> tuple[float, float]:
    """The medians of a plain question, and of what the same one takes more in a scope that was asked in before."""
    plain, more = [], []
    for question in questions:
        plain.append(time_ms(lambda: retriever.search(question)))  # noqa: B023 - called at once
        more.append(time_ms(lambda: retriever.search(AskRequest(question, scope=scope))) - plain[-1])  # noqa: B023 - as above
    return median(plain), median(more)


def decide(retriever: Retriever, scope: Scope) -> float:
    """How long it takes to find out what a scope leaves, for the words and for the vectors."""
    with retriever.view() as view:
        return time_ms(lambda: view.within(scope).scan)


def main() -> None:
    """Prints a line for each kind of scope."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sections", type=int, default=18_000)
    sections = parser.parse_args().sections
    draw = random.Random(14)
    questions = [" ".join(draw.choices(WORDS, k=4)) for _ in range(ROUNDS)]
    with TemporaryDirectory() as place:
        docs = Path(place) / "docs"
        make_documents(docs, sections)
        settings = {"refresh_seconds": 3600, "vector_search": "exact"}
        with open_retriever([docs], f"{place}/index", settings=settings, encoder=FakeEncoder()) as retriever:
            retriever.search(questions[0])
            first = decide(retriever, Scope(("folder0",)))
            print(f"{sections:,} sections; the first scope of a process takes {first:.1f} ms")
            decide(retriever, Scope(tags=("area",), since="2015"))  # what these read is read once as well
            print(f"{'scope':<34}{'sections':>10}{'plain':>12}{'new scope':>12}{'again':>12}")
            for scope in SCOPES:
                new = decide(retriever, scope)
                plain, more = compare(retriever, questions, scope)
                answer = retriever.search(AskRequest(questions[0], scope=scope)).scope
                held = answer.sections if answer else 0
                print(f"{' '.join(scope.terms):<34}{held:>10,}{plain:>9.2f} ms{new:>+9.2f} ms{more:>+9.2f} ms")


if __name__ == "__main__":
    main()
