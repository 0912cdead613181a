"""Interrupts commands, and counts what was lost: the figures of docs/internals/reliability.md.

    uv run --group dev python benchmarks/faults.py [--trials N] [--seed N]
        [--kinds kill,readers] [--scenarios "first indexing,forgetting"]

Linux alone. Prints a table, and every trial that lost something; exits with 1 for any.
"""

import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


import retriever.indexing.update
from benchmarks.trials import between_states, killed, staged
from retriever.embedding.vectors import import_chromadb
from tests.scenarios import SCENARIOS, Scenario

Trial = tuple[str, str, list[str]]
"""A trial: the work that was interrupted, how, and the faults seen then."""
MEMORY = Path("/dev/shm")
"""A killed process loses nothing that it wrote, on whatever disk; here nobody waits for one."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The trials to run."""

    place: Path
    """Where; a folder that is not there yet."""
    trials: int
    """How many of each kind."""
    seed: int
    scenarios: Sequence[Scenario]

    @property
    def shares(self) -> list[tuple[Scenario, int]]:
        """How many trials each scenario has."""
        each, more = divmod(self.trials, len(self.scenarios))
        shares = [(scenario, each + (number < more)) for number, scenario in enumerate(self.scenarios)]
        return [(scenario, number) for scenario, number in shares if number]


def kills(plan: Plan) -> Iterator[Trial]:
    """Kill each scenario in turn, once in each part of the time that it takes."""
    chance = random.Random(plan.seed)
    for scenario, rounds in plan.shares:
        stage = staged(scenario, plan.place)
        for number in range(rounds):
            share = (number + chance.random()) / rounds
            yield scenario.name, f"after {share:.1%} of {stage.seconds:.2f} s", killed(stage, share)


def readers(plan: Plan) -> Iterator[Trial]:
    """Run four readers and a writer, for as many seconds as there are trials, at most 60."""
    seconds = min(plan.trials, 60)
    asked, wrong = between_states(plan.place / f"readers-{plan.seed}", seconds)
    yield f"4 readers and a writer, {seconds} s", f"{asked:,} answers", wrong


KINDS: dict[str, Callable[[Plan], Iterator[Trial]]] = {
    "kill": kills,
    "readers": readers,
}


@click.command()
@click.option("--trials", default=200, show_default=True, help="How many of each kind; readers: how many seconds.")
@click.option("--seed", default=1, show_default=True, help="Of all that is random.")
@click.option("--kinds", default=",".join(KINDS), show_default=True, help="Which, with commas between.")
@click.option("--scenarios", default="", help="Which of them are killed, with commas between; all.")
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each trial instead of the table.")
def main(trials: int, seed: int, kinds: str, scenarios: str, as_json: bool) -> None:
    """Count what interruptions cost."""
    chosen = _named(scenarios.split(",")) if scenarios else SCENARIOS
    import_chromadb()
    retriever.indexing.update.TEXTS_AT_ONCE = 4
    done, lost, begun = Counter[str](), Counter[str](), time.monotonic()
    place = Path(tempfile.mkdtemp(prefix="faults-", dir=MEMORY if MEMORY.is_dir() else None)).resolve()
    try:
        for kind in kinds.split(","):
            for what, how, wrong in KINDS[kind](Plan(place / kind, trials, seed, chosen)):
                done[f"{kind}: {what}"] += 1
                lost[f"{kind}: {what}"] += bool(wrong)
                _print_trial(kind, what, how, wrong, as_json=as_json)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    if not as_json:
        _print_table(done, lost, seed, time.monotonic() - begun)
    sys.exit(1 if sum(lost.values()) else 0)


def _named(names: Sequence[str]) -> list[Scenario]:
    by_name = {scenario.name: scenario for scenario in SCENARIOS}
    if unknown := [name for name in names if name not in by_name]:
        raise click.BadParameter(f"{', '.join(unknown)}: none of {', '.join(by_name)}", param_hint="--scenarios")
    return [by_name[name] for name in names]


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
