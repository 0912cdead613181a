"""Tries what must hold every time, as often as it is wished: counts of docs/reliability.md.

    uv run --group dev python benchmarks/invariants.py [--trials N] [--seed N]
        [--kinds edits,runs,models,prompts,signals]

The tests in tests/real do each of it a few times. Prints a table, and every trial where it did not hold; exits with 1
for any.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.real.test_determinism import runs
from tests.real.test_incremental import edits
from tests.real.test_llm_faults import within_budget
from tests.real.test_prompt_sizes import sizes
from tests.real.test_signals import interruptions

MEMORY = Path("/dev/shm")
"""Nothing here is about disks; in memory nobody waits for one."""
Trials = Callable[[Path, int, int], Iterator[tuple[str, list[str]]]]
"""A folder, a seed and how many -> of each trial how it was, and what was wrong."""
KINDS: dict[str, tuple[str, int, Trials]] = {
    "edits": ("scripts of edits, after each of which the index answers as a new one", 500, edits),
    "runs": ("processes that give the same bytes", 100, runs),
    "models": ("faults of a language model within a budget of 2 s", 1000, within_budget),
    "prompts": ("questions, passages and windows of random sizes", 500, sizes),
    "signals": ("SIGINT and SIGTERM while indexing", 50, interruptions),
}
"""What is tried, and how often without `--trials`."""


@click.command()
@click.option("--kinds", default=",".join(KINDS), show_default=True, help="Which, with commas between.")
@click.option("--trials", type=int, help="How many of each kind; without it, those of the docs.")
@click.option("--seed", default=1, show_default=True, help="Of all that is random.")
@click.option("--verbose", is_flag=True, help="Print every trial.")
def main(kinds: str, trials: int | None, seed: int, verbose: bool) -> None:
    """Count what holds."""
    rows, failed = [], 0
    for kind in kinds.split(","):
        what, usual, tried = KINDS[kind]
        begun, done, wrong = time.monotonic(), 0, 0
        with tempfile.TemporaryDirectory(prefix="invariants-", dir=MEMORY if MEMORY.is_dir() else None) as place:
            for how, reasons in tried(Path(place).resolve() / kind, seed, usual if trials is None else trials):
                done, wrong = done + 1, wrong + bool(reasons)
                if reasons or verbose:
                    sys.stdout.write(f"{kind}: {how}: {'; '.join(reasons) or 'well'}\n")
                    sys.stdout.flush()
        rows.append(f"| {what} | {done:,} | {wrong} | {time.monotonic() - begun:,.0f} s |\n")
        failed += wrong
    sys.stdout.write(f"\nseed {seed}\n\n| trials | number | did not hold | time |\n|---|---|---|---|\n{''.join(rows)}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
