"""Cut a text into the terms that the lexical index counts; documents and questions go the same way.

A word becomes its English stem, and in a document of another language the stem of that language beside it: English
words and identifiers stand in all of them. An identifier becomes itself and its parts, so that `background tasks` finds
`fastapi.BackgroundTasks`. A word with accents gives itself and its form without them: `Besancon` finds `Besançon`, and
`Besançon` finds the same spelling first.

Scripts that put no spaces between words are cut into pairs of neighbors: of characters in Chinese, Japanese and Korean,
of syllables in Thai, Lao, Khmer and Burmese. Chinese and Japanese documents give single Han characters as well.

Everything is one pass over the text; what a word becomes is cached, because texts repeat their words.
"""

import re
import threading
import unicodedata
from bisect import bisect
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import groupby, pairwise

from Stemmer import Stemmer

from retriever.lexical.languages import SINGLED, STEMMED, STOP_WORDS

# Characters. A longer term (a key, an encoded picture) is cut, in documents and questions alike: it still matches
# itself, while no single line of a file can swell the vocabulary.
_LONGEST_TERM = 200
LONGEST_SIGNS = 3  # of an operator of one sign, `===`: more are a rule

# A word, or words joined by `.`, `-` or `_`, `C++` and `C#`; or signs that stand by themselves: `&&`. No two parts of
# it can match one character, so it is linear. Beyond ASCII it is used after `_SIEVE`, which leaves nothing there but
# letters, digits, marks and emoji. `[\w\x80-\U0010ffff]`, written as what it is not: Python takes 6 ms to compile a
# large range.
_WORD = re.compile(
    r"[^\x00-/:-@\[-^`{-\x7f]+(?:[.-][^\x00-/:-@\[-^`{-\x7f]+)*(?:\+\+|#(?!\w))?"
    r"|(?<![^\s`\"'(])[!#-&*+,./:-@\\^|~-]{2,}(?![^\s`\"')])"
)

_SUBWORD = re.compile(r"[^ ._-]+")

# A part of a camelCase identifier, read from the classes of its characters (`_classify_character`).
_HUMP = re.compile(
    r"""(?P<characters>C+)      # 你好
      | (?P<syllables>T+)       # สวัสดี
      | U{2,}s(?![ls])D*        # URLs
      | (?P<glued>UU[ls]+D*)    # OAuth2, of which Auth2 is a part as well
      | U+(?![ls])D*            # HTTP in HTTPServer
      | U?[ls]+D*               # a word
      | D+""",
    re.VERBOSE,
)


class _Sieve(dict[int, int | str | None]):
    """For `str.translate`: letters, digits, marks and emoji stay, the latter apart; invisible characters go.

    Everything else is a space.
    """

    def __missing__(self, code: int) -> int | str | None:
        character = chr(code)
        category = unicodedata.category(character)
        kept: int | str | None = " "
        if character in "\ufe0e\ufe0f" or (category == "Cf" and character != "\u200b"):
            kept = None  # how an emoji is drawn, soft hyphen, joiners; a zero-width space does end a word
        elif code < 0x80 or category[0] in "LMN":
            kept = code
        elif category == "So" and code >= 0x2600:  # before them, what frames are drawn with
            kept = f" {character} "
        self[code] = kept
        return kept


_SIEVE = _Sieve()


def tokenize(text: str, languages: tuple[str, ...] = ()) -> list[str]:
    """Return the terms of a text, in its order, repeats included; empty when it holds stop words and punctuation alone.

    A word gives itself first, then its parts from left to right, each once:

    >>> tokenize("Use BackgroundTasks")
    ['use', 'backgroundtask', 'background', 'task']

    Args:
        text: of a document or a question.
        languages: beside English, in which it is read, of `languages.LANGUAGES`: each adds its stems and stop words,
            or single characters.
    """
    return [term for word in _split(text) for term in _terms(word, languages)]


