r"""Cut the documents that the training questions are about into sections and chunks, as the search cuts them.

    uv run scripts/training_data.py DATA --sources FOLDER

`scripts/training/corpora.yaml` names the documents: repository, commit, paths, licence. They are not part of this
project: `scripts/prepare_corpora.py` makes FOLDER/NAME of clones of their repositories, or of those that are wanted.

Writes DATA/sections.jsonl.gz, {id, corpus, crumb, words, text}, DATA/chunks.jsonl.gz, {sid, text}, and
DATA/questions.jsonl.gz, {section, question, chunk}: those of `scripts/training/questions` and `lines.jsonl.gz` that
have an answer. `chunk` counts the section's chunks from 0, and is null where the lines that answer are not known.
"""

import gzip
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, TextIO

import click
import numpy as np
import numpy.typing as npt
import yaml

sys.path.insert(0, str(Path(__file__).parents[1]))

from pageindex.document import parse_document
from pageindex.node import Node
from retriever.embedding.encoder import Tokens, bundled_tokens
from retriever.indexing.chunk import chunk_nodes
from retriever.types import Chunk
from scripts.reader_data import HELD_OUT, TRAINING, read_rows

MAX_TOKENS = 256  # of a text, special ones included

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Lines = tuple[int, int]  # the first and the last, counted from the section's first as 1


@click.command()
@click.argument("data", type=click.Path(file_okay=False, path_type=Path))
@click.option("--sources", required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--others", default=1500, show_default=True, help="Sections of a corpus beside those with questions; held out: all."
)
def main(data: Path, sources: Path, others: int) -> None:
    """Write sections, chunks and questions of all corpora below SOURCES into the folder DATA."""
    data.mkdir(parents=True, exist_ok=True)
    asked = read_questions()
    count = bundled_tokens().count
    held_out = find_held_out()
    with open_new(data, "sections") as sections, open_new(data, "chunks") as chunks, open_new(data, "questions") as own:
        for corpus in read_corpora():
            name, folder = corpus["name"], sources / corpus["name"]
            wanted = {key for key in asked if key.startswith(f"{name}/")}
            if not folder.is_dir():
                print(f"{name}: left out with {len(wanted)} sections that have questions: there is no {folder}")
                continue
            found = {f"{name}/{node.id}": node for node in read_nodes(folder, corpus["glob"]) if node.body.strip()}
            rest = sorted(found.keys() - wanted)
            size = len(rest) if name in held_out else min(others, len(rest))
            chosen = {*Random(name).sample(rest, size), *wanted}
            nodes = [node for key, node in found.items() if key in chosen]
            for node, made in zip(nodes, chunk_nodes(nodes, count), strict=True):
                key = f"{name}/{node.id}"
                crumb = [*node.breadcrumb, node.title]
                words = len(node.text.split())
                write(sections, {"id": key, "corpus": name, "crumb": crumb, "words": words, "text": node.text})
                for chunk in made:
                    write(chunks, {"sid": key, "text": chunk.text})
                for question, lines in asked.get(key, {}).items():
                    place = find_chunk(node, made, lines) if lines and made else None
                    write(own, {"section": key, "question": question, "chunk": place})
            lost = len(wanted - found.keys())
            print(f"{name}: {len(nodes)} of {len(found)} sections; {len(wanted)} with questions, {lost} of them lost")


def read_corpora() -> list[dict[str, Any]]:
    """Return the rows of corpora.yaml."""
    rows: list[dict[str, Any]] = yaml.safe_load((TRAINING / "corpora.yaml").read_text(encoding="utf-8"))
    return rows


def find_held_out() -> tuple[str, ...]:
    """Return the corpora whose questions measure and are not learned: by the reader, or by any model."""
    return (*HELD_OUT, *(corpus["name"] for corpus in read_corpora() if corpus.get("held_out")))


def read_questions() -> dict[str, dict[str, Lines | None]]:
    """Map each section to its questions, and each of these to the first lines that answer where they are known."""
    found: dict[str, dict[str, Lines | None]] = defaultdict(dict)
    for path in sorted(TRAINING.glob("questions/*.jsonl")):
        for row in read_rows(path):
            if row["style"] != "unanswerable":
                found[row["section"]][row["question"]] = None
    for row in read_rows(TRAINING / "lines.jsonl.gz"):
        if row["kind"] != "none":
            found[row["section"]][row["question"]] = tuple(row["lines"][0])
    return found


def read_nodes(folder: Path, pattern: str) -> Iterator[Node]:
    """Yield the nodes of all documents, in the order of their paths; files that are not UTF-8 are skipped."""
    for path in sorted(folder.glob(pattern)):
        try:
            text = path.read_text(encoding="utf-8")
        except (UnicodeDecodeError, IsADirectoryError):
            continue
        for placed in parse_document(path.relative_to(folder).as_posix(), text).nodes:
            yield placed.node


