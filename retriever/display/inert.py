"""Text of documents as it may be shown: no character of it steers a terminal, or reorders or hides what is read."""

import re
import unicodedata

REPLACEMENT = "\ufffd"

MAX_MARKS = 16
"""Of a run, marks over and under one character, and of characters without a width: more than any language writes. A
terminal takes all that follow as one sign, and some draw them across the lines around it."""

_LONG_RUN = re.compile(rf"[^\w\s\x00-\x7f]{{{MAX_MARKS + 1},}}")
"""Where too many marks may be; what else is in such runs (a rule of a table, emoji) stays as it is."""

_HARMLESS_FORMATS = frozenset("\u200c\u200d\xad")
"""Of the invisible characters: the joiners that emoji and Persian are written with, and the soft hyphen."""


class _Inert(dict[int, str]):
    """For `str.translate`: each character as a terminal may see it; remembers what it has seen."""

    def __init__(self, kept: str) -> None:
        super().__init__({ord(character): character for character in kept})

    def __missing__(self, code: int) -> str:
        self[code] = seen = _seen(chr(code))
        return seen


def _seen(character: str) -> str:
    if 0xDC80 <= ord(character) <= 0xDCFF:  # a byte of a name that is not UTF-8, as Python carries it (PEP 383)
        return f"\\x{ord(character) - 0xDC00:02x}"
    if character in "\n\t":
        return f"\\x{ord(character):02x}"
    category = unicodedata.category(character)
    hides = category in {"Cc", "Cs", "Zl", "Zp"} or (category == "Cf" and character not in _HARMLESS_FORMATS)
    return REPLACEMENT if hides else character


_TEXT = _Inert(kept="\n\t")
_LINE = _Inert(kept="")


def inert(text: str) -> str:
    """The text with every character replaced that would move the cursor, reorder or hide text; newline and tab stay."""
    return _LONG_RUN.sub(_with_few_marks, text.translate(_TEXT))


def inert_line(text: str) -> str:
    r"""As `inert`, for what stands in one line, such as a file's name: newline and tab show as `\x0a` and `\x09`."""
    return _LONG_RUN.sub(_with_few_marks, text.translate(_LINE))


def _with_few_marks(run: re.Match[str]) -> str:
    """The run without what is beyond MAX_MARKS; one replacement character stands for it."""
    kept: list[str] = []
    marks = invisible = 0
    for character in run[0]:
        is_mark = unicodedata.category(character)[0] == "M"
        marks = marks + 1 if is_mark else 0
        invisible += character in _HARMLESS_FORMATS
        if marks <= MAX_MARKS and (character not in _HARMLESS_FORMATS or invisible <= MAX_MARKS):
            kept.append(character)
        elif kept[-1] != REPLACEMENT:
            kept.append(REPLACEMENT)
    return "".join(kept)
