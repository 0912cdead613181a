"""Text to the terms that the lexical index counts; documents and questions go the same way.

A word becomes its stem. An identifier becomes itself and its parts, so that `background tasks` finds
`fastapi.BackgroundTasks`. Chinese, Japanese and Korean, written without spaces, become pairs of neighbouring
characters. A word with accents gives itself and its form without them, so that `Besancon` finds `Besançon`, and who
writes the accents finds those who do first. Everything is one pass over the text; what a word becomes is cached,
because text repeats its words.
"""

import re
import threading
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import pairwise
from typing import Protocol

RULES = 2  # rises when `tokenize` gives other terms for some text: an index made by other rules cannot answer

# Characters. A longer term (a key, an encoded picture) is cut, in documents and questions alike: it still matches
# itself, while no single line of a file can swell the vocabulary.
_LONGEST_TERM = 200
_LONGEST_CACHED = 64  # characters: longer words do not come twice, and must not push the others out of memory

# English words that say how a sentence is built, and what is left of them at an apostrophe (`don't`, `it's`). They fill
# people's questions (`how do I ...`) and would lift each section that is written as a conversation. `no`, `not`,
# `without`, `never`, `get` and `use` stay: in technical text they carry meaning (`not found`, a GET request), and BM25
# gives a word of most documents next to no weight anyway.
STOP_WORDS = frozenset(
    """
about above after again all also am an and any are as at a be because been before being below between both but by
can could did do does doing down during each few for from further had has have having he her here hers him his
how i if in into is it its itself just let like may me might more most must my of off on once only or other our
ours out over own please same shall she should so some such than that the their them then there these they this
those through to too under until up us very was we were what when where which while who whom whose why will with
would you your yours yourself
aren couldn d didn doesn don e.g hadn hasn haven i.e isn ll m re s shouldn t ve wasn weren won wouldn
""".split()  # noqa: SIM905 - a list of them would take 130 lines
)

# A word, or words joined by `.`, `-` or `_`. No two parts of it can match one character, so it is linear. Beyond ASCII
# it is used after `_SIEVE`, which leaves nothing there but letters, digits and marks.
_WORD = re.compile(r"[\w\x80-\U0010ffff]+(?:[.-][\w\x80-\U0010ffff]+)*")

_SUBWORD = re.compile(r"[^._-]+")

# A part of a camelCase identifier, read from the classes of its characters (`_classify_character`).
_HUMP = re.compile(
    r"""(?P<cjk>C+)             # 你好
      | U{2,}s(?![ls])D*        # URLs
      | (?P<glued>UU[ls]+D*)    # OAuth2, of which Auth2 is a part as well
      | U+(?![ls])D*            # HTTP in HTTPServer
      | U?[ls]+D*               # a word
      | D+""",
    re.VERBOSE,
)


class _Sieve(dict[int, int | str | None]):
    """For `str.translate`: letters, digits and marks stay, invisible characters go, everything else is a space."""

    def __missing__(self, code: int) -> int | str | None:
        character = chr(code)
        category = unicodedata.category(character)
        kept: int | str | None = " "
        if code < 0x80 or category[0] in "LMN":
            kept = code
        elif category == "Cf" and character != "\u200b":  # soft hyphen, joiners; a zero-width space does end a word
            kept = None
        self[code] = kept
        return kept


_SIEVE = _Sieve()


def tokenize(text: str) -> list[str]:
    """The terms of a text, in its order, repeats included; empty when it holds stop words and punctuation alone.

    A word gives itself first, then its parts from left to right, each once:

    >>> tokenize("Use BackgroundTasks")
    ['use', 'backgroundtask', 'background', 'task']
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text).translate(_SIEVE)
    terms: list[str] = []
    for word in _WORD.findall(text):
        terms.extend(_cached_terms(word) if len(word) <= _LONGEST_CACHED else _terms(word))
    return terms


def stems(text: str) -> list[str]:
    """The stems of the smallest parts of a text's words, without accents and stop words.

    >>> stems("What are BackgroundTasks?")
    ['background', 'task']
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text).translate(_SIEVE)
    found = []
    for subword in _SUBWORD.findall(" ".join(_WORD.findall(text)).replace(" ", "-")):
        for hump in _HUMP.finditer("".join(map(_classify_character, subword))):
            term = remove_accents(_fold(subword[hump.start() : hump.end()]))
            if term not in STOP_WORDS:
                found.append(_stem(term))
    return found


