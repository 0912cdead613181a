"""Interruptions of a command, and what must be true afterwards: killed at any moment, or read meanwhile.

One process imports everything and forks before it opens anything: a trial then takes as long as its own work, a third
of a second. What a trial did wrong is a list of sentences, empty when it did nothing wrong.
"""

import contextlib
import gc
import importlib
import multiprocessing
import shutil
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from retriever.places import open_store
from retriever.settings import load_profile
from retriever.upkeep import examine_index
from tests.scenarios import Scenario, SlowEncoder, pages
from tests.shelf import NEVER_REFRESH, PAGES, QUESTIONS, Shelf, found

DEADLINE_S = 30.0
"""A command that takes longer hangs: none of them needs two seconds when nothing is in its way."""
ASKED = (*QUESTIONS[:2], "text 3 of 9", "text 5 of 12")
SAYS_WHY = ("NoIndexError", "IndexDamagedError")
Answers = list[list[tuple[str, float]]]


@dataclass(slots=True)
class Stage:
    """A scenario that was run once without interruption, to be interrupted again and again."""

    scenario: Scenario
    shelf: Shelf
    before: Answers | None = None
    """None when there was nothing to ask."""
    after: Answers = field(default_factory=list)
    needed: int = 0
    """How many texts are embedded in one go."""
    seconds: float = 0.0


def start(work: Callable[[], object]) -> tuple[BaseProcess, Connection]:
    """A process that does the work, and where what it returns comes out, beside the error that it ended with."""
    fork = multiprocessing.get_context("fork")
    reading, writing = fork.Pipe(duplex=False)

    def run() -> None:
        try:
            writing.send((work(), ""))
        except Exception as error:
            writing.send((None, f"{type(error).__name__}: {error}"))

    process = fork.Process(target=run)
    process.start()
    writing.close()
    return process, reading


def finish(process: BaseProcess, reading: Connection, seconds: float = DEADLINE_S) -> tuple[Any, str]:
    """Return the result of the work, and its error; work that hangs is killed."""
    try:
        ended = reading.recv() if reading.poll(seconds) else (None, f"it hung for {seconds:.0f} s")
    except EOFError:
        ended = None, "it died"
    process.kill()
    process.join()
    return ended


def result(work: Callable[[], object]) -> Any:  # noqa: ANN401 - whatever the work returns
    """Return what some work returns in a process of its own; AssertionError where it fails."""
    value, error = finish(*start(work))
    assert not error, error
    return value


def ask(shelf: Shelf) -> tuple[Answers, list[str]]:
    """Hits of all questions, and what was degraded about them."""
    with shelf.open(refresh_max_files=0, top_k=8, read_passages=3) as reader:  # which meets damage that others do not
        answers = [reader.search(question) for question in ASKED]
    return [found(answer) for answer in answers], [text for answer in answers for text in map(str, answer.degraded)]


def find_problems(shelf: Shelf) -> list[str]:
    """Return the doctor's findings."""
    findings = examine_index(open_store(shelf.index))
    return [f"doctor: {item.name}: {item.says}" for item in findings if item.level != "well"]


def stored(shelf: Shelf) -> set[tuple[str, bytes]]:
    """The models and texts whose vectors are in the index, whatever state it is in."""
    with contextlib.suppress(sqlite3.Error), closing(sqlite3.connect(shelf.index / "index.sqlite")) as rows:
        return set(rows.execute("SELECT fingerprint, text_hash FROM vectors"))
    return set()


def staged(scenario: Scenario, place: Path) -> Stage:
    """Runs a scenario in one go, and keeps what it was before."""
    shelf = Shelf(place / scenario.name, PAGES | pages(12, "first"))
    shelf.encoder = SlowEncoder()
    stage = Stage(scenario, shelf)
    result(lambda: scenario.prepare(shelf) and None)
    if shelf.index.exists():
        shutil.copytree(shelf.index, shelf.place / "before")
        looked, error = finish(*start(lambda: ask(shelf)))  # a damaged index cannot be asked
        stage.before = None if error else looked[0]
    import_alike(lambda: act(stage))
    put_back(stage)
    begun = time.monotonic()
    stage.needed, stage.after, *_ = result(lambda: act(stage))
    stage.seconds = time.monotonic() - begun
    return stage


