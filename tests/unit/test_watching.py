"""What a watch does about what it sees: the wakes and the runs are made by hand."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from retriever.errors import IndexLockedError, RetrieverError
from retriever.indexing import watch
from retriever.indexing.request import IndexReport
from tests.shelf import Shelf

LOCKED = IndexLockedError("process 7 is writing")


def test_a_failure_is_said_once_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Shelf(tmp_path, {"a.md": "# A\n"}).update()
    same, more = replace(first, added=0), replace(first, added=0, changed=1)
    bad = replace(same, skipped=(("b.md", "no text"),))
    # (seconds, whether something was noticed, what a run then does; None: there is no run)
    steps: list[tuple[float, bool, IndexReport | RetrieverError | None]] = [
        (0, True, same), (1, False, None), (2, True, LOCKED), (3, True, LOCKED), (4, False, None),
        (3 + watch.RETRY_S, False, LOCKED), (4 + watch.RETRY_S, False, None), (3 + 2 * watch.RETRY_S, False, more),
        (40, False, None), (41, True, bad), (42, True, bad),
    ]  # fmt: skip
    clock = [0.0]
    runs: Iterator[IndexReport | RetrieverError] = chain([first], (run for _, _, run in steps if run))

    def wakes(*_arguments: object) -> Iterator[bool]:
        for seconds, is_noticed, _ in steps:
            clock[0] = seconds
            yield is_noticed

    def update(_: object) -> IndexReport:
        outcome = next(runs)
        if isinstance(outcome, RetrieverError):
            raise outcome
        return outcome

    monkeypatch.setattr(watch, "wait_for_changes", wakes)
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    assert list(watch.follow_folders([tmp_path], "", update)) == [first, LOCKED, more, bad]
    assert next(runs, None) is None