@lru_cache(maxsize=4096)  # the units of the sections of one question, which several stages look at
def tokenize_unit(text: str, languages: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Do as `tokenize` for a short text that is asked for again."""
    return tuple(tokenize(text, languages))


def _split(text: str) -> list[str]:
    """Return the words of a text, with what joins their parts."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text).translate(_SIEVE)
    return _WORD.findall(text)


@lru_cache(maxsize=65_536)  # as many words as a large set of documents uses often; about 10 MB when full
def _terms(word: str, languages: tuple[str, ...]) -> tuple[str, ...]:
    stemmed = [name for name in languages if name in STEMMED]
    stop_words = [STOP_WORDS[name] for name in ("english", *stemmed)]
    whole = word.strip("._-")
    if not any(map(str.isalnum, whole)):
        signs = _fold(word)
        # Neither `##` nor a rule; without those that end a sentence as well.
        if len(set(signs)) == 1 and signs.isascii() and (signs[0] in "#.-_" or len(signs) > LONGEST_SIGNS):
            return ()
        return tuple(dict.fromkeys(own for own in (signs, signs.rstrip("?!.,;:")) if len(own) > 1 or not own.isascii()))
    if any(_fold(whole) in words for words in stop_words):
        return ()
    candidates: list[str] = []
    for run in split_scripts(whole):
        candidates += [] if is_unspaced(run[0]) else [run, *_join_hyphened(run)]
        for subword in _SUBWORD.findall(run.rstrip("+#")):
            candidates.extend(_parts(subword, singled=any(name in SINGLED for name in languages)))
    folded = [_fold(candidate) for candidate in candidates]
    plain = [] if word.isascii() else [remove_accents(term) for term in folded]
    terms = [term for term in (*folded, *plain) if term and not any(term in words for words in stop_words)]
    stems = [*map(_stem, terms)]
    for name in stemmed:
        own = [stem_word(term, name) for term in terms if term in folded and term.isalpha()]
        stems += [*own, *map(remove_accents, own)]
    return tuple(dict.fromkeys(stems))


def split_scripts(word: str) -> list[str]:
    """Return a word in runs of scripts that put spaces between words, and of others: `用`, `GitHub`, `管理`."""
    if word.isascii():
        return [word]
    return ["".join(run) for _, run in groupby(word, is_unspaced)]


def _join_hyphened(word: str) -> list[str]:
    """Return `plugin` of `plug-in`: many people write such words as one."""
    first, _, last = word.partition("-")
    return [first + last] if first.isalpha() and last.isalpha() else []


def _parts(subword: str, *, singled: bool) -> Iterator[str]:
    """Yield a subword and its humps: of `OAuth2Bearer` itself, `OAuth2`, `OAuth`, `2`, `Auth2`, `Auth` and `Bearer`."""
    classes = "".join(map(_classify_character, subword))
    if "C" not in classes and "T" not in classes:
        yield subword
    for hump in _HUMP.finditer(classes):
        text = subword[hump.start() : hump.end()]
        if hump.lastgroup in ("characters", "syllables"):
            units = text if hump.lastgroup == "characters" else _SYLLABLE.findall(text)
            yield from map("".join, pairwise(units)) if len(units) > 1 else (text,)
            if singled and len(units) > 1:  # each Han character is a word as well, or a part of several
                yield from re.findall(_HAN, text)
            continue
        letters = len(hump[0].rstrip("D"))
        yield from (text, text[:letters], text[letters:])
        if hump.lastgroup == "glued":
            yield from (text[1:], text[1:letters])


@cache
def _classify_character(character: str) -> str:
    """Return U (upper case), s (the letter s), l (other letters and marks), D (digit), C or T (unspaced scripts)."""
    if is_unspaced(character):
        return "T" if character < "\u1800" else "C"
    if character.isupper() or character.istitle():
        return "U"
    if character.isnumeric():
        return "D"
    return "s" if character == "s" else "l"


# The first character of each script and the first behind it, in turn.
_UNSPACED = (
    "\u0e01\u0e4f"  # Thai
    "\u0e81\u0ecf"  # Lao
    "\u1000\u1040"  # Burmese
    "\u1780\u17d4"  # Khmer
    "\u3005\u3008"  # the ideographic repetition mark, zero
    "\u3040\u3130"  # Hiragana, Katakana, Bopomofo
    "\u31f0\u3200"  # small Katakana
    "\u3400\ua000"  # Han
    "\uac00\ud7a4"  # Hangul syllables
    "\uf900\ufb00"  # Han, compatibility
    "\U00020000\U000323b0"  # Han, extensions B to H
)
_HAN = "[\u3400-\u9fff\uf900-\ufaff\U00020000-\U000323af]"  # compiled where it is used: 3 ms

# About a syllable: a vowel that is written first, a consonant with what is stacked below it, the vowels that follow it.
_SYLLABLE = re.compile(
    "[\u0e40-\u0e44\u0ec0-\u0ec4]?[^\u0e40-\u0e44\u0ec0-\u0ec4](?:[\u17d2\u1039].|"
    "[\u0e30-\u0e3a\u0e45\u0e47-\u0e4e\u0eb0-\u0ebc\u0ec8-\u0ece\u102b-\u103e\u17b6-\u17d1])*|."
)


def is_unspaced(character: str) -> bool:
    """Return whether it belongs to a script that puts no space between words."""
    return bisect(_UNSPACED, character) % 2 == 1


# Case, accents, endings.


def _fold(word: str) -> str:
    lowered = word.lower() if word.isascii() else unicodedata.normalize("NFKC", word.casefold())
    return lowered[:_LONGEST_TERM]


_LETTERS_WITHOUT_MARKS = str.maketrans({"ß": "ss", "æ": "ae", "œ": "oe", "þ": "th"}) | str.maketrans(
    "øłđð\u0131\u0901",
    "olddi\u0902",  # candrabindu, which many write as anusvara
    "\u0640",  # which draws an Arabic word longer
)
_VIRAMA = 9  # the combining class of what joins consonants in Indic scripts: no accent


def remove_accents(word: str) -> str:
    """Return a word in lower case without its accents, points and vowel marks, in any script with spaces.

    >>> remove_accents("été"), remove_accents("λόγος"), remove_accents("мёд чай"), remove_accents("שָׁלוֹם")
    ('ete', 'λογος', 'мед чай', 'שלום')
    """
    if word.isascii() or is_unspaced(word[0]):
        return word
    # The й of Cyrillic is a letter, which nobody writes otherwise.
    apart = unicodedata.normalize("NFKD", word).replace("\u0438\u0306", "\u0439").translate(_LETTERS_WITHOUT_MARKS)
    kept = (sign for sign in apart if unicodedata.combining(sign) in (0, _VIRAMA))
    return unicodedata.normalize("NFC", "".join(kept))


_STEMMERS = {name: Stemmer(name) for name in ("english", *STEMMED)}
_stemming = threading.Lock()  # a stemmer keeps the word it works on in itself


@lru_cache(maxsize=65_536)
def stem_word(term: str, language: str) -> str:
    """Return the Snowball stem of a word in lower case."""
    with _stemming:
        stem: str = _STEMMERS[language].stemWord(term)
        return stem


def _stem(term: str) -> str:
    """Return the English stem; a term that holds anything but ASCII letters is a name, kept as it is."""
    return stem_word(term, "english") if term.isascii() and term.isalpha() else term


# Other readings of a text.


def stems(text: str) -> list[str]:
    """Return the stems of the smallest parts of a text's words, without accents and stop words.

    >>> stems("What are BackgroundTasks?")
    ['background', 'task']
    """
    found: list[str] = []
    words = _split(text)
    for word in [word for word in words if any(map(str.isalnum, word))] or words:  # signs alone are a name
        is_one = bool(_join_hyphened(word))  # `log-in` is no `log`
        for subword in _SUBWORD.findall(word):
            humps = _HUMP.finditer("".join(map(_classify_character, subword)))
            terms = [remove_accents(_fold(subword[hump.start() : hump.end()])) for hump in humps]
            found += [_stem(term) for term in terms if is_one or term not in STOP_WORDS["english"]]
    return found


def plain_words(text: str) -> set[str]:
    """Return the words of a text that are letters alone, in lower case; with accents and without them.

    >>> sorted(plain_words("Besançon, x2y, snake_case, my 日本語"))
    ['besancon', 'besançon', 'case', 'snake']
    """
    return {form for word in set(_split(text)) for form in _plain(word)}


@lru_cache(maxsize=65_536)
def _plain(word: str) -> set[str]:
    runs = {run for subword in _SUBWORD.findall(word) for run in split_scripts(subword)}
    folded = {_fold(run) for run in runs if 3 <= len(run) <= 40 and run.isalpha() and not is_unspaced(run[0])}
    return folded | {*map(remove_accents, folded)}


def count_words(text: str) -> int:
    """Return words as people count them; in a script without spaces, two characters count as one.

    >>> count_words("two words"), count_words("用 GitHub 管理代码文件")
    (2, 3)
    """
    return max(len(text.split()), sum(map(is_unspaced, text)) // 2)
