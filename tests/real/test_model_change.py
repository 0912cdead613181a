"""Another embedding model takes the place of the former without a stop: each answers for what it has read."""

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retriever.api import open_retriever
from retriever.doctor import examine_index
from retriever.errors import EncoderError
from retriever.indexing.request import IndexRequest
from retriever.indexing.update import update_index
from retriever.retriever import Retriever
from retriever.searching.encode import joined
from retriever.settings.layers import DEFAULT_PROFILE, given_settings
from retriever.trace import NoProgress
from retriever.types import Answer, Encoder, FloatMatrix, IndexReport, Ranked
from tests.scenarios import pages
from tests.shelf import ALWAYS_LOOK, PAGES, QUESTIONS, CountingEncoder, Shelf, found
from tests.trials import ended, in_a_child

OLD: Mapping[str, Any] = {}
NEW: Mapping[str, Any] = {"encoder": {"document_prefix": "passage: ", "query_prefix": "query: "}}
"""The bundled model with prefixes: as many numbers in a vector, and other ones."""
OTHER = "0f" * 8
"""The fingerprint of another model than the shelf's."""
SAYS = "dense: a new embedding model has read {} of the sections; the former one stands in for the others"
GONE = "dense: a new embedding model has read {} of the sections; the former one is gone: words find the others"


def index(
    shelf: Shelf, settings: Mapping[str, Any], *, seconds: float = 0.0, encoder: Encoder | None = None
) -> IndexReport:
    """`index` with a model, which embeds so long what the change leaves."""
    asked = given_settings(DEFAULT_PROFILE, settings, None, {})
    request = IndexRequest(
        shelf.index, (shelf.docs,), asked.profile(), asked.for_index(), encoder, 0.0, change_s=seconds
    )
    return update_index(request, NoProgress())


def reader(shelf: Shelf, encoder: Encoder | None = None, **settings: object) -> Retriever:
    """With what the index remembers, and without embedding anything by itself."""
    return open_retriever((), shelf.index, settings={**ALWAYS_LOOK, "change_seconds": 0, **settings}, encoder=encoder)


def ask(shelf: Shelf, question: str, encoder: Encoder | None = None, **settings: object) -> Answer:
    with reader(shelf, encoder, **settings) as retriever:
        return retriever.search(question)