def act(stage: Stage) -> tuple[int, Answers, list[str], list[str]]:
    """Does what is interrupted elsewhere: how many texts that embeds, and the index afterwards."""
    stage.scenario.act(stage.shelf)
    embedded = stage.shelf.encoder.encoded
    return embedded, *ask(stage.shelf), find_problems(stage.shelf)


def import_alike(work: Callable[[], object]) -> None:
    """Imports what the work of a child imports, which took two thirds of its time, and makes the types of the settings.

    Frozen, none of it is copied by the garbage collector of a child.
    """
    for name in result(lambda: (work(), list(sys.modules))[1]):
        with contextlib.suppress(ImportError):  # not each name in that list can be imported by it
            importlib.import_module(name)
    load_profile()
    gc.collect()
    gc.freeze()


def put_back(stage: Stage) -> None:
    """The index as it was before the command."""
    shutil.rmtree(stage.shelf.index, ignore_errors=True)
    if (stage.shelf.place / "before").exists():
        shutil.copytree(stage.shelf.place / "before", stage.shelf.index)


def killed(stage: Stage, share: float) -> list[str]:
    """Kills the command after this share of its time; what is wrong then, with the state and with the next command."""
    shelf, wrong = stage.shelf, list[str]()
    put_back(stage)
    at_first = stored(shelf)
    process, _ = start(lambda: act(stage))
    time.sleep(share * stage.seconds)
    process.kill()
    process.join()
    kept = len(stored(shelf) - at_first)
    between, error = finish(*start(lambda: ask(shelf)))
    # A repair puts an empty database in the place of the damaged one, then reads the documents.
    may_be_empty = stage.before is None or stage.scenario.name == "repairing"
    if error:
        wrong += [] if may_be_empty and error.startswith(SAYS_WHY) else [f"it cannot be asked: {error}"]
    elif between[0] not in (stage.before, stage.after) and "of the texts are embedded so far" not in str(between[1]):
        wrong.append("an answer is of no state that the command goes through")
    again, error = finish(*start(lambda: act(stage)))
    if error:
        return [*wrong, f"the next command failed: {error}"]
    embedded, answers, degraded, problems = again
    if answers != stage.after:
        wrong.append("the answers are not those of an index made in one go")
    if embedded > max(0, stage.needed - kept):
        wrong.append(f"{embedded} texts were embedded, {kept} of {stage.needed} had been")
    return [*wrong, *problems, *degraded]


READERS = 4
QUESTION = "a letter with a stamp"
TEXTS = ("# Mail\n\nA letter with a stamp.\n", "# Mail\n\nA parcel on a train.\n\n## Post\n\nA letter.\n")


def between_states(place: Path, seconds: float) -> tuple[int, list[str]]:
    """How many answers there were, and what was wrong about some, while one writes and others read."""
    shelf = Shelf(place, PAGES)
    states: list[object] = []

    def write(number: int) -> None:
        shelf.write("mail.md", TEXTS[number % 2])
        shelf.update()

    def read(until: float) -> tuple[int, list[str]]:
        asked, wrong = 0, []
        with shelf.open(**NEVER_REFRESH) as lasting:
            while time.monotonic() < until:
                answer = lasting.search(QUESTION)
                asked += 1
                wrong += [] if found(answer) in states else [f"an answer of no state: {found(answer)}"]
                wrong += [text for text in map(str, answer.degraded) if "answered without it" not in text]
        return asked, wrong

    def keep_writing(until: float) -> tuple[int, list[str]]:
        number = 0
        while time.monotonic() < until:
            write(number := number + 1)
        return 0, []

    for number in range(len(TEXTS)):
        result(partial(write, number))
        states.append(result(lambda: found(shelf.ask(QUESTION, **NEVER_REFRESH))))
    until = time.monotonic() + seconds
    children = [start(lambda: read(until)) for _ in range(READERS)] + [start(lambda: keep_writing(until))]
    outcomes = [finish(*child, seconds + 30) for child in children]
    wrong = [error for _, error in outcomes if error] + [text for done, _ in outcomes if done for text in done[1]]
    return sum(done[0] for done, _ in outcomes if done), wrong
