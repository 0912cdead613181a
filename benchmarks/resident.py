r"""What a resident process saves, and whether it stands eight clients at once and ten thousand questions.

    uv run python benchmarks/resident.py ../shared/eval/corpora/fastapi --questions ../shared/eval/fastapi.jsonl

Prints what docs/resident.md holds. Cold and warm asks take turns, each a process of its own. Every answer under load is
compared with that of a process which asks without the resident one. `--quick` goes through the same steps in less time.
"""

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import linear_regression, median, quantiles
from tempfile import TemporaryDirectory
from time import perf_counter

import click

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.asked import CLIENTS, PROGRAM, QUESTIONS, ROOT, read_questions
from benchmarks.costs import in_turn, print_head, print_row, run
from benchmarks.serving import change
from retriever.serving.resident_client import NoResidentError, ResidentPaths, talk

MOST_QUESTIONS = 8
"""Of a file."""
SETTLED = 0.1
"""The first part of the questions, in which memory may still grow."""


@dataclass
class Load:
    """What the clients saw."""

    seconds: list[float] = field(default_factory=list)
    """Of each answer."""
    wrong: int = 0
    declined: int = 0
    errors: list[str] = field(default_factory=list)


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path), default=ROOT / "docs")
@click.option("--questions", type=click.Path(exists=True, path_type=Path), help="JSONL, each line with a `question`.")
@click.option("--seconds", default=60.0, show_default=True, help="How long the clients ask at once.")
@click.option("--many", default=10_000, show_default=True, help="How many questions are asked one after the other.")
@click.option(
    "--switches", type=click.IntRange(1), default=50, show_default=True, help="How often a document changes meanwhile."
)
@click.option("--quick", is_flag=True, help="One round, 10 seconds, 300 questions, 3 changes.")
def main(folder: Path, questions: Path | None, seconds: float, many: int, switches: int, quick: bool) -> None:
    """Measure with the documents of FOLDER; by default those of this project."""
    asked = read_questions(questions)[:MOST_QUESTIONS] if questions else QUESTIONS
    with TemporaryDirectory(prefix="hybrid-retrieve-resident-") as name:
        place = Path(name)
        os.environ |= {"XDG_RUNTIME_DIR": name, "XDG_DATA_HOME": name}
        shutil.copytree(folder, place / "docs")
        run(*PROGRAM, "index", str(place / "docs"), "--index", str(place / "index"))
        with resident():
            measure_asks(place, asked[0], rounds=1 if quick else 15)
            measure_load(place, asked, 10.0 if quick else seconds)
            measure_memory(place, asked, *((300, 3) if quick else (many, switches)))


def measure_asks(place: Path, question: str, rounds: int) -> None:
    """A cold and a warm ask, and a Python that does nothing."""
    ask = (*PROGRAM, "--index", str(place / "index"), question)
    costs = in_turn(
        {
            "cold": lambda: run(*ask, "--resident", "never"),
            "warm": lambda: run(*ask),
            "nothing": lambda: run(sys.executable, "-c", "pass"),
        },
        rounds,
    )
    print_head()
    print_row("warm ask", costs["warm"], "0.15 x a cold ask", costs["cold"].times(0.15))
    print_row("warm ask: beside a Python that does nothing", costs["warm"], "`python -c pass`", costs["nothing"])


def measure_load(place: Path, asked: Sequence[str], seconds: float) -> None:
    """Clients that ask without a pause, all at once."""
    requests = {question: request(place, question) for question in asked}
    expected = {question: cold_answer(place, question) for question in asked}
    for question in asked:
        talk(ResidentPaths(os.environ), requests[question])  # opens what is measured below
    before, load = memory(), Load()
    deadline = perf_counter() + seconds

    def work(number: int) -> None:
        turn = number
        while perf_counter() < deadline:
            question = asked[turn % len(asked)]
            turn += 1
            begun = perf_counter()
            try:
                reply = talk(ResidentPaths(os.environ), requests[question])
            except Exception as error:
                load.errors.append(repr(error))
                continue
            load.seconds.append(perf_counter() - begun)
            load.declined += reply["kind"] == "declined"
            load.wrong += reply["kind"] == "answer" and untimed(written(reply)) != expected[question]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print_load(load, before, memory(), seconds)


