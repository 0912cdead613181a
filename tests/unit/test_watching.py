"""What a watch does about what it sees: the index is real, without a model; only the wakes are made by hand."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from retriever import api
from retriever.api import index_folders
from retriever.errors import IndexLockedError, RetrieverError
from retriever.indexes import index_request
from retriever.indexing import watch
from retriever.indexing.report import IndexReport
from retriever.indexing.watch import Watcher, WatchEvent
from tests.shelf import write_pages

SETTINGS = {"encoder": {"kind": "none"}, "documents": {"ignore": ["drafts/"]}}


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    return write_pages(tmp_path / "docs", {"a.md": "# A\n\nOne.\n", "b.md": "# B\n\nTwo.\n"})


def follow(
    monkeypatch: pytest.MonkeyPatch, docs: Path, *steps: Callable[[], object], told: bool = True
) -> list[WatchEvent | RetrieverError]:
    def wakes(_: Sequence[Path]) -> Iterator[bool]:
        for step in steps:
            step()
            yield told

    monkeypatch.setattr(watch, "wait_for_changes", wakes)
    request = index_request([docs], docs.parent / "index", "balanced", SETTINGS)

    def update(folders: Sequence[Path]) -> IndexReport:
        return api.index_folders(folders, docs.parent / "index", settings=SETTINGS)

    return list(Watcher(request.docs, request.profile.documents, update).follow())


def files(run: WatchEvent | RetrieverError) -> list[str]:
    assert isinstance(run, WatchEvent), run
    return [file for _, file in run.files]


def test_a_failure_is_said_once_and_tried_again(monkeypatch: pytest.MonkeyPatch, docs: Path) -> None:
    failures: list[float] = []
    clock = [0.0]

    def fail(*_: object, **__: object) -> IndexReport:
        failures.append(clock[0])
        raise IndexLockedError("process 7 is writing")

    def change(text: str) -> Callable[[], object]:
        def step() -> None:
            monkeypatch.setattr(api, "index_folders", fail)
            (docs / "a.md").write_text(text, encoding="utf-8")

        return step

    def later(seconds: float) -> Callable[[], object]:
        return lambda: clock.__setitem__(0, clock[0] + seconds)

    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    runs = follow(
        monkeypatch,
        docs,
        change("# A\n\nThree.\n"),
        later(1),
        change("# A\n\nFour and more.\n"),
        later(1),
        later(watch.RETRY_S),
        lambda: monkeypatch.setattr(api, "index_folders", index_folders),
        later(watch.RETRY_S),
        told=True,
    )
    assert failures == [0, 1, 12]
    _, failure, run = runs
    assert isinstance(failure, IndexLockedError)
    assert files(run) == ["a.md"]
