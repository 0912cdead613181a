"""Interrupts and damages indexes, and counts what was lost: the figures of docs/reliability.md.

    uv run python benchmarks/faults.py [--trials N] [--seed N] [--kinds kill,fault,damage,bits,readers]

Linux alone; `fault` needs a C compiler. Prints a table, and every trial that lost something; exits with 1 for any.
"""

import errno
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import retriever.embedding.rows
import retriever.indexing.embedding_texts
import retriever.indexing.unrelated
import retriever.lexical.bm25
import retriever.vectors
from retriever.vectors.chroma import _chromadb
from tests.faulty_disk import NoCompilerError, built
from tests.harm import HARMS, damaged_bits, damaged_file, large
from tests.readers import between_states
from tests.scenarios import SCENARIOS
from tests.trials import Faults, killed, on_faulty_disk, staged

Trial = tuple[str, str, list[str]]
"""What was interrupted, how, and what was wrong then."""
ERRORS = (errno.ENOSPC, errno.EIO)
MEMORY = Path("/dev/shm")
"""A killed process loses nothing that it wrote, on whatever disk; here nobody waits for one."""
PRELOADED = "FAULTY_DISK"
"""The variable that names the faulty disk's library to the process that was started with it."""


def kills(place: Path, trials: int, seed: int) -> Iterator[Trial]:
    """Kills each scenario in turn, once in each part of the time that it takes."""
    chance = random.Random(seed)
    for scenario, rounds in zip(SCENARIOS, _shares(trials), strict=True):
        stage = staged(scenario, place)
        for number in range(rounds):
            share = (number + chance.random()) / rounds
            yield scenario.name, f"after {share:.1%} of {stage.seconds:.2f} s", killed(stage, share)


def faults(place: Path, trials: int, seed: int) -> Iterator[Trial]:
    """Lets operations of each scenario fail, one at a time or all from one on, spread over all that there are."""
    chance = random.Random(seed)
    disk = Faults(os.environ[PRELOADED])
    for scenario, rounds in zip(SCENARIOS, _shares(trials), strict=True):
        stage = staged(scenario, place, disk)
        places = sorted(chance.sample(range(1, stage.operations + 1), min(rounds, stage.operations)))
        for operation, number, lasting in zip(
            places, itertools.cycle(ERRORS), itertools.cycle((False, False, True)), strict=False
        ):
            how = f"{errno.errorcode[number]} at {operation} of {stage.operations}{' and after' if lasting else ''}"
            yield scenario.name, how, on_faulty_disk(stage, disk, operation, number, lasting=lasting)


def _shares(trials: int) -> list[int]:
    """How many trials each scenario has."""
    return [trials // len(SCENARIOS) + (number < trials % len(SCENARIOS)) for number in range(len(SCENARIOS))]


def damage(place: Path, trials: int, seed: int) -> Iterator[Trial]:
    """Harms every derived file in every way."""
    stage = large(place)
    chance = random.Random(seed)
    names = sorted(path.relative_to(stage.shelf.index) for path in (stage.shelf.index / "gen-1").rglob("*"))
    files = [name for name in names if (stage.shelf.index / name).is_file() and name.name != "readers.lock"]
    for harm, name in itertools.islice(itertools.cycle(itertools.product(HARMS, files)), max(trials, 1)):
        yield f"derived file: {harm}", name.as_posix(), damaged_file(stage, name, harm, chance)


def bits(place: Path, trials: int, seed: int) -> Iterator[Trial]:
    """Flips single bits of index.sqlite and of chroma.sqlite3."""
    stage = large(place)
    chance = random.Random(seed)
    for number in range(trials):
        name = ("index.sqlite", "gen-1/chroma/chroma.sqlite3")[number % 2]
        yield f"a bit of {Path(name).name}", str(number), damaged_bits(stage, name, chance)


def readers(place: Path, trials: int, seed: int) -> Iterator[Trial]:
    """Four readers and a writer, for as many seconds as there are trials, at most 60."""
    seconds = min(trials, 60)
    asked, wrong = between_states(place / f"readers-{seed}", seconds)
    yield f"4 readers and a writer, {seconds} s", f"{asked:,} answers", wrong


KINDS: dict[str, Callable[[Path, int, int], Iterator[Trial]]] = {
    "kill": kills,
    "fault": faults,
    "damage": damage,
    "bits": bits,
    "readers": readers,
}


@click.command()
@click.option("--trials", default=200, show_default=True, help="How many of each kind; readers: how many seconds.")
@click.option("--seed", default=1, show_default=True, help="Of all that is random.")
@click.option("--kinds", default=",".join(KINDS), show_default=True, help="Which, with commas between.")
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each trial instead of the table.")
def main(trials: int, seed: int, kinds: str, as_json: bool) -> None:
    """Count what interruptions and damage cost."""
    if "fault" in kinds.split(",") and PRELOADED not in os.environ:
        _start_again_with_faulty_disk()
    _chromadb()
    retriever.indexing.embedding_texts.TEXTS_AT_ONCE = 4
    done, lost, begun = Counter[str](), Counter[str](), time.monotonic()
    place = Path(tempfile.mkdtemp(prefix="faults-", dir=MEMORY if MEMORY.is_dir() else None)).resolve()
    try:
        for kind in kinds.split(","):
            for what, how, wrong in KINDS[kind](place / kind, trials, seed):
                done[f"{kind}: {what}"] += 1
                lost[f"{kind}: {what}"] += bool(wrong)
                _print_trial(kind, what, how, wrong, as_json=as_json)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    if not as_json:
        _print_table(done, lost, seed, time.monotonic() - begun)
    sys.exit(1 if sum(lost.values()) else 0)


def _start_again_with_faulty_disk() -> None:
    """As this process, with the library that every child of it then has as well."""
    try:
        library = built(Path(tempfile.mkdtemp(prefix="faulty-disk-")))
    except NoCompilerError as error:
        sys.exit(str(error))
    environment = {**os.environ, "LD_PRELOAD": str(library), PRELOADED: str(library)}
    sys.exit(subprocess.run([sys.executable, *sys.argv], env=environment, check=False).returncode)


def _print_trial(kind: str, what: str, how: str, wrong: list[str], *, as_json: bool) -> None:
    if as_json:
        content = {"kind": kind, "what": what, "how": how, "wrong": wrong}
        sys.stdout.write(f"{json.dumps(content)}\n")
    elif wrong:
        sys.stdout.write(f"{kind}: {what}, {how}: {'; '.join(wrong)}\n")
    sys.stdout.flush()


def _print_table(done: Counter[str], lost: Counter[str], seed: int, seconds: float) -> None:
    sys.stdout.write(f"\nseed {seed}, {seconds:.0f} s\n\n| trials of | number | lost something |\n|---|---|---|\n")
    for what, number in done.items():
        sys.stdout.write(f"| {what} | {number} | {lost[what]} |\n")


if __name__ == "__main__":
    main()
