"""What large inputs take, beside a named reference: the second table of the limits in docs/reliability.md.

    uv run python benchmarks/limits.py [--only WORD] [--scale N]

The inputs are made here, the same each time. Each is read by a process of its own: CPU time of all its threads, and the
most memory that it held, Python and the tokenizer among it (50 MB). Beside some stands how many times as long that
takes as a process that does the least: markdown-it-py parsing the file, a loop that reads the files.
`--scale 0.001` does the same in a minute.
"""

import json
import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import click

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.asked import PROGRAM, ROOT
from benchmarks.costs import Cost, run
from pageindex.document import parse_document
from retriever.embedding import bundled_counter
from retriever.indexing.chunk import chunk_nodes
from retriever.settings.schema import ChunkSettings

MOST_BYTES = 60_000_000
"""Of a file: more than the program takes by itself."""
LONG_QUESTION = 1_000_000
"""Characters."""
FILES_PER_FOLDER = 1_000
WORDS_PER_PARAGRAPH = 60

Command = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """A process over the documents of a case."""

    what: str
    """For people; `{}` stands for the documents."""
    command: Callable[[Path], Command]
    """Made of the case's folder, which holds `docs`, and `index` after the step that makes it."""


@dataclass(frozen=True, slots=True)
class Case:
    """Documents of one kind."""

    what: str
    """For people; with `{size}` and `{megabytes}`."""
    size: int
    """How often its part is repeated."""
    texts: Callable[[int], Iterator[str]]
    """The documents of a size."""
    steps: Sequence[Step]
    reference: Step | None = None
    """The least that the first step could do."""


def one(text: Callable[[int], str]) -> Callable[[int], Iterator[str]]:
    """A single document."""
    return lambda size: iter((text(size),))


def prose(count: int) -> str:
    """So many sections of four paragraphs, about 1,500 bytes each, in the words of this project's pages."""
    chance = random.Random(7)
    words = " ".join(page.read_text("utf-8") for page in sorted((ROOT / "docs").glob("*.md"))).split()
    starts = chance.choices(range(len(words) - WORDS_PER_PARAGRAPH), k=4 * count)
    paragraphs = (f"So {' '.join(words[start : start + WORDS_PER_PARAGRAPH])}\n\n" for start in starts)
    return "".join(f"## Section {number}\n\n" + "".join(islice(paragraphs, 4)) for number in range(count))


def small_files(count: int) -> Iterator[str]:
    """So many files of three lines."""
    return (f"# Page {number}\n\nWhat page {number} says about stamps.\n" for number in range(count))


def index(place: Path) -> Command:
    """Of all its documents, without vectors."""
    settings = ("--encoder-kind", "none", "--documents-max-file-bytes", str(MOST_BYTES))
    return (*PROGRAM, "index", str(place / "docs"), "--index", str(place / "index"), "-q", *settings)


def ask(place: Path) -> Command:
    """A cold ask."""
    return (*PROGRAM, "--index", str(place / "index"), "what is said about stamps?")


def ask_long(place: Path) -> Command:
    """The same with a question that no command line could hold."""
    question = "what is said about stamps? ".ljust(LONG_QUESTION, "?")
    (place / "long.jsonl").write_text(json.dumps({"id": 1, "question": question}), "utf-8")
    return (*PROGRAM, "--index", str(place / "index"), "--batch", str(place / "long.jsonl"))


def read(place: Path) -> Command:
    """This program, which reads the only document."""
    return (sys.executable, str(Path(__file__).resolve()), "--read", str(place / "docs" / "0" / "0.md"))


def parse_alone(place: Path) -> Command:
    """markdown-it-py, by its defaults, with the only document."""
    code = (
        "import sys, pathlib, markdown_it; markdown_it.MarkdownIt().parse(pathlib.Path(sys.argv[1]).read_text('utf-8'))"
    )
    return (sys.executable, "-c", code, str(place / "docs" / "0" / "0.md"))


def read_alone(place: Path) -> Command:
    """A loop that reads all documents."""
    code = "import sys, pathlib; [file.read_text('utf-8') for file in pathlib.Path(sys.argv[1]).rglob('*.md')]"
    return (sys.executable, "-c", code, str(place / "docs"))


PARSE_ALONE = Step("markdown-it-py alone", parse_alone)
READ_ALONE = Step("reading the files alone", read_alone)
INDEX = Step("{}, indexed without vectors", index)
ASK = Step("a question to that index", ask)
ASK_LONG = Step(f"a question of {LONG_QUESTION:,} characters to that index", ask_long)
READ = Step("parsing and chunking {}", read)
CASES = (
    Case("one file of {megabytes:.0f} MB, {size:,} sections", 35_700, one(prose), (INDEX,), PARSE_ALONE),
    Case("one line of {megabytes:.0f} MB", 10_000_000, one(lambda n: "word " * n), (INDEX,)),
    Case("{size:,} files of 3 lines", 100_000, small_files, (INDEX, ASK, ASK_LONG), READ_ALONE),
    Case("a table of {size:,} rows", 200_000, one(lambda n: "|a|b|\n|-|-|\n" + "|a|b|\n" * n), (READ,)),
    Case(
        "{size:,} list items in {megabytes:.0f} MB", 1_000_000, one(lambda n: "- a\n" * n), (READ, INDEX), PARSE_ALONE
    ),
    Case("{size:,} headings", 100_000, one(lambda n: "# a\n" * n), (READ,)),
    Case("{size:,} blank lines", 1_000_000, one(lambda n: "\n" * n), (READ,)),
)


def measured(case: Case, scale: float) -> Iterator[tuple[str, Cost, str]]:
    """What each step of a case is called, what it took, and the first of them beside the reference."""
    size = max(1, int(case.size * scale))
    with TemporaryDirectory(prefix="hybrid-retrieve-limits-") as name:
        place = Path(name)
        os.environ["XDG_DATA_HOME"] = name
        written = 0
        for number, text in enumerate(case.texts(size)):
            file = place / "docs" / str(number // FILES_PER_FOLDER) / f"{number}.md"
            file.parent.mkdir(parents=True, exist_ok=True)
            written += file.write_text(text, "utf-8")
        documents = case.what.format(size=size, megabytes=written / 1e6)
        for number, step in enumerate(case.steps):
            cost, beside = run(*step.command(place)), ""
            if case.reference and not number:
                least = run(*case.reference.command(place))
                beside = f"{cost.cpu / least.cpu:.2f} x {case.reference.what}"
            yield step.what.format(documents), cost, beside


def parse_and_chunk(file: Path) -> None:
    """What indexing does with a document before it writes anything."""
    nodes = [placed.node for placed in parse_document(file.name, file.read_text("utf-8")).nodes]
    chunk_nodes(nodes, bundled_counter(), ChunkSettings())


@click.command()
@click.option("--only", default="", help="Cases with this in their description.")
@click.option("--scale", default=1.0, show_default=True, help="Of all sizes.")
@click.option("--read", "file", type=click.Path(path_type=Path), hidden=True)
def main(only: str, scale: float, file: Path | None) -> None:
    """Print the table."""
    if file:
        parse_and_chunk(file)
        return
    print("| input | CPU time | peak memory | beside |\n|---|---|---|---|")
    for case in CASES:
        if only in case.what:
            for what, cost, beside in measured(case, scale):
                print(f"| {what} | {cost.cpu:.1f} s | {cost.megabytes:.0f} MB | {beside} |", flush=True)


if __name__ == "__main__":
    main()
