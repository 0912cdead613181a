"""Whether the documents answer a question at all: what the searches found -> answered, weak or none. Pure.

Four signals make the confidence, by a logistic model: a section covers the question's words, the documents use those
words at all, a chunk is much nearer than chunks are to unrelated questions, and meaning and words name the same
sections. Two rules stand beside it, for what a sum of evidence cannot see. A question about a word that the documents
do not have is `none`, however well they know the rest of it. And a question is `answered` only if it hangs together:
random words of the documents are all covered, but no section has them side by side, and the two find different
sections. Where the lines of the first sections were read, what the reader says of the best one decides instead, and the
others only how much of it is asked for. The numbers of the four signals come from

    uv run scripts/calibrate_confidence.py

over questions with and without an answer in two sets of documents; docs/internals/confidence.md has their worth. More
evidence never lowers the confidence.
"""

from dataclasses import dataclass, replace
from math import exp, log, log1p

from retriever.types import Ranking, Reading, Signals, Verdict

EULER_GAMMA = 0.5772156649015329


@dataclass(frozen=True, slots=True)
class Coefficients:
    """Of a logistic model of whether a right section is among the first five hits."""

    intercept: float
    coverage: float
    known: float
    margin: float = 0.0  # of ln(1 + the margin)
    agreement: float = 0.0
    none_below: float = 0.0  # the confidence below which the verdict is `none`
    answered_from: float = 1.0  # the confidence from which it is `answered`


# `none` takes 1 % of the questions whose answer is among the first five hits; nine in ten of the `answered` are right.
MEANING_AND_WORDS = Coefficients(-6.30, 3.60, 1.30, 1.80, 1.30, none_below=0.04, answered_from=0.5)
# For a search without vectors; `none` takes 1 % of the same.
WORDS_ALONE = Coefficients(-6.32, 7.89, 1.31, none_below=0.025, answered_from=0.5)

# In another language than English, with an embedding model that reads it. Words say little there, for their forms are
# many, and the reader nothing: of languages without a stemmer most questions that were answered were `none`.
# `scripts/calibrate_confidence.py --abroad` fits it.
ABROAD = Coefficients(-3.7, 1.0, 0.0, 2.9, 0.0, none_below=0.3, answered_from=0.74)

# A question of which a smaller share is known words is `none`: 98 % of those about a made-up word.
KNOWN_FROM = 0.55
# The margin from which unknown words do not matter: a small folder has few words, and is asked in others.
NEAR_FROM = 3.5
# Where words are pairs of characters, half of the pairs of a question stand across two words, and no section has them.
# Times this, 46 of 48 questions in Chinese, Japanese and Thai with a right first hit are known well enough, and 1 of 22
# without an answer (docs/internals/languages.md).
UNSPACED = 1.8
# What one section covers counts for less: 10 of 11 that are `answered` then have the right section first, with 1.8 only
# 17 of 22.
UNSPACED_COVERAGE = 1.3
# Of `coherence`: 5 % of random words of the documents reach it, and 98 % of the questions in the documents' words.
COHERENT_FROM = 1.15
ASKS = 0.3  # people ask in sentences that begin as questions do, or end in a question mark; 5 % of random words do
TOGETHER_ALONE = 5.0  # without vectors, one pair of words in five has to stand side by side


# Of what is read of a line (docs/internals/confidence.md): a logistic model of whether the documents answer, of the
# cross-encoder's logit within its bounds and late interaction.
EVIDENCE_OF_LOGIT, EVIDENCE_OF_INTERACTION = 1.0, 7.5
# Below the first, no line of the first sections answers; below the second none does where the words speak against it
# too. From the third on, one does where the words do not speak against it, from the fourth on if they hang together a
# little, from the last on alone: `engineStrict default` hangs together in no text.
READS_NOTHING, READS_LITTLE, READS_WELL, READS_ANSWER, READS_ALONE = 2.6, 7.0, 5.5, 9.5, 11.0
# In other languages than English, beside the words: 6 of 80 near misses reach it, with 8.0 10 of 80.
READS_ABROAD = 8.5
COHERENT_READ = 1.0  # of `coherence`, beside a line that answers


@dataclass(frozen=True, slots=True)
class Assessment:
    """How sure an answer is."""

    verdict: Verdict
    confidence: float
    """0 to 1: the estimated probability that a right section is among the first five hits."""


