"""How long a question takes that is put to many shards, with and without a second request, and when a shard is lost.

    uv run --group dev benchmarks/fan_out.py

Draws from the times that `unit_costs.py --write` measured: how long each question waited for one server. Shards are
drawn for each question independently. Seeded: the table is the same each time. docs/scale.md has it.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.unit_costs import MEASURED, read_costs

Times = npt.NDArray[np.float64]

SHARDS = 1, 4, 16, 64, 256
QUESTIONS = 20_000
HEDGE_AT = 0.95
"""A second request goes to a shard's copy when the first has taken longer than this share of all do."""
TIMEOUT_MS = 1_000.0
"""After that long without a word a shard counts as lost, and its copy is asked."""


def draw_first(measured: Times, shards: int, questions: int, generator: np.random.Generator) -> Times:
    """(questions, shards): how long each shard takes for each question."""
    return generator.choice(measured, (questions, shards))


def hedge(first: Times, second: Times, delay: float) -> Times:
    """The time of a shard of which a copy is asked too, `delay` milliseconds after the shard itself."""
    return np.minimum(first, delay + second)


def lose(first: Times, second: Times, timeout: float) -> Times:
    """As `first`, the first shard being gone: its copy is asked after the time-out."""
    lost = first.copy()
    lost[:, 0] = timeout + second[:, 0]
    return lost


def simulate(measured: Sequence[float], shards: int, questions: int = QUESTIONS, seed: int = 0) -> dict[str, Times]:
    """Times of questions, each the slowest of its shards, by what was done about slow ones.

    Hedged requests: J. Dean, L. A. Barroso, The Tail at Scale, Communications of the ACM 56 (2), 2013.
    """
    times, generator = np.array(measured), np.random.default_rng(seed)
    first, second = (draw_first(times, shards, questions, generator) for _ in range(2))
    delay = float(np.quantile(times, HEDGE_AT))
    gone = lose(first, second, TIMEOUT_MS)
    every = {
        "as it is": first,
        "hedged": hedge(first, second, delay),
        "one lost": gone,
        # Its first request never ends; the second one is on its way after the delay, as for any that is slow.
        "one lost, hedged": hedge(lose(first, second, np.inf), second, delay),
    }
    return {name: np.asarray(of_shards.max(axis=1)) for name, of_shards in every.items()}


def count_hedged(measured: Sequence[float]) -> float:
    """The share of requests that are sent twice."""
    return float(np.mean(np.array(measured) > np.quantile(measured, HEDGE_AT)))


def describe(measured: Sequence[float]) -> list[str]:
    """The lines of the table: median and 99th percentile, in milliseconds."""
    lines = ["| shards | as it is | hedged | one lost | one lost, hedged |", "|---|---|---|---|---|"]
    for shards in SHARDS:
        found = simulate(measured, shards).values()
        cells = (" / ".join(f"{np.quantile(times, share):,.0f}" for share in (0.5, 0.99)) for times in found)
        lines.append(f"| {shards} | " + " | ".join(cells) + " |")
    return lines


@click.command()
@click.option("--measured", type=click.Path(exists=True, path_type=Path), default=MEASURED, show_default=True)
def main(measured: Path) -> None:
    """Simulate with what was measured."""
    waits = read_costs(measured).sizes[-1].hnsw.waits_ms
    print("\n".join(describe(waits)))
    print(f"\n{count_hedged(waits):.1%} of the requests are sent twice")


if __name__ == "__main__":
    main()
