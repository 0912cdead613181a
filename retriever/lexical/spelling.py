"""The words of the documents as they are written, and by them a question without typos, its last word completed.

A typo is mostly one edit away from the word (a letter added, dropped or changed, or two neighbours swapped: four
fifths of all by Damerau, "A technique for computer detection and correction of spelling errors", CACM 1964). Of several
such words the one of the likelier typo is meant, then the one of more sections.

A word that any section holds is never taken for a typo, in whichever form, and neither is a common word of the language
of the question or of the documents; of any language where nothing says which.

The common words of a language are its most frequent ones, without accents. `scripts/make_common_words.py` takes them
from wordfreq; common/LICENSE has the terms of that data.
"""

import gzip
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path
from string import ascii_lowercase

from retriever.embedding.encoder import is_english_word
from retriever.lexical.languages import detect_question
from retriever.lexical.tokens import plain_words, remove_accents, stem_word, tokenize
from retriever.query import Correction
from retriever.store.database import Connection
from retriever.store.reading import GIVEN, select
from retriever.store.writing import NODE_BITS, insert

SHORTEST, LONGEST = 4, 40  # letters of a word that may be a typo; below that everything is near something
CHANGED_FROM = 5  # letters of a word that may have one more, one less or another; a shorter one has two of them swapped
SHORTEST_STEM = 5  # letters of a word of which a longer one may be another form

SWAPPED = 0.7  # what swapping two letters weighs against a plain edit: hands do it often