def print_load(load: Load, before: int, after: int, seconds: float) -> None:
    """The second table."""
    print(f"\n| {CLIENTS} clients at once for {seconds:.0f} s | |\n|---|---|")
    print(f"| answers | {len(load.seconds) - load.declined:,}, {len(load.seconds) / seconds:.0f} a second |")
    print(f"| declined, asked without it | {load.declined} |")
    print(f"| errors | {len(load.errors)} |")
    print(f"| wrong answers | {load.wrong} |")
    print(f"| time of an answer, median | {1000 * median(load.seconds):.0f} ms |")
    print(f"| time of an answer, 99 % | {1000 * quantiles(load.seconds, n=100)[-1]:.0f} ms |")
    print(f"| memory before and after | {before / 1e6:.1f} MB, {after / 1e6:.1f} MB |", flush=True)


def measure_memory(place: Path, asked: Sequence[str], many: int, switches: int) -> None:
    """Questions one after the other, while a document changes now and then, and the memory beside them."""
    requests = [request(place, question) for question in asked]
    samples: list[tuple[int, int]] = []
    for number in range(many):
        if number % max(many // switches, 1) == 0:
            change(place / "docs", number)
        talk(ResidentPaths(os.environ), requests[number % len(requests)])
        if number >= many * SETTLED and number % max(many // 100, 1) == 0:
            samples.append((number, memory()))
    slope = linear_regression(*zip(*samples, strict=True)).slope
    growth = slope * (samples[-1][0] - samples[0][0]) / samples[0][1]
    print(f"\n| {many:,} questions, {switches} changes | |\n|---|---|")
    (first, early), (_, late) = samples[0], samples[-1]
    print(f"| memory after {first:,} and at the end | {early / 1e6:.1f} MB, {late / 1e6:.1f} MB |")
    print(f"| growth between them, by the line through {len(samples)} samples | {growth:+.2%} |", flush=True)


@contextmanager
def resident() -> Iterator[None]:
    """A resident process of this benchmark."""
    process = subprocess.Popen([*PROGRAM, "serve", "-q"])
    try:
        while not is_there():
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait()


def is_there() -> bool:
    """Whether the resident process listens."""
    try:
        return memory() > 0
    except NoResidentError:
        return False


def memory() -> int:
    """Of the resident process, in bytes."""
    return int(talk(ResidentPaths(os.environ), {"kind": "status"})["bytes"])


def request(place: Path, question: str) -> dict[str, object]:
    """A question as a client sends it."""
    facts = {"tty": False, "encoding": "utf-8", "line_buffering": False}
    words = ["--json", "--index", str(place / "index"), question]
    own = {"words": words, "folder": str(place), "environment": dict(os.environ), "program_name": "hybrid_retrieve.py"}
    return {"kind": "ask", **own, "columns": 0, "stdout": facts, "stderr": facts}


def cold_answer(place: Path, question: str) -> bytes:
    """What a process prints that asks without the resident one."""
    command = [*PROGRAM, "--json", "--index", str(place / "index"), question, "--resident", "never"]
    return untimed(subprocess.run(command, capture_output=True, check=True, cwd=place).stdout)


def written(reply: dict[str, list[list[object]]]) -> bytes:
    """What a reply puts on standard output."""
    return "".join(str(text) for number, text in reply["chunks"] if number == 1).encode("latin-1")


def untimed(output: bytes) -> bytes:
    """Without what differs from run to run."""
    return re.sub(rb'"timings_ms": \{[^}]*\}', b"", output)


if __name__ == "__main__":
    main()
