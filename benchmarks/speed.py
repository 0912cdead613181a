r"""How long commands and searches take, each beside a reference that is measured in the same run.

    uv run python benchmarks/speed.py ../shared/eval/corpora/fastapi --questions ../shared/eval/fastapi.jsonl

Prints Markdown tables; docs/internals/speed.md has most of their rows. Other work on a machine comes and
goes, so what is compared takes turns, medians are shown, and beside the time on the wall that of the processor. At most
8 minutes on two busy cores; `--quick` takes a small folder through the same steps. `--program` takes turns with another
version's hybrid_retrieve.py, at the commands alone. Not for Windows, which has no wait4.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import click
import httpx

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.costs import Cost, in_turn, print_head, print_memory, print_row, print_wall, run, timed, typical
from benchmarks.editions import LONG_AGO_NS, Vectors, fill_vectors, sections_of, texts_of, write_editions
from retriever import open_retriever
from retriever.embedding.encoder import ENGLISH_MODEL
from retriever.embedding.onnx import OnnxEncoder
from retriever.embedding.vectors import VectorIndex
from retriever.lexical.bm25 import Bm25
from retriever.lexical.tokens import tokenize
from retriever.settings import Profile
from retriever.store.database import open_file
from retriever.store.files import list_chroma
from retriever.store.reading import meta
from retriever.types import Answer

ROOT = Path(__file__).parents[1]
SECTIONS = 18_000
QUESTIONS = (
    "how do I configure which files are read?",
    "what happens when a file changes while it is being read?",
    "which settings decide how many results there are?",
)
MOST_QUESTIONS = 60
OPENING = "how long does it take to open all of this?"
"""A question that is not measured: the first one opens the files."""
PROGRAM = (sys.executable, str(ROOT / "hybrid_retrieve.py"))


@dataclass(frozen=True, slots=True)
class Scene:
    """The folders of one run."""

    place: Path
    """Where everything is written."""
    docs: Path
    """A copy of the documents, its files of long ago."""
    index: Path
    """Theirs."""
    encoder: OnnxEncoder
    """The one of the program, in this process."""

    @property
    def chroma(self) -> Path:
        """Its ChromaDB."""
        (folder,) = list_chroma(self.index)
        return folder


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path), default=ROOT / "docs")
@click.option("--questions", type=click.Path(exists=True, path_type=Path), help="JSONL, each line with a `question`.")
@click.option("--program", type=click.Path(exists=True, path_type=Path), help="hybrid_retrieve.py of another version.")
@click.option("--quick", is_flag=True, help="Everything once, with two copies of FOLDER in place of 18,000 sections.")
def main(folder: Path, questions: Path | None, program: Path | None, quick: bool) -> None:
    """Measure with the documents of FOLDER; by default those of this project."""
    begun = perf_counter()
    asked = read_questions(questions) if questions else QUESTIONS
    with TemporaryDirectory(prefix="hybrid-retrieve-speed-") as name:
        place = Path(name)
        scene = Scene(place, copied(folder, place / "docs"), place / "index", OnnxEncoder())
        if program is not None:
            compare_commands(scene, program.resolve(), asked[0], rounds=1 if quick else 9)
        else:
            originals = measure_indexing(scene)
            measure_commands(scene, asked[0], rounds=1 if quick else 9)
            for profile in ("balanced", "fast"):
                measure_pages(scene, asked[: 1 if quick else MOST_QUESTIONS], profile)
            editions = 2 if quick else -(-SECTIONS // sections_of(folder))
            measure_searches(scene, originals, editions, asked[: 1 if quick else MOST_QUESTIONS])
    print(f"\nmeasured in {perf_counter() - begun:.0f} s on {os.cpu_count()} cores")


def measure_indexing(scene: Scene) -> Vectors:
    """Measure `index` on all documents between two halves of their texts by the encoder alone; return the vectors."""
    texts = list(texts_of(scene.docs, scene.encoder))
    tokens = sum(scene.encoder.count_tokens(texts))
    scene.encoder.encode_documents(texts[:1])  # loads the model
    originals: Vectors = {}

    def encode(some: Sequence[str]) -> Cost:
        vectors, cost = timed(lambda: scene.encoder.encode_documents(some))
        originals.update(zip(some, vectors, strict=True))
        return cost

    first = encode(texts[: len(texts) // 2])
    ours = run(*PROGRAM, "index", str(scene.docs), "--index", str(scene.index))
    alone = first.plus(encode(texts[len(texts) // 2 :]))
    print(f"{len(texts):,} texts, {tokens:,} tokens; alone, the encoder reads {tokens / alone.wall:,.0f} tokens/s\n")
    print_head()
    print_row("index all of it", ours, "the encoder alone / 0.8", alone.times(1 / 0.8))
    print_memory("index all of it", ours, 600)
    return originals


def measure_commands(scene: Scene, question: str, rounds: int) -> None:
    """Measure each command as a process of its own, in turn."""
    ask = (*PROGRAM, "--index", str(scene.index), question)
    again = (*PROGRAM, "index", str(scene.docs), "--index", str(scene.index))
    bare = bare_ask(scene, question)
    edits = count(1)

    def index_changed() -> Cost:
        edit(scene.docs, next(edits))
        return run(*again)

    costs = in_turn(
        {
            "help": lambda: run(*PROGRAM, "--help"),
            "bare": lambda: run(*bare),
            "ask": lambda: run(*ask),
            "chroma": lambda: run(*ask, "--vector-search", "chroma"),
            "stat": lambda: timed(lambda: stat_all(scene.docs))[1],
            "unchanged": lambda: run(*again),
            "changed": index_changed,
        },
        rounds,
    )
    print_row("`--help`", costs["help"], "150 ms", Cost(0.15, 0.15))
    print_row("cold ask", costs["ask"], "1.3 x the bare process", costs["bare"].times(1.3))
    print_memory("cold ask", costs["ask"], 300)
    print_row("cold ask, `--vector-search chroma`", costs["chroma"], "1.3 x the bare process", costs["bare"].times(1.3))
    looked = costs["help"].times(1.5).plus(costs["stat"].times(3))
    print_row("index again, nothing changed", costs["unchanged"], "1.5 x `--help` + 3 x stat of all files", looked)
    print_row("index again, one file changed", costs["changed"], "2 x a cold ask", costs["ask"].times(2))


def measure_pages(scene: Scene, asked: Sequence[str], profile: str) -> None:
    """Measure the first byte of a running server's pages: of each answer, and of the section that it finds first."""
    serve = (*PROGRAM, "serve", "--web", "--port", "0", "--index", str(scene.index), "--profile", profile)
    with subprocess.Popen(serve, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            found = next(filter(None, (re.search(r"http://\S+", line) for line in server.stderr)))
            with httpx.Client(base_url=found[0], timeout=60) as client:

                def wait(path: str, **given: str) -> float:
                    begun = perf_counter()
                    with client.stream("GET", path, params=given) as response:
                        pieces = response.raise_for_status().iter_raw()
                        next(pieces)
                        seconds = perf_counter() - begun
                        list(pieces)
                    return seconds

                wait("/", question=OPENING)  # opens everything
                hits = [client.get("/api/search", params={"question": one}).json()["hits"][0] for one in asked]
                wait("/read", node=hits[0]["node_id"])
                waits = {
                    "answer page": [wait("/", question=one) for one in asked],
                    "reading page": [
                        wait("/read", node=hit["node_id"], question=one) for one, hit in zip(asked, hits, strict=True)
                    ],
                }
        finally:
            server.terminate()
    for name, seconds in waits.items():
        print_wall(f"first byte of a warm {name}, `{profile}`", median(seconds), 0.1)


def compare_commands(scene: Scene, program: Path, question: str, rounds: int) -> None:
    """Compare the commands that a person waits for with those of another version, with an index of its own, in turn."""
    edits = count(1)
    actions: dict[str, Callable[[], Cost]] = {"python": partial(run, sys.executable, "-c", "pass")}
    for version, path in (("ours", Path(PROGRAM[1])), ("theirs", program)):
        own = replace(scene, docs=copied(scene.docs, scene.place / version), index=scene.place / f"{version}-index")
        ask = (sys.executable, str(path), "--index", str(own.index), question)
        run(sys.executable, str(path), "index", str(own.docs), "--index", str(own.index))
        run(*ask)
        print(f"{version}: {count_modules(path, ask[2:]):,} modules after a plain question")
        if version == "ours":
            actions["bare"] = partial(run, *bare_ask(own, question))
        actions[f"{version} help"] = partial(run, *ask[:2], "--help")
        actions[f"{version} ask"] = partial(run, *ask)
        actions[f"{version} changed"] = partial(ask_changed, own, ask, edits)
    costs = in_turn(actions, rounds)
    print()
    print_head()
    targets = {
        "help": (
            "`--help`",
            "9.2 x a Python that does nothing",
            costs["python"].times(9.2),
        ),  # 120 ms where it takes 13
        "ask": ("cold ask", "0.5 x the bare process", costs["bare"].times(0.5)),
        "changed": (
            "ask, one file changed",
            "0.7 x a cold ask + 300 ms",
            costs["ours ask"].times(0.7).plus(Cost(0.3, 0.3)),
        ),
    }
    for key, (name, target, allowed) in targets.items():
        print_row(name, costs[f"ours {key}"], "the other version", costs[f"theirs {key}"])
        print_row(name, costs[f"ours {key}"], target, allowed)


def ask_changed(scene: Scene, ask: Sequence[str], edits: Iterator[int]) -> Cost:
    """Measure a question whose answer waits for a file to be indexed again."""
    edit(scene.docs, next(edits))
    return run(*ask)


def count_modules(program: Path, words: Sequence[str]) -> int:
    """Return how many modules a command line of that version has imported when it ends."""
    code = (
        f"import sys; sys.path.insert(0, {str(program.parent)!r}); import hybrid_retrieve\n"
        f"hybrid_retrieve.main({list(words)!r}); print(len(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(done.stderr.splitlines()[-1])


def measure_searches(scene: Scene, originals: Vectors, editions: int, asked: Sequence[str]) -> None:
    """Measure questions that are new to an open retriever, each beside the bare parts of its search."""
    docs, index = scene.place / "many", scene.place / "many-index"
    write_editions(scene.docs, docs, editions)
    fill_vectors(index, texts_of(docs, scene.encoder), originals, scene.encoder.fingerprint)
    made = run(*PROGRAM, "index", str(docs), "--index", str(index))
    cold = run(*PROGRAM, "--index", str(index), OPENING)
    answers: list[Answer] = []
    searched, alone = [], []
    with open_retriever(index=index) as retriever, closing(Parts(index, scene)) as parts:
        opened = retriever.search(OPENING)
        for question in asked:
            parts.search(question)  # the first run of a length is slower in any case
            answer, cost = timed(lambda: retriever.search(question))  # noqa: B023 - called at once
            answers.append(answer)
            searched.append(cost)
            alone.append(timed(lambda: parts.search(question))[1])  # noqa: B023 - called at once
    name = f"warm search, {opened.index.sections:,} sections"
    print_row(name, typical(searched), "10 ms", Cost(0.01, 0.01))
    print_row(f"{name}: beside its parts", typical(searched), "its parts alone", typical(alone))
    print_memory(f"cold ask, {opened.index.sections:,} sections", cold, 300)
    print(f"\nindexed with the vectors at hand in {made.wall:.0f} s, {made.megabytes:.0f} MB")
    print_stages(opened, answers)


class Parts:
    """The parts that every search needs, called one after the other."""

    def __init__(self, index: Path, scene: Scene) -> None:
        self._connection = open_file(index)
        (chroma,) = list_chroma(index)
        copy = shutil.copytree(chroma, scene.place / "parts")  # one client for a folder and process
        *_, size = json.loads(meta(self._connection, "chroma") or "")
        self._vectors = VectorIndex(copy, scene.encoder.fingerprint, size)
        self._lexical = Bm25(self._connection)
        self._encoder = scene.encoder

    def search(self, question: str) -> None:
        """Embed the question, and ask each index for as many as the default profile."""
        profile = Profile()
        self._vectors.search(self._encoder.encode_queries([question]), profile.vector_top_n)
        self._lexical.search(tokenize(question), profile.keyword_top_n)

    def close(self) -> None:
        """Close the files."""
        self._vectors.close()
        self._connection.close()


def bare_ask(scene: Scene, question: str) -> tuple[str, ...]:
    """Return the command line of benchmarks/bare_ask.py, with vectors of its own: opening them writes."""
    copy = shutil.copytree(scene.chroma, scene.place / "bare")
    script = str(ROOT / "benchmarks" / "bare_ask.py")
    return sys.executable, script, str(copy), scene.encoder.fingerprint, str(ENGLISH_MODEL), question


def read_questions(path: Path) -> tuple[str, ...]:
    """Read the questions of a JSONL file."""
    return tuple(json.loads(line)["question"] for line in path.read_text(encoding="utf-8").splitlines())


def copied(folder: Path, target: Path) -> Path:
    """Return a copy whose files are so old that their times are trusted."""
    shutil.copytree(folder, target)
    for file in target.rglob("*"):
        os.utime(file, ns=(LONG_AGO_NS, LONG_AGO_NS))
    return target


def edit(docs: Path, number: int) -> None:
    """Add a sentence that is new to the middle one of the documents, long ago."""
    files = sorted(docs.rglob("*.md"))
    file = files[len(files) // 2]
    with file.open("a", encoding="utf-8") as end:
        end.write(f"\n\nThis is change number {number}.\n")
    os.utime(file, ns=(LONG_AGO_NS + number, LONG_AGO_NS + number))


def stat_all(folder: Path) -> int:
    """Look at the size and time of every file; return how many there are."""
    looked, pending = 0, [str(folder)]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                else:
                    entry.stat(follow_symlinks=False)
                    looked += 1
    return looked


def print_stages(opened: Answer, answers: Sequence[Answer]) -> None:
    """Print the median time of each stage of the searches, and what the first one paid for a look at the folders."""
    print("\n| stage of a warm search | ms |\n|---|---|")
    print(f"| refresh, when the last look is a second old | {opened.trace.stages[0].milliseconds:.1f} |")
    for place, stage in list(enumerate(opened.trace.stages))[1:]:
        print(f"| {stage.name} | {median(answer.trace.stages[place].milliseconds for answer in answers):.2f} |")


if __name__ == "__main__":
    main()
