"""An answer for people: each hit with its citation, what it says, and why it was found; and how it was made."""

import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.text import Text

from retriever.command_line.console import shorten_citation
from retriever.display.phrases import (
    CLOSEST_PASSAGES,
    CLOSEST_SENTENCES,
    SIGNALS,
    VERDICTS,
    because,
    find_highlights,
    format_doubt,
    format_fields,
    format_section,
    format_status,
    make_editor_link,
    sanitize,
    sanitize_line,
)
from retriever.errors import name_program

if TYPE_CHECKING:
    from retriever.trace import Spent
    from retriever.types import Answer, Cited, CitedSentence, Hit, ShortAnswer, SimilarSections

MAX_WIDTH = 110  # columns: longer lines of prose are hard to read
MIN_WIDTH = 40
MAX_ROWS = 8  # of a table, code or a drawing
FIRST_RANKS = 5  # of a source, that are shown
INDENT = 4

CRUMB = " \u203a "  # between two titles of a breadcrumb
BAR = "\u2502 "  # before each line of a quoted text
CITED = "bold cyan"
MATCHED = "bold yellow"
QUIET = "dim"


class PipeConsole(Console):
    """Leaves a closed pipe to `main`; rich would end the process with 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


@dataclass(frozen=True, slots=True)
class Page:
    """A page of output: wrapped and coloured on a terminal, one line for each item elsewhere."""

    console: Console
    width: int  # columns to wrap at, on a terminal
    has_links: bool = False  # whether citations open in an editor

    @classmethod
    def on(cls, stream: TextIO) -> "Page":
        """Return a page on that stream; colours and links on a terminal alone."""
        width = max(MIN_WIDTH, shutil.get_terminal_size().columns)
        console = PipeConsole(file=stream, width=width, highlight=False, markup=False, emoji=False)
        return cls(console, min(width, MAX_WIDTH), stream.isatty() and os.environ.get("TERM") != "dumb")

    def paragraph(self, text: Text, indent: int = 0) -> None:
        """Print prose; elsewhere than on a terminal it stays one line, so that tools find what is in it."""
        rows = text.wrap(self.console, self.width - indent) if self.console.is_terminal else [text]
        for row in rows:
            self.line(row, indent)

    def line(self, text: Text, indent: int = 0) -> None:
        text.rstrip()
        self.console.print(Text(" " * indent).append_text(text), soft_wrap=True)

    def heading(self, title: str, explanation: str) -> None:
        self.line(Text.assemble((title, "bold"), (f"  {sanitize_line(explanation)}", QUIET)))

    def cite(self, place: "Cited") -> Text:
        """Cite lines of a file; on a terminal they open in the editor that `make_editor_link` finds."""
        text = Text(sanitize_line(shorten_citation(place)), CITED)
        address = make_editor_link(f"{place.folder}/{place.file}", place.cited_lines.first) if self.has_links else ""
        return Text.assemble(f"\x1b]8;;{address}\x1b\\", text, "\x1b]8;;\x1b\\") if address else text

    def quotation(self, text: Text, indent: int) -> None:
        """Print lines of a document unchanged, behind a bar."""
        for row in text.split("\n"):
            self.line(Text.assemble((BAR, QUIET), row), indent)

    def blank(self) -> None:
        self.console.print()


def show_answer(page: Page, answer: "Answer", *, full: bool, headline: bool = True) -> None:
    """Print every hit, best first."""
    stems = frozenset(answer.matched_words)
    if headline and answer.hits and answer.verdict != "answered":
        page.line(Text(f"{VERDICTS[answer.verdict].removesuffix('.')}:"))
        page.blank()
    for hit in answer.hits:
        if hit.rank > 1:
            page.blank()
        show_hit(page, hit, stems, full=full)


def show_similar(page: Page, found: "SimilarSections") -> None:
    """Print the sections near in meaning to another one, nearest first: how near, titles above, what it says."""
    for item in found.sections:
        same = "  same file" if item.same_file else ""
        marks = f"  {item.similarity:.2f}{same}{format_doubt(item.citation_state)}"
        cited = page.cite(item)
        page.line(Text.assemble((f"{item.rank:>2}  ", QUIET), cited, (marks, QUIET)))
        page.paragraph(Text(CRUMB.join(map(sanitize_line, (*item.breadcrumb, item.title)))), INDENT)
        if item.summary:
            page.paragraph(Text(sanitize_line(item.summary), QUIET), INDENT)


def show_hit(page: Page, hit: "Hit", stems: frozenset[str], *, full: bool) -> None:
    """Print the citation, the titles above the section, its text or the part that matched, and why it is a hit."""
    cited = page.cite(hit)
    beside = f"{format_section(hit)}{format_doubt(hit.citation_state)}"
    page.line(Text.assemble((f"{hit.rank:>2}  ", QUIET), cited, (beside, QUIET)))
    page.paragraph(Text(CRUMB.join(map(sanitize_line, (*hit.breadcrumb, hit.title)))), INDENT)
    if full:
        page.quotation(mark_words(sanitize(hit.text).expandtabs(4).rstrip("\n"), stems), INDENT)
        if hit.text_cut:
            command = f"{name_program()} read {sanitize_line(hit.node_id)!r}"
            page.line(Text(f"cut here; all of it: {command}", QUIET), INDENT)
    elif rows := find_rows(hit, stems):
        show_rows(page, rows, stems, INDENT)
    elif hit.rank == 1 and "\n" in hit.sentence:
        show_list(page, hit.sentence, stems, INDENT)
    elif hit.snippet:  # a heading alone has none
        page.paragraph(mark_words(sanitize_line(hit.snippet), stems), INDENT)
    if fields := format_fields(hit):
        page.paragraph(mark_words(sanitize_line(fields), stems), INDENT)
    page.paragraph(Text(f"because: {sanitize_line(because(hit.words, hit.reasons))}", QUIET), INDENT)


def show_rows(page: Page, rows: list[str], stems: frozenset[str], indent: int) -> None:
    """Print lines unchanged, each cut where the terminal ends."""
    width = page.width - indent - len(BAR) if page.console.is_terminal else max(map(len, rows))
    text = "\n".join(row if len(row) <= width else f"{row[: width - 1]}\u2026" for row in rows)
    page.quotation(mark_words(sanitize(text), stems), indent)


def show_list(page: Page, text: str, stems: frozenset[str], indent: int = 0) -> None:
    """Print the items of a list, each on its line."""
    for row in text.split("\n"):
        page.paragraph(mark_words(sanitize_line(row), stems), indent)


def find_rows(hit: "Hit", stems: frozenset[str]) -> list[str]:
    """Return the lines of a passage that holds a table or code: those around the most words of the question."""
    rows = [row.expandtabs(4).rstrip() for row in hit.verbatim]
    if len(rows) <= MAX_ROWS or "\n" in hit.sentence:
        return rows if len(rows) <= MAX_ROWS else []  # of a list, its items are shown
    matches = [len(find_highlights(row, stems)) for row in rows]
    best = min(matches.index(max(matches)), len(rows) - MAX_ROWS + 1)
    head = rows[:1] if rows[0].lstrip().startswith("|") and best else []
    return [*head, *rows[best : best + MAX_ROWS - len(head)]]


def mark_words(text: str, stems: frozenset[str]) -> Text:
    """Return the text, which is sanitized, with the question's words marked."""
    result = Text(text)
    for start, end in find_highlights(text, stems):
        result.stylize(MATCHED, start, end)
    return result


