"""A citation is checked when it is made: its lines on the disk are what was indexed, or the answer says otherwise."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pageindex.files import CorpusOptions
from pageindex.node import Span
from retriever.indexing.consent import FolderAccess
from retriever.searching.citations import Anchor, Anchors, find_anchor
from retriever.store.reading import StoredDocument

PAGE = "# Mail\n\nLetters.\n\n## Stamps\n\nA stamp pays.\n\n## Parcels\n\nA parcel is weighed.\n"
STAMPS = (Span(5, 8), "## Stamps\n\nA stamp pays.\n\n")
PARCELS = (Span(9, 11), "## Parcels\n\nA parcel is weighed.\n")


@pytest.mark.parametrize(
    ("now", "section", "expected"),
    [
        (PAGE, STAMPS, Anchor(Span(5, 8), "exact")),
        (PAGE + "\n## More\n\nText.\n", PARCELS, Anchor(Span(9, 11), "exact")),
        ("Before.\n\n" + PAGE, STAMPS, Anchor(Span(7, 10), "moved")),
        ("Before.\n" + PAGE.rstrip("\n"), PARCELS, Anchor(Span(10, 12), "moved")),
        (PAGE.replace("A stamp pays", "Nothing pays"), STAMPS, Anchor(Span(5, 8), "stale")),
        ("Before.\n" + PAGE + "\n" + PAGE, STAMPS, Anchor(Span(5, 8), "stale")),
        (PAGE + "\n" + PAGE, STAMPS, Anchor(Span(5, 8), "exact")),
        ("", STAMPS, Anchor(Span(5, 8), "stale")),
        ("x## Stamps\n\nA stamp pays.\n\n", STAMPS, Anchor(Span(5, 8), "stale")),
        (PAGE, (Span(20, 21), "\n\n"), Anchor(Span(20, 21), "stale")),
    ],
    ids=[
        "as it was",
        "more below",
        "lines above",
        "no line end",
        "other words",
        "twice, and moved",
        "twice, and in place",
        "empty file",
        "half a line",
        "blank lines are everywhere",
    ],
)
def test_where_a_section_is(now: str, section: tuple[Span, str], expected: Anchor) -> None:
    assert find_anchor(*section, now) == expected


LINES = st.lists(st.sampled_from(["", "a", "b", "# a", "a b"]), min_size=1, max_size=8)


@given(LINES, LINES, LINES)
def test_what_is_cited_as_exact_or_moved_holds_the_text(above: list[str], section: list[str], below: list[str]) -> None:
    now = "\n".join([*above, *section, *below]) + "\n"
    found = find_anchor(Span(3, 2 + len(section)), "\n".join(section) + "\n", now)
    if found.state != "stale":
        assert now.split("\n")[found.span.first - 1 : found.span.last] == section
    elif any(section):
        places = [at for at in range(len(above) + len(below) + 1) if now.split("\n")[at : at + len(section)] == section]
        assert len(places) != 1


@pytest.fixture
def anchors(tmp_path: Path) -> Callable[..., Anchors]:
    """Looks at page.md, which was indexed as it is."""
    path = tmp_path / "page.md"
    path.write_text(PAGE, encoding="utf-8")
    from pageindex.files import SourceFile, read_document

    read = read_document(SourceFile("page.md", str(path), 0, 0))
    known = StoredDocument(1, "page.md", read.size, read.mtime_ns, read.digest)
    named = frozenset([str(tmp_path)])
    return lambda most=10_000, folders=named: Anchors(
        {1: known}, {1: str(tmp_path)}, FolderAccess(folders, CorpusOptions(max_file_bytes=most))
    )


def test_a_file_that_looks_as_it_did_is_compared_by_content(anchors: Callable[..., Anchors], tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    before = path.stat()
    path.write_text(PAGE.replace("A stamp pays", "Nobody pays!"), encoding="utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert anchors().anchor(1, *STAMPS) == Anchor(Span(5, 8), "stale")
    assert anchors().anchor(1, *PARCELS) == Anchor(Span(9, 11), "exact")


def test_a_file_with_another_time_is_read_and_only_once(anchors: Callable[..., Anchors], tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    os.utime(path, ns=(1, 1))
    assert anchors().anchor(1, *STAMPS) == Anchor(Span(5, 8), "exact")
    path.write_text("Before.\n" + PAGE, encoding="utf-8")
    looking = anchors()
    assert looking.anchor(1, *STAMPS) == Anchor(Span(6, 9), "moved")
    path.unlink()
    assert looking.anchor(1, *PARCELS) == Anchor(Span(10, 12), "moved")
    assert anchors().anchor(1, *STAMPS) == Anchor(Span(5, 8), "gone")


def test_what_cannot_be_read_as_a_document_is_gone(anchors: Callable[..., Anchors], tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("Before.\n" + PAGE, encoding="utf-8")
    assert anchors(10).anchor(1, *STAMPS) == Anchor(Span(5, 8), "gone")
    secret = tmp_path / "secret.txt"
    path.rename(secret)
    path.symlink_to(secret)
    assert anchors().anchor(1, *STAMPS) == Anchor(Span(5, 8), "gone")
