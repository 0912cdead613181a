"""Another embedding model: words answer until everything is embedded, and no vectors of two models are mixed."""

from pathlib import Path

import pytest

from retriever.api import index_folders, open_retriever
from retriever.store import open_store
from retriever.types import Answer
from retriever.upkeep.doctor import examine_index
from tests.scenarios import pages
from tests.shelf import PAGES, QUESTIONS, CountingEncoder, Interrupting, Shelf, found, same_hits

OTHER_MODEL = {"encoder": {"document_prefix": "passage: ", "query_prefix": "query: "}}
"""The bundled model with prefixes: as many numbers in a vector, and other ones."""
OTHER = "0f" * 8
"""The fingerprint of another model than the shelf's."""


def ask(shelf: Shelf, question: str) -> Answer:
    """An answer by the model that the index remembers."""
    with open_retriever((), shelf.index) as retriever:
        return retriever.search(question)


def test_the_index_is_as_one_made_at_once(tmp_path: Path) -> None:
    shelf, fresh = (Shelf(tmp_path / name, {**PAGES, **pages(6, "first")}) for name in ("old", "fresh"))
    index_folders([shelf.docs], shelf.index)
    with open_retriever((), shelf.index) as lasting:
        for each in (shelf, fresh):
            assert index_folders([each.docs], each.index, settings=OTHER_MODEL).embedded == 20
        assert "made with another embedding model" in str(lasting.search(QUESTIONS[0]).degraded[0])
    for question in QUESTIONS:
        answer = ask(shelf, question)
        assert answer.degraded == ()
        assert same_hits(found(answer), found(ask(fresh, question)))
    assert not [item for item in examine_index(open_store(shelf.index)) if item.level == "problem"]
    with shelf.rows() as rows:
        # What the other model made of the texts is gone.
        assert rows.execute("SELECT count(DISTINCT fingerprint) FROM vectors").fetchone() == (1,)
    assert index_folders([shelf.docs], shelf.index, settings=OTHER_MODEL).embedded == 0


def test_a_change_that_is_interrupted_goes_on_and_embeds_nothing_twice(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retriever.indexing.update.TEXTS_AT_ONCE", 2)
    again = CountingEncoder(fingerprint=OTHER)
    with pytest.raises(KeyboardInterrupt):
        shelf.update(encoder=again, progress=Interrupting("embedding", 4))
    answer = shelf.ask("which stamp pays for a letter?", encoder=again)
    assert (answer.hits[0].node_id, answer.index.embedded_share) == ("mail.md#mail/stamps", 4 / 8)
    assert "of the texts are embedded so far" in str(answer.degraded[0])
    assert (shelf.update(encoder=again).embedded, again.encoded) == (4, 8)
    answer = shelf.ask("which stamp pays for a letter?", encoder=again)
    assert (answer.hits[0].node_id, answer.degraded) == ("mail.md#mail/stamps", ())
    assert not [item for item in examine_index(open_store(shelf.index)) if item.level == "problem"]
