"""Make the examples that `scripts/train_reader.py` learns from: questions beside the units that a search finds.

    uv run scripts/reader_data.py EXAMPLES.jsonl.gz DATA... [--documents FOLDER]

A folder DATA holds `sections.jsonl.gz` ({id, corpus, crumb, text}, as `scripts/training_data.py` writes them), and may
hold `lines/*.jsonl` ({section, question, kind, quotes}: exact pieces of the lines that answer; of the kind `none`,
none). Beside these `scripts/training/lines.jsonl.gz` is learned: {section, question, kind, lines}, the first and the
last line of each unit that answers, counted from the section's first.

FOLDER/CORPUS holds the documents, as `scripts/prepare_corpora.py` writes them; of a corpus that is not there they are
put together from its sections. Each question is asked there, and of the other sections that are found the reader
learns what it would read of them: that they do not answer. Where they do is in `scripts/training/rivals.jsonl.gz`,
{section, question, rival, lines, answers}: the section of the question, the one that was found, its unit, and whether
it answers; where not, it answers partly, and is not learned. A line of EXAMPLES is an `Example`.
"""

import gzip
import json
import math
import random
import re
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click

sys.path.insert(0, str(Path(__file__).parents[1]))

from pageindex.blocks import read_blocks
from pageindex.node import Span, Unit, UnitKind
from pageindex.units import read_units
from retriever import Hit, open_retriever
from retriever.lexical.tokens import tokenize
from retriever.searching.hits import READ_OF_FIRST
from retriever.searching.passage import Asked, as_sentence, score_units
from retriever.searching.question_words import read_kind

HELD_OUT = ("handbook18f", "nushell", "redis")  # a handbook, a book, a reference: a fifth of the questions with lines
TRAINING = Path(__file__).parent / "training"
UNIT_CHARS = 900  # more than the reader reads
SETTINGS = {"top_k": 3, "read_passages": 0, "final_text_chars": 20_000}  # of a search for what else is read
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
    """By words and shape, as the search has it; 0 where it was not asked."""
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
    """Texts of units of other sections that a search finds; none answers."""
    also: list[str] = field(default_factory=list)
    """Texts of those that do."""


@click.command()
@click.argument("examples", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("data", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--documents", type=click.Path(exists=True, file_okay=False, path_type=Path))
def main(examples: Path, data: Sequence[Path], documents: Path | None) -> None:
    """Write EXAMPLES from each DATA."""
    sections, questions = read_data(data)
    learned = [section for section in sections.values() if section["corpus"] not in HELD_OUT]
    made = (
        ("lines", compare(questions, sections, documents)),
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
    return [*read_units(read_blocks(section["text"]))]


def name(section: Row, unit: Unit) -> str:
    """Return a unit as the reader reads it: below the last three titles above it."""
    return f"{' > '.join(section['crumb'][-3:])}: {as_sentence(unit)[:UNIT_CHARS]}"


def compare(rows: Sequence[Row], sections: dict[str, Row], documents: Path | None) -> Iterator[Example]:
    """Yield the examples of questions, each beside its section's units and those that a search finds in others."""
    judged: dict[tuple[str, str], dict[tuple[Any, ...], bool]] = defaultdict(dict)
    for row in read_rows(TRAINING / "rivals.jsonl.gz"):
        judged[row["section"], row["question"]][row["rival"], *row["lines"]] = row["answers"]
    groups = defaultdict(list)
    for row in rows:
        groups[sections[row["section"]]["corpus"]].append(row)
    for corpus, asked in groups.items():
        own = [section for section in sections.values() if section["corpus"] == corpus]
        rarity = measure_rarity([section["text"] for section in own])
        with tempfile.TemporaryDirectory() as room:
            folder = documents / corpus if documents and (documents / corpus).is_dir() else Path(room) / "documents"
            if not folder.exists():
                put_together(own, folder)
            with open_retriever([folder], Path(room) / "index", settings=SETTINGS) as retriever:
                for row in asked:
                    words = ask(row["question"], rarity)
                    found = find_units(retriever.search(row["question"]).hits, corpus, words)
                    known = judged[row["section"], row["question"]]
                    others = [
                        text for place, text in found.items() if place not in known and place[0] != row["section"]
                    ]
                    also = [found[place] for place, answers in known.items() if answers and place in found]
                    section = sections[row["section"]]
                    units = cut(section)
                    scores = score_units(units, words.below(section["crumb"])).scores
                    kind = "other" if row["kind"] == "none" and also else row["kind"]
                    candidates = mark(row, section, list(zip(units, scores, strict=True)))
                    if candidates:
                        yield Example(row["question"], kind, "lines", corpus, candidates, others, also)


def put_together(sections: Sequence[Row], folder: Path) -> None:
    """Write the documents of a corpus, each with its sections one after another."""
    texts = defaultdict(list)
    for section in sections:
        path = re.split(r"(?<=\w)#", section["id"])[0]  # a file's name may hold that character, too
        texts[path.partition("/")[2]].append(section["text"])
    for path, parts in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def ask(question: str, rarity: Callable[[str], float]) -> Asked:
    """Return a question as its passages are looked for."""
    return Asked(read_kind(question), {word: rarity(word) for word in dict.fromkeys(tokenize(question))}, ())


def measure_rarity(texts: Sequence[str]) -> Callable[[str], float]:
    """Return a function from a word to its rarity among texts, as BM25 weighs it."""
    counts = Counter(word for text in texts for word in set(tokenize(text)))
    return lambda word: math.log(1 + (len(texts) - counts[word] + 0.5) / (counts[word] + 0.5))


def find_units(hits: Sequence[Hit], corpus: str, asked: Asked) -> dict[tuple[Any, ...], str]:
    """Return the units of the sections found that the reader would read, by section, first and last line."""
    found = {}
    for hit in hits:
        section = {"id": f"{corpus}/{hit.node_id}", "crumb": [*hit.breadcrumb, hit.title], "text": hit.text}
        units = cut(section)
        for place in score_units(units, asked.below(section["crumb"])).best()[:READ_OF_FIRST]:
            span = units[place].span
            found[section["id"], span.first, span.last] = name(section, units[place])
    return found


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
