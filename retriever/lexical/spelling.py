"""The words of the documents as they are written: which there are, which are near another one, which begin with it.

A typo is mostly one edit away from the word (a letter added, dropped or changed, or two neighbours swapped: four
fifths of all by Damerau, "A technique for computer detection and correction of spelling errors", CACM 1964), or two in
a longer word. Of several such words the one of the likelier typo is meant, then the one of more sections.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from math import inf
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from retriever.lexical.postings import (
    Postings,
    load_column,
    load_postings,
    merge_postings,
    save_column,
    save_postings,
)
from retriever.lexical.tokens import plain_words, remove_accents, stem_word

SHORTEST, LONGEST = 4, 40  # letters of a word that may be a typo; below that everything is near something
CHANGED_FROM = 5  # letters of a word that may have one more, one less or another; a shorter one has two of them swapped
SHORTEST_STEM = 5  # letters of a word of which a longer one may be another form
TWO_EDITS_FROM = 10  # letters of a word that may be two edits away
MOST_COMPARED = 2_000  # words of one length and nearly the same letters: more are in no vocabulary that was seen

# What an edit of a kind weighs against a plain one: hands often swap two letters, and seldom miss the first one.
SWAPPED, FIRST_LETTER = 0.7, 1.4


class Spellings:
    """The open vocabulary: read-only, safe to share between threads."""

    def __init__(self, postings: Postings, letters: npt.NDArray[np.uint64]) -> None:
        self._postings = postings
        self._letters = letters

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Map it into memory.

        Raises:
            SnapshotError: a file is missing or damaged.
        """
        return cls(load_postings(folder), load_column(folder, "letters", np.uint64))

    def holds(self, word: str) -> bool:
        """Return whether a section holds the word (in lower case), with these accents or with others."""
        return self._postings.find(word) is not None or self._postings.find(remove_accents(word)) is not None

    def resembles(self, term: str) -> bool:
        """Return whether a term of a question may be a typo of one of the words, or another form of one."""
        if len(term) < SHORTEST_STEM or not may_be_typo(term):
            return False
        beginnings = [term[:length] for length in range(SHORTEST_STEM, len(term) + 1)]
        self.look_up(beginnings)
        return any(map(self.holds, beginnings)) or self.nearest(term) is not None

    def look_up(self, words: Iterable[str]) -> None:
        """Prepare to be asked which of these words the documents hold."""

    def nearest(self, word: str, most: float = inf) -> str | None:
        """Return the word of the documents that was probably meant by one they do not hold; None if none is near.

        Args:
            word: in lower case, without accents.
            most: what the typo may cost.
        """
        if not may_be_typo(word):
            return None
        edits = count_edits(word)
        best: tuple[float, int, str] | None = None
        for other, sections in self._find_alike(word):
            if len(word) < CHANGED_FROM and sorted(word) != sorted(other):
                continue
            cost = typo_cost(word, other, edits)
            if cost is not None and cost <= most:
                found = (cost, -sections, other)
                best = found if best is None else min(best, found)
        return best[2] if best else None

    def complete(self, word: str, *, as_part: bool = False, is_whole: bool = True) -> list[str]:
        """Return words of the documents that begin with this one, one of each stem, those of most sections first.

        Its own forms (`packages` of `package`) are left out: a search finds them. A bare stem is half typed: `evalu`.

        Args:
            word: in lower case, without accents.
            as_part: whether words that end with it, as compounds do, are returned as well.
            is_whole: whether it may be a word itself: words of one more letter, and of fewer sections than hold it, are
                left out as well.
        """
        longer = self._find_longer(word, as_part and len(word) >= SHORTEST)
        found = [other for _, other in sorted((-sections, other) for other, sections in longer)]
        stem = stem_word(word, "english")
        by_stem = {stem: ""} if is_whole or stem != word else {}
        for other in takewhile(lambda other: other != word, found) if is_whole else found:
            if len(other) > len(word) + is_whole:
                by_stem.setdefault(stem_word(other, "english"), other)
        return [*filter(None, by_stem.values())]

    def split(self, word: str) -> list[str]:
        """Return the two words of the documents that a compound is made of: `telefon` and `nummer`; else none."""
        for cut in range(len(word) - SHORTEST, SHORTEST - 1, -1):
            head, tail = word[:cut], word[cut:]
            for first in (head, head.removesuffix("s")):
                if len(first) >= SHORTEST and self.holds(first):
                    return [first, *([tail] if self.holds(tail) else [])]
        return []

    def _find_longer(self, word: str, as_part: bool) -> Iterator[tuple[str, int]]:
        """Return the words that begin with this one, or end with it, and how many sections hold each."""
        wanted, starts = word.encode(), self._postings.term_starts
        numbers = [*range(self._postings.place(wanted), self._postings.place(wanted + b"\xff"))]
        if as_part:
            vocabulary = self._postings.vocabulary.tobytes()
            ends = (found.end() for found in re.finditer(wanted, vocabulary))
            numbers += [number - 1 for end in ends if int(starts[number := int(np.searchsorted(starts, end))]) == end]
        return map(self._count_sections, dict.fromkeys(numbers))

    def _find_alike(self, word: str) -> Iterator[tuple[str, int]]:
        """Return words of nearly the same length and letters, and how many sections hold each."""
        edits = count_edits(word)
        sizes = np.diff(self._postings.term_starts)
        own = letters_of(word.encode())
        # An edit changes at most two of the counted letters: few words are left to be compared one by one.
        alike = (np.abs(sizes - len(word)) <= edits) & (np.bitwise_count(self._letters ^ own) <= 2 * edits)
        return map(self._count_sections, np.flatnonzero(alike)[:MOST_COMPARED].tolist())

    def _count_sections(self, number: int) -> tuple[str, int]:
        starts = self._postings.starts
        return self._postings.term(number).decode(), int(starts[number + 1] - starts[number])


