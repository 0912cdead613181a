"""The standard output of a command: in one format, which `--json` chooses and which then prints everything.

Documents, their names and error messages may hold escape sequences (recolour, retitle, write the clipboard), carriage
returns that overwrite what was printed, and characters that reverse or hide text. People see a mark in their place;
programs get them exactly, as JSON. No character stops the output.
"""

import json
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any

from retriever.command_line.console import Console, shorten_path
from retriever.display import (
    add_version,
    describe_expansion,
    describe_freshness,
    dump,
    dump_answer,
    dump_short_answer,
    explain_corrections,
    format_refresh_command,
    pluralize,
    sanitize,
    sanitize_line,
)
from retriever.trace import Spent

if TYPE_CHECKING:
    from retriever.answering.context import AnswerInContext
    from retriever.command_line.render import Page
    from retriever.types import Answer, ShortAnswer


# The formats.


class Output:
    """Prints results for people, as lines and pages; a subclass prints the same results for programs."""

    is_for_people = True  # who read notes, and take an answer in parts

    def show(self, content: Any, text: str | Iterable[str]) -> None:  # noqa: ANN401 - whatever becomes JSON
        """Print a result.

        Args:
            content: for programs: a dataclass, or a mapping by names.
            text: for people: lines, or a text whose lines stay as they are.
        """
        if isinstance(text, str):
            print_text(text)
        else:
            for line in text:
                print_line(line)

    def draw(self, content: Any, draw: Callable[["Page"], object]) -> None:  # noqa: ANN401 - as above
        """Do as `show` where people get a page with colours."""
        self.draw_part(draw)

    def draw_part(self, draw: Callable[["Page"], object]) -> None:
        """Print a part of a page at once; programs get it with the whole."""
        from retriever.command_line.render import Page  # rich

        draw(Page.on(sys.stdout))


class JsonOutput(Output):
    """Prints each result as one JSON object."""

    is_for_people = False

    def show(self, content: Any, text: object) -> None:  # noqa: ANN401 - as above
        sys.stdout.write(f"{format_json(add_version(dump(content)))}\n")
        sys.stdout.flush()  # for the reader of `watch`

    def draw(self, content: Any, draw: object) -> None:  # noqa: ANN401 - as above
        self.show(content, ())

    def draw_part(self, draw: object) -> None:
        pass


def print_line(text: str) -> None:
    sys.stdout.write(f"{sanitize_line(text)}\n")


def print_text(text: str) -> None:
    """Print lines unchanged, with one end of line."""
    sys.stdout.write(f"{sanitize(text).rstrip(chr(10))}\n")


def format_json(content: dict[str, Any]) -> str:
    """Return the object as JSON text that this standard output can hold."""
    is_unicode = (sys.stdout.encoding or "ascii").lower().startswith("utf")
    return json.dumps(content, ensure_ascii=not is_unicode, allow_nan=False)


# An answer: itself on standard output, and on standard error what to know about it.


@dataclass
class Printer:
    """Prints the answers to one question, which has two while the first index of its documents is made."""

    console: Console
    output: Output
    index: str | None  # as it was given with --index
    _: KW_ONLY
    full: bool = False
    explain: bool = False
    begun: float = field(default_factory=time.perf_counter)  # loading modules is a part of what the user waits for
    shown: "Answer | None" = None

    def show(self, answer: "Answer", short: "ShortAnswer | None" = None) -> "Answer":
        """Print an answer, a second one where it has other sections, and return it.

        Args:
            answer: to print.
            short: of which the answer is; people have seen its sentences, and take them for the verdict.
        """
        spent, before, self.shown = self.measure(answer), self.shown, answer
        if before is not None:
            # The same list twice would be read twice, to find that nothing changed.
            if [hit.node_id for hit in before.hits] == [hit.node_id for hit in answer.hits]:
                self.console.note(f"everything is embedded now, and the answer is the same ({spent})")
                return answer
            for line in ("", "Now that everything is embedded, by meaning as well:", ""):
                print_line(line)

        def draw(page: "Page") -> None:
            from retriever.command_line.render import show_answer, show_explanation  # rich

            show_answer(page, answer, full=self.full, headline=short is None or answer.verdict == "none")
            if self.explain:
                show_explanation(page, answer, spent)

        if short is None:
            content = dump_answer(answer, spent, full=self.full, explain=self.explain)
        else:
            content = dump_short_answer(short, spent)
        self.output.draw(content, draw)
        self.note_state(answer, spent)
        return answer

    def show_context(self, found: "AnswerInContext") -> "Answer":
        """Print the context for a prompt alone, and return its answer."""
        spent = self.measure(found.answer)
        context = dump(found.context)
        for piece in context["left_out"]:
            del piece["text"]
        self.output.show(dump_answer(found.answer, spent) | context, found.context.markdown)
        self.note_state(found.answer, spent)
        if found.context.left_out and self.output.is_for_people:
            left_out = pluralize(len(found.context.left_out), "hit")
            limit = f"{found.context.max_tokens:,} tokens (--max-tokens)"
            self.console.note(f"{left_out} not quoted, for the limit of {limit}")
        return found.answer

    def measure(self, answer: "Answer") -> Spent:
        """Return what was spent on an answer until now."""
        return Spent.since(self.begun, answer.trace.stages)

    def note_state(self, answer: "Answer", spent: Spent) -> None:
        """Say on standard error what to know about an answer; for people alone, what was searched."""
        sys.stdout.flush()  # results before notes, where both streams go to one place
        state, note = answer.index, self.console.note
        if answer.corrections:
            note(f"{explain_corrections(answer.corrections)}; --exact searches for the words as they stand")
        if answer.follow_up:
            note(f"understood as: {answer.follow_up.question}")
        for text in (*answer.degraded, *answer.notes):
            note(f"note: {text}")
        if expanded := describe_expansion(answer.expansion):
            self.console.note(expanded, dim=True)
        if state.stale_files:
            changed = pluralize(state.stale_files, "file")
            refresh = format_refresh_command(state, self.index)
            note(f"note: {changed} changed, not in this answer; run: {refresh}")
        # The sections of such a file cannot be found, and only this says so.
        if state.skipped_files:
            note(f"note: {pluralize(state.skipped_files, 'file')} could not be read; `status` names them")
        # Where the filters left nothing, a note has named the filter.
        if not answer.hits and (answer.scope is None or answer.scope.sections):
            note("nothing found: try other words, or --profile recall")
        if self.output.is_for_people:
            parts = (describe_search(answer), answer.profile, str(spent), describe_freshness(state))
            self.console.note(" | ".join(filter(None, parts)), dim=True)


def note_pending(answer: "Answer", index: str | None, console: Console) -> None:
    """Say how to embed the rest of an index that is not finished."""
    if answer.index.embedded_share < 1:
        console.note(f"note: to embed the rest, run: {format_refresh_command(answer.index, index)}")


def describe_search(answer: "Answer") -> str:
    """Return `searched 3 sections of 2 files (in:daily) in notes`."""
    part = answer.scope or answer.index
    amount = f"{pluralize(part.sections, 'section')} of {pluralize(part.documents, 'file')}"
    if answer.scope is not None:
        amount += f" ({' '.join(answer.scope.scope.terms)})"
    folders = ", ".join(shorten_path(folder, ".") for folder in answer.index.folders)
    return f"searched {amount} in {folders}"
