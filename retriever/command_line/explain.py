"""How an answer was made: every stage with its time, what each source found, and what became of it."""

from typing import TYPE_CHECKING

from rich.text import Text

from retriever.command_line.render import CITED, QUIET, Page
from retriever.display.phrases import SIGNALS, format_doubt
from retriever.display.sanitize import sanitize_line

if TYPE_CHECKING:
    from retriever.trace import Spent
    from retriever.types import Answer

FIRST_RANKS = 5  # of a source, that are shown


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

    parts = {
        (item.source, hit.node_id): f"{item.share:.5f} of hit {hit.rank}"
        for hit in answer.hits
        for item in hit.evidence
    }
    for ranking in trace.rankings:
        page.blank()
        found = f"{len(ranking.items):,} found, by {ranking.scale}, weight {ranking.weight:.3g}"
        page.heading(ranking.source, f"{found}; rank, score, part in the answer")
        for rank, item in enumerate(ranking.items[:FIRST_RANKS], start=1):
            part = parts.get((ranking.source, item.node_id), "-")
            node_id = (sanitize_line(item.node_id), CITED)
            page.line(Text.assemble(f"{rank:>4}  {item.score:>8.4g}  {part:<16}  ", node_id))
            if item.matched or item.via:
                page.line(Text(f"{'':36}{sanitize_line(str(item.matched or item.via))}", QUIET))

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
