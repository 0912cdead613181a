"""Plain text: its lines, labels, the cells of a row, and where sentences end, in every script."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A run of lines of one file, 1-based and inclusive, counted in the file on disk."""

    first: int
    """The first line, at least 1."""
    last: int
    """The last line, at least `first`."""

    def __post_init__(self) -> None:
        if not 1 <= self.first <= self.last:
            raise ValueError(f"not a span of lines: {self.first}-{self.last}")

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __str__(self) -> str:
        """Return `first-last`; of one line, its number."""
        return f"{self.first}-{self.last}" if self.last > self.first else str(self.first)

    def shift(self, lines: int) -> "Span":
        """Return as many lines further down."""
        return Span(self.first + lines, self.last + lines)

    def overlap(self, other: "Span") -> int:
        """Return the number of lines that both spans hold; 0 when they are apart."""
        return max(0, min(self.last, other.last) - max(self.first, other.first) + 1)


FENCES = ("```", "~~~")  # what lines that open and close code begin with
CELL, NO_CELL = " \u00b7 ", "\u2013"  # between two cells of a table; an empty one

# What ends a sentence with a blank behind it, and what does so alone: of Chinese and Japanese, Hindi, Urdu, Arabic,
# Burmese, Khmer and Amharic.
_ENDS = re.compile(
    r"""[.!?\u2026]["')\]\u00bb\u201d\u2019*_]*(?=(?:~~)?\s)"""
    "|[\u3002\uff01\uff1f\uff61\u0964\u0965\u06d4\u061f\u104b\u17d4\u1362][\"'\u300d\u300f\u201d\u2019)]*"
)
# Where a text without sentences is cut.
_CLAUSES = re.compile("[,;:\u2013\u2014](?=\\s)|[\u3001\uff0c\uff1b\uff1a\u060c\u061b]|[,;}](?=[^\\s\\d])")


def as_label(text: str) -> str:
    """Return a title as it stands before what it is the title of."""
    return f"{text}: " if text and text[-1].isalnum() else f"{text} " if text else ""


def join_cells(cells: Sequence[str]) -> str:
    """Return cells on one line, a dash for an empty one, so that each stands in its column; none behind the last.

    >>> join_cells(["cmd", "", "yes", ""])
    'cmd \u00b7 \u2013 \u00b7 yes'
    """
    last = max((number for number, cell in enumerate(cells, start=1) if cell), default=0)
    return CELL.join(cell or NO_CELL for cell in cells[:last])


def fold_words(text: str) -> list[str]:
    """Return the runs of letters and digits of a text, without case."""
    return "".join(sign if sign.isalnum() else " " for sign in text.casefold()).split()


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text, without the blanks between them.

    >>> split_sentences("See e.g. that J. Smith of 3. May, Abs. 2 too. Then go! \u884c\u304f\u3002\u6765\u308b\u3002")
    ['See e.g. that J. Smith of 3. May, Abs. 2 too.', 'Then go!', '\u884c\u304f\u3002', '\u6765\u308b\u3002']
    >>> split_sentences("~~J. Orr led.~~ New: ~~\u884c\u304f\u3002~~~~\u6765\u308b\u3002~~")
    ['~~J. Orr led.~~', 'New: ~~\u884c\u304f\u3002~~', '~~\u6765\u308b\u3002~~']
    """
    return [text[start:end].strip() for start, end in find_sentences(text)]


def find_sentences(text: str) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each sentence of a text; together they are all of it that is not blank."""
    start = 0
    for found in _ENDS.finditer(text):
        end = found.end()
        if text.startswith("~~", end) and text.count("~~", start, end) % 2:  # what is struck out ends here
            end += 2
        if found[0][0] == "." and _is_within(text, found.start(), end):
            continue
        if text[start:end].strip():
            yield start, end
        start = end
    if text[start:].strip():
        yield start, len(text)


