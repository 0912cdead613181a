"""Whether a sentence says what another one says: numbers, bounds, negation, opposites, roles, and its words. Pure.

Rules, and the bundled encoder for single words: whole sentences with a number or a `not` changed are near neighbors
to it, so no vector of a sentence can tell. benchmarks/checks.py measures what passes.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import yaml

from retriever.embedding import bundled_encoder
from retriever.lexical.tokens import tokenize
from retriever.settings.schema import EncoderSettings
from retriever.types import FloatMatrix

_KNOWN = yaml.safe_load(Path(__file__).with_name("words.yaml").read_text(encoding="utf-8"))
_LIGHT, _BE, _ARTICLES, _DETERMINERS = (
    frozenset(_KNOWN[name].split()) for name in ("light", "to_be", "articles", "determiners")
)
_NUMBER_WORDS: dict[str, str] = _KNOWN["numbers"]

NEAR = 0.55  # of two words' vectors: `purchase` and `buy` have .88, `resigned` and `opposed` .34

_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)?")
_CLAUSE = re.compile(
    r"[;:|()]|,(?!\d)|\s+-\s+|\b(?:and|but|though|although|while|whereas|because|which|who|then)\b", re.IGNORECASE
)

# Quantities

_PHRASES = (
    (r"\b(?:one|an?)\s+and\s+a\s+half\s+(\w+)", r"1.5 \1"),
    (r"\b(\w+)\s+and\s+a\s+half\s+(\w+)", r"\1.5 \2"),
    (r"\b(?:half\s+(?:of\s+)?an?|an?\s+half)\s+(\w+)", r"0.5 \1"),
    (r"\b(?:a\s+)?quarter\s+of\s+an?\s+(\w+)", r"0.25 \1"),
    (r"\b(\d+)\s*(a|p)\.?m\b\.?", r"\1 \2m"),
    (r"\bdozen\b", "12"),
    (r"\bone\s+(?=(?:\w+\s+)?(?:second|minute|hour|day|week|month|year)\b)", "1 "),
)
_FACTORS = {unit: (kind, factor) for kind, units in _KNOWN["units"].items() for unit, factor in units.items()}
_QUANTITY = re.compile(r"(\d+(?:[.:]\d+)*)[\s-]*([a-z]+|%|\u20ac|\$|\u00b0c?)?", re.IGNORECASE)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_UPPER = (
    "at most|no more than|not more than|up to|maximum of|at maximum|less than|fewer than|smaller than|shorter than"
    "|younger than|under|below|within|until|not exceed|never exceeds?|no longer than|or less|or fewer|maximum"
)
_LOWER = (
    "at least|no less than|not less than|no fewer than|minimum of|more than|larger than|bigger than|longer than"
    "|older than|greater than|higher than|over|above|exceeds?|exceeding|since|or more|minimum"
)
_BOUND = re.compile(rf"\b(?:(?P<upper>{_UPPER})|(?P<lower>{_LOWER}))\b", re.IGNORECASE)
_RATE = re.compile(
    r"\b(?:a|an|per|each|every)\s+(second|minute|hour|day|week|month|quarter(?!\s+of)|year)\b", re.IGNORECASE
)
_RATE_WORDS = {"hourly": "hour", "daily": "day", "weekly": "week", "monthly": "month", "yearly": "year",
               "annual": "year", "annually": "year"}  # fmt: skip

_GROUPS = [tuple(frozenset(side.split()) for side in line.split("|")) for line in _KNOWN["opposites"]]
_HAVE_OPPOSITES = frozenset(word for group in _GROUPS for side in group for word in side)
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|nothing|nobody|neither|nor|without|cannot|hardly|\w+n['\u2019]t|nicht|kein\w*|nie|niemals"
    r"|ohne|pas|jamais|sans|aucune?|sin|nunca|ning[u\u00fa]n\w*|n\u00e3o|nem|sem|non|senza|mai|niet|geen|nooit|zonder"
    r"|inte|ingen|inget|utan|aldrig|ikke|uden|aldri|uten|\u043d\u0435|\u043d\u0435\u0442|\u0431\u0435\u0437)\b"
    r"|[\u4e0d\u6ca1\u672a\u7121\u65e0]|\u306a\u3044|\u307e\u305b\u3093",
    re.IGNORECASE,
)
_PREPOSITIONS = frozenset({"to", "from", "by", "for", "with", "in", "on"})
PRONOUN = re.compile(r"\b(?:it|its|they|their|them|he|she|her|his|him|this|these|those|such|one)\b", re.IGNORECASE)
_PARTICIPLES = ("ed", "en", "wn", "lt", "ht", "ld", "pt", "ung", "made", "read", "put", "set", "ing")


@dataclass(frozen=True)
class Clause:
    """A part of a sentence, with what is read of it."""

    text: str
    languages: tuple[str, ...] = ()

    @cached_property
    def words(self) -> list[str]:
        """All words, in lower case."""
        return [match[0].casefold() for match in _WORD.finditer(self.text)]

    @cached_property
    def stems(self) -> list[str]:
        """Return the stem of each word; empty for those that say nothing, and for numbers."""
        return [_find_stem(word, self.languages) for word in self.words]

    @cached_property
    def terms(self) -> frozenset[str]:
        return frozenset(filter(None, self.stems))

    @cached_property
    def topic(self) -> frozenset[str]:
        """The terms that have no opposite."""
        pairs = zip(self.words, self.stems, strict=True)
        return frozenset(stem for word, stem in pairs if stem and word not in _HAVE_OPPOSITES)

    @cached_property
    def numbers(self) -> frozenset[str]:
        return frozenset(quantity.raw for quantity in read_quantities(self.text))

    @cached_property
    def is_negated(self) -> bool:
        """Whether it says no somewhere; `no more than` does not."""
        return bool(_NEGATION.search(re.sub(r"\b(?:no|not|never) (?:more|less|fewer|longer) than\b", " ", self.text)))


@lru_cache(maxsize=20_000)
def _find_stem(word: str, languages: tuple[str, ...]) -> str:
    if word[:1].isdigit() or word in _NUMBER_WORDS:
        return ""
    return next(iter(tokenize(word, languages)), "")


def find_conflict(claim: str, cited: str, before: str = "", languages: tuple[str, ...] = ()) -> str:
    """Return what a sentence says otherwise than the one that it cites, in a few words; empty where it holds.

    Args:
        claim: one sentence.
        cited: the sentences that its quote stands in.
        before: titles, and what stands before in the same paragraph, for words that it refers back to.
        languages: of the texts, beside English.
    """
    if " ".join(_WORD.findall(claim.casefold())) in " ".join(_WORD.findall(cited.casefold())):
        return ""  # word for word
    said = Clause(claim, languages)
    clauses = [Clause(part, languages) for part in _CLAUSE.split(cited) if part and part.strip()] or [Clause(cited)]
    whole = Clause(cited, languages)

    def find_nearest(part: Clause) -> list[Clause]:
        shared = [(len(clause.topic & part.topic), len(clause.numbers & part.numbers)) for clause in clauses]
        return [clause for clause, count in zip(clauses, shared, strict=True) if count == max(shared)]

    def compare_polarity(part: Clause) -> str:
        conflicts = [_compare_polarity(part, clause, whole, clauses) for clause in find_nearest(part)]
        return conflicts[0] if all(conflicts) else ""

    nearest = find_nearest(said)[0]
    parts = [Clause(part, languages) for part in _CLAUSE.split(claim)]
    parts = [part for part in parts if len(part.topic & whole.terms) > 1] or [said]
    return (
        _compare_quantities(said.text, nearest.text, cited)
        or next(filter(None, map(compare_polarity, parts)), "")
        or next(filter(None, (_compare_roles(part, one, whole) for part in parts for one in find_nearest(part))), "")
        or _find_unsupported(said, whole, Clause(before, languages))
    )


# Numbers and bounds


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number in base units; `kind` is empty without a unit that is known."""

    value: float
    kind: str
    raw: str
    bound: str  # "upper", "lower" or ""

    def equals(self, other: "Quantity") -> bool:
        if self.kind and other.kind:
            return self.kind == other.kind and abs(self.value - other.value) <= 0.01 * max(self.value, other.value)
        return self.raw == other.raw


