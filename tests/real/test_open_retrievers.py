"""How many retrievers a process keeps open for those whom it serves."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from retriever.api import index_folders, open_retriever
from retriever.retriever import Retriever
from retriever.serving.pool import MAX_OPEN, RetrieverPool, ServedIndex

WORDS_ALONE = {"encoder": {"kind": "none"}}


@pytest.fixture
def library(tmp_path: Path) -> Iterator[ServedIndex]:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "mail.md").write_text("# Mail\n\nA stamp pays for the journey.\n", "utf-8")
    index_folders([docs], tmp_path / "index", settings=WORDS_ALONE)
    with ServedIndex(index=str(tmp_path / "index"), settings=WORDS_ALONE) as library:
        yield library


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[Retriever]:
    """Those that were closed, in turn."""
    closed: list[Retriever] = []
    close = Retriever.close

    def noted(retriever: Retriever) -> None:
        closed.append(retriever)
        close(retriever)

    monkeypatch.setattr(Retriever, "close", noted)
    return closed


def opened(library: ServedIndex, top_k: int) -> Retriever:
    with library.retriever(settings={"top_k": top_k}) as retriever:
        return retriever


def test_the_one_asked_for_longest_ago_is_closed(library: ServedIndex, closed: list[Retriever]) -> None:
    first, *others = [opened(library, top_k) for top_k in range(1, MAX_OPEN + 1)]
    assert opened(library, 1) is first
    opened(library, MAX_OPEN + 1)
    assert closed == [others[0]]
    assert opened(library, 1) is first


def test_one_that_is_used_is_not_closed(library: ServedIndex, closed: list[Retriever]) -> None:
    with library.retriever(settings={"top_k": 1}) as used:
        others = [opened(library, top_k) for top_k in range(2, MAX_OPEN + 3)]
        assert closed == others[:2]
        assert used.search("stamp").hits
    assert opened(library, 1) is used


def test_more_than_that_may_be_used_at_once(library: ServedIndex, closed: list[Retriever]) -> None:
    with ExitStack() as stack:
        used = [stack.enter_context(library.retriever(settings={"top_k": top_k})) for top_k in range(1, MAX_OPEN + 3)]
        assert closed == []
        assert all(retriever.search("stamp").hits for retriever in used)
    assert len(closed) == 2


def test_all_are_closed_with_the_library(library: ServedIndex, closed: list[Retriever]) -> None:
    some = [opened(library, top_k) for top_k in (1, 2)]
    library.close()
    assert closed == some


def test_one_that_is_discarded_stays_open_for_who_uses_it(
    library: ServedIndex, closed: list[Retriever], tmp_path: Path
) -> None:
    with RetrieverPool() as pool:

        def open_it() -> Retriever:
            return open_retriever(index=tmp_path / "index", settings=WORDS_ALONE)

        with pool.borrow("key", open_it) as old:
            pool.discard("key")
            with pool.borrow("key", open_it) as new:
                assert new is not old
            assert closed == []
            assert old.search("stamp").hits
        assert closed == [old]
        with pool.borrow("key", open_it) as again:
            assert again is new
