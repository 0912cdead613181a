"""Four processes that ask and one that writes: every answer is of a state that was in force."""

import json
import os
import time
from pathlib import Path

from tests.shelf import NEVER_REFRESH, PAGES, Shelf, found
from tests.trials import ended, import_alike, in_a_child, result

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
            wrong += list(map(str, answer.degraded))
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