def read_quantities(text: str) -> list[Quantity]:
    """Return the numbers of a text with their units; `one and a half hours` is 5400 seconds."""
    text = _THOUSANDS.sub("", unicodedata.normalize("NFKC", text))
    text = re.sub(r"\b[A-Za-z]+\b", lambda found: _NUMBER_WORDS.get(found[0].lower(), found[0]), text)
    for pattern, written in _PHRASES:
        text = re.sub(pattern, written, text, flags=re.IGNORECASE)
    found = []
    for match in _QUANTITY.finditer(text):
        unit = (match[2] or "").lower()
        kind, factor = _FACTORS.get(unit) or _FACTORS.get(unit.removesuffix("s")) or ("", 1.0)
        raw = match[1]
        value = float(raw) if raw.count(".") < 2 and ":" not in raw else 0.0
        around = text[max(0, match.start() - 28) : match.start()]
        bounds = list(_BOUND.finditer(re.split(r"[,;.]\s|\d", around)[-1]))
        bounds += list(_BOUND.finditer(re.split(r"[,;.]|\d", text[match.end() : match.end() + 14])[0]))
        bound = next((name for one in bounds for name in ("upper", "lower") if one[name]), "")
        found.append(Quantity(value * factor, kind, raw, bound))
    return found


def _compare_quantities(claim: str, nearest: str, cited: str) -> str:
    """Return the first number, bound or rate of a claim that is not in what it cites."""
    near, all_there = read_quantities(nearest), read_quantities(cited)
    stated = read_quantities(claim)
    for quantity in stated:
        same = [other for other in near if quantity.equals(other)] or [
            other for other in all_there if quantity.equals(other)
        ]
        # Another clause's number is another thing's, where the nearest clause has one of this kind.
        rival = [other for other in near if other.kind == quantity.kind and quantity.kind]
        if not same or (rival and not any(quantity.equals(other) for other in near) and not _mentions(stated, rival)):
            return f"the number {quantity.raw}"
        bounds = {other.bound for other in same}
        if quantity.bound and quantity.bound not in bounds and bounds - {""}:
            return f"at least or at most {quantity.raw}"
    there = _find_rates(cited)
    return next((f"per {rate}" for rate in _find_rates(claim) if there and rate not in there), "")


