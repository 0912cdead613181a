"""Every question looks whether the folders changed, and says how fresh its answer is."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from retriever.errors import EncoderError
from tests.shelf import NEVER_REFRESH, PAGES, CountingEncoder, Shelf, WrongEncoder, wait_until_trusted

BETWEEN_LOOKS = "retriever.looking.status.BETWEEN_LOOKS_S"


def freshness(shelf: Shelf, **settings: Any) -> tuple[int, int, tuple[str, ...]]:  # noqa: ANN401 - any setting
    """(files indexed first, files that are stale, what was in the way) of a question."""
    answer = shelf.ask("otter", **settings)
    return answer.index.refreshed_files, answer.index.stale_files, tuple(map(str, answer.degraded))


def test_a_change_is_indexed_before_the_answer(shelf: Shelf) -> None:
    assert freshness(shelf) == (0, 0, ())
    shelf.write("otter.md", "# Otters\n\nAn otter sleeps.\n")
    (shelf.docs / "kitchen.md").unlink()
    (shelf.docs / "mail.md").rename(shelf.docs / "post.md")
    with shelf.open() as retriever:
        assert retriever.search("otter").index.refreshed_files == 4
        shelf.write("otter.md", "# Otters\n\nAn otter swims.\n")
        answer = retriever.search("otter")
        assert (answer.index.refreshed_files, answer.hits[0].text) == (1, "# Otters\n\nAn otter swims.\n")


def test_a_look_is_not_repeated_soon(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BETWEEN_LOOKS, 1e6)
    with shelf.open() as retriever:
        retriever.search("otter")
        shelf.write("otter.md", "# Otters\n\nAn otter sleeps.\n")
        assert retriever.search("otter").index.documents == 4
    with shelf.open() as retriever:
        assert retriever.search("otter").index.refreshed_files == 1
        assert retriever.search("otter").index.refreshed_files == 0


def test_what_cannot_be_read_is_named_and_tried_again_when_it_changes(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, reads: list[str]
) -> None:
    wait_until_trusted(monkeypatch)
    shelf.write("binary.md", b"# A\x00B\n")
    shelf.write("kitchen.md", b"\x00")
    answer = shelf.ask("bread")
    assert (answer.index.refreshed_files, answer.index.skipped_files) == (1, 2)
    assert all(hit.file != "kitchen.md" for hit in answer.hits)
    reads.clear()
    assert [path for path, _ in shelf.update().skipped] == ["binary.md", "kitchen.md"]
    assert reads == []
    shelf.write("binary.md", "# Text\n\nNow it is text.\n")
    assert freshness(shelf) == (1, 0, ())
    (shelf.docs / "kitchen.md").unlink()
    assert freshness(shelf) == (0, 0, ())
    assert shelf.update().skipped == ()


def test_a_refresh_that_fails_is_said_and_words_answer(shelf: Shelf) -> None:
    shelf.write("mail.md", "# Mail\n\nAn otter brings it.\n")
    answer = shelf.ask("otter", encoder=WrongEncoder(EncoderError("the model has gone home")))
    assert answer.hits[0].node_id == "mail.md#mail"
    refresh, semantic = map(str, answer.degraded)
    assert refresh == "refresh: the model has gone home"
    assert semantic.startswith("semantic: 83 % of the texts are embedded so far")
    assert shelf.update().embedded == 1
    assert shelf.ask("otter").degraded == ()


def test_a_question_with_other_settings_changes_nothing_in_the_index(shelf: Shelf) -> None:
    """Only `index` makes an index anew; a flag of a question must not do so behind its back."""
    shelf.write("otter.md", "# Otters\n\nAn otter sleeps.\n")
    before = shelf.encoder.encoded
    for settings in ({"documents": {"dialect": "hugo"}}, {"documents": {"ignore": ["garden/"]}}):
        refreshed, stale, degraded = freshness(shelf, **settings)
        assert (refreshed, stale > 0) == (0, True)
        assert degraded == (
            "refresh: the index was made with other settings, or by another version; index the documents again",
        )
    other = CountingEncoder(fingerprint="0f" * 8)
    answer = shelf.ask("otter", encoder=other)
    assert (answer.index.stale_files, other.encoded, shelf.encoder.encoded) == (1, 0, before)
    assert any(sentence.startswith("semantic: ") for sentence in map(str, answer.degraded))
    assert freshness(shelf) == (1, 0, ())


# Edits that keep a file's size and time are noticed; a tree whose times say nothing is not read at every question.

QUESTION = "which stamp pays for the journey?"
STAMPS = "mail.md#mail/stamps"
EDITED = PAGES["mail.md"].replace("A stamp pays", "Nobody pays!")
DAY_NS = 86_400 * 10**9


def set_times(docs: Path, mtime_ns: int) -> None:
    for path in docs.rglob("*.md"):
        os.utime(path, ns=(mtime_ns, mtime_ns))


def write_over(path: Path) -> None:
    path.write_text(EDITED, encoding="utf-8")


def replace_by_rename(path: Path) -> None:
    draft = path.with_suffix(".draft")
    draft.write_text(EDITED, encoding="utf-8")
    draft.replace(path)


def edit(docs: Path, write: Callable[[Path], None] = write_over) -> None:
    """Another text of the same size, with the time that the file had."""
    path = docs / "mail.md"
    before = path.stat()
    write(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)


@pytest.mark.parametrize("write", [write_over, replace_by_rename])
def test_an_edit_that_keeps_size_and_time_is_noticed(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], None]
) -> None:
    wait_until_trusted(monkeypatch)
    set_times(shelf.docs, 0)
    shelf.update()
    with shelf.open() as looking, shelf.open(**NEVER_REFRESH, top_k=1) as not_indexing:
        assert looking.search(QUESTION).index.stale_files == 0
        edit(shelf.docs, write)
        assert looking.status().changed_files == ("mail.md",)
        answer = not_indexing.search(QUESTION)
        assert (answer.index.stale_files, answer.hits[0].citation_state) == (1, "stale")
        assert not_indexing.read("mail.md").text == EDITED
        answer = looking.search("nobody pays for the journey")
        assert (answer.index.refreshed_files, answer.index.stale_files) == (1, 0)
        assert (answer.hits[0].node_id, answer.hits[0].citation_state) == (STAMPS, "exact")


@pytest.mark.parametrize("mtime_ns", [0, 18_000 * DAY_NS])
def test_an_unchanged_tree_is_not_read_at_every_ask(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, reads: list[str], mtime_ns: int
) -> None:
    shelf.write("binary.md", b"# A\x00B\n")
    set_times(shelf.docs, mtime_ns)
    wait_until_trusted(monkeypatch)
    snapshot = shelf.update().snapshot
    reads.clear()
    for _ in range(2):
        assert freshness(shelf) == (0, 0, ())
    assert reads == []
    assert shelf.chroma.name == f"chroma-{snapshot}"