def dense(answer: Answer) -> list[str]:
    (ranking,) = (ranking for ranking in answer.trace.rankings if ranking.arm == "dense")
    return [item.node_id for item in ranking.items]


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A section takes a second: in n seconds a model reads n sections, the one included that is read to begin with."""
    ticks = count()
    monkeypatch.setattr("retriever.indexing.model_change.SECTIONS_AT_ONCE", 1)
    monkeypatch.setattr("retriever.indexing.model_change.time", SimpleNamespace(monotonic=lambda: float(next(ticks))))


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    shelf = Shelf(tmp_path, {**PAGES, **pages(6, "first")})
    index(shelf, OLD)
    return shelf


def made_at_once(place: Path, settings: Mapping[str, Any]) -> Shelf:
    shelf = Shelf(place, {**PAGES, **pages(6, "first")})
    index(shelf, settings)
    return shelf


def test_the_former_model_answers_before_the_new_one_has_read_anything(shelf: Shelf) -> None:
    before = [ask(shelf, question) for question in QUESTIONS]
    report = index(shelf, NEW)
    assert report.embedded == 1  # to see that the model can be used
    for question, answer in zip(QUESTIONS, before, strict=True):
        now = ask(shelf, question)
        assert found(now) == found(answer)
        assert (now.verdict, now.confidence) == (answer.verdict, answer.confidence)
        assert now.degraded == (SAYS.format("5%"),)


def test_when_all_is_read_the_index_is_as_one_made_at_once(shelf: Shelf, tmp_path: Path) -> None:
    fresh = made_at_once(tmp_path / "fresh", NEW)
    report = index(shelf, NEW, seconds=100.0)
    assert report.embedded == len(_texts(shelf))
    for question in QUESTIONS:
        answer = ask(shelf, question)
        assert answer.degraded == ()
        assert [(name, round(score, 9)) for name, score in found(answer)] == [
            (name, round(score, 9)) for name, score in found(ask(fresh, question))
        ]
    assert not [item for item in examine_index(shelf.index) if item.level == "problem"]
    with shelf.rows() as rows:
        kept = [rows.execute(f"SELECT count(DISTINCT fingerprint) FROM {name}").fetchone()[0] for name in _BY_MODEL]
    assert kept == [1, 1]
    assert index(shelf, NEW).embedded == 0


def test_each_question_embeds_a_share_and_its_likely_sections_first(shelf: Shelf, one_by_one: None) -> None:
    wishes = {**NEW, **ALWAYS_LOOK, "change_seconds": 3}
    with open_retriever([shelf.docs], shelf.index, settings=wishes) as retriever:
        answer = retriever.search("which stamp pays for the journey?")
        assert "mail.md#mail/stamps" in _read(shelf)
        assert len(_read(shelf)) == 3
        assert answer.degraded == (SAYS.format(f"{3 / 20:.0%}"),)
        shares = [len(_read(shelf)) for _ in range(9) if retriever.search("tomatoes")]
        assert shares == [5, 7, 9, 11, 13, 15, 17, 19, 20]
        assert retriever.search("tomatoes").degraded == ()


def test_status_says_what_each_model_has_read(shelf: Shelf, one_by_one: None) -> None:
    index(shelf, NEW, seconds=6)
    with reader(shelf) as retriever:
        status = retriever.status()
    assert (status.coverage, status.former_encoder, status.former_coverage) == (6 / 20, "onnx", 1.0)


def test_a_document_that_changes_meanwhile_is_read_by_the_new_model(shelf: Shelf, one_by_one: None) -> None:
    index(shelf, NEW, seconds=2)
    shelf.write("mail.md", "# Mail\n\nAn otter carries the letters.\n")
    answer = ask(shelf, "which animal brings the post?")
    assert answer.index.refreshed_files == 1
    assert "mail.md#mail" in _read(shelf)
    assert all("stamp" not in hit.text for hit in answer.hits)
    assert index(shelf, NEW, seconds=100.0).snapshot > 0
    assert ask(shelf, "which animal brings the post?").degraded == ()


def test_another_change_in_the_middle_and_the_way_back(shelf: Shelf, one_by_one: None) -> None:
    before = found(ask(shelf, QUESTIONS[0]))
    index(shelf, NEW, seconds=6)
    third = {"encoder": {"document_prefix": "text: "}, "chunks": {}}
    index(shelf, third, seconds=4)
    assert ask(shelf, QUESTIONS[0]).degraded == (SAYS.format(f"{4 / 20:.0%}"),)
    assert index(shelf, OLD, seconds=100).embedded == 0
    assert found(ask(shelf, QUESTIONS[0])) == before
    assert ask(shelf, QUESTIONS[0]).degraded == ()


def test_a_reader_that_stays_open_follows(shelf: Shelf, one_by_one: None) -> None:
    with reader(shelf) as retriever:
        assert retriever.search("tomatoes").degraded == ()
        index(shelf, NEW, seconds=6)
        assert retriever.search("tomatoes").degraded == (SAYS.format("30%"),)
        index(shelf, NEW, seconds=100)
        assert retriever.search("tomatoes").degraded == ()
        assert found(retriever.search(QUESTIONS[1])) == found(ask(shelf, QUESTIONS[1]))


def test_a_former_model_that_is_gone_is_said_and_words_find_its_part(tmp_path: Path, one_by_one: None) -> None:
    shelf = Shelf(tmp_path, PAGES)
    index(shelf, OLD, encoder=CountingEncoder())
    index(shelf, OLD, encoder=CountingEncoder(fingerprint=OTHER), seconds=3)
    answer = ask(shelf, "which stamp pays for a letter?", CountingEncoder(fingerprint=OTHER))
    assert answer.degraded == (GONE.format(f"{3 / 8:.0%}"),)
    assert answer.hits[0].node_id == "mail.md#mail/stamps"
    assert set(dense(answer)) <= set(_read(shelf, OTHER))


def test_late_interaction_is_left_out_while_one_of_two_models_has_no_tokens(shelf: Shelf) -> None:
    """The bundled model has them, and the counting one has not; neither has it any when it is alone."""
    other = CountingEncoder(fingerprint=OTHER)
    index(shelf, OLD, encoder=other)
    answer = ask(shelf, QUESTIONS[0], other)
    late = "late: skipped while the embedding model is changed, one of the two gives no tokens"
    assert answer.degraded == (SAYS.format("5%"), late)
    assert "late" not in {ranking.arm for ranking in answer.trace.rankings}
    index(shelf, OLD, encoder=other, seconds=100)
    assert ask(shelf, QUESTIONS[0], other).degraded == ()


def test_a_new_model_that_fails_leaves_the_former_in_its_place(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, PAGES)
    index(shelf, OLD, encoder=CountingEncoder())
    index(shelf, OLD, encoder=CountingEncoder(fingerprint=OTHER))

    class Failing(CountingEncoder):
        def encode_documents(self, texts: Sequence[str]) -> FloatMatrix:
            raise EncoderError("the model has gone home")

    answer = ask(shelf, "which stamp pays for a letter?", Failing(fingerprint=OTHER), change_seconds=5)
    assert answer.degraded[0] == "change: the model has gone home"
    assert answer.hits[0].node_id == "mail.md#mail/stamps"


@pytest.mark.skipif(sys.platform != "linux", reason="it forks")
@pytest.mark.parametrize(
    ("where", "call"),
    [
        ("retriever.indexing.model_change.renew_snapshot", 1),
        ("retriever.indexing.model_change.store_vectors", 1),
        ("retriever.indexing.model_change.store_vectors", 4),
        ("retriever.indexing.model_change.renew_snapshot", 2),
        ("retriever.store.model_change.remove_former", 1),
    ],
    ids=["beginning", "before the first", "between", "ending", "removing"],
)
def test_a_change_that_is_killed_goes_on_and_embeds_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, call: int
) -> None:
    shelf = Shelf(tmp_path, PAGES)
    index(shelf, OLD, encoder=CountingEncoder())
    monkeypatch.setattr("retriever.indexing.model_change.SECTIONS_AT_ONCE", 1)

    def change() -> int:
        _killed_in(monkeypatch, where, call)
        return index(shelf, OLD, encoder=CountingEncoder(fingerprint=OTHER), seconds=100).embedded

    assert ended(*in_a_child(change)).wrong == f"status {signal.SIGKILL}"
    stored = len(_vectors(shelf, OTHER))
    again = CountingEncoder(fingerprint=OTHER)
    assert ask(shelf, "which stamp pays for a letter?", again).hits[0].node_id == "mail.md#mail/stamps"
    assert index(shelf, OLD, encoder=again, seconds=100).embedded == again.encoded == len(_texts(shelf)) - stored
    assert ask(shelf, "which stamp pays for a letter?", again).degraded == ()
    assert not [item for item in examine_index(shelf.index) if item.level == "problem"]


def _killed_in(monkeypatch: pytest.MonkeyPatch, where: str, call: int) -> None:
    """This process dies when that function is called so often."""
    module, _, name = where.rpartition(".")
    original: Callable[..., object] = getattr(sys.modules[module], name)
    calls = count(1)

    def deadly(*args: object) -> object:
        if next(calls) == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*args)

    monkeypatch.setattr(where, deadly)


_BY_MODEL = ("vectors", "tokens")


def _texts(shelf: Shelf) -> list[bytes]:
    with shelf.rows() as rows:
        return [row[0] for row in rows.execute("SELECT DISTINCT text_hash FROM chunks WHERE NOT former")]


def _vectors(shelf: Shelf, fingerprint: str) -> list[bytes]:
    with shelf.rows() as rows:
        return [row[0] for row in rows.execute("SELECT text_hash FROM vectors WHERE fingerprint = ?", (fingerprint,))]


def _read(shelf: Shelf, fingerprint: str = "") -> list[str]:
    """The sections that the index's model has read."""
    with shelf.rows() as rows:
        (own,) = rows.execute("SELECT value FROM meta WHERE key = 'fingerprint'").fetchone()
        query = (
            "SELECT DISTINCT node_id FROM chunks JOIN nodes USING (node_key)"
            " JOIN vectors ON vectors.text_hash = chunks.text_hash AND fingerprint = ?"
        )
        return [row[0] for row in rows.execute(query, (fingerprint or own,))]