# A short answer.


def show_sentence(page: Page, sentence: "CitedSentence", found: list["Answer"]) -> None:
    """Print a sentence and the lines that it rests on, at once; above the first one whether it is sure to answer.

    Code that is quoted keeps its lines, a list its items.
    """
    answer, is_quoted = found[0], sentence.text == sentence.quote
    if len(found) == 1:
        found.append(answer)  # so that the others come without a headline
        if answer.verdict == "weak":
            page.line(Text(CLOSEST_PASSAGES if is_quoted else CLOSEST_SENTENCES))
            page.blank()
    stems = frozenset(answer.matched_words)
    doubt = f"{format_doubt(sentence.citation_state)}{sanitize_line(format_status(sentence, answer.hits))}"
    cited = page.cite(sentence).append(doubt, QUIET)
    quoted = [hit for hit in answer.hits if is_quoted and hit.node_id == sentence.node_id]
    rows = find_rows(quoted[0], stems) if quoted and quoted[0].passage == sentence.span else []
    if "\n" in sentence.text:
        show_list(page, sentence.text, stems)
        page.line(cited)
    elif rows and not rows[0].lstrip().startswith("|"):  # a row of a table becomes a sentence, with its headers
        show_rows(page, rows, stems, 0)
        page.line(cited)
    else:
        page.paragraph(Text(f"{sanitize_line(sentence.text)}  ").append_text(cited))
    page.console.file.flush()


