"""What is written of an answer: itself on standard output, and on standard error what to know about it."""

import logging
import sys
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from retriever.command_line.console import Console, print_json, print_line, shorten_path
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

log = logging.getLogger(__name__)


class Output(Enum):
    """What standard output gets of an answer."""

    TEXT = auto()
    JSON = auto()
    CONTEXT = auto()  # the sections as Markdown for a prompt
    CONTEXT_JSON = auto()

    @classmethod
    def of(cls, *, as_json: bool, context: bool = False) -> "Output":
        """Return what --json and --context ask for."""
        if context:
            return cls.CONTEXT_JSON if as_json else cls.CONTEXT
        return cls.JSON if as_json else cls.TEXT

    @property
    def is_json(self) -> bool:
        """Whether it is one JSON object."""
        return self in (Output.JSON, Output.CONTEXT_JSON)

    @property
    def is_context(self) -> bool:
        """Whether it is the context for a prompt."""
        return self in (Output.CONTEXT, Output.CONTEXT_JSON)


@dataclass(frozen=True, slots=True)
class Form:
    """How an answer is printed."""

    output: Output
    editor: str  # what citations open on a terminal: see `choose_template`
    full: bool = False
    explain: bool = False
    hypothetical: bool = False
    numbers: bool = False  # whether people see ranks and scores beside the reasons


def print_context(found: "AnswerInContext", spent: "Spent", form: Form) -> None:
    """Print the context alone: standard output holds nothing else."""
    if form.output.is_json:
        print_json(dump_context(found, spent))
    else:
        print_line(found.context.markdown.rstrip("\n"))


def dump_context(found: "AnswerInContext", spent: "Spent") -> dict[str, Any]:
    """Return an answer as context for a prompt: the pieces that it quotes, in order, and the hits left out."""
    answer, context = found.answer, found.context
    whole = dump(answer)
    kept = ("question", "profile", "verdict", "confidence", "index", "degraded", "scope", "notes")
    return {key: whole[key] for key in kept} | {
        "max_tokens": context.max_tokens,
        "tokens": context.tokens,
        "markdown": context.markdown,
        "pieces": [
            {"group": list(group.titles), **dump(piece), "cut_from": list(map(str, piece.cut_from))}
            for group in context.groups
            for piece in group.pieces
        ],
        "left_out": [
            dump(item.section, "text", "chunk_spans", "heading_id", "span", "file")
            | {"tokens": item.tokens, "same_as": item.same_as or None}
            for item in context.left_out
        ],
        "timings_ms": sum_timings(answer, spent),
    }


def print_answer(answer: "Answer", spent: Spent, form: Form) -> None:
    """Print the hits, and what else the form has."""
    if form.output.is_json:
        print_json(dump_answer(answer, spent, full=form.full, explain=form.explain, hypothetical=form.hypothetical))
        return
    from retriever.command_line.render import Page, show_answer  # rich

    page = Page.on(sys.stdout, form.editor)
    show_answer(page, answer, full=form.full, numbers=form.numbers)
    if form.explain or form.hypothetical:
        from retriever.command_line import explain

        if form.explain:
            explain.show_explanation(page, answer, spent)
        if form.hypothetical:
            explain.show_hypothetical(page, answer)


def note_state(answer: "Answer", console: Console, spent: "Spent", *, index: str | None, footer: bool) -> None:
    """Say on standard error what to know about an answer; the `footer`, for people alone, what was searched."""
    log_stages(answer, spent)
    state, several = answer.index, answer.indexes
    if answer.corrections:
        console.note(f"{explain_corrections(answer.corrections)}; --exact searches for the words as they stand")
    if answer.follow_up:
        console.note(f"understood as: {answer.follow_up.question}")
    chosen = "" if footer else state.note
    for note in filter(None, (*answer.degraded, *answer.notes, chosen)):
        console.note(f"note: {note}")
    if expanded := describe_expansion(answer.expansion):
        console.note_dim(expanded)
    for one in several or (state,):
        if one.stale_files:
            changed = pluralize(one.stale_files, "file")
            refresh = format_refresh_command(one, one.path if several else index)
            console.note(f"note: {changed} changed, not in this answer; run: {refresh}")
    # The sections of such a file cannot be found, and only this says so.
    if state.skipped_files:
        console.note(f"note: {pluralize(state.skipped_files, 'file')} could not be read; `status` names them")
    # Where the filters left nothing, a note has named the filter.
    if not answer.hits and (answer.scope is None or answer.scope.sections):
        console.note("nothing found: try other words, or --profile recall")
    if footer:
        parts = (describe_search(answer), answer.profile, str(spent), describe_freshness(state), state.note)
        console.note_dim(" | ".join(filter(None, parts)))


def log_stages(answer: "Answer", spent: Spent) -> None:
    """Report how long each stage took."""
    log.info("%8.1f ms  opening", spent.opening)
    for stage in answer.trace.stages:
        log.info("%8.1f ms  %s: %s", stage.milliseconds, stage.name, stage.note)


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
