"""What a watch does about what it sees: the index is real, without a model; only the wakes are made by hand."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from retriever import watch
from retriever.api import index_folders
from retriever.errors import IndexLockedError, RetrieverError
from retriever.indexing.report import IndexReport
from retriever.watch import Watcher, WatchEvent
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
    return list(Watcher([docs], docs.parent / "index", "balanced", SETTINGS, None).follow())


def files(run: WatchEvent | RetrieverError) -> list[str]:
    assert isinstance(run, WatchEvent), run
    return [file for _, file in run.files]


def test_only_what_changes_a_document_is_a_reason_to_index(monkeypatch: pytest.MonkeyPatch, docs: Path) -> None:
    def save_by_rename() -> None:
        (docs / ".a.md.swp").write_text("# A\n\nThree.\n", encoding="utf-8")
        (docs / ".a.md.swp").rename(docs / "a.md")

    first, second, third = follow(
        monkeypatch,
        docs,
        lambda: None,
        lambda: (docs / "picture.png").write_bytes(b"png"),
        lambda: (docs / "drafts").mkdir(),
        lambda: (docs / "drafts" / "c.md").write_text("# C\n", encoding="utf-8"),
        lambda: (docs / ".hidden.md").write_text("# H\n", encoding="utf-8"),
        save_by_rename,
        (docs / "b.md").unlink,
    )
    assert isinstance(second, WatchEvent)
    assert isinstance(third, WatchEvent)
    assert files(first) == ["a.md", "b.md"]
    assert (files(second), second.report.changed, second.report.added) == (["a.md"], 1, 0)
    assert (files(third), third.report.removed) == (["b.md"], 1)


def test_nobody_is_woken_for_nothing(monkeypatch: pytest.MonkeyPatch, docs: Path) -> None:
    change = lambda: (docs / "a.md").write_text("# A\n\nThree.\n", encoding="utf-8")  # noqa: E731 - said once, used once
    assert len(follow(monkeypatch, docs, change, told=False)) == 1


def test_a_folder_that_is_away_keeps_its_documents_until_it_is_back(
    monkeypatch: pytest.MonkeyPatch, docs: Path
) -> None:
    away = docs.with_name("away")

    def come_back_changed() -> None:
        (away / "a.md").write_text("# A\n\nThree, as long as ever.\n", encoding="utf-8")
        away.rename(docs)

    _, gone, back = follow(monkeypatch, docs, lambda: docs.rename(away), come_back_changed)
    assert isinstance(gone, WatchEvent)
    assert isinstance(back, WatchEvent)
    assert (files(gone), gone.report.documents, gone.report.removed) == ([], 2, 0)
    assert "kept as it was" in dict(gone.report.skipped)["."]
    assert (files(back), back.report.changed) == (["a.md"], 1)


def test_a_failure_is_said_once_and_tried_again(monkeypatch: pytest.MonkeyPatch, docs: Path) -> None:
    failures: list[float] = []
    clock = [0.0]

    def fail(*_: object, **__: object) -> IndexReport:
        failures.append(clock[0])
        raise IndexLockedError("process 7 is writing")

    def change(text: str) -> Callable[[], object]:
        def step() -> None:
            monkeypatch.setattr(watch, "index_folders", fail)
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
        lambda: monkeypatch.setattr(watch, "index_folders", index_folders),
        later(watch.RETRY_S),
        told=True,
    )
    assert failures == [0, 1, 12]
    _, failure, run = runs
    assert isinstance(failure, IndexLockedError)
    assert files(run) == ["a.md"]


def test_the_first_failure_is_the_callers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(RetrieverError, match="nowhere"):
        follow(monkeypatch, tmp_path / "nowhere")
