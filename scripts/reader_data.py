"""Make the examples that `scripts/train_reader.py` learns from: questions beside the units of sections.

    uv run scripts/reader_data.py EXAMPLES.jsonl.gz DATA...

A folder DATA holds `sections.jsonl.gz` ({id, corpus, crumb, text}, as `scripts/training_data.py` writes them), and may
hold `lines/*.jsonl` ({section, question, kind, quotes}: exact pieces of the lines that answer; of the kind `none`,
none). Beside these `scripts/training/lines.jsonl.gz` is learned: {section, question, kind, lines}, the first and the
last line of each unit that answers, counted from the section's first.

A line of EXAMPLES is an `Example`. Sections are cut into units as the search cuts them. The bundled encoder finds the
units that are easily taken for the right one: of the section itself, and of others of the same corpus.
"""

import gzip
import json
import random
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from pageindex.node import Node, NodeKind, Span
from pageindex.units import Unit, UnitKind, split_units
from retriever.embedding.onnx import OnnxEncoder
from retriever.searching.passage import as_sentence

HELD_OUT = ("handbook18f", "nushell", "redis")  # a handbook, a book, a reference: a fifth of the questions with lines
TRAINING = Path(__file__).parent / "training"
UNIT_CHARS = 900  # more than the reader reads
OTHERS = 8  # units of other sections beside an example
TERM: tuple[str, ...] = ("what is {}?", "{}", "{} meaning", "what does {} mean", "what does {} do?", "define {}")
DEFAULT: tuple[str, ...] = ("default of {}", "{} default", "what is the default of {}?", "{} default value")
HAS_DEFAULT = re.compile(r"\bdefault", re.IGNORECASE)

Row = dict[str, Any]  # a line of JSON


@dataclass(frozen=True, slots=True)
class Candidate:
    """A unit that may answer."""

    text: str
    """The titles above it, then the unit in full, as the reader reads them."""
    answers: bool
    score: float = 0.0
    """Its cosine with the question, by the bundled encoder; 0 where it was not asked."""
    is_list: bool = False
    """Whether it is a list or table as a whole."""


@dataclass(frozen=True, slots=True)
class Example:
    """A question and what may answer it."""

    question: str
    kind: str
    """As in the questions with lines."""
    source: str
    """`lines`, or `terms` (made by a template)."""
    corpus: str
    units: list[Candidate]
    """Of the section that answers or comes nearest, in the order of lines."""
    others: list[str]
    """Texts of other sections' units, the most similar first; none answers."""


