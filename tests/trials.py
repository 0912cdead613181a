"""What interrupts a command, and what must be true afterwards: killed at any moment, or read meanwhile.

One process imports everything and forks before it opens anything: a trial then takes as long as its own work, a third
of a second. What a trial did wrong is a list of sentences, empty when it did nothing wrong.
"""

import contextlib
import gc
import importlib
import json
import os
import select
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from retriever.errors import RetrieverError
from retriever.settings.layers import DEFAULT_PROFILE, collect_settings
from retriever.store.store import open_store
from retriever.upkeep.doctor import examine_index
from tests.scenarios import Scenario, SlowEncoder, pages
from tests.shelf import NEVER_REFRESH, PAGES, QUESTIONS, Shelf, found

DEADLINE_S = 30.0
"""A command that takes longer hangs: none of them needs two seconds when nothing is in its way."""
ASKED = (*QUESTIONS[:2], "text 3 of 9", "text 5 of 12")
Answers = list[list[tuple[str, float]]]


@dataclass(frozen=True, slots=True)
class Ended:
    value: Any = None
    """What it returned, in JSON."""
    error: str = ""
    """The error that it ended with, one of ours; empty when there was none."""
    wrong: str = ""
    """Any other end."""


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


def in_a_child(work: Callable[[], object]) -> tuple[int, int]:
    """A process that does the work, and where what it returns comes out."""
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        os.close(reading)
        try:
            message: dict[str, object] = {"value": work()}
        except RetrieverError as error:
            message = {"error": f"{type(error).__name__}: {error}"}
        except BaseException as error:
            message = {"wrong": f"{type(error).__name__}: {error}"}
        os.write(writing, json.dumps(message).encode())
        os._exit(0)
    os.close(writing)
    return process, reading


def ended(process: int, reading: int, deadline_s: float = DEADLINE_S) -> Ended:
    """Waits for a child; one that hangs is killed."""
    content = b""
    until = time.monotonic() + deadline_s
    with open(reading, "rb", buffering=0) as pipe:
        while select.select([pipe], [], [], max(0.0, until - time.monotonic()))[0]:
            block = pipe.read(1 << 16)
            if not block:
                break
            content += block
        else:
            os.kill(process, signal.SIGKILL)
    status = os.waitpid(process, 0)[1]
    if not content:
        return Ended(wrong=f"it hung for {deadline_s:.0f} s" if time.monotonic() > until else f"status {status}")
    return Ended(**json.loads(content))


def result(work: Callable[[], object]) -> Any:  # noqa: ANN401 - whatever the work returns, by way of JSON
    done = ended(*in_a_child(work))
    assert not done.error + done.wrong, done
    return done.value


def asked(shelf: Shelf) -> tuple[Answers, list[str]]:
    """Hits of all questions, and what was degraded about them."""
    with shelf.open(refresh_max_files=0, top_k=8) as reader:
        answers = [reader.search(question) for question in ASKED]
    hits = [[(node, round(score, 9)) for node, score in found(answer)] for answer in answers]
    return json.loads(json.dumps(hits)), [sentence for answer in answers for sentence in map(str, answer.degraded)]


def is_partial(sentence: str) -> bool:
    """Whether an answer says that not all vectors are there."""
    return "of the texts are embedded so far" in sentence


def problems(shelf: Shelf) -> list[str]:
    """What the doctor finds."""
    return [
        f"doctor: {item.name}: {item.says}"
        for item in examine_index(open_store(shelf.index))
        if item.level != "well" and not item.says.endswith("kept out by `forget`")
    ]


def stored(shelf: Shelf) -> set[tuple[str, bytes]]:
    """The models and texts whose vectors are in the index, whatever state it is in."""
    path = shelf.index / "index.sqlite"
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True)) as rows:
            return set(rows.execute("SELECT fingerprint, text_hash FROM vectors"))
    except sqlite3.Error:
        return set()


def staged(scenario: Scenario, place: Path) -> Stage:
    """Runs a scenario in one go, and keeps what it was before."""
    shelf = Shelf(place / scenario.name, PAGES | pages(12, "first"))
    shelf.encoder = SlowEncoder()
    stage = Stage(scenario, shelf)
    result(lambda: scenario.prepare(shelf) and None)
    if shelf.index.exists():
        shutil.copytree(shelf.index, shelf.place / "before")
        looked = ended(*in_a_child(lambda: asked(shelf)))  # a damaged index cannot be asked
        stage.before = None if looked.error else looked.value[0]
    import_alike(lambda: _finished(stage))
    put_back(stage)
    begun = time.monotonic()
    stage.needed = result(lambda: (stage.scenario.act(stage.shelf), stage.shelf.encoder.encoded)[1])
    stage.seconds = time.monotonic() - begun
    stage.after = result(lambda: asked(shelf))[0]
    return stage


def import_alike(work: Callable[[], object]) -> None:
    """Imports what the work of a child imports, which took two thirds of its time, and makes the types of the settings.

    Frozen, none of it is copied by the garbage collector of a child.
    """
    for name in result(lambda: (work(), list(sys.modules))[1]):
        with contextlib.suppress(ImportError):  # not each name in that list can be imported by it
            importlib.import_module(name)
    collect_settings(DEFAULT_PROFILE, None, None, {}).profile()
    gc.collect()
    gc.freeze()


