"""Whether the documents answer a question at all: what the searches found -> answered, weak or none. Pure.

A sum of evidence makes the confidence, by a logistic model: the best line of the first sections reads as an answer, a
chunk is much nearer than chunks are to unrelated questions, the first section is far above the third, the question's
words stand side by side in one of them as in the question, a section covers them, and it is asked as people ask. From
one value on the verdict is `answered`; below another it is `none`. What a sum does not see is said beside it: a best
line that reads as nothing is no answer, however near its words. Where no line was read, neither is one about a word
that the documents do not have. The weights come from

    uv run scripts/calibrate_confidence.py

over questions with and without an answer; docs/internals/confidence.md has their worth. More evidence never lowers the
confidence.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log, log1p

from retriever.types import Candidate, Reading, Signals, Verdict


@dataclass(frozen=True)
class Coefficients:
    """Of a logistic model of whether a right section is among the first five hits; see `measure_evidence`."""

    intercept: float
    coverage: float = 0.0
    known: float = 0.0
    margin: float = 0.0
    lead: float = 0.0
    together: float = 0.0
    asked: float = 0.0
    reading: float = 0.0
    none_below: float = 0.0
    """The confidence below which the verdict is `none`."""
    answered_from: float = 1.0
    """The confidence from which it is `answered`."""


# Where lines of the first sections were read.
READ = Coefficients(
    -6.5, margin=0.9, lead=4.43, together=0.83, asked=0.83, reading=6.57, none_below=0.022, answered_from=0.65
)
MEANING_AND_WORDS = Coefficients(
    -4.67, 0.98, 0.27, margin=1.6, lead=5.14, together=1.61, asked=0.67, none_below=0.041, answered_from=0.65
)
# Without vectors.
WORDS_ALONE = Coefficients(-3.65, 2.91, 1.03, together=1.4, asked=0.92, none_below=0.086, answered_from=0.62)
# In another language than English, with the model that reads it, and by it alone where no line was read. Words say
# little there, for their forms are many. `scripts/calibrate_confidence.py --abroad` fits both.
ABROAD = Coefficients(-4.16, lead=3.08, reading=13.86, none_below=0.174, answered_from=0.67)
ABROAD_BY_MEANING = Coefficients(-2.97, 0.54, margin=2.1, together=2.69, none_below=0.257, answered_from=0.71)

NEAR_FROM = 3.5  # the margin from which a lead counts in full: of a few sections one always leads
# Where words are pairs of characters, half of the pairs of a question stand across two words, and no section has them.
# Times the first, 46 of 48 questions in Chinese, Japanese and Thai with a right first hit are known well enough, and 1
# of 22 without an answer; what one section covers counts for less (docs/internals/languages.md).
UNSPACED, UNSPACED_COVERAGE = 1.8, 1.3

# The confidence, at most, in what is only near to words that no section has, and in another year: never `answered`.
OF_NO_WORD = 0.5

# Of what is read of a line (docs/internals/confidence.md): a logistic model of whether the documents answer, of the
# cross-encoder's logit within its bounds and late interaction.
EVIDENCE_OF_LOGIT, EVIDENCE_OF_INTERACTION = 1.0, 7.5
LEAST_READ, MOST_READ = -6.0, 14.0  # as evidence: beyond, one line says no more than another
# Below the first, no line of the first sections answers; below the second, none does with a name that no document has.
READS_NOTHING, READS_LITTLE = 2.3, 5.5
# In another language: the margin and the reading below which, both, it is about something else. Of questions across
# languages even right sections are hardly nearer than unrelated ones.
HARDLY_NEAR, HARDLY_READS = 1.0, 1.0


@dataclass(frozen=True)
class Assessment:
    """How sure an answer is."""

    verdict: Verdict
    confidence: float
    """0 to 1: the estimated probability that a right section is among the first five hits."""


def assess(signals: Signals) -> Assessment:
    """Estimate from what was found whether the documents answer the question.

    Where one section has all of its words it is never `none`: a word by itself means little to an encoder, and the
    steps of a recipe read as no answer.
    """
    signals = adjust_signals(signals)
    model = choose_model(signals)
    confidence = probability(signals, model)
    if signals.is_named:
        return Assessment("answered", max(confidence, model.answered_from))
    if signals.lacks_day or (signals.form == "words" and not signals.coverage):
        confidence = min(confidence, OF_NO_WORD)
    if signals.coverage < 1 and (is_about_nothing(signals) or confidence < model.none_below):
        return Assessment("none", min(confidence, model.none_below))
    return Assessment("answered" if confidence >= model.answered_from else "weak", max(confidence, model.none_below))


def choose_model(signals: Signals) -> Coefficients:
    """Return the model for what is known of a question."""
    if signals.margin is None:
        return WORDS_ALONE
    if signals.abroad:
        return ABROAD_BY_MEANING if signals.reading is None else ABROAD
    return MEANING_AND_WORDS if signals.reading is None else READ


def is_about_nothing(signals: Signals) -> bool:
    """Return whether the best line reads as no answer; of none that was read, whether a name is in no document.

    In another language than English: whether it hardly does, and what is nearest is hardly nearer than to others.
    """
    if signals.reading is None:
        return signals.is_strange and not signals.abroad
    if signals.abroad:
        return (signals.margin or 0.0) < HARDLY_NEAR and signals.reading < HARDLY_READS
    return signals.reading < (READS_LITTLE if signals.is_strange else READS_NOTHING)


def measure_evidence(signals: Signals) -> dict[str, float]:
    """Return what the models weigh, by the names of `Coefficients`; what is missing, or below 0, is 0.

    A word that no section has is together with nothing, and numbers belong to nothing: every folder has them.
    """
    worth = 0.0 if signals.form == "numbers" else 1.0
    together = worth * min(signals.together, signals.known)
    margin = max(0.0, signals.margin or 0.0)
    reading = LEAST_READ if signals.reading is None else min(MOST_READ, max(LEAST_READ, signals.reading))
    return {
        "coverage": signals.coverage,
        "known": signals.known,
        "margin": log1p(margin),
        "lead": worth * signals.lead * min(1.0, margin / NEAR_FROM),
        "together": together,
        "asked": signals.form == "question",
        "reading": (reading - LEAST_READ) / (MOST_READ - LEAST_READ),
    }


def probability(signals: Signals, model: Coefficients) -> float:
    """Return the probability of the logistic model."""
    evidence = sum(getattr(model, name) * value for name, value in measure_evidence(signals).items())
    return 1 / (1 + exp(-(model.intercept + evidence)))


def adjust_signals(signals: Signals) -> Signals:
    """Return the signals as they are weighed.

    Where words are pairs of characters, more of them count as found. What the reader, which reads English alone, says
    of another language counts for nothing.
    """
    if not signals.in_english and not signals.abroad:
        signals = replace(signals, reading=None)
    if signals.form != "unspaced":
        return signals
    coverage = min(1.0, UNSPACED_COVERAGE * signals.coverage)
    return replace(signals, coverage=coverage, known=min(1.0, UNSPACED * signals.known))


def weigh_reading(reading: Reading) -> float:
    """Return how much what is read of a line speaks for an answer, about -5 to 13."""
    return reading.weigh(EVIDENCE_OF_LOGIT, EVIDENCE_OF_INTERACTION)


def measure_lead(candidates: Sequence[Candidate], sections: int) -> float:
    """Return how far the first candidate's score is above the third's, as a share of it, beyond chance, 0 to 1.

    Where nothing answers, others are as near as the first. Of a few sections the third is always far below: of n scores
    that are spread as an exponential distribution the first is about ln n, and 1 above those that follow it.
    """
    if len(candidates) < 3 or not candidates[0].score:
        return 0.0
    chance = 1 / log(max(3, sections))
    return max(0.0, (1 - candidates[2].score / candidates[0].score - chance) / (1 - chance))
