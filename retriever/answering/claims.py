"""Whether a sentence says what the cited one says: its numbers, yes and no, its words and their places. Pure.

Whole sentences with one number or a `not` changed are near neighbors, so no vector of a sentence can tell. Of each
language only closed classes of words are known (`closed_words.yaml`). benchmarks/checks.py measures what passes.
"""

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache, cached_property
from itertools import combinations, pairwise
from pathlib import Path

import yaml

from retriever.embedding import bundled_encoder
from retriever.lexical.tokens import is_unspaced, tokenize
from retriever.settings import EncoderSettings

_KNOWN = yaml.safe_load(Path(__file__).with_name("closed_words.yaml").read_text(encoding="utf-8"))
UNITS = {
    unit: (kind, float(factor))
    for kind, factors in _KNOWN["units"].items()
    for factor, units in factors.items()
    for unit in units.split()
}
NEAR = 0.55  # of two words' vectors: `purchase` and `buy` have .88, `resigned` and `opposed` .34
ALIKE = 0.65  # of their letters: `lends` and `lent` have .67
NEW_SHARE = 1 / 3  # of the words of a sentence, where some texts are in languages that the bundled encoder cannot read

END = "."  # of a clause
_TOKEN = re.compile(r"\d+(?:[.,:]\d+)*|[^\W\d_]+(?:['.][^\W\d_]+)*|[%.,;:!?()|\u2013\u2014\u3002\uff0c\uff1b]")


@cache
def load_words(languages: tuple[str, ...]) -> Mapping[str, str | float]:
    """Return what the closed words of English and some other languages mean: `not`, `more`, `less`, `light`, 12."""
    found: dict[str, str | float] = {}
    for name in ("english", *languages):
        for meaning, words in _KNOWN.get(name, {}).items():
            found |= words if meaning == "numbers" else dict.fromkeys(words.split(", "), meaning)
    return dict(sorted(found.items(), key=lambda item: -len(item[0])))


@dataclass(frozen=True)
class Reading:
    """A text and what is read of it."""

    text: str
    languages: tuple[str, ...] = ()  # beside English

    @cached_property
    def tokens(self) -> list[str]:
        """Words and numbers in lower case, and the ends of clauses."""
        text = unicodedata.normalize("NFKC", self.text).replace("\u2019", "'").casefold()
        return [token if token[0].isalnum() or token == "%" else END for token in _TOKEN.findall(text)]

    @cached_property
    def words(self) -> list[str]:
        return [token for token in self.tokens if token != END]

    @cached_property
    def shape(self) -> list[str]:
        """Its stems, with the other words and the ends of clauses."""
        return [END, *(self.terms.get(token, token) for token in self.tokens), END]

    @cached_property
    def clauses(self) -> "list[Reading]":
        parts = " ".join(self.tokens).split(END + " ")
        return [Reading(part, self.languages) for part in parts if part.strip(" .")]

    @cached_property
    def terms(self) -> dict[str, str]:
        """The words that say something, and the stem of each; numbers aside."""
        known = load_words(self.languages)
        found = {word: tokenize(word, self.languages) for word in self.words if word not in known}
        return {word: terms[-1] for word, terms in found.items() if terms and not word[0].isdecimal()}

    @cached_property
    def stems(self) -> frozenset[str]:
        return frozenset(self.terms.values())

    @cached_property
    def marks(self) -> frozenset[str | float]:
        """Whether it says `not`, and which sides of bounds: `more`, `less`."""
        text, found = f" {' '.join(self.words)} ", set()
        for phrase, meaning in load_words(self.languages).items():
            sought = phrase if is_unspaced(phrase[0]) else f" {phrase} "
            if meaning in ("not", "more", "less") and sought in text:
                found.add(meaning)
                text = text.replace(sought, " ")
        return frozenset(found)

    @cached_property
    def quantities(self) -> list[tuple[str, str, float]]:
        """Its numbers: as written, their kind, and their value in base units.

        >>> Reading("one and a half hours, 1,840 euros").quantities
        [('half', 'time', 5400.0), ('1,840', '', 1840.0)]
        """
        known = load_words(self.languages)
        found: list[tuple[str, str, float]] = []
        is_open = False  # whether a fraction or a unit may follow
        for word in self.words:
            value = read_number(word) if word[0].isdecimal() else known.get(word)
            if isinstance(value, int | float):
                if is_open and value < 1:
                    value += found.pop()[2]
                found.append((word, "", value))
                is_open = True
            elif is_open and word in UNITS:
                kind, factor = UNITS[word]
                found[-1] = (found[-1][0], kind, round(found[-1][2] * factor, 6))
                is_open = False
            else:
                is_open = is_open and word not in self.terms
        # `one` alone is often no number
        return [one for one in found if one[0][0].isdecimal() or one[1:] != ("", 1.0)]


def read_number(raw: str) -> float:
    """Return the value of a number; three digits behind a sign are thousands.

    >>> read_number("1,840"), read_number("1,5"), read_number("10:30")
    (1840.0, 1.5, 10.3)
    """
    head, *tail = raw.replace(",", ".").replace(":", ".").split(".")
    is_whole = head != "0" and all(len(part) == 3 for part in tail)
    return float(head + ("" if is_whole else ".") + "".join(tail))


