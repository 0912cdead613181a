"""What a reader should know about an answer, on standard error: its gaps, its age, what was searched."""

import logging
from typing import TYPE_CHECKING

from retriever.command_line.notes import Notes
from retriever.command_line.terminal import openable
from retriever.display.phrases import counted, freshness, refresh_command
from retriever.timing import Spent

if TYPE_CHECKING:
    from retriever.query import ExpansionReport
    from retriever.types import Answer

log = logging.getLogger(__name__)


def make_remarks(answer: "Answer", notes: Notes, spent: Spent, *, index: str | None, footer: bool) -> None:
    """Says all that applies; `index` as it was given with --index; `footer` for people alone."""
    log.info("%8.1f ms  opening", spent.opening)
    for stage in answer.trace.stages:
        log.info("%8.1f ms  %s: %s", stage.milliseconds, stage.name, stage.note)
    state = answer.index
    for sentence in answer.degraded:
        notes.say(f"note: {sentence}")
    if answer.expansion is not None and answer.expansion.used:
        notes.aside(expanded(answer.expansion))
    if state.stale_files:
        changed = counted(state.stale_files, "file")
        notes.say(f"note: {changed} changed, not in this answer; run: {refresh_command(state, index)}")
    if state.skipped_files:
        notes.say(f"note: {counted(state.skipped_files, 'file')} could not be read; `status` names them")
    if not answer.hits:
        notes.say("nothing found: try other words, or --profile recall")
    if footer:
        notes.aside(searched(answer, spent))


def expanded(report: "ExpansionReport") -> str:
    """One line: what was searched with besides the question."""
    used = f"{counted(len(report.rewordings), 'rewording')}, {counted(len(report.passages), 'hypothetical passage')}"
    return f"also searched with {used} ({report.note})"


def searched(answer: "Answer", spent: Spent) -> str:
    """One line: how much was searched, how, and how fresh it is."""
    state = answer.index
    amount = f"{counted(state.sections, 'section')} of {counted(state.documents, 'file')}"
    folders = ", ".join(openable(folder, ".") for folder in state.folders)
    return f"searched {amount} in {folders} | {answer.profile} | {spent} | {freshness(state)}"