def plain_words(text: str) -> Iterator[str]:
    """The words of a text that are letters alone, in lower case; of a word with accents its form without them too."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text).translate(_SIEVE)
    for word in set(_SUBWORD.findall(" ".join(_WORD.findall(text)).replace(" ", "-"))):
        if word.isalpha() and 4 <= len(word) <= 40 and not _is_cjk(word[0]):
            folded = _fold(word)
            yield folded
            if not folded.isascii():
                yield remove_accents(folded)


_LETTERS_WITHOUT_MARKS = str.maketrans(
    {"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "\u0131": "i"}
)


def remove_accents(word: str) -> str:
    """A Latin word in lower case without its accents; any other word as it is."""
    if word.isascii():
        return word
    apart = unicodedata.normalize("NFKD", word).translate(_LETTERS_WITHOUT_MARKS)
    plain = "".join(letter for letter in apart if not unicodedata.combining(letter))
    return plain if plain.isascii() else word


def count_words(text: str) -> int:
    """Words as people count them; in a script without spaces, two characters count as one."""
    return max(len(text.split()), sum(map(_is_cjk, text)) // 2)


def _terms(word: str) -> tuple[str, ...]:
    whole = word.strip("._-")
    if _fold(whole) in STOP_WORDS:
        return ()
    candidates = [] if any(_is_cjk(character) for character in whole) else [whole]
    for subword in _SUBWORD.findall(whole):
        candidates.extend(_parts(subword))
    folded = [_fold(candidate) for candidate in candidates]
    plain = [] if word.isascii() else [remove_accents(term) for term in folded]
    terms = (term for term in (*folded, *plain) if term and term not in STOP_WORDS)
    return tuple(dict.fromkeys(map(_stem, terms)))


# As many words as a large set of documents uses often; about 10 MB when full.
_cached_terms = lru_cache(maxsize=65_536)(_terms)


def _parts(subword: str) -> Iterator[str]:
    """The subword and its humps: `OAuth2Bearer` gives itself, `OAuth2`, `OAuth`, `2`, `Auth2`, `Auth` and `Bearer`."""
    classes = "".join(map(_classify_character, subword))
    if "C" not in classes:
        yield subword
    for hump in _HUMP.finditer(classes):
        text = subword[hump.start() : hump.end()]
        if hump.lastgroup == "cjk":
            yield from map("".join, pairwise(text)) if len(text) > 1 else (text,)  # pairs of neighbouring characters
            continue
        letters = len(hump[0].rstrip("D"))
        yield from (text, text[:letters], text[letters:])
        if hump.lastgroup == "glued":
            yield from (text[1:], text[1:letters])


@cache
def _classify_character(character: str) -> str:
    """U upper case, s the letter s, l any other letter or mark, D digit, C a character of an unspaced script."""
    if _is_cjk(character):
        return "C"
    if character.isupper() or character.istitle():
        return "U"
    if character.isnumeric():
        return "D"
    return "s" if character == "s" else "l"


_CJK_RANGES = (
    (0x1100, 0x11FF),  # Hangul letters
    (0x3005, 0x3007),  # the ideographic repetition mark, zero
    (0x3040, 0x30FF),  # Hiragana, Katakana
    (0x3100, 0x312F),  # Bopomofo
    (0x31F0, 0x31FF),  # small Katakana
    (0x3400, 0x4DBF),  # Han, extension A
    (0x4E00, 0x9FFF),  # Han
    (0xAC00, 0xD7A3),  # Hangul syllables
    (0xF900, 0xFAFF),  # Han, compatibility
    (0x20000, 0x323AF),  # Han, extensions B to H
)


def _is_cjk(character: str) -> bool:
    code = ord(character)
    return code >= 0x1100 and any(first <= code <= last for first, last in _CJK_RANGES)


def _fold(word: str) -> str:
    lowered = word.lower() if word.isascii() else unicodedata.normalize("NFKC", word.casefold())
    return lowered[:_LONGEST_TERM]


_stemming = threading.Lock()  # a stemmer keeps the word it works on in itself


def _stem(term: str) -> str:
    """The Snowball (Porter 2) stem of a word; a term that holds anything but ASCII letters is a name, kept as it is."""
    if not (term.isascii() and term.isalpha()):
        return term
    with _stemming:
        return _stemmer().stemWord(term)


@cache
def _stemmer() -> "_Stemmer":
    # The class itself: snowballstemmer.stemmer() gives whatever other version a compiled PyStemmer brings.
    from snowballstemmer.english_stemmer import EnglishStemmer  # type: ignore[import-untyped]  # ships no types

    stemmer: _Stemmer = EnglishStemmer()
    return stemmer


class _Stemmer(Protocol):
    def stemWord(self, word: str) -> str:
        """The stem of a lower-case word."""
