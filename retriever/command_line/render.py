"""An answer for people: each hit with its citation, what it says, and why it was found; and how it was made."""

import shutil
from collections.abc import Container, Iterable, Sequence
from functools import partial
from itertools import pairwise

from rich.cells import cell_len
from rich.console import Console
from rich.style import Style
from rich.text import Text

from retriever.display import (
    HEADLINES,
    SIGNALS,
    VERDICTS,
    because,
    find_highlights,
    format_doubt,
    format_fields,
    format_status,
    make_editor_link,
    sanitize,
    sanitize_line,
    shorten_citation,
)
from retriever.errors import name_program
from retriever.trace import Spent
from retriever.types import Answer, Cited, Hit, Marked, Neighbour, ShortAnswer, SimilarSections

MAX_WIDTH = 110  # columns: longer lines of prose are hard to read
MIN_WIDTH = 40
MAX_ROWS = 8  # of a table, code or a drawing
FIRST_RANKS = 5  # of a source, that are shown
INDENT = 4

CRUMB = " \u203a "  # between two titles of a breadcrumb
BAR = "\u2502 "  # before each line of a quoted text
CITED = Style(bold=True, color="cyan")
MATCHED = "bold yellow"
QUIET = "dim"


class Page(Console):
    """A page of output: wrapped and coloured on a terminal, one line for each item elsewhere."""

    marked: Marked = ((), ())

    def __init__(self) -> None:
        """Begin a page on standard output; colours on a terminal alone."""
        self.columns = min(MAX_WIDTH, max(MIN_WIDTH, shutil.get_terminal_size().columns))  # to wrap at
        super().__init__(width=self.columns, highlight=False, markup=False, emoji=False)

    def on_broken_pipe(self) -> None:
        """Leave a closed pipe to `main`; rich would end the process with 1."""
        raise BrokenPipeError

    def mark(self, text: str) -> Text:
        """Return the text, which is sanitized, with the question's words marked."""
        result = Text(text)
        for start, end in find_highlights(text, *self.marked):
            result.stylize(MATCHED, start, end)
        return result

    def prose(self, text: str, indent: int = 0) -> None:
        """Print prose of documents as one paragraph, its words marked."""
        self.paragraph(self.mark(sanitize_line(text)), indent)

    def paragraph(self, text: Text, indent: int = 0) -> None:
        """Print prose; elsewhere than on a terminal it stays one line, so that tools find what is in it."""
        rows = text.divide(find_breaks(text.plain, self.columns - indent)[1:]) if self.is_terminal else [text]
        for row in rows:
            self.row(row, indent)

    def row(self, text: Text, indent: int = 0) -> None:
        text.rstrip()
        self.print(Text(" " * indent).append_text(text), soft_wrap=True)

    def cite(self, place: Cited) -> Text:
        """Cite lines of a file; on a terminal they open in the editor that `make_editor_link` finds."""
        is_linked = self.file.isatty()
        address = make_editor_link(place) if is_linked else None
        return Text.assemble((sanitize_line(shorten_citation(place)), CITED + Style(link=address)))

    def quote(self, rows: Iterable[str], indent: int = 0, *, cuts: bool = False) -> None:
        """Print lines of a document behind a bar, unchanged; or each cut where the terminal ends, cells unpadded."""
        for row in rows:
            # The cells of a table may be padded with more blanks than fit.
            shown = " ".join(row.split()) if cuts and row.lstrip().startswith("|") else row.expandtabs(4)
            line = Text.assemble((BAR, QUIET), self.mark(sanitize(shown)))
            if cuts and self.is_terminal:
                line.truncate(self.columns - indent, overflow="ellipsis")
            self.row(line, indent)

    def table(self, title: str, explanation: str, rows: Sequence[Sequence[str]], left: Container[int] = (0,)) -> None:
        """Print a heading, and columns as wide as their longest cell, some to the left; rows are never broken."""
        self.line()
        self.row(Text.assemble((sanitize_line(title), "bold"), (f"  {sanitize_line(explanation)}", QUIET)))
        cells = [[sanitize_line(cell) for cell in row] for row in rows]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for row in cells:
            columns = enumerate(zip(row, widths, strict=True))
            shown = (cell.ljust(width) if place in left else cell.rjust(width) for place, (cell, width) in columns)
            self.row(Text("  ".join(shown)))


