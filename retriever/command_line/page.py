"""A page of output for people: wrapped and coloured on a terminal, one line for each item elsewhere."""

import os
from dataclasses import dataclass
from typing import TextIO

from rich.console import Console
from rich.text import Text

from retriever.command_line.terminal import columns, inert_line, is_unicode

MAX_WIDTH = 110
"""Columns: longer lines of prose are hard to read."""

MIN_WIDTH = 40

CITED = "bold cyan"
MATCHED = "bold yellow"
QUIET = "dim"


class _Console(Console):
    """Leaves a closed pipe to `main`; rich would end the process with 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


@dataclass(frozen=True, slots=True)
class Page:
    """Where lines are written."""

    console: Console
    width: int
    """Columns to wrap at, on a terminal."""
    crumb: str
    """Between two titles of a breadcrumb."""
    dot: str
    """Between two facts of a line."""
    bar: str
    """Before each line of a quoted text."""

    @classmethod
    def on(cls, stream: TextIO) -> "Page":
        """A page on that stream; no colours where it is no terminal, or with NO_COLOR."""
        width = max(MIN_WIDTH, columns())
        no_color = bool(os.environ.get("NO_COLOR"))
        console = _Console(file=stream, width=width, no_color=no_color, highlight=False, markup=False, emoji=False)
        signs = (" \u203a ", " \u00b7 ", "\u2502 ") if is_unicode(stream) else (" > ", " | ", "| ")
        return cls(console, min(width, MAX_WIDTH), *signs)

    def paragraph(self, text: Text, indent: int = 0) -> None:
        """Prose; elsewhere than on a terminal it stays one line, so that tools find what stands in it."""
        rows = text.wrap(self.console, self.width - indent) if self.console.is_terminal else [text]
        for row in rows:
            self.line(row, indent)

    def line(self, text: Text, indent: int = 0) -> None:
        """What must not be broken: a path, a row of a table."""
        text.rstrip()
        self.console.print(Text(" " * indent).append_text(text), soft_wrap=True)

    def quotation(self, text: Text, indent: int = 0) -> None:
        """Lines of a document as they stand there, behind a bar."""
        for row in text.split("\n"):
            self.line(Text.assemble((self.bar, QUIET), row), indent)

    def blank(self) -> None:
        """An empty line."""
        self.console.print()

    def path_of_titles(self, titles: tuple[str, ...]) -> str:
        """A breadcrumb as one line."""
        return self.crumb.join(map(inert_line, titles))
