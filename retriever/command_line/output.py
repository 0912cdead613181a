"""What is written of an answer: itself on standard output, and on standard error what to know about it."""

import sys
import time
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any

from retriever.command_line.console import Console, print_json, print_line, print_text, shorten_path
from retriever.display.json import dump, dump_answer, sum_timings
from retriever.display.phrases import (
    describe_expansion,
    describe_freshness,
    explain_corrections,
    format_refresh_command,
    pluralize,
)
from retriever.trace import Spent

if TYPE_CHECKING:
    from retriever.context.gather import AnswerInContext
    from retriever.types import Answer


@dataclass(slots=True)
class Printer:
    """Prints the answers to one question, which has two while the first index of its documents is made."""

    console: Console
    index: str | None  # as it was given with --index
    _: KW_ONLY
    as_json: bool = False
    full: bool = False
    explain: bool = False
    begun: float = field(default_factory=time.perf_counter)  # loading modules is a part of what the user waits for
    shown: "Answer | None" = None

    def show(self, answer: "Answer", *, headline: bool = True) -> "Answer":
        """Print an answer, a second one where it has other sections, and return it.

        Args:
            answer: to print.
            headline: whether its verdict stands above it.
        """
        spent, before, self.shown = self.measure(answer), self.shown, answer
        if before is not None:
            # The same list twice would be read twice, to find that nothing changed.
            if [hit.node_id for hit in before.hits] == [hit.node_id for hit in answer.hits]:
                self.console.note(f"everything is embedded now, and the answer is the same ({spent})")
                return answer
            for line in ("", "Now that everything is embedded, by meaning as well:", ""):
                print_line(line)
        if self.as_json:
            print_json(dump_answer(answer, spent, full=self.full, explain=self.explain))
        else:
            from retriever.command_line.render import Page, show_answer, show_explanation  # rich

            page = Page.on(sys.stdout)
            show_answer(page, answer, full=self.full, headline=headline)
            if self.explain:
                show_explanation(page, answer, spent)
        self.note_state(answer, spent)
        return answer

    def show_context(self, found: "AnswerInContext") -> "Answer":
        """Print the context for a prompt alone, and return its answer."""
        spent = self.measure(found.answer)
        if self.as_json:
            print_json(dump_context(found, spent))
        else:
            print_text(found.context.markdown)
        self.note_state(found.answer, spent)
        if found.context.left_out and not self.as_json:
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
        state, several, note = answer.index, answer.indexes, self.console.note
        if answer.corrections:
            note(f"{explain_corrections(answer.corrections)}; --exact searches for the words as they stand")
        if answer.follow_up:
            note(f"understood as: {answer.follow_up.question}")
        for text in (*answer.degraded, *answer.notes):
            note(f"note: {text}")
        if expanded := describe_expansion(answer.expansion):
            self.console.note(expanded, dim=True)
        for one in several or (state,):
            if one.stale_files:
                changed = pluralize(one.stale_files, "file")
                refresh = format_refresh_command(one, one.path if several else self.index)
                note(f"note: {changed} changed, not in this answer; run: {refresh}")
        # The sections of such a file cannot be found, and only this says so.
        if state.skipped_files:
            note(f"note: {pluralize(state.skipped_files, 'file')} could not be read; `status` names them")
        # Where the filters left nothing, a note has named the filter.
        if not answer.hits and (answer.scope is None or answer.scope.sections):
            note("nothing found: try other words, or --profile recall")
        if not self.as_json:
            parts = (describe_search(answer), answer.profile, str(spent), describe_freshness(state))
            self.console.note(" | ".join(filter(None, parts)), dim=True)


def note_pending(answer: "Answer", index: str | None, console: Console) -> None:
    """Say how the rest is embedded, of an index that is not finished."""
    for state in answer.indexes or (answer.index,):
        if state.embedded_share < 1:
            refresh = format_refresh_command(state, state.path if answer.indexes else index)
            console.note(f"note: to embed the rest, run: {refresh}")


def dump_context(found: "AnswerInContext", spent: Spent) -> dict[str, Any]:
    """Return an answer as context for a prompt: the pieces that it quotes, in order, and the hits left out."""
    answer, context = found.answer, found.context
    whole = dump(answer)
    kept = ("question", "profile", "verdict", "confidence", "index", "degraded", "scope", "notes")
    return {key: whole[key] for key in kept} | {
        "max_tokens": context.max_tokens,
        "tokens": context.tokens,
        "markdown": context.markdown,
        "pieces": [{**dump(piece), "cut_from": list(map(str, piece.cut_from))} for piece in context.pieces],
        "left_out": [
            dump(section, "text", "chunk_spans", "span", "file") | {"tokens": section.tokens}
            for section in context.left_out
        ],
        "timings_ms": sum_timings(answer, spent),
    }


def describe_search(answer: "Answer") -> str:
    """Return `searched 3 sections of 2 files (in:daily) in notes`."""
    part = answer.scope or answer.index
    amount = f"{pluralize(part.sections, 'section')} of {pluralize(part.documents, 'file')}"
    if answer.scope is not None:
        amount += f" ({' '.join(answer.scope.scope.terms)})"
    folders = ", ".join(shorten_path(folder, ".") for folder in answer.index.folders)
    if answer.indexes:
        folders = f"{pluralize(len(answer.indexes), 'index', 'indexes')}: {folders}"
    return f"searched {amount} in {folders}"
