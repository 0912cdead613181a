"""Time and memory of a process or a call, and a table of them."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import TypeVar

import click

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Cost:
    """Time and memory that something took."""

    wall: float
    """Seconds."""
    cpu: float
    """Seconds, of all cores together."""
    megabytes: float = 0.0
    """The most memory that it held at a time, if it was a process."""

    def times(self, factor: float) -> "Cost":
        """Return `factor` times the wall and CPU time."""
        return Cost(self.wall * factor, self.cpu * factor)

    def plus(self, other: "Cost") -> "Cost":
        """Return the wall and CPU time of both, one after the other."""
        return Cost(self.wall + other.wall, self.cpu + other.cpu)

    def __str__(self) -> str:
        unit, factor, digits = ("s", 1, 1) if self.wall >= 10 else ("ms", 1000, 0 if self.wall >= 0.1 else 1)
        return f"{self.wall * factor:,.{digits}f} {unit} | {self.cpu * factor:,.{digits}f} {unit}"


def run(*command: str) -> Cost:
    """Measure a process, from its start to its end.

    Raises:
        ClickException: it failed; the message is what it said.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HYBRID_RETRIEVE_")}
    launch = (sys.executable, str(Path(__file__).with_name("launch.py")), *command)
    done = subprocess.run(launch, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise click.ClickException(f"{' '.join(command)}\n{done.stderr}")
    wall, cpu, held = json.loads(done.stdout)
    return Cost(wall, cpu, held / 1e6)


def timed(action: Callable[[], Result]) -> tuple[Result, Cost]:
    """Return what an action returns, and what it costs in this process."""
    cpu, wall = process_time(), perf_counter()
    result = action()
    return result, Cost(perf_counter() - wall, process_time() - cpu)


def in_turn(actions: Mapping[str, Callable[[], Cost]], rounds: int) -> dict[str, Cost]:
    """Run all in turn, `rounds` times after a warm-up, so that what disturbs one disturbs all; return medians."""
    costs: dict[str, list[Cost]] = {name: [] for name in actions}
    for number in range(rounds + 1):
        for name, action in actions.items():
            cost = action()
            if number:
                costs[name].append(cost)
    return {name: typical(some) for name, some in costs.items()}


def typical(costs: Sequence[Cost]) -> Cost:
    """Return the median of each number."""
    return Cost(*(median(getattr(cost, name) for cost in costs) for name in Cost.__slots__))


def print_head() -> None:
    """Print the first two lines of the table."""
    print("| what | wall | CPU | target | its wall | its CPU | ratio, wall | ratio, CPU |")
    print("|---|---|---|---|---|---|---|---|")


def print_row(name: str, ours: Cost, target: str, allowed: Cost) -> None:
    """Print a line of the table: what something takes, and may take; a ratio of at most 1 meets the target."""
    ratios = f"{ours.wall / allowed.wall:.2f} | {ours.cpu / allowed.cpu:.2f}"
    print(f"| {name} | {ours} | {target} | {allowed} | {ratios} |", flush=True)


def print_memory(name: str, ours: Cost, megabytes: float) -> None:
    """Print the same for the most memory that it held."""
    print(f"| {name}: memory | {ours.megabytes:.0f} MB | | {megabytes} MB | | | {ours.megabytes / megabytes:.2f} | |")


def print_wall(name: str, seconds: float, most: float) -> None:
    """Print the same for what another process is waited for, whose CPU time is not known."""
    print(f"| {name} | {seconds * 1000:.0f} ms | | | {most * 1000:.0f} ms | | {seconds / most:.2f} | |", flush=True)