def _mentions(stated: Sequence[Quantity], rivals: Iterable[Quantity]) -> bool:
    return all(any(rival.equals(one) for one in stated) for rival in rivals)


def _find_rates(text: str) -> list[str]:
    words = (_RATE_WORDS.get(word) for word in _WORD.findall(text.lower()))
    return [*(match[1].lower() for match in _RATE.finditer(text)), *filter(None, words)]


# Yes and no, opposites


def _compare_polarity(said: Clause, nearest: Clause, whole: Clause, clauses: Sequence[Clause]) -> str:
    """Return where a claim says no and the clause nearest to it does not, or says the opposite."""
    flips = said.is_negated != nearest.is_negated
    opposite = ""
    for group in _GROUPS:
        mine = {place for place, side in enumerate(group) if side.intersection(said.words)}
        there = next((one for one in (nearest, whole) if any(side.intersection(one.words) for side in group)), whole)
        theirs = [side for side in group if side.intersection(there.words)]
        if not mine or not theirs or any(group[place] in theirs for place in mine):
            continue
        if "than" in said.words and "than" in whole.words and not read_quantities(said.text):
            continue  # `_compare_sides` knows which is compared with which
        if len(group) == 2 and flips:
            flips = False
        else:
            opposite = opposite or f"the opposite of {min(theirs[0].intersection(there.words))}"
    undone = {word[len(prefix) :] for word in said.words for prefix in ("un", "in", "dis") if word.startswith(prefix)}
    flips = flips and not any(_find_stem(word, ()) in nearest.terms for word in undone if len(word) > 3)
    asserted = frozenset[str]().union(*(clause.terms for clause in clauses if not clause.is_negated))
    if flips:
        return "it says no, or the other way round"
    denied = (said.terms & whole.terms) - asserted
    if denied and not (opposite or said.is_negated or nearest.is_negated):
        return f"what is denied of {min(denied)}"
    return opposite


# Who does what to whom