def find_chunk(node: Node, chunks: Sequence[Chunk], lines: Lines) -> int | None:
    """Return the place of the chunk that holds most of a section's lines, the first of several; None if none does."""
    begin = node.span.first if node.span else 1
    first, last = (begin - 1 + line for line in lines)
    shared = [min(last, chunk.span.last) - max(first, chunk.span.first) + 1 for chunk in chunks]
    best = max(range(len(chunks)), key=shared.__getitem__)
    return best if shared[best] > 0 else None


def open_new(data: Path, name: str) -> TextIO:
    """Return DATA/NAME.jsonl.gz, to be written."""
    return gzip.open(data / f"{name}.jsonl.gz", "wt", encoding="utf-8")


def write(file: TextIO, row: dict[str, object]) -> None:
    """Append a row."""
    file.write(json.dumps(row, ensure_ascii=False) + "\n")


@dataclass(frozen=True, slots=True)
class Data:
    """The data to learn from; chunks, questions and sections are named by their places."""

    chunks: list[Integers]
    """Token numbers of each, special ones included."""
    section_of: Integers
    """The section of each chunk; those of a section, and the sections of a corpus, follow one another."""
    group: Integers
    """A number of each section, the same for those of a corpus with the same text below their headings."""
    questions: list[Integers]
    answer: Integers
    """The section of each question."""
    answer_chunk: Integers
    """The chunk with the lines that answer; -1 where it is not known."""
    also: dict[int, set[int]]
    """Groups that answer a question beside its own."""
    corpora: dict[str, tuple[Integers, Integers]]
    """The chunks and the questions of each corpus."""

    def find_answers(self, questions: Integers, sections: Integers) -> Flags:
        """Return (questions, sections): whether a section answers, as the right one or as well."""
        groups = self.group[sections]
        found: Flags = groups[None] == self.group[self.answer[questions]][:, None]
        for row, question in enumerate(questions):
            if int(question) in self.also:
                found[row] |= np.isin(groups, list(self.also[int(question)]))
        return found


def read_data(folder: Path, tokens: Tokens) -> Data:
    """Read what `main` wrote.

    Raises:
        click.ClickException: a file is not there.
    """
    names = ("sections", "chunks", "questions")
    if missing := [name for name in names if not (folder / f"{name}.jsonl.gz").is_file()]:
        raise click.ClickException(f"{folder} has no {missing[0]}.jsonl.gz: make it with scripts/training_data.py")
    sections, chunks, questions = ([*read_rows(folder / f"{name}.jsonl.gz")] for name in names)
    place = {row["id"]: number for number, row in enumerate(sections)}
    same: dict[tuple[str, str], int] = {}
    groups = []
    for row in sections:
        body = " ".join(" ".join(line for line in row["text"].split("\n") if not line.startswith("#")).split())
        key = body if len(body) > 20 else row["id"]
        groups.append(same.setdefault((row["corpus"], key), len(same)))
    section_of = np.array([place[row["sid"]] for row in chunks])
    answer = np.array([place[row["section"]] for row in questions])
    first = np.searchsorted(section_of, answer)
    within = np.array([-1 if row["chunk"] is None else row["chunk"] for row in questions])
    asked = {(row["section"], row["question"]): number for number, row in enumerate(questions)}
    also = defaultdict(set)
    for row in read_rows(TRAINING / "rivals.jsonl.gz"):
        number = asked.get((row["section"], row["question"]))
        if row["answers"] and number is not None and row["rival"] in place:
            also[number].add(groups[place[row["rival"]]])
    of_section = np.array([row["corpus"] for row in sections])
    return Data(
        chunks=read_tokens([row["text"] for row in chunks], tokens),
        section_of=section_of,
        group=np.array(groups),
        questions=read_tokens([row["question"] for row in questions], tokens),
        answer=answer,
        answer_chunk=np.where(within < 0, -1, first + within),
        also=also,
        corpora={
            str(name): (np.flatnonzero(of_section[section_of] == name), np.flatnonzero(of_section[answer] == name))
            for name in np.unique(of_section[answer])
        },
    )


def read_tokens(texts: Sequence[str], tokens: Tokens) -> list[Integers]:
    """Return the token numbers of each text; a long one is cut before its last, special token."""
    return [np.array(row if len(row) <= MAX_TOKENS else [*row[: MAX_TOKENS - 1], row[-1]]) for row in tokens.ids(texts)]


if __name__ == "__main__":
    main()
