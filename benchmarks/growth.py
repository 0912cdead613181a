r"""How time, memory and size grow with the number of sections.

    uv run python benchmarks/growth.py ../shared/eval/corpora/fastapi --questions ../shared/eval/fastapi.jsonl

One row for each stage and command, one column for each size: so many editions of the folder (benchmarks/editions.py)
in one index, their vectors turned a little, so that nothing but the folder itself is embedded. The last column is the
power of the number of sections by which a row grows from the first size to the last: 0 for what stays, 1 for what
takes twice as long for twice as many; what is above 1 grows faster than its input. Questions are new to a retriever
that is open. Not for Windows, as benchmarks/speed.py.
"""

import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import click

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.costs import run, timed
from benchmarks.editions import Vectors, fill_vectors, texts_of, write_editions
from benchmarks.speed import OPENING, PROGRAM, QUESTIONS, edit, read_questions
from retriever import open_retriever
from retriever.embedding.onnx import OnnxEncoder

SCOPE = "in:edition-0"
SLIPS = "which setings decde how many reslts there are?"
MOST_QUESTIONS = 40


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
    print_table(columns)
    print(f"\nmeasured in {perf_counter() - begun:.0f} s on {os.cpu_count()} cores")


def embed(folder: Path, encoder: OnnxEncoder) -> Vectors:
    """The texts of the folder as it is, with their vectors and tokens."""
    texts = texts_of(folder, encoder)
    vectors, tokens = encoder.encode_documents_and_tokens(texts)
    return dict(zip(texts, zip(vectors, tokens, strict=True), strict=True))


def measure_size(
    place: Path, folder: Path, editions: int, asked: Sequence[str], originals: Vectors, encoder: OnnxEncoder
) -> dict[str, float]:
    """What each command and each stage takes with so many editions, by the name of its row."""
    docs, index = place / "docs", place / "index"
    write_editions(folder, docs, editions)
    fill_vectors(index, texts_of(docs, encoder), originals, encoder.fingerprint)
    at_index = ("--index", str(index))
    made = run(*PROGRAM, "index", str(docs), *at_index)
    size = sum(file.stat().st_size for file in index.rglob("*") if file.is_file()) / 1e6
    again = run(*PROGRAM, "index", str(docs), *at_index)
    status = run(*PROGRAM, "status", *at_index)
    cold = run(*PROGRAM, *at_index, OPENING)
    with open_retriever(index=index) as retriever:
        opened = retriever.search(OPENING)
        searches = [timed(lambda: retriever.search(question)) for question in asked]  # noqa: B023 - called at once
        slips = timed(lambda: retriever.search(SLIPS))[1]
        narrowed = [timed(lambda: retriever.search(f"{SCOPE} {question}"))[1] for question in asked]  # noqa: B023
    edit(docs, 1)
    changed = run(*PROGRAM, "index", str(docs), *at_index)
    rows = {
        "sections": float(opened.index.sections),
        "index, the vectors at hand, s": made.wall,
        "index: memory, MB": made.megabytes,
        "size of the index, MB": size,
        "index again, nothing changed, ms": again.wall * 1e3,
        "index again, one file changed, ms": changed.wall * 1e3,
        "status, ms": status.wall * 1e3,
        "cold ask, ms": cold.wall * 1e3,
        "cold ask: memory, MB": cold.megabytes,
        "warm search, CPU ms": median(cost.cpu for _, cost in searches) * 1e3,
        "warm search, words with slips, CPU ms": slips.cpu * 1e3,
        f"warm search, first with `{SCOPE}`, CPU ms": narrowed[0].cpu * 1e3,
        f"warm search, with `{SCOPE}`, CPU ms": median(cost.cpu for cost in narrowed) * 1e3,
        "stage refresh, when the last look is a second old, ms": opened.trace.stages[0].milliseconds,
    }
    for place_of_stage, stage in list(enumerate(opened.trace.stages))[1:]:
        times = [answer.trace.stages[place_of_stage].milliseconds for answer, _ in searches]
        rows[f"stage {stage.name}, ms"] = median(times)
    return rows


def print_table(columns: Sequence[dict[str, float]]) -> None:
    """A row for each name, and by which power of the sections it grows."""
    print(f"| what {'| ' * len(columns)}| grows by |\n|{'---|' * (len(columns) + 2)}")
    more = math.log(columns[-1]["sections"] / columns[0]["sections"]) if len(columns) > 1 else 0.0
    for name in columns[0]:
        values = [column[name] for column in columns]
        power = f"{math.log(values[-1] / values[0]) / more:.2f}" if more and min(values) > 0 else ""
        print(f"| {name} | {' | '.join(f'{value:,.{0 if value >= 100 else 1}f}' for value in values)} | {power} |")


if __name__ == "__main__":
    main()
