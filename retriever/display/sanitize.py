"""Text of documents as it may be shown: no character of it steers a terminal, or reorders or hides what is read.

Quotations are made here as well: `code` and `fence` keep one in Markdown inside its marks, and `open_templates` opens
templates that escape and sanitize every value that they put into a page.
"""

import re
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment

REPLACEMENT = "\ufffd"

# Of the invisible characters: the joiners that emoji and Persian are written with, and the soft hyphen.
_HARMLESS_FORMATS = frozenset("\u200c\u200d\xad")

_BACKTICKS = re.compile("`+")


class _Replacements(dict[int, str]):
    """For `str.translate`: each character as it may be shown; remembers the characters that it has met."""

    def __init__(self, unchanged: str) -> None:
        super().__init__({ord(character): character for character in unchanged})

    def __missing__(self, code: int) -> str:
        character = chr(code)
        category = unicodedata.category(character)
        if 0xDC80 <= code <= 0xDCFF:  # a byte of a name that is not UTF-8, as Python carries it (PEP 383)
            shown = f"\\x{code - 0xDC00:02x}"
        elif character in "\n\t":
            shown = f"\\x{code:02x}"
        elif category in {"Cc", "Cs", "Zl", "Zp"} or (category == "Cf" and character not in _HARMLESS_FORMATS):
            shown = REPLACEMENT
        else:
            shown = character
        self[code] = shown
        return shown


_TEXT = _Replacements(unchanged="\n\t")
_LINE = _Replacements(unchanged="")


def sanitize(text: str) -> str:
    """The text with every character replaced that would move the cursor, reorder or hide text; newline and tab stay."""
    return text.translate(_TEXT)


def sanitize_line(text: str) -> str:
    r"""As `sanitize`, for what stands in one line, such as a file's name: newline and tab show as `\x0a` and `\x09`."""
    return text.translate(_LINE)


def code(text: str) -> str:
    """A Markdown code span of one line that holds exactly that text, sanitized; nothing in it can end the span."""
    line = sanitize_line(text)
    marks = fence(line, 1)
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{marks}{space}{line}{space}{marks}"


def fence(text: str, least: int = 3) -> str:
    """The backticks to put before and after a Markdown code block with that text: more than any row in it."""
    return "`" * max(least, 1 + max(map(len, _BACKTICKS.findall(text)), default=0))


def open_templates(folder: Path) -> "Environment":
    """The HTML templates of a folder. Every value in them is sanitized and escaped, unless it is `Markup`."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # 60 ms: pages and reports alone need it

    def sanitize_value(value: object) -> object:
        # Markup is made by our own code from texts that are sanitized.
        return sanitize(value) if isinstance(value, str) and not hasattr(value, "__html__") else value

    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=sanitize_value,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