def put_back(stage: Stage) -> None:
    """The index as it was before the command."""
    shutil.rmtree(stage.shelf.index, ignore_errors=True)
    if (stage.shelf.place / "before").exists():
        shutil.copytree(stage.shelf.place / "before", stage.shelf.index)


def killed(stage: Stage, share: float) -> list[str]:
    """Kills the command after this share of its time; what is wrong then."""
    put_back(stage)
    at_first = stored(stage.shelf)
    process, reading = in_a_child(lambda: stage.scenario.act(stage.shelf) and None)
    time.sleep(share * stage.seconds)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    os.close(reading)
    return aftermath(stage, len(stored(stage.shelf) - at_first))


def aftermath(stage: Stage, kept: int) -> list[str]:
    """What is wrong after an interruption: with the state that it left, and with the next command."""
    shelf, wrong = stage.shelf, []
    if stage.before is not None:
        between = ended(*in_a_child(lambda: asked(shelf)))
        if between.error or between.wrong:
            wrong.append(f"the index cannot be asked: {between}")
        elif between.value[0] not in (stage.before, stage.after) and not any(map(is_partial, between.value[1])):
            wrong.append("an answer is of no state that the command goes through")
    else:  # nothing was there that could be asked: an error that says why, or answers of what there is
        between = ended(*in_a_child(lambda: asked(shelf)))
        says_why = between.error.startswith(("NoIndexError", "IndexDamagedError"))
        if not says_why and (between.wrong or between.error):
            wrong.append(f"neither an error that says why nor an answer: {between}")
        elif not says_why and between.value[0] != stage.after and not any(map(is_partial, between.value[1])):
            wrong.append(f"neither the answers of the finished index nor a word on what they lack: {between}")
    again = ended(*in_a_child(lambda: _finished(stage)))
    if again.error or again.wrong:
        return [*wrong, f"the next command failed: {again}"]
    embedded, answers, degraded, found = again.value
    wrong += found + [f"degraded: {sentence}" for sentence in degraded]
    if answers != stage.after:
        wrong.append("the answers are not those of an index made in one go")
    if embedded > max(0, stage.needed - kept):
        wrong.append(f"{embedded} texts were embedded, {kept} of {stage.needed} had been")
    return wrong


def _finished(stage: Stage) -> tuple[int, Answers, list[str], list[str]]:
    stage.scenario.act(stage.shelf)
    embedded = stage.shelf.encoder.encoded
    found = problems(stage.shelf)
    return embedded, *asked(stage.shelf), found


READERS = 4
QUESTION = "a letter with a stamp"
TEXTS = ("# Mail\n\nA letter with a stamp.\n", "# Mail\n\nA parcel on a train.\n\n## Post\n\nA letter.\n")


def between_states(place: Path, seconds: float) -> tuple[int, list[str]]:
    """How many answers there were, and what was wrong about some."""
    shelf = Shelf(place, PAGES)
    states = []
    for text in TEXTS:
        shelf.write("mail.md", text)
        result(lambda: shelf.update() and None)
        states.append(result(lambda: _answer(shelf)))
    import_alike(lambda: (shelf.update(), _answer(shelf)))
    until = time.monotonic() + seconds
    children = [in_a_child(lambda: _read(shelf, states, until)) for _ in range(READERS)]
    children.append(in_a_child(lambda: _write(shelf, until)))
    outcomes = [ended(*child, deadline_s=seconds + 30) for child in children]
    wrong = [f"{item.error}{item.wrong}" for item in outcomes if item.error or item.wrong]
    reports = [item.value for item in outcomes if item.value is not None]
    wrong += [text for asked, texts in reports for text in texts]
    return sum(asked for asked, _ in reports), wrong


def _answer(shelf: Shelf) -> list[tuple[str, float]]:
    with shelf.open(**NEVER_REFRESH) as reader:
        return [(node, round(score, 9)) for node, score in found(reader.search(QUESTION))]


def _read(shelf: Shelf, states: list[object], until: float) -> tuple[int, list[str]]:
    """One retriever that stays open, and now and then a new one beside it."""
    asked, wrong, seen = 0, [], set[int]()
    with shelf.open(**NEVER_REFRESH) as lasting:
        while time.monotonic() < until:
            answer = lasting.search(QUESTION)
            hits = json.loads(json.dumps([(node, round(score, 9)) for node, score in found(answer)]))
            wrong += [f"an answer of no state: {hits}"] if hits not in states else []
            wrong += [text for text in map(str, answer.degraded) if "answered without it" not in text]
            seen.add(answer.index.snapshot)
            if asked % 10 == 0 and json.loads(json.dumps(_answer(shelf))) not in states:
                wrong.append("a new reader saw no state")
            asked += 1
    if len(seen) < 2:
        wrong.append(f"process {os.getpid()} saw one snapshot only")
    return asked, wrong


def _write(shelf: Shelf, until: float) -> tuple[int, list[str]]:
    number = 0
    while time.monotonic() < until:
        shelf.write("mail.md", TEXTS[number % 2])
        shelf.update()
        number += 1
    return 0, []