def may_be_typo(word: str) -> bool:
    """Return whether a word, in lower case and without accents, is one that typos are looked for in."""
    return SHORTEST <= len(word) <= LONGEST and word.isascii() and word.isalpha()


def count_edits(word: str) -> int:
    """Return how many edits away a word may be that was meant by this one."""
    return 1 if len(word) < TWO_EDITS_FROM else 2


def build_spellings(
    folder: Path, texts: Mapping[int, str], older: Path | None = None, removed: Collection[int] = ()
) -> None:
    """Make the vocabulary of texts, by node key, in a new folder; out of an older one as `build_lexical` does."""
    postings = merge_postings(older, removed, list_words(texts))
    save_postings(postings, folder)
    save_column(folder, "letters", np.fromiter(map(letters_of, postings.terms()), np.uint64))


def typo_cost(wrote: str, meant: str, most: float) -> float | None:
    """Return what it takes to make `meant` of `wrote`; None where that is above `most`.

    Optimal string alignment with weights; a plain edit weighs 1.
    """
    if abs(len(wrote) - len(meant)) > most:
        return None
    before: list[float] = []
    row = [float(place) for place in range(len(meant) + 1)]
    for at, letter in enumerate(wrote, start=1):
        above, row, before_above = row, [float(at)], before
        for to, there in enumerate(meant, start=1):
            best = min(above[to - 1] + (letter != there), above[to] + 1.0, row[-1] + 1.0)
            if at > 1 and to > 1 and letter == meant[to - 2] and wrote[at - 2] == there:
                best = min(best, before_above[to - 2] + SWAPPED)
            row.append(best)
        before = above
    return None if row[-1] > most else row[-1] * (FIRST_LETTER if wrote[0] != meant[0] else 1.0)


def letters_of(word: bytes) -> np.uint64:
    """Return two bits for each letter a to z: that the word has it, and that it has it twice; others have none."""
    bits = 0
    for letter in word:
        place = 2 * (letter - 97)
        if 0 <= place < 52:
            bits |= 2 << place if bits >> place & 1 else 1 << place
    return np.uint64(bits)


def list_words(texts: Mapping[int, str]) -> dict[int, Sequence[str]]:
    return {key: sorted(set(plain_words(text))) for key, text in texts.items()}