def find_breaks(text: str, width: int) -> list[int]:
    """Return where lines of at most `width` columns begin: behind blanks, and at letters of two columns.

    Chinese and Japanese have no blanks between words.

    >>> find_breaks("- 所有学生都应该去申请。", 11), find_breaks("a longer-than-all word", 11)
    ([0, 6, 11], [0, 2, 13])
    """
    begins, last = [0], 0
    for place, (before, character) in enumerate(pairwise(f" {text}")):
        if before.isspace() or (cell_len(character) == 2 and character.isalnum()):
            last = place
        if cell_len(text[begins[-1] : place + 1].rstrip()) > width:
            begins.append(last if last > begins[-1] else place)  # what has no such place is cut
    return begins


def show_answer(page: Page, answer: Answer, *, full: bool, headline: bool = True) -> None:
    """Print every hit, best first."""
    page.marked = answer.marked
    if headline and answer.hits and answer.verdict != "answered":
        page.row(Text(f"{VERDICTS[answer.verdict].removesuffix('.')}:"))
        page.line()
    for hit in answer.hits:
        if hit.rank > 1:
            page.line()
        show_hit(page, hit, full=full)


def show_similar(page: Page, found: SimilarSections) -> None:
    """Print the sections near in meaning to another one, nearest first: how near, titles above, what it says."""
    for item in found.sections:
        show_place(page, item, f"  {item.similarity:.2f}")
        if item.summary:
            page.paragraph(Text(sanitize_line(item.summary), QUIET), INDENT)


def show_place(page: Page, found: Hit | Neighbour, beside: str) -> None:
    """Print the citation of a section, with something beside it, and the titles above it."""
    doubt = format_doubt(found.citation_state)
    page.row(Text.assemble((f"{found.rank:>2}  ", QUIET), page.cite(found), (f"{beside}{doubt}", QUIET)))
    page.paragraph(Text(CRUMB.join(map(sanitize_line, (*found.breadcrumb, found.title)))), INDENT)


def show_hit(page: Page, hit: Hit, *, full: bool) -> None:
    """Print the citation, the titles above the section, its text or the part that matched, and why it is a hit."""
    show_place(page, hit, "" if hit.passage == hit.span else f"  in section {hit.span}")
    if full:
        page.quote(hit.text.rstrip("\n").split("\n"), INDENT)
        if hit.text_cut:
            command = f"{name_program()} read {sanitize_line(hit.node_id)!r}"
            page.row(Text(f"cut here; all of it: {command}", QUIET), INDENT)
    elif rows := find_rows(hit, page.marked):
        page.quote(rows, INDENT, cuts=True)
    elif hit.rank == 1 and "\n" in hit.sentence:
        for item in hit.sentence.split("\n"):
            page.prose(item, INDENT)
    elif hit.snippet:  # a heading alone has none
        page.prose(hit.snippet, INDENT)
    if fields := format_fields(hit):
        page.prose(fields, INDENT)
    page.paragraph(Text(f"because: {sanitize_line(because(hit.words, hit.reasons))}", QUIET), INDENT)


def find_rows(hit: Hit, marked: Marked) -> Sequence[str]:
    """Return the lines of a passage that holds a table or code: those around the most words of the question."""
    rows = hit.verbatim
    if len(rows) <= MAX_ROWS:
        return rows
    if "\n" in hit.sentence:
        return ()  # of a list, its items are shown
    matches = [len(find_highlights(row, *marked)) for row in rows]
    best = min(matches.index(max(matches)), len(rows) - MAX_ROWS + 1)
    head = rows[:1] if rows[0].lstrip().startswith("|") and best else ()
    return (*head, *rows[best : best + MAX_ROWS - len(head)])


