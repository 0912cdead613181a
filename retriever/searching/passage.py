"""Where in a section the answer stands: which of its units answers the question. Pure.

A unit is a paragraph, an item, a row, ... (pageindex/units.py). Each is weighed by a conditional logit model (McFadden,
"Conditional logit analysis of qualitative choice behavior", 1974: a soft-max over the units of a section), of what it
shares with the question: its words by their rarity, and its shape, as questions of that kind are answered. The weights
come from

    uv run scripts/calibrate_passages.py

over questions with the lines that answer them; docs/internals/passages.md has their worth.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import isclose

import numpy as np

from pageindex.node import MAX_LEAD_CHARS, MAX_UNIT_CHARS, Node, Span, Unit, UnitKind
from pageindex.text import CELL, split_sentences
from retriever.lexical.sections import list_abbreviated
from retriever.lexical.tokens import tokenize, tokenize_unit
from retriever.searching.question_words import OPENING_WORDS, QuestionKind
from retriever.text import cut
from retriever.types import Reading

# Of lists that are asked for, as much as a screen holds.
MAX_LIST_ROWS, MAX_LIST_CHARS = 24, 2_000
MAX_INTRODUCTION_CHARS = 300  # of what introduces code
# Of units that are read: what the cross-encoder's logit and late interaction count, and what is left of what shared
# words did. Shape counts as before: neither model knows much of it (docs/internals/passages.md).
BY_LOGIT, BY_INTERACTION, BY_WORDS = 0.3, 12.0, 0.1
# What words of the titles above units count of their rarity: all units there are about them. A question may have no
# others, so they count.
OF_TITLES = 0.25
# What it counts, for being read, that a unit stands in the chunk of its section that is nearest in meaning: of sixty
# items the one that answers may have no word of the question.
BY_CHUNK = 1.0
# Of units of several sections: what counts the section's score, as a share of the first one's, its cosine, and the late
# interaction with its titles.
BY_RANK, BY_MEANING, BY_TITLES = 4.0, 6.0, 3.0
# Another unit beside the best one is cited with it where its score is nearer than this, and both have few lines: a
# command with the paragraph that introduces it and the one that explains it has thirteen.
NEAR = 0.7
MOST_LINES = 15
NEW_SHARE = 0.1  # of the words of a message that was pasted: its numbers may differ
MOSTLY_LINKED = 0.6  # of a unit's characters
_WIDENED = (UnitKind.PARAGRAPH, UnitKind.QUOTE, UnitKind.CODE)

# What each feature of `read_features`, and each kind of unit, adds to a score; items and definitions nothing: in the
# fit they add .02 at most. All are fitted but two, of which the questions of the fit have too few: the term's, which it
# gives 1.05 (lists of settings, where `Default:` is one line of many, are rare among them; with 2 a glossary's row came
# before the line that answers), and that of links.
WEIGHTS: Mapping[str, float] = {
    "sends elsewhere": -3.00,
    "list where one is asked for": 2.37,
    "its term is asked for": 1.50,
    "code where it is asked how": 1.36,
    "words": 1.29,
    "first where a definition is asked for": 0.84,
    "list": -0.50,
    "code": -0.39,
    "row": 0.39,
    "quote": 0.32,
    "paragraph": 0.31,
    "property": -0.13,
}


@dataclass(frozen=True)
class Asked:
    """A question, as its passages are looked for."""

    kind: QuestionKind
    rarity: Mapping[str, float]
    """Its words, as BM25 reads them, and what each weighs."""
    languages: tuple[str, ...]
    """In which texts are read, beside English."""

    def weigh(self, words: Collection[str], share: float) -> "Asked":
        """Return it with some words that count a share of their rarity."""
        return replace(
            self, rarity={word: rarity * (share if word in words else 1) for word, rarity in self.rarity.items()}
        )

    def below(self, titles: Sequence[str]) -> "Asked":
        """Return the question as units below some titles are chosen, whose words tell few of them apart."""
        return self.weigh(set(tokenize("\n".join(titles), self.languages)), OF_TITLES)


@dataclass(frozen=True)
class Passage:
    """The lines of a section that are cited."""

    span: Span
    """Its lines in the file, as it was indexed."""
    sentence: str
    """The unit that answers, as plain text on one line; empty where nothing is shown."""


@dataclass(frozen=True)
class ScoredUnits:
    """The units of a section, and how likely each answers beside the others."""

    units: Sequence[Unit]
    scores: Sequence[float]
    """Logits, higher is better."""
    by_words: Sequence[float] = ()
    """The part of the scores for words that a unit shares with the question."""
    is_read: bool = False
    """Whether the models have read the likeliest: then the scores of several sections can be compared."""

    def best(self) -> list[int]:
        """Return the places of the units, best first, the earlier one of two that are as good."""
        return sorted(range(len(self.units)), key=self.scores.__getitem__, reverse=True)

    def choose_read(self, count: int, matched: Span | None, asked: Asked) -> list[int]:
        """Return the places of the units to be read: the best, those in the chunk that matched before others.

        A list that is longer than other units are is read by its items, unless a list is asked for.
        """
        is_listed = asked.kind is QuestionKind.LIST
        weighed = {
            place: self.scores[place] + BY_CHUNK * (matched is not None and matched.overlap(unit.span) > 0)
            for place, unit in enumerate(self.units)
            if unit.kind is not UnitKind.LIST or is_listed or len(unit.in_full) <= MAX_UNIT_CHARS
        }
        return sorted(weighed, key=weighed.__getitem__, reverse=True)[:count]

    def add_readings(self, places: Sequence[int], readings: Iterable[Reading]) -> "ScoredUnits":
        """Return them with what was read of some; the others are as bad as the worst of these, and never better.

        A list reads as the best of its items.
        """
        read = {
            place: reading.weigh(BY_LOGIT, BY_INTERACTION) + BY_TITLES * reading.with_titles
            for place, reading in zip(places, readings, strict=True)
        }
        lowest = min(read.values())
        for place in {place for place, unit in enumerate(self.units) if unit.kind is UnitKind.LIST} - read.keys():
            items = [read[item] for item in places if holds(self.units[place].span, self.units[item].span)]
            if items:
                read[place] = max(items)
        scores = [
            score - (1 - BY_WORDS) * by_words + read.get(place, lowest)
            for place, (score, by_words) in enumerate(zip(self.scores, self.by_words, strict=True))
        ]
        worst = min(scores[place] for place in read)
        scores = [score if place in read else min(score, worst) for place, score in enumerate(scores)]
        return replace(self, scores=scores, is_read=True)


def score_node(node: Node, asked: Asked, properties: Sequence[Unit] = ()) -> ScoredUnits:
    """Return the units of a section with their scores.

    Args:
        node: the section.
        asked: the question.
        properties: of its file, that the question names: they may answer as well.
    """
    # `id: workspaces` answers nothing: of front matter what the question names may.
    texts = [unit for unit in node.units if unit.kind is not UnitKind.FIELD]
    return score_units((*properties, *texts), asked.below(node.titles))


def find_passage(node: Node, asked: Asked, scored: ScoredUnits, matched: Span | None = None) -> Passage:
    """Return the passage of a section that answers: its best unit, and what belongs to it.

    Args:
        node: the section.
        asked: the question.
        scored: the section's units; without any, the passage is what matched.
        matched: the lines of the chunk that matched.
    """
    assert node.body_span is not None, "only nodes with lines are found"
    units, scores = scored.units, scored.scores
    if all(map(is_bare, units)):
        return Passage(matched or node.body_span, "")
    best = choose_best(scored, asked)
    if lists := find_lists(node, units, best, asked):
        span = join([units[place].span for place in lists])
        return Passage(fit_span(node, units, span), show_lists(units, lists))
    best = choose_item(units, scores, best)
    beside = find_beside(units, scores, best, asked)
    span = fit_span(node, units, join([units[place].span for place in beside]))
    return Passage(span, show_together(units, best, beside, asked))


def score_units(units: Sequence[Unit], asked: Asked) -> ScoredUnits:
    """Return units with how likely each answers beside the others, by its words and its shape."""
    features = read_features(units, asked)
    scores = [sum(WEIGHTS.get(name, 0.0) * value for name, value in own.items()) for own in features]
    return ScoredUnits(units, scores, [WEIGHTS["words"] * own["words"] for own in features])


def read_features(units: Sequence[Unit], asked: Asked) -> list[dict[str, float]]:
    """Return what speaks for each unit, by the names of `WEIGHTS`, as 0 or 1; words as z-scores over the units."""
    measured = [measure_words(unit.in_full, asked) for unit in units]
    words, whole = standardize(measured), sum(asked.rarity.values())
    # The unit that has all words of the question first defines them; where none has, what the section begins with.
    held = [place for place, own in enumerate(measured) if isclose(own, whole)]
    first = next((place for place in held if units[place].kind is not UnitKind.LIST), 0)
    return [
        {
            "words": words[place],
            # It is mostly a link, and so says where an answer is: `See full language support`.
            "sends elsewhere": asked.kind is not QuestionKind.WHERE and unit.linked >= MOSTLY_LINKED * len(unit.text),
            "its term is asked for": asks_for(unit.term, asked),
            "list where one is asked for": unit.kind is UnitKind.LIST and asks_for_list(unit, asked),
            "code where it is asked how": unit.kind is UnitKind.CODE and asked.kind is QuestionKind.HOW_TO,
            "first where a definition is asked for": place == first and asked.kind is QuestionKind.DEFINITION,
            unit.kind.value: True,
        }
        for place, unit in enumerate(units)
    ]


def asks_for_list(whole: Unit, asked: Asked) -> bool:
    """Return whether a question asks for all of a list: for one, or for the way that numbered steps say."""
    return asked.kind is QuestionKind.LIST or (asked.kind is QuestionKind.HOW_TO and whole.number != "")


def asks_for(term: str, asked: Asked) -> bool:
    """Return whether the question has all words of a term or key, or of one of its two names."""
    names = (tokenize(name, asked.languages) for name in (term, *list_abbreviated(term)))
    return any(words and all(word in asked.rarity for word in words) for words in names)


def measure_words(text: str, asked: Asked) -> float:
    """Return the words of the question that a text has, by their rarity."""
    return sum(asked.rarity.get(word, 0.0) for word in dict.fromkeys(tokenize_unit(text, asked.languages)))


def standardize(values: Sequence[float]) -> list[float]:
    """Return z-scores; zeros where all values are equal."""
    numbers = np.array(values, dtype=np.float64)
    if not values or numbers.std() <= 1e-9:
        return [0.0] * len(values)
    scores: list[float] = ((numbers - numbers.mean()) / numbers.std()).tolist()
    return scores


def find_beside(units: Sequence[Unit], scores: Sequence[float], best: int, asked: Asked) -> list[int]:
    """Return the places of what is cited together, in the order of lines: the best unit, and at most one beside it.

    That is what it introduces, the other side of a difference, or a unit beside it that is nearly as good; of more than
    MOST_LINES together, none.
    """
    other = None
    if asked.kind is QuestionKind.DIFFERENCE:
        other = find_other_side(units, scores, best, asked)
    elif introduces(units, best):
        other = best + 1
    if other is None:
        other = find_near(units, scores, best)
    if (
        other is None
        or says_nothing(units[other], asked)
        or len(join([units[best].span, units[other].span])) > MOST_LINES
    ):
        return [best]
    return sorted((best, other))


def join(spans: Sequence[Span]) -> Span:
    """Return the lines from the first to the last of some."""
    return Span(min(span.first for span in spans), max(span.last for span in spans))


def introduces(units: Sequence[Unit], place: int) -> bool:
    """Return whether a unit introduces the one behind it: it ends in a colon, or the lines of a list begin with it.

    >>> texts = enumerate(("Use:", "row", "使う\uff1a", "Use: oars", "Use:"), start=1)
    >>> units = [Unit(UnitKind.PARAGRAPH, Span(line, line), text) for line, text in texts]
    >>> [introduces(units, place) for place in range(5)]
    [True, False, True, False, False]
    """
    own = units[place]
    following = units[place + 1].span if own.kind is not UnitKind.LIST and place + 1 < len(units) else own.span
    begins = following.first == own.span.first and following.last > own.span.last
    return begins or (following.first > own.span.last and own.text.endswith((":", "\uff1a")))


def choose_best(scored: ScoredUnits, asked: Asked) -> int:
    """Return the place of the best unit that is not bare, or of the one behind prose that says nothing.

    Behind a question or an error stands what answers it.
    """
    units, places = scored.units, scored.best()
    best, telling = places[0], [place for place in places if not is_bare(units[place])]
    is_silent = units[best].kind in _WIDENED and says_nothing(units[best], asked)
    return best + 1 if is_silent and best + 1 in telling else telling[0]


def is_bare(unit: Unit) -> bool:
    """Return whether a unit is a question, or addresses and tags, and nothing else.

    >>> texts = ("Why?", "なぜ\uff1f", "https://a.example #todo", "Why? Because.", "It rains. Why?", "See https://a.example")
    >>> [is_bare(Unit(UnitKind.PARAGRAPH, Span(1, 1), text)) for text in texts]
    [True, True, True, False, False, False]
    """
    is_question = unit.text.endswith(("?", "\uff1f")) and len(split_sentences(unit.text)) == 1
    return is_question or all("://" in word or word.startswith("#") for word in unit.text.split())


def says_nothing(unit: Unit, asked: Asked) -> bool:
    """Return whether a unit is bare, or says what the question says already, as a pasted message does."""
    words = {*tokenize_unit(unit.text, asked.languages)}
    # Yes repeats the question, and `uv sync` says how.
    is_asked_for = asked.kind in (QuestionKind.YES_NO, QuestionKind.HOW_TO, QuestionKind.LIST)
    is_repeated = words and len(words.difference(asked.rarity)) <= NEW_SHARE * len(words)
    return is_bare(unit) or bool(is_repeated and not is_asked_for)


def fit_span(node: Node, units: Sequence[Unit], span: Span) -> Span:
    """Return lines of a section, or all of it where it has nothing else."""
    is_all = all(holds(span, unit.span) for unit in units)
    return node.body_span or span if is_all else span


def find_lists(node: Node, units: Sequence[Unit], best: int, asked: Asked) -> list[int]:
    """Return the places of the lists and tables that are shown whole, in the order of lines; none if one item answers.

    That is the list that the best unit is, introduces or stands in; where all of it is asked for, with those beside it.
    """
    own, listed = units[best], [place for place, unit in enumerate(units) if unit.kind is UnitKind.LIST]
    around = next((place for place in listed if holds(units[place].span, own.span)), None)
    if around is None:
        return []
    inside = [unit for unit in units[around + 1 :] if holds(units[around].span, unit.span)]
    if not inside:  # a table that has only the names of its columns
        return []
    title = tokenize(node.title, asked.languages)
    is_named = bool(title) and {*asked.rarity}.issuperset(title)
    is_listed = asks_for_list(units[around], asked)
    # `how do I make hummus`: neither the title nor `make` tells one list of its steps from another.
    asked = asked.weigh({*tokenize("\n".join(node.titles), asked.languages), *OPENING_WORDS}, 0)
    measured = [measure_words(unit.text, asked) for unit in inside]
    *_, second, most = sorted([0.0, 0.0, *measured])
    if most > second and (own in inside or not is_listed):
        return []  # `which books by Le Guin`: one of them
    shares = [measure_words(units[place].lead, asked) for place in listed]
    alike = [place for place, share in zip(listed, shares, strict=True) if share == max(shares)]
    fits = sum(len(units[place].in_full) for place in alike) <= MAX_LIST_CHARS
    if is_listed and not fits:
        return [around]
    is_any = own.kind is not UnitKind.ROW and min(measured) == most  # nothing of the question says which item
    return alike if fits and (is_listed or is_named or is_any or own not in inside) else []


def show_lists(units: Sequence[Unit], lists: Sequence[int]) -> str:
    """Return lists as lines: what introduces each, and its items; of more than a screen holds, the first."""
    rows: list[tuple[bool, str]] = []  # whether it is an item, and its text
    for place in lists:
        rows += [(False, lead)] if (lead := show_lead(units[place])) else []
        last = 0
        for unit in units[place + 1 :]:
            if holds(units[place].span, unit.span) and unit.span.first > last:  # `Default:` has the items inside of it
                rows.append((True, f"{unit.number or '-'} {unit.text}"))
                last = unit.span.last
    ends = accumulate(len(text) for _, text in rows)
    fitting = [row for row, end in zip(rows, ends, strict=True) if end <= MAX_LIST_CHARS][:MAX_LIST_ROWS]
    shown, count = (sum(is_item for is_item, _ in some) for some in (fitting, rows))
    texts = [text for _, text in fitting]
    return "\n".join(texts if shown == count else [*texts, f"\u2026 {shown} of {count}"])


def choose_item(units: Sequence[Unit], scores: Sequence[float], best: int) -> int:
    """Return the place of the best item of a list that is not shown whole; of another unit its own."""
    own = units[best]
    inside = (place for place, unit in enumerate(units) if place != best and holds(own.span, unit.span))
    return max(inside if own.kind is UnitKind.LIST else (), key=scores.__getitem__, default=best)


def holds(outer: Span, inner: Span) -> bool:
    """Return whether all lines of a span are among those of another."""
    return outer.overlap(inner) == len(inner)


def find_other_side(units: Sequence[Unit], scores: Sequence[float], best: int, asked: Asked) -> int | None:
    """Return the place of the unit with most of what the question names and the best one lacks; None without any."""
    own = units[best]
    lacking = asked.weigh(tokenize(own.in_full, asked.languages), 0)
    named = {
        place: measure_words(unit.in_full, lacking)
        for place, unit in enumerate(units)
        if unit.kind not in (UnitKind.LIST, UnitKind.FIELD) and not holds(own.span, unit.span)
    }
    other = max(named, key=lambda place: (named[place], units[place].kind is own.kind, scores[place]), default=best)
    return other if named.get(other) else None


def find_near(units: Sequence[Unit], scores: Sequence[float], best: int) -> int | None:
    """Return the place of the better block of prose or code next to the best one that is nearly as good."""
    own = units[best]
    near = [
        place
        for place in (best - 1, best + 1)
        if 0 <= place < len(units)
        and own.kind in _WIDENED
        and units[place].kind in _WIDENED
        and not units[place].span.overlap(own.span)
        and not (place > best and introduces(units, place))
        and scores[best] - scores[place] <= NEAR
    ]
    return max(near, key=lambda place: scores[place], default=None)


def show_together(units: Sequence[Unit], best: int, beside: Sequence[int], asked: Asked) -> str:
    """Return what is shown of the best unit and what is cited with it, in the order of lines, if both fit."""
    texts = {place: show_unit(units[place]) for place in beside}
    shown = texts[best]
    if asked.kind is QuestionKind.DIFFERENCE:
        texts = {place: cut(text, MAX_UNIT_CHARS // len(texts)) for place, text in texts.items()}
    for place in set(texts) & {place + 1 for place in texts}:  # below the paragraph that is shown already
        before = units[place - 1]
        for said in (before.in_full, split_sentences(before.in_full)[-1], show_lead(before)):
            texts[place] = texts[place].removeprefix(said).lstrip()
    between = " " if max(texts) - min(texts) < 2 else " … "
    together = between.join(texts[place] for place in sorted(texts))
    return together if len(together) <= MAX_UNIT_CHARS else shown


def as_sentence(unit: Unit) -> str:
    """Return a unit as the reader understands it best: a row as `first cell: name cell, name cell`.

    >>> as_sentence(Unit(UnitKind.ROW, Span(3, 3), "rolls \u00b7 220 \u00b7 18", "product \u00b7 heat \u00b7 minutes"))
    'rolls: heat 220, minutes 18'
    """
    cells = read_cells(unit)
    if not cells:
        return unit.in_full
    return f"{cells[0][1]}: " + ", ".join(f"{name} {cell}".strip() for name, cell in cells[1:])


def read_cells(unit: Unit) -> list[tuple[str, str]]:
    """Return (name of its column, cell) of a row; nothing of other units, and where names are missing.

    >>> [read_cells(Unit(UnitKind.ROW, Span(3, 3), text, "boat \u00b7 seats")) for text in ("gig \u00b7 6", "gig")]
    [[('boat', 'gig'), ('seats', '6')], []]
    >>> read_cells(Unit(UnitKind.ITEM, Span(3, 3), "gig", "boats"))
    []
    """
    names, cells = unit.lead.split(CELL), unit.text.split(CELL)
    is_row = unit.kind is UnitKind.ROW and unit.lead and len(names) == len(cells)
    return list(zip(names, cells, strict=True)) if is_row else []


def show_lead(unit: Unit) -> str:
    """Return what a unit is shown below: its lead, or the last sentences of a longer one that fit."""
    most = MAX_INTRODUCTION_CHARS if unit.kind is UnitKind.CODE else MAX_LEAD_CHARS
    text = unit.lead
    for sentence in split_sentences(text):
        if len(text) > most:
            text = text.removeprefix(sentence).lstrip()
    return text


def show_unit(unit: Unit) -> str:
    """Return a unit as plain text on one line, of at most MAX_UNIT_CHARS characters.

    Text comes with what introduces it, a row's cells with the names of their columns.

    >>> show_unit(Unit(UnitKind.ROW, Span(3, 3), "gig \u00b7 6", " \u00b7 seats"))
    'gig · seats: 6'
    >>> show_unit(Unit(UnitKind.ROW, Span(3, 3), "gig", "boat \u00b7 seats"))
    'gig'
    >>> show_unit(Unit(UnitKind.ITEM, Span(3, 3), "a gig", "Take:"))
    'Take: a gig'
    """
    text = unit.text
    if unit.kind is UnitKind.ROW:
        cells = [f"{name}: {cell}" if name else cell for name, cell in read_cells(unit)]
        text = CELL.join(cells) or text
    elif unit.lead:
        text = f"{show_lead(unit)} {text}".lstrip()
    return cut(text, MAX_UNIT_CHARS)
