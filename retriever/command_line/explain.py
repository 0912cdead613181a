"""How an answer was made: every stage with its time, what each arm found, and what became of it."""

from typing import TYPE_CHECKING

from rich.text import Text

from retriever.command_line.page import CITED, QUIET, Page
from retriever.display.phrases import SIGNALS, doubt
from retriever.display.sanitize import sanitize_line
from retriever.timing import Spent

if TYPE_CHECKING:
    from retriever.types import Answer, Ranking

FIRST_RANKS = 5
"""How many of an arm's ranks are shown."""


def show_explanation(page: Page, answer: "Answer", spent: Spent) -> None:
    """The stages, the verdict, each arm's first ranks with the part that each has in the answer, the fused sums."""
    page.blank()
    _show_stages(page, answer, spent)
    page.blank()
    _show_verdict(page, answer)
    parts = {
        (item.arm, hit.node_id): f"{item.share:.5f} of hit {hit.rank}" for hit in answer.hits for item in hit.evidence
    }
    for ranking in answer.trace.rankings:
        page.blank()
        _show_ranking(page, ranking, parts)
    page.blank()
    _show_sums(page, answer)


def _show_stages(page: Page, answer: "Answer", spent: Spent) -> None:
    _heading(page, "stages", "milliseconds, and what was found")
    stages = answer.trace.stages
    width = max((len(stage.name) for stage in stages), default=0)
    width = max(width, len("opening"))
    _row(page, spent.opening, "opening".ljust(width), "modules, index, changed files")
    for stage in stages:
        _row(page, stage.milliseconds, stage.name.ljust(width), stage.note)
    _row(page, spent.total, "total".ljust(width), "")


def _row(page: Page, milliseconds: float, name: str, note: str) -> None:
    page.line(Text.assemble(f"{milliseconds:>9.1f}  ", name, "  ", (sanitize_line(note), QUIET)))


def _show_ranking(page: Page, ranking: "Ranking", parts: dict[tuple[str, str], str]) -> None:
    found = f"{len(ranking.items):,} found, by {ranking.scale}, weight {ranking.weight:.3g}"
    _heading(page, ranking.arm, f"{found}; rank, score, part in the answer")
    for rank, item in enumerate(ranking.items[:FIRST_RANKS], start=1):
        part = parts.get((ranking.arm, item.node_id), "-")
        page.line(Text.assemble(f"{rank:>4}  {item.score:>8.4g}  {part:<16}  ", (sanitize_line(item.node_id), CITED)))
        if item.origin:
            page.line(Text(f"{'':36}{sanitize_line(item.origin)}", QUIET))


def _show_sums(page: Page, answer: "Answer") -> None:
    _heading(page, "fused", f"{answer.hits[0].scale}; hit, score, its parts" if answer.hits else "no hits")
    for hit in answer.hits:
        parts = " + ".join(f"{item.share:.5f} {item.arm}" for item in hit.evidence)
        cited = (sanitize_line(hit.citation), CITED)
        page.line(
            Text.assemble(f"{hit.rank:>4}  {hit.score:>8.5f} = {parts}  ", cited, (doubt(hit.citation_state), QUIET))
        )


def _show_verdict(page: Page, answer: "Answer") -> None:
    _heading(page, "verdict", f"{answer.verdict}, confidence {answer.confidence:.2f}")
    signals = answer.trace.signals
    for name, meaning in SIGNALS:
        value: float | None = getattr(signals, name)
        shown = "-" if value is None else f"{value:.2f}"
        page.line(Text.assemble(f"{shown:>9}  {name:<9}  ", (meaning, QUIET)))
    page.line(Text.assemble(f"{signals.form:>9}  {'form':<9}  ", ("what the question is made of", QUIET)))


def show_hypothetical(page: Page, answer: "Answer") -> None:
    """What a language model made up to search with: no content of any document."""
    report = answer.expansion
    page.blank()
    _heading(page, "hypothetical", "written by a language model to search with, found in no document")
    for text in (*report.rewordings, *report.passages) if report else ():
        page.line(Text(f"  searched with  {sanitize_line(text)}", QUIET))
    for item in report.dropped if report else ():
        page.line(Text(f"  dropped        {sanitize_line(item.text)} ({sanitize_line(item.reason)})", QUIET))


def _heading(page: Page, title: str, explanation: str) -> None:
    page.line(Text.assemble((title, "bold"), (f"  {sanitize_line(explanation)}", QUIET)))
