"""What a scope costs beside the same question to the whole index, and that its folder is found as if indexed alone.

    uv run python benchmarks/scope.py                  # 18,000 sections, made here, with vectors of hashed words
    uv run python benchmarks/scope.py --sections 2000

A warm process asks the same questions plainly, in a scope that it asked in before, and in one that it meets for the
first time. The first scope of a process also reads what all scopes are decided by. Times are medians, of the processor, so that a busy machine changes them little.
"""

import argparse
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1]))

from retriever import Scope
from retriever.api import open_retriever
from retriever.retriever import Retriever
from tests.fake_encoder import FakeEncoder

PER_FILE = 15  # sections
FOLDERS = 12
WORDS = [
    f"{start}{middle}{end}" for start in "bdfgklmnprst" for middle in ("a", "e", "io", "u") for end in ("n", "rt", "ll")
]
ROUNDS = 15


def make_documents(folder: Path, sections: int) -> None:
    """Files with front matter in folders; every section has words of its own and of its folder."""
    draw = random.Random(6)
    for number in range(sections // PER_FILE):
        place = folder / f"folder{number % FOLDERS}" / f"page{number}.md"
        place.parent.mkdir(parents=True, exist_ok=True)
        day = f"20{10 + number % 15}-{1 + number % 12:02}-{1 + number % 28:02}"
        parts = [
            f"---\ndate: {day}\ntags: [tag{number % 40}, area/part{number % 7}]\nstatus: {'draft' if number % 9 else 'final'}\n---"
        ]
        for part in range(PER_FILE):
            words = " ".join(draw.choices(WORDS, k=60))
            parts.append(f"{'#' if not part else '##'} {draw.choice(WORDS)} {number} {part}\n\n{words}")
        place.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def time_ms(work: Callable[[], object]) -> float:
    """How long it takes once."""
    begun = time.thread_time()
    work()
    return 1000 * (time.thread_time() - begun)


def ask_all(retriever: Retriever, questions: list[str], scope: Scope | None) -> float:
    """The median time of a question."""
    return median(time_ms(lambda question=question: retriever.search(question, scope=scope)) for question in questions)  # type: ignore[misc]  # a bound name


def main() -> None:
    """Prints a line for each kind of scope."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sections", type=int, default=18_000)
    sections = parser.parse_args().sections
    draw = random.Random(14)
    questions = [" ".join(draw.choices(WORDS, k=4)) for _ in range(ROUNDS)]
    with TemporaryDirectory() as place:
        docs = Path(place) / "docs"
        make_documents(docs, sections)
        settings = {"refresh_seconds": 3600, "token_match_weight": 0.0}
        with open_retriever([docs], f"{place}/index", settings=settings, encoder=FakeEncoder()) as retriever:
            first = time_ms(lambda: retriever.search(questions[0]))
            plain = ask_all(retriever, questions, None)
            opening = time_ms(lambda: retriever.search(questions[0], scope=Scope(folders=("folder0",))))
            print(f"{sections:,} sections; first question {first:.1f} ms; a plain one {plain:.2f} ms")
            print(f"the first scope of the process: {opening - plain:+.1f} ms")
            print(f"{'scope':<34}{'sections':>10}{'again':>12}{'first time':>12}   beside a plain question")
            scopes = [
                Scope(folders=("folder1",)),
                Scope(tags=("area",)),
                Scope(tags=("tag3",), since="2015"),
                Scope(where=("status=draft",), not_folders=("folder2",)),
                Scope(without=(WORDS[7],)),
                Scope(folders=("folder3",), without=(WORDS[9], WORDS[11])),
                Scope(phrases=(f"{WORDS[1]} {WORDS[2]}",)),
            ]
            for scope in scopes:
                new = time_ms(lambda scope=scope: retriever.search(questions[0], scope=scope))  # type: ignore[misc]
                again = ask_all(retriever, questions, scope)
                answer = retriever.search(questions[0], scope=scope).scope
                held = answer.sections if answer else 0
                print(f"{' '.join(scope.terms):<34}{held:>10,}{again - plain:>+9.2f} ms{new - plain:>+9.2f} ms")


if __name__ == "__main__":
    main()