# A short answer.


def show_sentences(page: Page, short: ShortAnswer) -> None:
    """Print the sentences of a short answer and the lines that each rests on, below who wrote them.

    Code that is quoted keeps its lines, a list its items.
    """
    answer = short.answer
    if short.writer:  # below what is quoted
        page.line()
        page.row(Text(f"Written by {sanitize_line(short.writer)}, and checked:"))
    elif answer.verdict != "answered":
        page.row(Text(HEADLINES[answer.verdict]))
        page.line()
    page.marked = answer.marked
    for sentence in short.sentences:
        doubt = f"{format_doubt(sentence.citation_state)}{sanitize_line(format_status(sentence, answer.hits))}"
        cited = page.cite(sentence).append(doubt, QUIET)
        place = sentence.node_id, sentence.span
        quoted = (hit for hit in answer.hits if not short.writer and (hit.node_id, hit.passage) == place)
        rows = next((find_rows(hit, page.marked) for hit in quoted), ())
        if "\n" in sentence.text:
            for item in sentence.text.split("\n"):
                page.prose(item)
            page.row(cited)
        elif rows and not rows[0].lstrip().startswith("|"):  # a row of a table becomes a sentence, with its headers
            page.quote(rows, cuts=True)
            page.row(cited)
        else:
            page.paragraph(Text(f"{sanitize_line(sentence.text)}  ").append_text(cited))
    page.file.flush()


def show_dropped(page: Page, short: ShortAnswer) -> None:
    """Print what the model wrote that does not hold; then a line between the sentences and the sections."""
    for item in short.dropped:
        page.paragraph(Text(f"dropped: {sanitize_line(item.text)} ({sanitize_line(item.reason)})", QUIET), INDENT)
    if short.sentences or short.dropped:
        page.line()


# How an answer was made.


def show_explanation(page: Page, answer: Answer, spent: Spent) -> None:
    """Print the stages, the verdict, each source's first ranks, the fused sums, and what a language model made up."""
    trace, table = answer.trace, partial(page.table, left=(1, 2))
    stages = [(f"{stage.milliseconds:.1f}", stage.name.value, stage.note) for stage in trace.stages]
    opening = (f"{spent.opening:.1f}", "opening", "modules, index, changed files")
    table("stages", "milliseconds, and what was found", [opening, *stages, (f"{spent.total:.1f}", "total", "")])

    values = ((getattr(trace.signals, name), name, meaning) for name, meaning in SIGNALS)
    signals = [("-" if value is None else f"{value:.2f}", name, meaning) for value, name, meaning in values]
    form = (trace.signals.form, "form", "what the question is made of")
    table("verdict", f"{answer.verdict}, confidence {answer.confidence:.2f}", [*signals, form])

    for ranking in trace.rankings:
        first = ranking.items[:FIRST_RANKS]
        found = f"{len(ranking.items):,} found, by {ranking.scale}, weight {ranking.weight:.3g}; score"
        rows = [(f"{item.score:.4g}", item.node_id, str(item.matched or item.via or "")) for item in first]
        table(ranking.source, found, rows)

    fused = []
    for hit in answer.hits:
        sum_of_parts = " + ".join(f"{item.share:.5f} {item.source}" for item in hit.evidence)
        fused.append((f"{hit.score:.5f}", f"{hit.citation}{format_doubt(hit.citation_state)}", f"= {sum_of_parts}"))
    table("fused", answer.hits[0].scale if answer.hits else "no hits", fused)

    if report := answer.expansion:
        texts = [("", "searched with", text) for text in (*report.rewordings, *report.passages)]
        texts += [("", "dropped", f"{item.text} ({item.reason})") for item in report.dropped]
        if texts:
            table("hypothetical", "written by a language model to search with, found in no document", texts)
