"""Edits that keep a file's size and time are noticed; a tree whose times say nothing is not read at every ask."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.shelf import NEVER_REFRESH, PAGES, Shelf, wait_until_trusted

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


TIMES: dict[str, Callable[[Path], None]] = {
    "time 0": lambda docs: set_times(docs, 0),
    "one time for the whole tree": lambda docs: set_times(docs, 18_000 * DAY_NS),
    "a time of each file's own, set back": lambda _: None,
}


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path, PAGES)


@pytest.mark.parametrize(
    ("set_tree", "write"),
    [*((times, write_over) for times in TIMES.values()), (lambda _: None, replace_by_rename)],
    ids=[*TIMES, "replaced by rename"],
)
def test_every_way_to_ask_notices_it(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, set_tree: Callable[[Path], None], write: Callable[[Path], None]
) -> None:
    wait_until_trusted(monkeypatch)
    set_tree(shelf.docs)
    shelf.update()
    with shelf.open() as looking, shelf.open(refresh_seconds=1e6) as not_looking:
        assert looking.search(QUESTION).index.stale_files == 0
        assert not_looking.search(QUESTION).hits[0].citation_state == "exact"
        edit(shelf.docs, write)
        assert not_looking.search(QUESTION).hits[0].citation_state == "stale"
        assert looking.status().changed_files == ("mail.md",)
        with shelf.open(**NEVER_REFRESH, top_k=1) as retriever:
            answer = retriever.search(QUESTION)
            assert (answer.index.stale_files, answer.hits[0].citation_state) == (1, "stale")
            assert retriever.read(STAMPS).citation_state == "stale"
            assert retriever.read("mail.md").text == EDITED
            assert retriever.context(QUESTION).context.pieces[0].citation_state == "stale"
        answer = looking.search("nobody pays for the journey")
        assert (answer.index.refreshed_files, answer.index.stale_files) == (1, 0)
        assert (answer.hits[0].node_id, answer.hits[0].citation_state) == (STAMPS, "exact")
        assert "Nobody pays!" in answer.hits[0].text


@pytest.mark.parametrize("mtime_ns", [0, -DAY_NS, 18_000 * DAY_NS])
def test_an_unchanged_tree_is_not_read_at_every_ask(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, reads: list[str], mtime_ns: int
) -> None:
    shelf.write("binary.md", b"# A\x00B\n")
    set_times(shelf.docs, mtime_ns)
    wait_until_trusted(monkeypatch)
    shelf.update()
    reads.clear()
    for _ in range(2):
        answer = shelf.ask(QUESTION)
        assert (answer.index.refreshed_files, answer.index.stale_files) == (0, 0)
        assert answer.hits[0].citation_state == "exact"
        with shelf.open() as retriever:
            assert retriever.status().changed_files == ()
    assert reads == []
    assert shelf.snapshots() == ["snapshot-1"]