def assess(signals: Signals) -> Assessment:
    """Estimate from what was found whether the documents answer the question.

    Where no line was read, the verdict is `none` when the nearest chunk is no nearer than an unrelated question's: then
    the words are found by chance, unless one section has them all. What was read of a line may overrule both.
    """
    is_far = signals.margin is not None and signals.margin <= 0 and signals.coverage < 1
    signals = adjust_unspaced(signals)
    model = WORDS_ALONE if signals.margin is None else ABROAD if signals.abroad else MEANING_AND_WORDS
    confidence = probability(signals, model)
    is_strange = signals.known < KNOWN_FROM and (signals.margin is None or signals.margin < NEAR_FROM)
    is_none = confidence < model.none_below or is_strange or is_far
    is_sure = confidence >= model.answered_from and coherence(signals) >= COHERENT_FROM
    if model is ABROAD:
        is_none, is_sure = confidence < model.none_below, confidence >= model.answered_from
    elif signals.reading is not None:
        if signals.in_english:
            is_none = signals.reading < (READS_LITTLE if is_none else READS_NOTHING)
            is_sure = (
                (is_sure and signals.reading >= READS_WELL)
                or (coherence(signals) >= COHERENT_READ and signals.reading >= READS_ANSWER)
                or signals.reading >= READS_ALONE
            )
        else:  # of other languages the reader knows a part: it says neither alone
            is_none = is_none and signals.reading < READS_NOTHING
            is_sure = is_sure and signals.reading >= READS_ABROAD
    if signals.is_named:
        is_none, is_sure = False, True
    if is_none:
        return Assessment("none", min(confidence, model.none_below))
    if is_sure:
        return Assessment("answered", max(confidence, model.answered_from))
    return Assessment("weak", min(confidence, model.answered_from))


def adjust_unspaced(signals: Signals) -> Signals:
    """Return the signals with more of the words found, where words are pairs of characters; else as they are."""
    if signals.form != "unspaced":
        return signals
    coverage = min(1.0, UNSPACED_COVERAGE * signals.coverage)
    return replace(signals, coverage=coverage, known=min(1.0, UNSPACED * signals.known))


def weigh_reading(reading: Reading) -> float:
    """Return how much what is read of a line speaks for an answer, about -5 to 13."""
    return reading.weigh(EVIDENCE_OF_LOGIT, EVIDENCE_OF_INTERACTION)


def coherence(signals: Signals) -> float:
    """Return how much the question's words belong together in the documents, or are words of theirs; at least 0.

    Words that stand side by side say it; so do, for a question in a wording of its own, meaning and words that name the
    same section, a near chunk, and a beginning or an end as questions have. Without vectors the first says it alone.
    One word among function words is together with nothing, and numbers belong to nothing: every folder has them.
    """
    if signals.form == "numbers":
        return 0.0
    together = 0.5 * signals.together if signals.form == "function_words" else signals.together
    if signals.margin is None or signals.agreement is None:
        return together * TOGETHER_ALONE
    return (
        together
        + 0.5 * signals.agreement
        + 0.12 * max(0.0, signals.margin)
        + (ASKS if signals.form == "question" else 0.0)
    )


def probability(signals: Signals, model: Coefficients) -> float:
    """Return the probability of the logistic model; what is missing, and a margin below 0, add nothing."""
    evidence = (
        model.intercept
        + model.coverage * signals.coverage
        + model.known * signals.known
        + model.margin * log1p(max(0.0, signals.margin or 0.0))
        + model.agreement * (signals.agreement or 0.0)
    )
    return 1 / (1 + exp(-evidence))


def measure_agreement(semantic: Ranking, keyword: Ranking, sections: int) -> float:
    """Return how well each ranking ranks the other's best section, beyond chance, 0 to 1.

    It is the mean of two reciprocal ranks, 0 for a section that the other one does not list, corrected as Cohen's
    kappa is: in a folder of one section the two agree by necessity, and that says nothing.

    Args:
        semantic: by meaning.
        keyword: by words.
        sections: how many there are to rank.
    """
    if not semantic.items or not keyword.items:
        return 0.0
    observed = 0.0
    for first, other in ((semantic, keyword), (keyword, semantic)):
        best = first.items[0].node_id
        observed += next((1 / rank for rank, item in enumerate(other.items, 1) if item.node_id == best), 0.0) / 2
    # Of a rank drawn at random: the harmonic number H(n) over n, with H(n) = ln n + gamma + 1/2n (1.4 % off at 2).
    chance = (log(sections) + EULER_GAMMA + 0.5 / sections) / sections if sections > 1 else 1.0
    return max(0.0, (observed - chance) / (1 - chance)) if chance < 1 else 0.0
