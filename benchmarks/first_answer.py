r"""How long the first command on a folder keeps one waiting, and what an answer is worth before everything is embedded.

    uv run python benchmarks/first_answer.py ../shared/eval/corpora/fastapi --questions ../shared/eval/fastapi.jsonl

Prints Markdown tables; docs/speed.md holds them. The first has a new folder of `--editions` times the documents, which
`hybrid_retrieve.py --docs` is asked on a terminal, in seconds from the start of the process: to the first sign of
progress, the longest time without any sign, to the first answer, to the end. With `--program` another version's
hybrid_retrieve.py is measured. The second has nDCG@10 of the questions while a share of the texts, drawn by chance, is
embedded.
"""

import json
import math
import os
import pty
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import click

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.editions import write_editions
from retriever import open_retriever
from retriever.types import Hit

ROOT = Path(__file__).parents[1]
QUESTION = "which settings decide how many results there are?"
SHARES = (0.0, 0.1, 0.3, 0.6, 0.9, 1.0)
SEED = 1


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path), default=ROOT / "docs")
@click.option("--questions", type=click.Path(exists=True, path_type=Path), help="JSONL: `question`, and `gold` lines.")
@click.option("--editions", default=1, show_default=True, help="How many copies of FOLDER are indexed.")
@click.option("--program", type=click.Path(exists=True, path_type=Path), help="hybrid_retrieve.py of another version.")
@click.option("--most", default=60, show_default=True, help="How many of the questions are asked.")
def main(folder: Path, questions: Path | None, editions: int, program: Path | None, most: int) -> None:
    """Measure with the documents of FOLDER; by default those of this project."""
    with TemporaryDirectory(prefix="hybrid-retrieve-first-") as name:
        place = Path(name)
        os.environ["XDG_DATA_HOME"] = str(place / "data")
        write_editions(folder, place / "docs", editions)
        files = sum(path.is_file() for path in (place / "docs").rglob("*"))
        print(f"{files:,} files\n\n| seconds, on a terminal | |\n|---|---|")
        for what, seconds in watch_terminal(place, program or ROOT / "hybrid_retrieve.py").items():
            print(f"| {what} | {seconds:.1f} |")
        if questions is not None:
            print("\n| share of the texts that is embedded | nDCG@10 |\n|---|---|")
            asked = [json.loads(line) for line in questions.read_text("utf-8").splitlines()]
            asked = asked[:: max(1, len(asked) // most)]
            for share, quality in measure_shares(folder, place, asked).items():
                print(f"| {share:.0%} | {quality:.3f} |")


def watch_terminal(place: Path, program: Path) -> dict[str, float]:
    """The moments of one question on a terminal to a folder that is new, in seconds."""
    words = [sys.executable, str(program), "--docs", str(place / "docs"), "--index", str(place / "index"), QUESTION]
    ours, theirs = pty.openpty()
    begun = last = perf_counter()
    gap, first, answered, output = 0.0, 0.0, 0.0, b""
    with subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # Linux says EIO at the end of a terminal
                break
            now = perf_counter()
            first = first or now - begun
            if not answered:
                gap = max(gap, now - last)
            last, output = now, output + part
            if not answered and b"because: " in output:
                answered = now - begun
        os.close(ours)
    if process.returncode:
        raise click.ClickException(output.decode(errors="replace"))
    return {
        "first sign of progress": first,
        "longest time without a sign, before the answer": gap,
        "first answer": answered,
        "everything embedded, and the end": perf_counter() - begun,
    }


def measure_shares(folder: Path, place: Path, asked: Sequence[Mapping[str, Any]]) -> dict[float, float]:
    """The mean nDCG@10 of the questions while that share of the texts is embedded, drawn by chance."""
    whole, found = place / "whole", {}
    open_retriever([folder], whole).close()
    for share in SHARES:
        part = place / "part"
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(whole, part)
        if share < 1:
            take_vectors(part, share)
        with open_retriever((), part, settings={"refresh_max_files": 0, "top_k": 10}) as retriever:
            scores = [ndcg(retriever.search(item["question"]).hits, item["gold"]) for item in asked]
        found[share] = sum(scores) / len(scores)
    return found


def take_vectors(index: Path, share: float) -> None:
    """Leaves the vectors of that share of the texts; the others are pending, as in a first indexing."""
    with closing(sqlite3.connect(index / "index.sqlite")) as connection:
        hashes = [row[0] for row in connection.execute("SELECT DISTINCT text_hash FROM chunks ORDER BY 1")]
        random.Random(SEED).shuffle(hashes)
        taken = [(key,) for key in hashes[round(share * len(hashes)) :]]
        for table in ("vectors", "tokens"):
            connection.executemany(f"DELETE FROM {table} WHERE text_hash = ?", taken)
        connection.executemany("INSERT INTO pending (text_hash, text) VALUES (?, '')", taken)
        connection.execute("UPDATE meta SET value = 'null' WHERE key = 'background'")
        connection.commit()


def ndcg(hits: Sequence[Hit], gold: Sequence[Mapping[str, Any]]) -> float:
    """nDCG@10 of hits that overlap lines with the answer; each lot of lines counts once."""
    left, gain = list(gold), 0.0
    for rank, hit in enumerate(hits[:10], start=1):
        for lines in left:
            is_near = hit.span.first <= lines["end_line"] and lines["start_line"] <= hit.span.last
            if hit.file == lines["file"] and is_near:
                left.remove(lines)
                gain += 1 / math.log2(rank + 1)
                break
    return gain / sum(1 / math.log2(rank + 1) for rank in range(1, min(10, len(gold)) + 1))


if __name__ == "__main__":
    main()
