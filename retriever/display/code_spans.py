"""Quotation in Markdown that what is quoted cannot leave. Pure."""

import re

from retriever.display.inert import inert_line

_BACKTICKS = re.compile("`+")


def code(text: str) -> str:
    """A code span of one line that holds exactly that text, but for characters that steer or hide."""
    line = inert_line(text)
    marks = "`" * (_longest_row(line) + 1)
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{marks}{space}{line}{space}{marks}"


def fence(text: str) -> str:
    """A row of backticks that is not in the text."""
    return "`" * max(3, _longest_row(text) + 1)


def _longest_row(text: str) -> int:
    return max(map(len, _BACKTICKS.findall(text)), default=0)
