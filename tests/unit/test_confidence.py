"""Confidence from evidence: more of it never lowers the confidence, and chance is no evidence."""

import json
from dataclasses import replace
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retriever.indexing.update import update_index
from retriever.places.background import add_cosines, measure_cosines
from retriever.searching.confidence import assess, measure_lead, weigh_reading
from retriever.types import Candidate, Reading, Signals
from tests.fake_encoder import FakeEncoder
from tests.shelf import PAGES, Shelf
from tests.tables import read_table

SHARES = st.floats(0, 1)
MARGINS = st.floats(-50, 50)
FORMS = st.sampled_from(["question", "words", "unspaced", "numbers"])
SIGNALS = st.builds(Signals, SHARES, SHARES, SHARES, FORMS, MARGINS | st.none(), SHARES)
READ = st.builds(Reading, st.floats(-20, 20), st.floats(-1, 1)).map(weigh_reading)
ORDER = ("none", "weak", "answered")


@given(SIGNALS, st.sampled_from(["coverage", "known", "together", "margin", "lead"]), st.floats(0, 1))
def test_more_evidence_never_lowers_the_confidence(signals: Signals, name: str, more: float) -> None:
    value = getattr(signals, name)
    if value is None:
        return
    room = 100 if name == "margin" else 1 - value
    less_sure, surer = assess(signals), assess(replace(signals, **{name: value + more * room}))
    assert less_sure.confidence <= surer.confidence
    assert ORDER.index(less_sure.verdict) <= ORDER.index(surer.verdict)


@given(SIGNALS, READ, READ)
def test_a_line_that_answers_better_never_lowers_the_verdict(signals: Signals, one: float, other: float) -> None:
    worse, better = (assess(replace(signals, reading=read)) for read in sorted((one, other)))
    assert ORDER.index(worse.verdict) <= ORDER.index(better.verdict)


@given(SIGNALS, SIGNALS)
def test_the_verdict_follows_the_confidence(some: Signals, others: Signals) -> None:
    if (some.margin is None) != (others.margin is None):
        return
    first, second = sorted((assess(some), assess(others)), key=lambda assessment: assessment.confidence)
    assert first.confidence == second.confidence or ORDER.index(first.verdict) <= ORDER.index(second.verdict)


def test_a_lead_by_hand() -> None:
    scores = [Candidate("a", 3.0, ()), Candidate("b", 2.0, ()), Candidate("c", 1.5, ())]
    assert measure_lead(scores, 1000) == pytest.approx((1 / 2 - 1 / log(1000)) / (1 - 1 / log(1000)))
    assert measure_lead(scores[:2], 1000) == measure_lead([], 1000) == 0.0
    assert measure_lead(scores, 3) == 0.0, "of three sections that says nothing"


@pytest.mark.parametrize(("text", "known", "unknown"), read_table("words", "What the documents know"))
def test_what_the_documents_know(tmp_path: Path, text: str, known: str, unknown: str) -> None:
    shelf = Shelf(tmp_path, {"page.md": f"# Page\n\n{text}\n"})
    shelf.update()
    assert {shelf.ask(word).trace.signals.known for word in known.split()} == {1.0}
    assert {shelf.ask(word).trace.signals.known for word in unknown.split(", ")} == {0.0}


def test_words_stand_together_in_a_paragraph_or_in_titles(tmp_path: Path) -> None:
    page = "# Harbour\n\n## Night boats\n\nThe price of a\nticket rises.\n\nChildren travel free, dogs never.\n"
    shelf = Shelf(tmp_path, {"harbour.md": page})
    shelf.update()

    def together(question: str) -> float:
        return shelf.ask(question).trace.signals.together

    assert together("price ticket") == together("harbour night boats") == together("what is the ticket price of") + 1.0
    assert together("rises children") == together("harbour children") == together("night dogs") == 0.0
    assert together("price ticket dogs") == 0.5
    assert together("ticket") == 1.0


def kept(shelf: Shelf) -> Any:  # noqa: ANN401 - JSON
    with shelf.rows() as rows:
        found = rows.execute("SELECT content FROM backgrounds").fetchone()
    return json.loads(found[0])[0] if found else None


def test_a_small_change_of_a_large_index_keeps_the_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retriever.places.background.EXACT_UP_TO", 0)
    shelf = Shelf(tmp_path, PAGES)
    shelf.update()
    first = kept(shelf)
    assert first["chunks"] == 8
    shelf.write("otters.md", "# Otters\n\nAn otter sleeps.\n\n## Food\n\nFish.\n")
    shelf.update()
    assert kept(shelf) == first  # 10 chunks are not more than 8 * 1.25
    shelf.write("seals.md", "# Seals\n\nA manifest_hash barks.\n")
    shelf.update()
    assert kept(shelf)["chunks"] == 11
    request = shelf.request(shelf.docs, encoder=FakeEncoder(fingerprint="0" * 16))
    update_index(replace(request, embeds="none"))
    assert kept(shelf) is None  # it was measured with the vectors of another model


def test_cosines_of_several_folders_add_up_to_those_of_all() -> None:
    questions, chunks = np.zeros((48, 2), np.float32), np.array([[1, 0], [0.6, 0.8]], np.float32)
    questions[:, 0] = 1
    found = add_cosines([measure_cosines(questions, chunks[row : row + 1]) for row in (0, 1)])
    assert found is not None
    assert (found.common, found.deviation) == (0.8, 0.2)
