"""What is said on standard error, beside the results."""

import logging
import os
import sys
from dataclasses import dataclass

import click

from retriever.display.sanitize import sanitize, sanitize_line

MAX_NAMED = 20
"""How many skipped files are named one by one; `status` names them all."""


@dataclass(frozen=True, slots=True)
class Notes:
    """The voice of one run."""

    quiet: bool = False
    """Errors alone."""
    verbose: bool = False
    """What the stages report, with timings."""

    def say(self, text: str) -> None:
        """One line, unless quiet."""
        self._write(sanitize(text))

    def aside(self, text: str) -> None:
        """One dim line, unless quiet."""
        can_dim = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
        line = sanitize_line(text)
        self._write(click.style(line, dim=True) if can_dim else line)

    def skipped(self, files: tuple[tuple[str, str], ...]) -> None:
        """Names the files that were left out, each with its reason."""
        for path, reason in files[:MAX_NAMED]:
            self.say(f"skipped {path}: {reason}")
        if len(files) > MAX_NAMED:
            self.say(f"skipped {len(files) - MAX_NAMED:,} more files; `status` names them all")

    def _write(self, text: str) -> None:
        if not self.quiet:
            sys.stderr.write(f"{text}\n")

    def follow_logging(self) -> None:
        """Sends what the libraries log to standard error: warnings, with `verbose` our own stages' reports as well."""
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_InertFormatter("%(message)s"))
        logging.basicConfig(level=logging.ERROR if self.quiet else logging.WARNING, handlers=[handler], force=True)
        for package in ("retriever", "pageindex"):
            logging.getLogger(package).setLevel(logging.INFO if self.verbose else logging.NOTSET)


class _InertFormatter(logging.Formatter):
    """Log lines may quote documents and file names."""

    def format(self, record: logging.LogRecord) -> str:
        return sanitize(super().format(record))
