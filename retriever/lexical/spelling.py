"""The words of the documents as they are written: which there are, which are near another one, which begin with it.

A typo is mostly one edit away from the word (a letter added, dropped or changed, or two neighbours swapped: four
fifths of all by Damerau, "A technique for computer detection and correction of spelling errors", CACM 1964). Of several
such words the one of the likelier typo is meant, then the one of more sections.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from math import inf
from pathlib import Path
from typing import Self

import numpy as np

from retriever.lexical.postings import Postings, load_postings, merge_postings, save_postings
from retriever.lexical.tokens import plain_words, remove_accents, stem_word

SHORTEST, LONGEST = 4, 40  # letters of a word that may be a typo; below that everything is near something
CHANGED_FROM = 5  # letters of a word that may have one more, one less or another; a shorter one has two of them swapped
SHORTEST_STEM = 5  # letters of a word of which a longer one may be another form

SWAPPED = 0.7  # what swapping two letters weighs against a plain edit: hands do it often


class Spellings:
    """The open vocabulary: read-only, safe to share between threads."""

    def __init__(self, postings: Postings) -> None:
        self._postings = postings

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Map it into memory.

        Raises:
            SnapshotError: a file is missing or damaged.
        """
        return cls(load_postings(folder))

    def holds(self, word: str) -> bool:
        """Return whether a section holds the word (in lower case), with these accents or with others."""
        forms = (word,) if word.isascii() else (word, remove_accents(word))
        return any(self._postings.find(form) is not None for form in forms)

    def look_up(self, words: Iterable[str]) -> None:
        """Prepare to be asked which of these words the documents hold."""

    def resembles(self, term: str) -> bool:
        """Return whether a term of a question may be a typo of one of the words, or another form of one."""
        if not may_be_typo(term):
            return False
        is_form = any(term.startswith(word) for word, _ in self._find(term[:SHORTEST_STEM]))
        return is_form or any(typo_cost(term, other) < inf for other, _ in self._find_near(term))

    def nearest(self, word: str) -> str:
        """Return the word of the documents that was probably meant by one they do not hold.

        Empty if none is near, or one differs in its ending alone, which a search finds.

        Args:
            word: in lower case, without accents.
        """
        if not may_be_typo(word):
            return ""
        stem = stem_word(word, "english")
        begins_alike = (other for other, _ in self._find(stem[:-1]))
        endings = (other for other in begins_alike if _count_alike(word, other) >= min(len(word), len(other)) - 1)
        if stem in (stem_word(other, "english") for other in endings):
            return ""
        costs = ((typo_cost(word, other), -sections, other) for other, sections in self._find_near(word))
        return min((item for item in costs if item[0] < inf), default=(inf, 0, ""))[2]

    def _find_near(self, word: str) -> Iterator[tuple[str, int]]:
        """Return words among which are those that a typo makes this one of, and how many sections hold each."""
        half = (len(word) - 2) // 2  # letters that a typo leaves alone, at the beginning or the end
        return self._find(word[:half], word[-half:], len(word))

    def complete(self, word: str) -> list[str]:
        """Return words of the documents that go on where this one ends, one of each stem, those of most sections first.

        Args:
            word: in lower case, without accents.
        """
        found = sorted((-sections, other) for other, sections in self._find(word) if other != word)
        by_stem: dict[str, str] = {}
        for _, other in found:
            by_stem.setdefault(stem_word(other, "english"), other)
        return list(by_stem.values())

    def _find(self, beginning: str, ending: str = "", letters: int = 0) -> Iterator[tuple[str, int]]:
        """Return the words that begin so, or end so, and how many sections hold each.

        With `letters`, those alone that have as many, give or take one.
        """
        wanted, starts = beginning.encode(), self._postings.term_starts
        numbers = np.arange(self._postings.place(wanted), self._postings.place(wanted + b"\xff"))
        if ending:
            signs = enumerate(reversed(ending.encode()), start=1)
            last = self._postings.vocabulary.take  # clips what is before the first word, which is too short then
            are_there = [last(starts[1:] - place, mode="clip") == sign for place, sign in signs]
            numbers = np.concatenate([numbers, np.flatnonzero(np.all(are_there, axis=0))])
        if letters:
            numbers = numbers[abs(starts[numbers + 1] - starts[numbers] - letters) <= 1]
        return map(self._count_sections, dict.fromkeys(numbers.tolist()))

    def _count_sections(self, number: int) -> tuple[str, int]:
        starts = self._postings.starts.data
        return self._postings.term(number).decode(), starts[number + 1] - starts[number]


def may_be_typo(word: str) -> bool:
    """Return whether a word, in lower case and without accents, is one that typos are looked for in."""
    return SHORTEST <= len(word) <= LONGEST and word.isascii() and word.isalpha()


def build_spellings(
    folder: Path, texts: Mapping[int, str], older: Path | None = None, removed: Collection[int] = ()
) -> None:
    """Make the vocabulary of texts, by node key, in a new folder; out of an older one as `build_lexical` does."""
    save_postings(merge_postings(older, removed, list_words(texts)), folder)


def typo_cost(wrote: str, meant: str) -> float:
    """Return what the typo costs that makes `wrote` of `meant`; infinity where it is none, as in a wrong first letter.

    Hands seldom miss that, and many a word of another language has it in place of a word of the documents.

    >>> typo_cost("pakage", "package"), typo_cost("dyas", "days"), typo_cost("wacation", "vacation")
    (1.0, 0.7, inf)
    """
    if meant[:1] not in wrote[:2]:
        return inf
    first = _count_alike(wrote, meant)
    last = _count_alike(wrote[: first - len(wrote) - 1 : -1], meant[: first - len(meant) - 1 : -1])
    rest, other = wrote[first : len(wrote) - last], meant[first : len(meant) - last]
    edits = max(len(rest), len(other))
    if edits == 2 and rest == other[::-1]:
        return SWAPPED
    return 1.0 if len(wrote) >= CHANGED_FROM and edits <= 1 and wrote[0] == meant[0] else inf


def _count_alike(one: str, other: str) -> int:
    return sum(1 for _ in takewhile(lambda letters: letters[0] == letters[1], zip(one, other, strict=False)))


def list_words(texts: Mapping[int, str]) -> dict[int, Sequence[str]]:
    return {key: sorted(set(plain_words(text))) for key, text in texts.items()}