def show_dropped(page: Page, short: "ShortAnswer") -> None:
    """Print what the model wrote that does not hold; then a line between the sentences and the sections."""
    for item in short.dropped:
        page.paragraph(Text(f"dropped: {sanitize_line(item.text)} ({sanitize_line(item.reason)})", QUIET), INDENT)
    if short.sentences or short.dropped:
        page.blank()


# How an answer was made.


def show_explanation(page: Page, answer: "Answer", spent: "Spent") -> None:
    """Write the stages, the verdict, each source's first ranks with their parts in the answer, the fused sums."""
    trace = answer.trace
    page.blank()
    page.heading("stages", "milliseconds, and what was found")
    rows = [
        (spent.opening, "opening", "modules, index, changed files"),
        *((stage.milliseconds, stage.name, stage.note) for stage in trace.stages),
        (spent.total, "total", ""),
    ]
    width = max(len(name) for _, name, _ in rows)
    for milliseconds, name, note in rows:
        page.line(Text.assemble(f"{milliseconds:>9.1f}  ", f"{name:<{width}}  ", (sanitize_line(note), QUIET)))

    page.blank()
    page.heading("verdict", f"{answer.verdict}, confidence {answer.confidence:.2f}")
    for name, meaning in SIGNALS:
        value: float | None = getattr(trace.signals, name)
        shown = "-" if value is None else f"{value:.2f}"
        page.line(Text.assemble(f"{shown:>9}  {name:<9}  ", (meaning, QUIET)))
    page.line(Text.assemble(f"{trace.signals.form:>9}  {'form':<9}  ", ("what the question is made of", QUIET)))

    for ranking in trace.rankings:
        page.blank()
        found = f"{len(ranking.items):,} found, by {ranking.scale}, weight {ranking.weight:.3g}"
        page.heading(ranking.source, f"{found}; rank, score")
        for rank, item in enumerate(ranking.items[:FIRST_RANKS], start=1):
            page.line(Text.assemble(f"{rank:>4}  {item.score:>8.4g}  ", (sanitize_line(item.node_id), CITED)))
            if item.matched or item.via:
                page.line(Text(f"{'':16}{sanitize_line(str(item.matched or item.via))}", QUIET))

    page.blank()
    page.heading("fused", f"{answer.hits[0].scale}; hit, score, its parts" if answer.hits else "no hits")
    for hit in answer.hits:
        sum_of_parts = " + ".join(f"{item.share:.5f} {item.source}" for item in hit.evidence)
        cited, state = (sanitize_line(hit.citation), CITED), (format_doubt(hit.citation_state), QUIET)
        page.line(Text.assemble(f"{hit.rank:>4}  {hit.score:>8.5f} = {sum_of_parts}  ", cited, state))
    show_hypothetical(page, answer)


def show_hypothetical(page: Page, answer: "Answer") -> None:
    """Write what a language model made up to search with: no content of any document."""
    report = answer.expansion
    if report is None or not (report.rewordings or report.passages or report.dropped):
        return
    page.blank()
    page.heading("hypothetical", "written by a language model to search with, found in no document")
    for text in (*report.rewordings, *report.passages):
        page.line(Text(f"  searched with  {sanitize_line(text)}", QUIET))
    for item in report.dropped:
        page.line(Text(f"  dropped        {sanitize_line(item.text)} ({sanitize_line(item.reason)})", QUIET))
