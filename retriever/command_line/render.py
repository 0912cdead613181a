"""An answer for people: each hit with its citation, where it stands, what it says, and why it was found."""

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from retriever.command_line.console import MATCHED, QUIET, Notes, Page, openable
from retriever.display.phrases import SOURCES, VERDICTS, counted, doubt, find_highlights, freshness, refresh_command
from retriever.display.sanitize import sanitize, sanitize_line
from retriever.trace import Spent

if TYPE_CHECKING:
    from retriever.query import ExpansionReport
    from retriever.types import Answer, Evidence, Hit


INDENT = 4


def show_answer(page: Page, answer: "Answer", *, full: bool) -> None:
    """Every hit, best first, a blank line between two; before them what is to be thought of them, unless it is good."""
    stems = frozenset(answer.matched_words)
    if answer.hits and answer.verdict != "answered":
        page.line(Text(f"{VERDICTS[answer.verdict].sentence.removesuffix('.')}:"))
        page.blank()
    for hit in answer.hits:
        if hit.rank > 1:
            page.blank()
        _show_hit(page, hit, stems, full=full)


def _show_hit(page: Page, hit: "Hit", stems: frozenset[str], *, full: bool) -> None:
    cited = page.cited(f"{openable(hit.folder, hit.file)}:{hit.span}", f"{hit.folder}/{hit.file}", hit.span.first)
    page.line(Text.assemble((f"{hit.rank:>2}  ", QUIET), cited, (doubt(hit.citation_state), QUIET)))
    page.paragraph(Text(page.path_of_titles((*hit.breadcrumb, hit.title))), INDENT)
    if full:
        page.quotation(marked(sanitize(hit.text).expandtabs(4).rstrip("\n"), stems), INDENT)
        if hit.text_cut:
            page.line(
                Text(f"cut here; all of it: hybrid_retrieve.py read {sanitize_line(hit.node_id)!r}", QUIET), INDENT
            )
    elif hit.snippet:  # a heading alone has none
        page.paragraph(marked(sanitize_line(hit.snippet), stems), INDENT)
    page.paragraph(Text(page.dot.join(reasons(hit.evidence)), QUIET), INDENT)


def marked(text: str, stems: frozenset[str]) -> Text:
    """The text, which is sanitized, with the question's words marked."""
    result = Text(text)
    for start, end in find_highlights(text, stems):
        result.stylize(MATCHED, start, end)
    return result


def reasons(evidence: "tuple[Evidence, ...]") -> Iterator[str]:
    """Why a hit was found: each source with its rank and score, the largest share first."""
    for item in evidence:
        score = f"{item.scale} {item.score:.3g}"
        via = f", {sanitize_line(str(item.via))}" if item.via else ""
        yield f"{SOURCES[item.source]} #{item.rank} ({score}{via})"


# What a reader should know about an answer, on standard error: its gaps, its age, what was searched.

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
