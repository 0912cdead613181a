"""A page of output for people: wrapped and coloured on a terminal, one line for each item elsewhere."""

import os
from dataclasses import dataclass
from typing import TextIO

from rich.console import Console
from rich.text import Text

from retriever.command_line.terminal import columns, is_unicode
from retriever.display.editors import NO_EDITOR, choose_template, make_editor_link
from retriever.display.sanitize import sanitize_line

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
    links: str = ""
    """The template of the addresses that citations lead to; empty where none is shown."""

    @classmethod
    def on(cls, stream: TextIO, editor: str = NO_EDITOR) -> "Page":
        """A page on that stream; no colours where it is no terminal, or with NO_COLOR, and links on a terminal alone.

        Raises:
            UsageError: there is no such editor (see `choose_template`).
        """
        width = max(MIN_WIDTH, columns())
        no_color = bool(os.environ.get("NO_COLOR"))
        console = _Console(file=stream, width=width, no_color=no_color, highlight=False, markup=False, emoji=False)
        signs = (" \u203a ", " \u00b7 ", "\u2502 ") if is_unicode(stream) else (" > ", " | ", "| ")
        links = choose_template(editor, os.environ)
        can_link = stream.isatty() and os.environ.get("TERM") != "dumb"
        return cls(console, min(width, MAX_WIDTH), *signs, links if can_link else "")

    def paragraph(self, text: Text, indent: int = 0) -> None:
        """Prose; elsewhere than on a terminal it stays one line, so that tools find what stands in it."""
        rows = text.wrap(self.console, self.width - indent) if self.console.is_terminal else [text]
        for row in rows:
            self.line(row, indent)

    def line(self, text: Text, indent: int = 0) -> None:
        """What must not be broken: a path, a row of a table."""
        text.rstrip()
        self.console.print(Text(" " * indent).append_text(text), soft_wrap=True)

    def cited(self, citation: str, absolute_path: str, line: int) -> Text:
        """A citation, which opens that line in the editor where it is followed."""
        text = Text(sanitize_line(citation), CITED)
        if not self.links:
            return text
        # An address holds printable ASCII alone, so that no file's name can end the sequence (OSC 8, ended by ST).
        address = make_editor_link(self.links, absolute_path, line)
        return Text.assemble(f"\x1b]8;;{address}\x1b\\", text, "\x1b]8;;\x1b\\")

    def quotation(self, text: Text, indent: int = 0) -> None:
        """Lines of a document as they stand there, behind a bar."""
        for row in text.split("\n"):
            self.line(Text.assemble((self.bar, QUIET), row), indent)

    def blank(self) -> None:
        """An empty line."""
        self.console.print()

    def path_of_titles(self, titles: tuple[str, ...]) -> str:
        """A breadcrumb as one line."""
        return self.crumb.join(map(sanitize_line, titles))
