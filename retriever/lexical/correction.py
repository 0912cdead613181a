"""A question as it is meant: its typos corrected, while typing its last word completed.

A word that any section holds is never taken for a typo, in whichever form, and neither is a common word of the language
of the question or of the documents; of any language where nothing says which.

The common words of a language are its most frequent ones, without accents. `scripts/make_common_words.py` takes them
from wordfreq; common/LICENSE has the terms of that data.
"""

import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path

from retriever.embedding import is_english_word
from retriever.lexical.languages import detect_question
from retriever.lexical.spelling import LONGEST, SHORTEST, Spellings
from retriever.lexical.tokens import remove_accents, tokenize
from retriever.query import Correction

SHORTEST_PREFIX = 3  # letters of a half-typed word
MOST_COMPLETED = 3  # words that it may be the beginning of
MOST_UNKNOWN = 20  # words that are looked for among others: a pasted page may have a thousand
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
            as it is written. An English word is one as well: a question for a `padlock` means no `paddock`.
        spellings: of the documents.
        documents: their languages, beside English.
        is_typing: whether its last word is completed.
    """
    parts = question.split(" ")
    words = [part.strip(_AROUND) for part in parts]
    spellings.look_up(form for word in words for form in (word.lower(), remove_accents(word.lower())))
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
    is_quoted, unknown = False, 0
    for place, word in enumerate(words):
        was_quoted, is_quoted = is_quoted, is_quoted ^ bool(parts[place].count('"') % 2)
        # Digits, signs and capitals inside a word say that it is a name, which no dictionary corrects.
        if was_quoted or not word.isalpha() or len(word) > LONGEST or any(map(str.isupper, word[1:])):
            continue
        if spellings.holds(word.lower()):
            continue
        unknown += 1
        if unknown > MOST_UNKNOWN:
            break
        if meant := _find_meant(word.lower(), spellings, documents, question):
            parts[place] = parts[place].replace(word, meant)
            corrections.append(Correction(word, meant))
            half_typed = ""  # then names are looked for as corrected
    return CorrectedQuestion(" ".join(parts), tuple(corrections), half_typed)


def _find_meant(lower: str, spellings: Spellings, documents: Sequence[str], question: str) -> str:
    """Return the word of the documents that a word in lower case is a typo of; empty where it is none."""
    word = remove_accents(lower)
    if len(word) < SHORTEST:
        return ""
    # Of the question, all where nothing says which, and of the documents.
    languages = {*detect_question(question, LISTED), *documents}.intersection(LISTED)
    # A search of the text takes .1 ms; a set of its words would take 5 ms to make, and 3 MB.
    is_word = is_english_word(word) or any(f"\n{word}\n" in _read_common(name) for name in languages)
    # A word with accents is none of documents in English.
    if is_word or not (lower.isascii() or documents):
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
