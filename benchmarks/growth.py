r"""How time, memory and size grow with the number of sections.

    uv run python benchmarks/growth.py ../shared/eval/corpora/fastapi --questions ../shared/eval/fastapi.jsonl

One row for each stage and command, one column for each size: so many editions of the folder (benchmarks/editions.py)
in one index, their vectors turned a little, so that nothing but the folder itself is embedded. The last column is the
power of the number of sections by which a row grows from the first size to the last: 0 for what stays, 1 for what
takes twice as long for twice as many; what is above 1 grows faster than its input. Times are those of the processor,
of stages those on the wall; questions are new to a retriever that is open. Not for Windows, as benchmarks/speed.py.
"""

import math
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import click

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.costs import Cost, run, timed
from benchmarks.editions import Vectors, fill_vectors, texts_of, write_editions
from benchmarks.speed import OPENING, PROGRAM, QUESTIONS, edit, read_questions
from retriever import open_retriever
from retriever.embedding.onnx import OnnxEncoder
from retriever.types import Answer

SCOPE = "in:edition-0"
TYPOS = "which setings decde how many reslts there are?"
MOST_QUESTIONS = 40
ROUNDS = 3


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--questions", type=click.Path(exists=True, path_type=Path), help="JSONL, each line with a `question`.")
@click.option("--editions", default="1,3,9", show_default=True, help="How many editions of FOLDER each size has.")
def main(folder: Path, questions: Path | None, editions: str) -> None:
    """Measure with editions of the documents of FOLDER."""
    begun, encoder = perf_counter(), OnnxEncoder()
    asked = (read_questions(questions) if questions else QUESTIONS)[:MOST_QUESTIONS]
    originals = embed(folder, encoder)
    columns = []
    for count in map(int, editions.split(",")):
        with TemporaryDirectory(prefix="hybrid-retrieve-growth-") as name:
            columns.append(measure_size(Path(name), folder, count, asked, originals, encoder))
        print_table(columns)  # each time anew: the largest size takes an hour, and may not end
    print(f"\nmeasured in {perf_counter() - begun:.0f} s on {os.cpu_count()} cores")


def embed(folder: Path, encoder: OnnxEncoder) -> Vectors:
    """Return the texts of the folder as it is, with their vectors."""
    texts = list(texts_of(folder, encoder))
    return dict(zip(texts, encoder.encode_documents(texts), strict=True))


def measure_size(
    place: Path, folder: Path, editions: int, asked: Sequence[str], originals: Vectors, encoder: OnnxEncoder
) -> dict[str, float]:
    """Measure what each command and stage takes with this many editions, by the name of its row."""
    docs, index = place / "docs", place / "index"
    write_editions(folder, docs, editions)
    fill_vectors(index, texts_of(docs, encoder), originals, encoder.fingerprint)
    at_index = ("--index", str(index))
    made = run(*PROGRAM, "index", str(docs), *at_index)
    size = sum(file.stat().st_size for file in index.rglob("*") if file.is_file()) / 1e6
    again = run(*PROGRAM, "index", str(docs), *at_index)
    status = run(*PROGRAM, "status", *at_index)
    cold = run(*PROGRAM, *at_index, OPENING)
    rounds = []  # each question is new to its retriever; the best of its times is taken, as other work comes and goes
    for _ in range(ROUNDS):
        with open_retriever(index=index) as retriever:
            opened = retriever.search(OPENING)
            rounds.append([timed(lambda: retriever.search(question)) for question in asked])  # noqa: B023 - called at once
            typos = timed(lambda: retriever.search(TYPOS))[1]
            narrowed = [timed(lambda: retriever.search(f"{SCOPE} {question}"))[1] for question in asked]  # noqa: B023
    edit(docs, 1)
    renewed = run(*PROGRAM, *at_index, OPENING)
    edit(docs, 2)
    changed = run(*PROGRAM, "index", str(docs), *at_index)
    rows = {
        "sections": float(opened.index.sections),
        "index, the vectors at hand, s": made.cpu,
        "index: memory, MB": made.megabytes,
        "size of the index, MB": size,
        "index again, nothing changed, ms": again.cpu * 1e3,
        "index again, one file changed, ms": changed.cpu * 1e3,
        "`status`, ms": status.cpu * 1e3,
        "cold ask, ms": cold.cpu * 1e3,
        "cold ask: memory, MB": cold.megabytes,
        "cold ask, one file changed, ms": renewed.cpu * 1e3,
        "cold ask, one file changed: memory, MB": renewed.megabytes,
        "warm search, ms": best(rounds, lambda _, cost: cost.cpu * 1e3),
        "warm search, words with typos, ms": typos.cpu * 1e3,
        f"warm search, first with `{SCOPE}`, ms": narrowed[0].cpu * 1e3,
        f"warm search, with `{SCOPE}`, ms": median(cost.cpu for cost in narrowed) * 1e3,
        "look for changed files, when the last look is a second old, ms": opened.trace.stages[0].milliseconds,
    }
    for number, stage in enumerate(opened.trace.stages[1:], start=1):
        rows[f"stage {stage.name}, ms"] = best(rounds, partial(read_stage, number))
    return rows


def read_stage(number: int, answer: Answer, _: Cost) -> float:
    """Return the milliseconds of one stage, counted from 0."""
    return answer.trace.stages[number].milliseconds


def best(rounds: Sequence[Sequence[tuple[Answer, Cost]]], read: Callable[[Answer, Cost], float]) -> float:
    """Return the median over the questions of the best time that each had in any round."""
    return median(min(read(*searched) for searched in of_question) for of_question in zip(*rounds, strict=True))


def print_table(columns: Sequence[dict[str, float]]) -> None:
    """Print a row for each name, and by which power of the sections it grows."""
    print(f"| what {'| ' * len(columns)}| grows by |\n|{'---|' * (len(columns) + 2)}")
    more = math.log(columns[-1]["sections"] / columns[0]["sections"]) if len(columns) > 1 else 0.0
    for name in columns[0]:
        values = [column[name] for column in columns]
        power = f"{math.log(values[-1] / values[0]) / more:.2f}" if more and min(values) > 0 else ""
        print(f"| {name} | {' | '.join(f'{value:,.{0 if value >= 100 else 1}f}' for value in values)} | {power} |")


if __name__ == "__main__":
    main()