def _is_within(text: str, dot: int, end: int) -> bool:
    """Return whether a full stop ends no sentence: in `J. Smith`, `3. May`, `Dr. Who`, `Fig. 2`, or `etc. and`."""
    behind = text[end : end + 4].lstrip()[:1]
    if behind.islower():
        return True
    start = max(text.rfind(" ", 0, dot), text.rfind("\n", 0, dot)) + 1
    word = text[start:dot].strip("([\"'~")
    if word.isdecimal():
        return len(word) <= 2 and start > 0
    has_vowel = any(letter in "aeiouy" for letter in word.lower())
    is_abbreviation = not has_vowel and not word.isupper()
    is_short = len(word) == 1 or (len(word) <= 4 and (is_abbreviation or behind.isdecimal()))
    return is_short and word.isascii() and word.isalpha()


def strike_out(text: str) -> str:
    """Return a text with `~~` around each sentence: each may be quoted alone.

    >>> strike_out("We meet at nine. It rains.")
    '~~We meet at nine.~~ ~~It rains.~~'
    """
    parts = [text[start:end] for start, end in find_sentences(text)]
    return "".join(part.replace(part.strip(), f"~~{part.strip()}~~") for part in parts)


def cut_text(text: str, most: int) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of the parts of a text, each of at most `most` characters: whole sentences where possible.

    A longer sentence is cut between clauses, else between words, else anywhere.
    """
    begin = last = 0
    for start, end in (part for sentence in find_sentences(text) for part in _cut_sentence(text, *sentence, most)):
        if end - begin > most and last > begin:
            yield begin, last
            begin = start
        last = end
    if last > begin:
        yield begin, last


def _cut_sentence(text: str, start: int, end: int, most: int) -> Iterator[tuple[int, int]]:
    while end - start > most:
        middle, limit = start + most // 2, start + most
        clauses = [found.end() for found in _CLAUSES.finditer(text, middle, limit)]
        blank = max(text.rfind(sign, middle, limit) for sign in " \n")
        cut = clauses[-1] if clauses else blank if blank > start else limit
        yield start, cut
        start = cut
    if text[start:end].strip():
        yield start, end


# Text as it may be shown: no character of it steers a terminal, or reorders or hides what is read.

REPLACEMENT = "\ufffd"

# Of the invisible characters: the joiners that emoji and Persian are written with, and the soft hyphen.
_HARMLESS_FORMATS = frozenset("\u200c\u200d\xad")


class _Shown(dict[int, str]):
    """For `str.translate`: each character as it may be shown; remembers the characters that it has met."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        category = unicodedata.category(character)
        is_harmful = category in {"Cc", "Cs", "Zl", "Zp"} or (category == "Cf" and character not in _HARMLESS_FORMATS)
        self[code] = REPLACEMENT if is_harmful else character
        return self[code]


_SHOWN = _Shown({ord(character): character for character in "\n\t"})


def sanitize(text: str) -> str:
    """Replace all characters that would move the cursor, reorder or hide text; newline and tab stay."""
    return text.translate(_SHOWN)


def sanitize_line(text: str) -> str:
    r"""Do as `sanitize` for what has one line, such as a file's name: newline and tab become `\x0a` and `\x09`."""
    return sanitize(text).replace("\n", r"\x0a").replace("\t", r"\x09")


def count_lines(text: str) -> int:
    """Count the lines of a text with LF line ends as an editor does: a final line end opens no new line."""
    return text.count("\n") + (1 if text and not text.endswith("\n") else 0)


def github_slug(title: str) -> str:
    """Return the title as GitHub makes a fragment of it: lower case, letters, digits, `_` and `-`, spaces as `-`."""
    words = ("Mn", "Mc", "Me", "Pc", "Nl")  # categories of what is in words besides letters and digits
    kept = (char for char in title.lower() if char in " -" or char.isalnum() or unicodedata.category(char) in words)
    return "".join(kept).replace(" ", "-")


# `[[note]]`, `[[note|label]]`, `![[note]]`: groups note and label; a `(` or `[` behind it makes a link of it, but a
# footnote does not.
WIKILINK = re.compile(r"!?\[\[([^\[\]|\n]{1,999})(?:\|([^\[\]|\n]{0,999}))?\]\](?!\(|\[(?!\^))")


def fold_heading(heading: str) -> str:
    """Return a heading as Obsidian compares it: each sign a blank, runs of blanks as one, in lower case.

    >>> fold_heading("TCP/IP  Model"), fold_heading("TCP %7C IP: Model")
    ('tcp ip model', 'tcp ip model')
    """
    return " ".join(fold_words(unquote(heading)))
