"""Another embedding model: its index is made beside the one in force, which answers until the new one is complete."""

import os
import signal
import sys
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from retriever.api import open_retriever
from retriever.errors import EncoderError
from retriever.indexing.report import IndexReport
from retriever.indexing.request import IndexRequest
from retriever.indexing.update import update_index
from retriever.protocols import Encoder
from retriever.retriever import Retriever
from retriever.settings.layers import DEFAULT_PROFILE, collect_settings
from retriever.store.store import open_store
from retriever.trace import NoProgress
from retriever.types import Answer
from retriever.upkeep.doctor import examine_index
from tests.scenarios import pages
from tests.shelf import ALWAYS_LOOK, PAGES, QUESTIONS, CountingEncoder, FailingEncoder, Shelf, found
from tests.trials import ended, in_a_child

OLD: Mapping[str, Any] = {}
NEW: Mapping[str, Any] = {"encoder": {"document_prefix": "passage: ", "query_prefix": "query: "}}
"""The bundled model with prefixes: as many numbers in a vector, and other ones."""
OTHER = "0f" * 8
"""The fingerprint of another model than the shelf's."""


def index(shelf: Shelf, settings: Mapping[str, Any], encoder: Encoder | None = None) -> IndexReport:
    asked = collect_settings(DEFAULT_PROFILE, settings, None, {})
    request = IndexRequest(open_store(shelf.index), (shelf.docs,), asked.profile(), asked.for_index(), encoder, 0.0)
    return update_index(request, NoProgress())


def reader(shelf: Shelf, encoder: Encoder | None = None, **settings: object) -> Retriever:
    return open_retriever((), shelf.index, settings={**ALWAYS_LOOK, **settings}, encoder=encoder)


def ask(shelf: Shelf, question: str, encoder: Encoder | None = None, **settings: object) -> Answer:
    with reader(shelf, encoder, **settings) as retriever:
        return retriever.search(question)


def vectors(shelf: Shelf, fingerprint: str) -> int:
    with shelf.rows() as rows:
        query = "SELECT count(*) FROM vectors WHERE fingerprint = ?"
        return int(rows.execute(query, (fingerprint,)).fetchone()[0])


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    shelf = Shelf(tmp_path, {**PAGES, **pages(6, "first")})
    index(shelf, OLD)
    return shelf


def test_the_index_is_as_one_made_at_once(shelf: Shelf, tmp_path: Path) -> None:
    fresh = Shelf(tmp_path / "fresh", {**PAGES, **pages(6, "first")})
    needed = index(fresh, NEW).embedded
    assert index(shelf, NEW).embedded == needed == 20
    for question in QUESTIONS:
        answer = ask(shelf, question)
        assert answer.degraded == ()
        assert [(name, round(score, 9)) for name, score in found(answer)] == [
            (name, round(score, 9)) for name, score in found(ask(fresh, question))
        ]
    assert not [item for item in examine_index(open_store(shelf.index)) if item.level == "problem"]
    with shelf.rows() as rows:
        # What the other model made of the texts is gone.
        assert rows.execute("SELECT count(DISTINCT fingerprint) FROM vectors").fetchone() == (1,)
    assert index(shelf, NEW).embedded == 0


def test_the_old_model_answers_while_the_new_one_reads(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    before = [found(ask(shelf, question)) for question in QUESTIONS]
    monkeypatch.setattr("retriever.indexing.embed.TEXTS_AT_ONCE", 8)
    original = sys.modules["retriever.indexing.embed"].writing.put_vectors
    seen = []

    def look(*args: object) -> None:
        seen.append([(found(answer), answer.degraded) for answer in (ask(shelf, question) for question in QUESTIONS)])
        original(*args)

    with reader(shelf) as lasting:
        assert found(lasting.search(QUESTIONS[1])) == before[1]
        monkeypatch.setattr("retriever.store.writing.put_vectors", look)
        index(shelf, NEW)
        assert seen == [[(hits, ()) for hits in before]] * 3
        answer = lasting.search(QUESTIONS[1])  # a reader that stays open follows to the new model
        assert answer.degraded == ()
        assert found(answer) == found(ask(shelf, QUESTIONS[1]))


def test_a_new_model_that_fails_leaves_the_old_one_in_its_place(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, PAGES)
    index(shelf, OLD, CountingEncoder())
    before = found(ask(shelf, QUESTIONS[0], CountingEncoder()))

    with pytest.raises(EncoderError, match="gone home"):
        index(shelf, OLD, FailingEncoder(fingerprint=OTHER))
    answer = ask(shelf, QUESTIONS[0], CountingEncoder())
    assert (found(answer), answer.degraded) == (before, ())


@pytest.mark.skipif(sys.platform != "linux", reason="it forks")
@pytest.mark.parametrize(
    ("where", "call", "kept"),
    [
        ("retriever.store.writing.put_vectors", 1, 0),
        ("retriever.store.writing.put_vectors", 3, 4),
        ("retriever.indexing.snapshot.next_snapshot", 1, 8),
    ],
    ids=["before the first", "between", "all read"],
)
def test_a_change_that_is_killed_goes_on_and_embeds_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, call: int, kept: int
) -> None:
    shelf = Shelf(tmp_path, PAGES)
    index(shelf, OLD, CountingEncoder())
    before = found(ask(shelf, "which stamp pays for a letter?", CountingEncoder()))
    monkeypatch.setattr("retriever.indexing.embed.TEXTS_AT_ONCE", 2)

    def change() -> int:
        kill_in(monkeypatch, where, call)
        return index(shelf, OLD, CountingEncoder(fingerprint=OTHER)).embedded

    assert ended(*in_a_child(change)).wrong == f"status {signal.SIGKILL}"
    assert vectors(shelf, OTHER) == kept
    answer = ask(shelf, "which stamp pays for a letter?", CountingEncoder())
    assert (found(answer), answer.degraded) == (before, ())
    again = CountingEncoder(fingerprint=OTHER)
    assert index(shelf, OLD, again).embedded == again.encoded == 8 - kept
    answer = ask(shelf, "which stamp pays for a letter?", again)
    assert (answer.hits[0].node_id, answer.degraded) == ("mail.md#mail/stamps", ())
    assert not [item for item in examine_index(open_store(shelf.index)) if item.level == "problem"]


def kill_in(monkeypatch: pytest.MonkeyPatch, where: str, call: int) -> None:
    """This process dies when that function is called for the n-th time."""
    module, _, name = where.rpartition(".")
    original: Callable[..., object] = getattr(sys.modules[module], name)
    calls = count(1)

    def deadly(*args: object, **named: object) -> object:
        if next(calls) == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*args, **named)

    monkeypatch.setattr(where, deadly)
