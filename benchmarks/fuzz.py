"""Runs the property tests for a given time, with new examples all along: the counts of docs/reliability.md.

    uv run --group dev python benchmarks/fuzz.py [--minutes N] [--subjects outline,chunking,...]

The tests themselves run some hundred examples each. Prints a table; exits with 1 when a property does not hold.
"""

import importlib
import itertools
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

EXAMPLES = 500
"""In a round; each round begins anew, at random."""
SUBJECTS = {
    "bytes to tree": ("test_partition",),
    "outline": ("test_partition:outline", "test_partition:headings"),
    "chunking": ("test_partition:chunks", "test_chunking"),
    "mapping": ("test_mapping",),
    "fusion": ("test_fusion",),
    "context": ("test_context",),
    "front matter and YAML": ("test_front_matter", "test_fuzz_yaml"),
    "terminal": ("test_command_line_output", "test_partition:shown"),
    "replies of a model": ("test_rerank_llm", "test_summaries"),
    "reranking": ("test_rerank",),
    "words and snippets": ("test_tokens", "test_summary", "test_passages"),
}
"""Modules of tests/unit, and what stands in the names of the tests that are meant."""

Property = Callable[[], Any]


def properties(subject: str) -> Iterator[Property]:
    """The subject's property tests that need nothing but their examples, once for each of their parameters."""
    for entry in SUBJECTS[subject]:
        name, _, word = entry.partition(":")
        module = importlib.import_module(f"tests.unit.{name}")
        for test_name, test in sorted(vars(module).items()):
            if test_name.startswith("test_") and word in test_name and getattr(test, "is_hypothesis_test", False):
                yield from _with_parameters(test)


def _with_parameters(test: Callable[..., Any]) -> Iterator[Property]:
    marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
    names = [[name.strip() for name in mark.args[0].split(",")] for mark in marks if isinstance(mark.args[0], str)]
    wanted = set(test.__code__.co_varnames[: test.__code__.co_argcount])
    if len(names) != len(marks) or wanted - {name for group in names for name in group}:
        return  # it needs a fixture
    for values in itertools.product(*(mark.args[1] for mark in marks)):
        given = {group[0]: value for group, value in zip(names, values, strict=True)}
        yield partial(test, **given)


def fuzzed(subject: str, seconds: float) -> tuple[int, int, str]:
    """How many properties the subject has, how many rounds of examples there were, and what failed first."""
    tests = list(properties(subject))
    begun = time.monotonic()
    for rounds, test in enumerate(itertools.cycle(tests)):
        if time.monotonic() - begun > seconds and rounds >= len(tests):
            return len(tests), rounds, ""
        try:
            test()
        except Exception:
            return len(tests), rounds, traceback.format_exc()
    return 0, 0, "there are no properties"


@click.command()
@click.option("--minutes", default=10.0, show_default=True, help="For each subject.")
@click.option("--subjects", default=",".join(SUBJECTS), show_default=True, help="Which, with commas between.")
def main(minutes: float, subjects: str) -> None:
    """Print how many examples each subject was given."""
    os.chdir(Path(__file__).resolve().parents[1])
    settings.register_profile(
        "long", max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    settings.load_profile("long")  # before the tests are imported: they take it from there
    failures = []
    sys.stdout.write("| subject | properties | examples | failed |\n|---|---|---|---|\n")
    for subject in subjects.split(","):
        count, rounds, failure = fuzzed(subject, minutes * 60)
        failures += [failure] if failure else []
        sys.stdout.write(f"| {subject} | {count} | {rounds * EXAMPLES:,} | {1 if failure else 0} |\n")
        sys.stdout.flush()
    sys.stdout.write("\n".join(["", *failures]))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