NAMES = st.lists(st.sampled_from("abcdefgh"), unique=True)


def ranked(names: Sequence[str]) -> tuple[Ranked, ...]:
    return tuple(Ranked(name, 1 / place, 1 / place, name) for place, name in enumerate(names, start=1))


@given(NAMES, NAMES, st.sets(st.sampled_from("abcdefgh")))
def test_two_rankings_in_one(old: list[str], new: list[str], unread: set[str]) -> None:
    """What is not read keeps its place, what is read stands in the new order, and the scores stay with the places."""
    items = joined(ranked(old), ranked(new), unread)
    names = [item.node_id for item in items]
    assert [item.score for item in items] == [item.score for item in ranked(old)]
    assert len(set(names)) == len(names)
    assert [name if name in unread else "" for name in names] == [name if name in unread else "" for name in old]
    read = [name for name in names if name not in unread]
    in_order = [name for name in new if name not in unread]
    assert read[: len(in_order)] == in_order[: len(read)]


def test_with_nothing_read_the_old_order_and_with_all_the_new_one() -> None:
    old, new = ranked("abcd"), ranked("dbca")
    assert joined(old, (), set("abcd")) == old
    assert [item.node_id for item in joined(old, new, set())] == list("dbca")
    assert [item.node_id for item in joined(old, ranked("db"), set("ac"))] == list("adcb")