def _compare_roles(said: Clause, nearest: Clause, whole: Clause) -> str:
    """Return where a claim has one thing do what the cited clause says of another."""
    if "than" in said.words and "than" in whole.words:
        return _compare_sides(said, nearest if "than" in nearest.words else whole)
    little = {_find_stem(word, ()) for word in (*_LIGHT, *_FACTORS)}
    for pivot in sorted(term for term in said.terms & nearest.terms - little if not _NEGATION.fullmatch(term)):
        if not (_is_verb(said, pivot) or _is_verb(nearest, pivot)):
            continue
        (agent, others), (their_agent, their_others) = _find_roles(said, pivot), _find_roles(nearest, pivot)
        if agent & their_agent or not (agent or their_agent):
            continue
        is_swapped = agent & their_others or (agent and their_agent & others)
        is_anothers = agent and agent <= whole.terms - nearest.terms and not their_agent & said.terms
        if is_swapped or (is_anothers and their_agent):
            return f"who or what {pivot}"
    for first, second in (("from", "to"), ("to", "from")):
        mine, there = _find_after(said, first), _find_after(whole, first)
        if mine and there and mine <= _find_after(whole, second) and not mine & there:
            return f"what stands behind `{first}`"
    return ""


def _compare_sides(said: Clause, there: Clause) -> str:
    """Compare `A is faster than B` with `B is slower than A`."""
    place = there.words.index("than")
    after = set(list(filter(None, said.stems[said.words.index("than") + 1 :]))[:2])
    is_same = bool(after.intersection(list(filter(None, there.stems[place + 1 :]))[:2]))
    if not is_same and not after.intersection(there.stems[:place]):
        return ""  # such as `more than 5 minutes`
    is_opposite = any(
        len(sides := {n for n, side in enumerate(group) if side.intersection(said.words + there.words)}) == 2
        and not any(group[n].intersection(said.words) and group[n].intersection(there.words) for n in sides)
        for group in _GROUPS
    )
    return "which of them is more" if is_same == is_opposite else ""


def _is_verb(clause: Clause, pivot: str) -> bool:
    """Return whether a term is a verb, judged by the words around it."""
    place = clause.stems.index(pivot)
    word, last = clause.words[place], clause.words[place - 1] if place else ""
    follows = clause.words[place + 1] if place + 1 < len(clause.words) else ""
    if last in _BE:
        return word.endswith(_PARTICIPLES)  # else it is an adjective
    return word.endswith("ed") or (last not in _ARTICLES and follows in _DETERMINERS)


def _find_roles(clause: Clause, pivot: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return who does what a verb says, as far as that is seen, and what else is said."""
    place = clause.stems.index(pivot)
    left = [stem for stem in clause.stems[:place] if stem]
    right = [stem for stem in clause.stems[place + 1 :] if stem]
    if not place or clause.words[place - 1] not in _BE:
        return frozenset(left[-1:]), frozenset(right)
    agent = _find_after(clause, "by")
    return agent, frozenset(left + right) - agent


def _find_after(clause: Clause, preposition: str) -> frozenset[str]:
    """Return the first terms behind a preposition, up to the next one."""
    found: list[str] = []
    for place, word in enumerate(clause.words):
        if word == preposition:
            for stem, other in zip(clause.stems[place + 1 :], clause.words[place + 1 :], strict=True):
                if len(found) == 4 or other in _PREPOSITIONS:
                    break
                found += [stem] if stem else []
    return frozenset(found)


# Words


def _find_unsupported(said: Clause, whole: Clause, before: Clause) -> str:
    """Return a word of a claim that is neither in what it cites nor near to a word there."""
    known = whole.terms | before.terms
    new = {stem: word for word, stem in zip(said.words, said.stems, strict=True) if stem and stem not in known}
    new = {stem: word for stem, word in new.items() if word not in _LIGHT and not _NEGATION.fullmatch(word)}
    new = {stem: word for stem, word in new.items() if not {word, word.removesuffix("s")} & _FACTORS.keys()}
    # A word of both is no other word for the new one.
    there = sorted({w for w, stem in zip(whole.words, whole.stems, strict=True) if stem and stem not in said.terms})
    for word in new.values():
        if any(word in side for group in _GROUPS if frozenset().union(*group).intersection(there) for side in group):
            continue  # `_compare_polarity` has compared them
        # The bundled encoder reads English; of other languages, a third of the words may be new.
        is_known = 3 * len(new) <= len(said.terms) if whole.languages else any(_are_near(word, one) for one in there)
        if not is_known:
            return f"other things ({word})"
    return ""


def _are_near(word: str, other: str) -> bool:
    """Return whether two words mean nearly the same."""
    return float(_embed(word) @ _embed(other)) >= NEAR


@lru_cache(maxsize=10_000)
def _embed(word: str) -> FloatMatrix:
    vector: FloatMatrix = bundled_encoder(EncoderSettings()).encode_documents([word])[0]
    return vector
