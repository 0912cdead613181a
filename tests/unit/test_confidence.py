"""What is made of the evidence: more of it never lowers the confidence, and chance is no evidence."""

from dataclasses import replace
from math import exp, log1p
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retriever.searching.confidence import BOTH_ARMS, WORDS_ALONE, agreement, judge, probability
from retriever.types import Ranked, Ranking, Signals
from tests.shelf import Shelf

SHARES = st.floats(0, 1)
MARGINS = st.floats(-50, 50)
FORMS = st.sampled_from(["sentence", "words", "numbers"])
SIGNALS = st.builds(Signals, SHARES, SHARES, SHARES, FORMS, MARGINS, SHARES) | st.builds(
    Signals, SHARES, SHARES, SHARES, FORMS, st.none(), st.none()
)
ORDER = ("none", "weak", "answered")


def ranking(*ids: str) -> Ranking:
    return Ranking("any", "any", 1.0, tuple(Ranked(node_id, 1.0) for node_id in ids))


@given(SIGNALS)
def test_a_judgement_is_a_probability_and_a_verdict(signals: Signals) -> None:
    judgement = judge(signals)
    assert 0 <= judgement.confidence <= 1
    assert judgement.verdict in ORDER


@given(SIGNALS, st.sampled_from(["coverage", "known", "together", "margin", "agreement"]), st.floats(0, 1))
def test_more_evidence_never_lowers_the_confidence(signals: Signals, name: str, more: float) -> None:
    value = getattr(signals, name)
    if value is None:
        return
    room = 100 if name == "margin" else 1 - value
    less_sure, surer = judge(signals), judge(replace(signals, **{name: value + more * room}))
    assert less_sure.confidence <= surer.confidence
    assert ORDER.index(less_sure.verdict) <= ORDER.index(surer.verdict)


@given(SIGNALS, SIGNALS)
def test_the_verdict_follows_the_confidence(some: Signals, others: Signals) -> None:
    if (some.margin is None) != (others.margin is None):
        return
    first, second = sorted((judge(some), judge(others)), key=lambda judgement: judgement.confidence)
    assert first.confidence == second.confidence or ORDER.index(first.verdict) <= ORDER.index(second.verdict)


def test_the_model_by_hand() -> None:
    model = BOTH_ARMS
    evidence = model.intercept + 0.5 * model.coverage + 0.8 * model.known + log1p(3) * model.margin
    assert probability(Signals(0.5, 0.8, 0.0, "words", 3.0, 0.0), model) == pytest.approx(1 / (1 + exp(-evidence)))
    words = WORDS_ALONE.intercept + WORDS_ALONE.coverage + WORDS_ALONE.known
    assert probability(Signals(1.0, 1.0, 1.0, "words", None, None), WORDS_ALONE) == pytest.approx(1 / (1 + exp(-words)))


@pytest.mark.parametrize(
    ("signals", "verdict"),
    [
        (Signals(1.0, 1.0, 1.0, "words", 8.0, 1.0), "answered"),
        (Signals(1.0, 1.0, 0.0, "sentence", 5.0, 1.0), "answered"),  # no words side by side, but both arms agree
        (Signals(1.0, 1.0, 0.0, "words", 4.0, 0.1), "weak"),  # all words are there, and nothing holds them together
        (Signals(1.0, 1.0, 0.0, "numbers", 8.0, 1.0), "weak"),
        (Signals(0.3, 0.8, 0.5, "sentence", 2.0, 0.0), "weak"),
        (Signals(0.5, 0.5, 0.0, "sentence", 3.0, 1.0), "none"),  # it is about a word that the documents do not have
        (Signals(0.0, 0.0, 0.0, "words", 0.5, 0.0), "none"),
        (
            Signals(1.0, 1.0, 1.0, "words", 0.0, 1.0),
            "none",
        ),  # the words are there, the sense is an unrelated question's
        (Signals(1.0, 1.0, 1.0, "words", None, None), "answered"),
        (Signals(1.0, 1.0, 0.0, "words", None, None), "weak"),
        (Signals(0.0, 0.0, 0.0, "words", None, None), "none"),
    ],
)
def test_verdicts(signals: Signals, verdict: str) -> None:
    assert judge(signals).verdict == verdict


def test_arms_that_name_the_same_section_agree() -> None:
    assert agreement(ranking("a", "b"), ranking("a", "c"), 1000) == 1.0
    assert agreement(ranking("a"), ranking("b"), 1000) == 0.0
    assert agreement(ranking(), ranking("a"), 1000) == 0.0


def test_agreement_by_hand() -> None:
    dense, lexical = ranking("a", "b", "c"), ranking("b", "d", "e", "a")
    observed, chance = (1 / 4 + 1 / 2) / 2, sum(1 / rank for rank in range(1, 51)) / 50
    assert agreement(dense, lexical, 50) == pytest.approx((observed - chance) / (1 - chance), abs=1e-4)


@given(st.integers(0, 6), st.randoms(use_true_random=False))
def test_agreement_is_a_share_in_folders_of_any_size(sections: int, random: Random) -> None:
    ids = [f"{number}" for number in range(sections)]
    dense, lexical = (ranking(*random.sample(ids, len(ids))) for _ in range(2))
    assert 0 <= agreement(dense, lexical, sections) <= 1


def test_one_section_agrees_with_itself_and_that_says_nothing() -> None:
    assert agreement(ranking("a"), ranking("a"), 1) == 0.0


def test_single_letters_are_nothing_that_documents_know(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, {"letters.md": "# Letters\n\nq w e r t y and the tyre of a bicycle\n"})
    shelf.update()
    letters, mixed = (shelf.ask(question).trace.signals for question in ("q w e r", "q w tyre unicorn"))
    assert (letters.coverage, letters.known) == (1.0, 0.0)
    assert mixed.known == 0.5


def test_a_slip_of_a_word_and_another_form_of_it_are_known(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, {"locks.md": "# Locksmiths\n\nA locksmith opens every padlock with a configuration.\n"})
    shelf.update()
    known = {
        word: shelf.ask(word).trace.signals.known
        for word in ("padlock", "padlcok", "padlok", "locksmithery", "confgurtion", "zorblax", "padzzck", "401")
    }
    assert known == {
        "padlock": 1.0, "padlcok": 1.0, "padlok": 1.0, "locksmithery": 1.0, "confgurtion": 1.0,
        "zorblax": 0.0, "padzzck": 0.0, "401": 0.0,
    }  # fmt: skip


def test_an_identifier_is_known_by_a_word_of_it_and_not_by_two_letters(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, {"keys.md": "# Keys\n\nThe xv of 38 hj in row 7, column 13 of a padlock: hj rb.\n"})
    shelf.update()
    known = {
        word: shelf.ask(word).trace.signals.known
        for word in ("hjGk38dLqpz0Xv7TnWc2RbYe", "padlock_v2", "PadlockFactory", "zorb.xv", "3.13")
    }
    assert known == {
        "hjGk38dLqpz0Xv7TnWc2RbYe": 0.0, "padlock_v2": 1.0, "PadlockFactory": 1.0, "zorb.xv": 0.0, "3.13": 1.0,
    }  # fmt: skip


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