def find_conflict(claim: str, cited: str, before: str = "", languages: tuple[str, ...] = ()) -> str:
    """Return what a sentence says otherwise than the one that it cites, in a few words; empty where it holds.

    Args:
        claim: one sentence.
        cited: the sentences that its quote stands in.
        before: titles, and what stands before in the same paragraph, for words that it refers back to.
        languages: of the texts, beside English.
    """
    said, there, around = (Reading(text, languages) for text in (claim, cited, before))
    if f" {' '.join(said.words)} " in f" {' '.join(there.words)} ":
        return ""  # word for word
    given = {quantity[1:] for quantity in there.quantities}
    if wrong := [raw for raw, *quantity in said.quantities if tuple(quantity) not in given]:
        return f"the number {wrong[0]}"
    known = there.stems | around.stems
    new = [word for word, stem in said.terms.items() if stem not in known and word not in UNITS]
    left = [word for word, stem in there.terms.items() if stem not in said.stems]
    far = find_far(new, left)
    return (
        _compare_marks(said, there, has_opposite=len(far) < len(new))
        or _compare_places(said, there, known)
        or (f"other things ({far[0]})" if len(far) > len(said.terms) * (bool(languages) and NEW_SHARE) else "")
    )


def _compare_marks(said: Reading, there: Reading, *, has_opposite: bool) -> str:
    """Return where a clause says no, or at least, and the clause nearest to it does not."""
    asserted = {stem for clause in there.clauses if "not" not in clause.marks for stem in clause.stems}
    for part in [clause for clause in said.clauses if len(clause.stems & there.stems) > 1] or [said]:
        nearest = max(there.clauses, key=lambda clause: len({*clause.shape} & {*part.shape}), default=there)
        sides = part.marks - {"not"}
        theirs = nearest.marks - {"not"} or there.marks - {"not"}
        if len(sides) == 1 and theirs and not sides & theirs:
            return "at least or at most"
        is_denied = "not" in part.marks
        if ("not" in nearest.marks) != is_denied:
            if not has_opposite:  # `closed` and `not open`
                return "it says no, or the other way round"
        elif not is_denied and (denied := (part.stems & there.stems) - asserted):
            return f"what is denied of {min(denied)}"
    return ""


def _compare_places(said: Reading, there: Reading, known: frozenset[str]) -> str:
    """Return a word of a claim that stands where the cited sentence has another of its words."""
    joined = {pair for pair in pairwise(said.shape) if said.stems.issuperset(pair)} & {*pairwise(there.shape)}
    mine, theirs = _join(said.shape, joined), _join(there.shape, joined)
    words = {stem for stem in (*mine, *theirs) if stem in said.stems | there.stems or "_" in stem}
    pairs = {*pairwise(theirs)}
    full = {pair for pair in pairs if all(stem in words or stem[0].isdecimal() for stem in pair)}
    for left, word, right in zip(mine, mine[1:], mine[2:], strict=False):
        if word not in words:
            continue
        # A word of the text is out of place beside one that says something, a new one between any two.
        given, least = (full, 1) if word in known or "_" in word else (pairs, 2)
        fits = {stem: ((left, stem) in given) + ((stem, right) in given) for stem in words.difference(mine) | {word}}
        if not fits[word] and max(fits.values()) >= least:
            return f"{word} in place of {max(fits, key=lambda stem: (fits[stem], stem))}"
    fit = _count_common(mine, pairs)
    for one, other in combinations(sorted(words.intersection(mine, theirs)), 2):
        exchange = {one: other, other: one}
        better = _count_common([exchange.get(stem, stem) for stem in mine], pairs)
        is_apart = not {(one, other), (other, one)} & {*pairwise(mine)}
        if is_apart and better > fit and 2 * better >= len(mine) - 3:
            return f"{one} and {other} are exchanged"
    return ""


def _count_common(stems: Sequence[str], pairs: Collection[tuple[str, str]]) -> int:
    return sum(pair in pairs and END not in pair for pair in pairwise(stems))


def _join(shape: Sequence[str], joined: Collection[tuple[str, str]]) -> list[str]:
    """Return stems, the neighbors that both texts have as one: `command_line`."""
    found = [shape[0]]
    for pair in pairwise(shape):
        if pair in joined:
            found[-1] += f"_{pair[1]}"
        else:
            found.append(pair[1])
    return found


def find_far(words: Sequence[str], others: Sequence[str]) -> list[str]:
    """Return the words that neither mean nearly what one of the others means, nor are written like it."""
    if not words or not others:
        return list(words)
    vectors = bundled_encoder(EncoderSettings()).encode_documents([*words, *others])
    nearness = (vectors[: len(words)] @ vectors[len(words) :].T).max(axis=1)
    return [
        word
        for word, near in zip(words, nearness, strict=True)
        if near < NEAR and not any(SequenceMatcher(None, word[:40], one[:40]).ratio() >= ALIKE for one in others)
    ]