class Spellings:
    """The words of the documents of one state, inside a transaction of that."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def holds(self, word: str) -> bool:
        """Return whether a section holds the word (in lower case), with these accents or with others."""
        return bool(self._order((word, remove_accents(word))))

    def resembles(self, term: str) -> bool:
        """Return whether a term of a question may be a typo of one of the words, or another form of one."""
        forms = (term[:letters] for letters in range(SHORTEST_STEM, len(term)))
        return may_be_typo(term) and bool(self._order((term, *forms, *list_meant(term))))

    def nearest(self, word: str) -> str:
        """Return the word of the documents that was probably meant by one they do not hold.

        Empty if none is near, or one differs in its ending alone, which a search finds.

        Args:
            word: one that may be a typo.
        """
        stem = stem_word(word, "english")
        for other in self._begin_with(stem[:-1]):
            alike = min(len(word), len(other)) - 1
            if word[:alike] == other[:alike] and stem_word(other, "english") == stem:
                return ""
        costs = list_meant(word)
        return min(self._order(costs), key=costs.__getitem__, default="")

    def writes_small(self, word: str) -> bool:
        """Return whether a text has the word between blanks as it is here, in lower case: then it is no name."""
        # `replace` heeds case in every database.
        query = (
            "SELECT 1 FROM nodes JOIN words USING (document_key)"
            " WHERE word = ? AND replace(text, ?, '') <> text LIMIT 1"
        )
        return bool(self._connection.execute(query, (word, f" {word} ")).fetchone())

    def complete(self, word: str) -> list[str]:
        """Return words of the documents that go on where this one ends, one of each stem, those of most sections first.

        Args:
            word: in lower case, without accents.
        """
        by_stem: dict[str, str] = {}
        for other in self._begin_with(word):
            if other != word:
                by_stem.setdefault(stem_word(other, "english"), other)
        return list(by_stem.values())

    def _order(self, words: Iterable[str]) -> list[str]:
        """Return words of the documents, those of most sections first."""
        query = f"SELECT word FROM words WHERE word {GIVEN} GROUP BY word ORDER BY sum(sections) DESC, word"
        return [word for (word,) in select(self._connection, query, words)]

    def _begin_with(self, letters: str) -> list[str]:
        """Return the words of the documents that begin so, those of most sections first."""
        query = "SELECT word FROM words WHERE word >= ? AND word < ? GROUP BY word ORDER BY sum(sections) DESC, word"
        return [word for (word,) in self._connection.execute(query, (letters, f"{letters}\U0010ffff"))]


def may_be_typo(word: str) -> bool:
    """Return whether a word, in lower case and without accents, is one that typos are looked for in."""
    return SHORTEST <= len(word) <= LONGEST and word.isascii() and word.isalpha()


def list_meant(wrote: str) -> dict[str, float]:
    """Return what may have been meant by a word that is one typo away, with what each of these typos weighs.

    No first letter is wrong: hands seldom miss it, and many a word of another language has another one in place of that
    of a word of the documents.

    >>> meant = list_meant("dayys")
    >>> meant["days"], meant["dayyes"], meant["dyays"], "ways" in meant
    (1.0, 1.0, 0.7, False)
    """
    meant = {}
    for place in range(1, len(wrote) + 1) if len(wrote) >= CHANGED_FROM else ():
        for letter in ("", *ascii_lowercase):
            meant[wrote[:place] + letter + wrote[place:]] = 1.0
            meant[wrote[:place] + letter + wrote[place + 1 :]] = 1.0
    for place in range(1, len(wrote)):
        meant[wrote[: place - 1] + wrote[place] + wrote[place - 1] + wrote[place + 1 :]] = SWAPPED
    return meant


def write_words(connection: Connection, texts: Mapping[int, str]) -> None:
    """Write the words of new documents; `texts` are those of all their sections, by keys."""
    sections = Counter((word, key >> NODE_BITS) for key, text in texts.items() for word in plain_words(text))
    rows = ((*place, sections[place]) for place in sorted(sections))
    insert(connection, "words", "word, document_key, sections", rows)


# Questions.

SHORTEST_PREFIX = 3  # letters of a half-typed word
MOST_COMPLETED = 3  # words that it may be the beginning of
MOST_CORRECTED = 60  # words of a question, the first ones: a pasted page may have a thousand
TYPED_WORDS = 3  # of a question whose last word may be half typed: a longer one is written, not typed to find a page

_AROUND = "?!.,:;()'\u2019¿¡«»„“”…"  # what may stand about a word


@dataclass(frozen=True)
class CorrectedQuestion:
    """A question as it is searched for."""

    text: str = ""
    corrections: tuple[Correction, ...] = ()
    half_typed: str = ""
    """A short question as it was typed, if its last word may be the beginning of another one."""


def correct(
    question: str,
    spellings: Spellings,
    documents: tuple[str, ...] = (),
    *,
    is_typing: bool = False,
) -> CorrectedQuestion:
    """Return the question with its typos corrected; all else in it stays as it is.

    Args:
        question: what stands in double quotes in it, is written in capitals inside a word, or holds a digit, is meant
            as it is written. An English word is one as well: a question for a `padlock` means no `paddock`. A word
            with a capital behind the first one is a name, and a typo of names alone.
        spellings: of the documents.
        documents: their languages, beside English.
        is_typing: whether its last word is completed.
    """
    parts = question.split(" ")
    words = [part.strip(_AROUND) for part in parts]
    corrections, half_typed = [], ""
    if is_typing and len(parts) <= TYPED_WORDS and words[-1]:
        # The letters at the end: of `--froz` as well, which stays.
        begun = "".join(takewhile(str.isalpha, reversed(words[-1])))[::-1].lower()
        longer = spellings.complete(remove_accents(begun))[:MOST_COMPLETED] if len(begun) >= SHORTEST_PREFIX else []
        half_typed = question
        if longer:
            stays = begun != words[-1].lower() or spellings.holds(begun) or is_english_word(begun)
            corrections += [] if stays else [Correction(words[-1], ", ".join(longer))]
            parts[-1] = " ".join([parts[-1], *longer] if stays else longer)
            words[-1] = ""
    is_quoted = False
    for place, word in enumerate(words[:MOST_CORRECTED]):
        was_quoted, is_quoted = is_quoted, is_quoted ^ bool(parts[place].count('"') % 2)
        # Digits, signs and capitals inside a word say that it is a name, which no dictionary corrects.
        is_written = was_quoted or any(map(str.isupper, word[1:]))
        meant = "" if is_written else _find_meant(word.lower(), spellings, documents, question)
        # A typo does not turn a name into an ordinary word: a question about Latour is not about labour.
        is_name = place > 0 and word[:1].isupper()
        if meant and not (is_name and spellings.writes_small(meant)):
            parts[place] = parts[place].replace(word, meant)
            corrections.append(Correction(word, meant))
            half_typed = ""  # then names are looked for as corrected
    return CorrectedQuestion(" ".join(parts), tuple(corrections), half_typed)


def _find_meant(lower: str, spellings: Spellings, documents: Sequence[str], question: str) -> str:
    """Return the word of the documents that a word in lower case is a typo of; empty where it is not a typo."""
    word = remove_accents(lower)
    if not may_be_typo(word) or is_english_word(word) or spellings.holds(lower):
        return ""
    # Of the question, all where nothing says which, and of the documents.
    languages = {*detect_question(question, LISTED), *documents}.intersection(LISTED)
    # A search of the text takes .1 ms; a set of its words would take 5 ms to make, and 3 MB.
    is_common = any(f"\n{word}\n" in _read_common(name) for name in languages)
    # Documents in English have no words with accents.
    if is_common or not (lower.isascii() or documents):
        return ""
    meant = spellings.nearest(word)
    # Another form of it, as `bearbeite` of `bearbeiten`, is searched for alike; English stems join other words, too.
    forms = [set(tokenize(text, (*documents,))) for text in (word, meant)]
    return meant if not documents or forms[0].isdisjoint(forms[1]) else ""


COMMON = Path(__file__).parent / "common"
LISTED = ("german", "french", "spanish", "portuguese", "italian", "dutch", "swedish", "danish", "norwegian")


@cache
def _read_common(language: str) -> str:
    """Return the common words of a language, each on a line; the first line is empty."""
    return gzip.decompress((COMMON / f"{language}.txt.gz").read_bytes()).decode("ascii")