@click.command()
@click.argument("examples", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("data", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
def main(examples: Path, data: Sequence[Path]) -> None:
    """Write EXAMPLES from each DATA."""
    sections, questions = read_data(data)
    learned = [section for section in sections.values() if section["corpus"] not in HELD_OUT]
    made = (
        ("lines", compare(questions, sections)),
        ("terms", ask_for_terms(random.Random(1).sample(learned, len(learned) // 2))),
    )
    with gzip.open(examples, "wt", encoding="utf-8") as file:
        for source, found in made:
            count = 0
            for count, example in enumerate(found, 1):  # noqa: B007 - said below
                file.write(json.dumps(asdict(example), ensure_ascii=False) + "\n")
            print(f"{count} examples of {source}", flush=True)


def read_data(folders: Sequence[Path]) -> tuple[dict[str, Row], list[Row]]:
    """Return the sections by their ids, and the questions about them."""
    sections = {row["id"]: row for folder in folders for row in read_rows(folder / "sections.jsonl.gz")}
    written = [path for folder in folders for path in sorted((folder / "lines").glob("*.jsonl"))]
    questions = [row for path in (*written, TRAINING / "lines.jsonl.gz") for row in read_rows(path)]
    return sections, [row for row in questions if row["section"] in sections]


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the objects of a JSONL file, gzip or not."""
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def cut(section: Row) -> list[Unit]:
    """Return the units of a section's text; their lines are counted from its first."""
    text = section["text"]
    lines = Span(1, text.count("\n") + 1)
    node = Node(
        id=section["id"], kind=NodeKind.SECTION, path="a.md", title="", level=1, breadcrumb=(), span=lines, text=text
    )
    return list(split_units(node))


def name(section: Row, unit: Unit) -> str:
    """Return a unit as the reader reads it: below the last three titles above it."""
    return f"{' > '.join(section['crumb'][-3:])}: {as_sentence(unit)[:UNIT_CHARS]}"


def compare(rows: Sequence[Row], sections: dict[str, Row]) -> Iterator[Example]:
    """Yield the examples of questions, each beside its section's units and the most similar of the others asked for."""
    encoder = OnnxEncoder()
    groups = defaultdict(list)
    for row in rows:
        groups[sections[row["section"]]["corpus"]].append(row)
    for corpus, asked in groups.items():
        units = [
            (section, unit)
            for section in dict.fromkeys(row["section"] for row in asked)
            for unit in cut(sections[section])
        ]
        owners = np.array([section for section, _ in units])
        texts = [fit(name(sections[section], unit), encoder) for section, unit in units]
        vectors = encoder.encode_documents(texts)
        questions = encoder.encode_queries([row["question"] for row in asked])
        for row, scores in zip(asked, questions @ vectors.T, strict=True):
            own = np.flatnonzero(owners == row["section"])
            if not len(own):
                continue
            candidates = mark(row, sections[row["section"]], [(units[n][1], float(scores[n])) for n in own])
            order = [n for n in np.argsort(-scores) if owners[n] != row["section"]]
            others = [texts[n] for n in order if units[n][1].kind is not UnitKind.LIST][:OTHERS]
            yield Example(row["question"], row["kind"], "lines", corpus, candidates, others)


def fit(text: str, encoder: OnnxEncoder) -> str:
    """Return a text as far as the encoder can read it."""
    while encoder.count_tokens([text])[0] > encoder.max_tokens:
        text = text[: len(text) * 4 // 5]
    return text


def mark(row: Row, section: Row, units: Sequence[tuple[Unit, float]]) -> list[Candidate]:
    """Return the candidates of a question; for a list, the whole list answers, and its items are left out."""
    marked = [is_marked(row, section, unit.span) for unit, _ in units]
    whole = [unit.kind is UnitKind.LIST for unit, _ in units]
    wants_list = row["kind"] == "list" and any(a and b for a, b in zip(marked, whole, strict=True))
    return [
        Candidate(name(section, unit), is_right and is_list == wants_list, round(score, 4), is_list)
        for (unit, score), is_right, is_list in zip(units, marked, whole, strict=True)
        if not (wants_list and is_right and not is_list)
    ]


def is_marked(row: Row, section: Row, span: Span) -> bool:
    """Return whether lines of a section are among those that answer: marked as a whole, or holding what is quoted."""
    if "lines" in row:
        within = row["kind"] == "list"
        return any(
            [span.first, span.last] == lines or (within and lines[0] <= span.first and span.last <= lines[1])
            for lines in row["lines"]
        )
    quotes = [quote.split("\n")[0].strip() for quote in row["quotes"]]
    numbered = enumerate(section["text"].split("\n"), 1)
    lines = [number for number, line in numbered if any(quote in line for quote in quotes)]
    if row["kind"] == "list" and lines:  # its first and its last item are quoted
        lines = [*range(min(lines), max(lines) + 1)]
    return any(span.first <= number <= span.last for number in lines)


def ask_for_terms(sections: Sequence[Row]) -> Iterator[Example]:
    """Yield questions for the terms and defaults of sections, and for defaults that they do not name."""
    chance = random.Random(2)
    for section in sections:
        units = [unit for unit in cut(section) if unit.kind is not UnitKind.LIST]
        texts = [unit.text.lower() for unit in units]
        terms = [
            unit
            for unit in units
            if 0 < len(unit.term) < 40
            and len(unit.text) > len(unit.term) + 15
            and sum(unit.term.lower() in text for text in texts) == 1
            and not HAS_DEFAULT.search(unit.term)
        ]
        lines = [unit for unit in units if re.match(r"\W*defaults?\b", unit.text, re.IGNORECASE)]
        asked = [(section["crumb"][-1], lines[0], DEFAULT)] if lines and len(units) > 2 else []
        if len(terms) > 2 and len(units) < 60:
            for unit in chance.sample(terms, 2):
                asks_default = HAS_DEFAULT.search(unit.text) or chance.random() < 0.25
                asked.append((unit.term, unit, DEFAULT if asks_default else TERM))
        for term, right, forms in asked:
            is_there = forms is TERM or bool(HAS_DEFAULT.search(right.text))
            candidates = [Candidate(name(section, unit), is_there and unit is right) for unit in units]
            kind = "none" if not is_there else "definition" if forms is TERM else "value"
            yield Example(chance.choice(forms).format(term), kind, "terms", section["corpus"], candidates, [])


if __name__ == "__main__":
    main()
