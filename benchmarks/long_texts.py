r"""What dividing long texts is worth: a book with its headings, and as one text without any, whole and in parts.

    uv run python benchmarks/long_texts.py ../shared/eval/corpora/rustbook --questions ../shared/eval/rustbook.jsonl

The one text is all files, one below another, with an empty line for each heading; the questions are the same, their
lines are those of the text. Right is a hit whose cited lines hold one of the lines that answer. docs/tree.md holds the
table.
"""

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import click

sys.path.insert(0, str(Path(__file__).parents[1]))

from pageindex import parts
from retriever import open_retriever
from retriever.types import Hit

Question = tuple[str, list[tuple[str, range]]]
"""A question, and the lines of files that answer it."""
HEADING = re.compile(r"^#{1,6} .*$", re.MULTILINE)
TEXT = "text.md"


def read_questions(file: Path) -> list[Question]:
    """Those of a file of questions with gold lines."""
    rows = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    return [
        (row["question"], [(gold["file"], range(gold["start_line"], gold["end_line"] + 1)) for gold in row["gold"]])
        for row in rows
    ]


def join_files(folder: Path, target: Path) -> dict[str, int]:
    """Writes all files of the folder as one text without headings; how many lines stand above each of them."""
    above: dict[str, int] = {}
    joined = ""
    for file in sorted(folder.rglob("*.md")):
        above[file.relative_to(folder).as_posix()] = joined.count("\n")
        joined += HEADING.sub("", file.read_text(encoding="utf-8")).rstrip("\n") + "\n\n"
    target.mkdir()
    (target / TEXT).write_text(joined, encoding="utf-8")
    return above


def is_right(hit: Hit, gold: Sequence[tuple[str, range]]) -> bool:
    """Whether the lines that the hit cites hold one of those."""
    lines = hit.passage or hit.span
    path = hit.node_id.partition("#")[0]
    return lines is not None and any(
        path == file and lines.first < wanted.stop and wanted.start <= lines.last for file, wanted in gold
    )


def measure(name: str, folder: Path, questions: Sequence[Question], index: Path) -> None:
    """Prints a row of the table."""
    with open_retriever([folder], index, settings={"top_k": 5}) as retriever:
        right = [[is_right(hit, gold) for hit in retriever.search(question).hits] for question, gold in questions]
        sections = sum(1 for node in retriever.nodes() if node.kind.value != "folder")
    first = sum(row[:1] == [True] for row in right) / len(right)
    among = sum(any(row) for row in right) / len(right)
    print(f"| {name} | {sections:,} | {first:.2f} | {among:.2f} |", flush=True)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--questions", "questions_file", type=click.Path(path_type=Path), required=True)
def main(folder: Path, questions_file: Path) -> None:
    """Prints the table for the documents in FOLDER."""
    questions = read_questions(questions_file)
    print("| | files and sections | the first hit's lines | one of five |\n|---|---|---|---|")
    with TemporaryDirectory() as place:
        work = Path(place)
        measure("with its headings", folder, questions, work / "headings")
        above = join_files(folder, work / "text")
        moved = [
            (question, [(TEXT, range(lines.start + above[file], lines.stop + above[file])) for file, lines in gold])
            for question, gold in questions
        ]
        longest = parts.MAX_SECTION_CHARS
        parts.MAX_SECTION_CHARS = sys.maxsize
        measure("one text without headings, whole", work / "text", moved, work / "whole")
        parts.MAX_SECTION_CHARS = longest
        measure("the same, in parts", work / "text", moved, work / "parts")


if __name__ == "__main__":
    main()
