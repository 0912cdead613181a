"""A summary for people: every system in a row, with intervals; by kind; what it costs; where it loses; every pair."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from retriever.command_line.page import QUIET, Page
from retriever.display.phrases import counted
from retriever.display.sanitize import sanitize_line
from retriever.evaluation.losses import Stage
from retriever.evaluation.measures import BUDGET_NAMES

if TYPE_CHECKING:
    from retriever.evaluation.statistics import Estimate
    from retriever.evaluation.summary import Comparison, Summary, SystemSummary

KIND_MEASURES = 3
"""So many of the headline measures are shown for each kind: nDCG@10, hit@1, hit@5."""

NONE = "-"


def show_summary(page: Page, summary: "Summary") -> None:
    """All tables, a blank line between two."""
    questions = summary.questions
    unanswerable = sum(not item.is_answerable for item in questions.questions)
    text = f"{sanitize_line(questions.name)}: {counted(len(questions.questions), 'question')}"
    without = f", {unanswerable:,} of them without an answer" if unanswerable else ""
    page.line(Text.assemble((text, "bold"), (f"{without}; means with 95 % intervals", QUIET)))
    _show(page, ["", *summary.headlines], ([name, *_headline_cells(summary, name)] for name in _names(summary)))
    if len(questions.kinds) > 1:
        shown = summary.headlines[:KIND_MEASURES]
        page.blank()
        page.line(Text.assemble(("by kind", "bold"), (f"  {' / '.join(shown)}", QUIET)))
        _show(
            page, ["", *_kind_titles(summary)], ([item.system, *_kind_cells(summary, item)] for item in summary.systems)
        )
    page.blank()
    page.line(Text.assemble(("cost", "bold"), ("  of a question; answered@n: within n tokens of context", QUIET)))
    _show(page, _COST_TITLES, (_cost_cells(item) for item in summary.systems))
    if any(item.losses for item in summary.systems):
        page.blank()
        page.line(Text.assemble(("lost", "bold"), ("  how far the best of the right sections came", QUIET)))
        _show(page, ["", *Stage], ([item.system, *_loss_cells(item)] for item in summary.systems))
    if summary.comparisons:
        page.blank()
        page.line(Text.assemble(("pairs", "bold"), ("  difference, 95 % interval, paired randomisation test", QUIET)))
        _show(page, _PAIR_TITLES, map(_pair_cells, summary.comparisons))


def _names(summary: "Summary") -> list[str]:
    return [system.system for system in summary.systems]


def _headline_cells(summary: "Summary", name: str) -> list[str]:
    system = next(item for item in summary.systems if item.system == name)
    return [_interval(system.overall.get(measure)) for measure in summary.headlines]


def _interval(value: "Estimate | None") -> str:
    return NONE if value is None else f"{_share(value.mean)} [{_share(value.low, 2)} {_share(value.high, 2)}]"


def _share(value: float, digits: int = 3) -> str:
    """`.617`, `1.00`."""
    text = f"{value:.{digits}f}"
    return text.removeprefix("0") if value >= 0 else f"-{text.removeprefix('-').removeprefix('0')}"


def _kind_titles(summary: "Summary") -> list[str]:
    count = {
        kind: sum(item.kind == kind and item.is_answerable for item in summary.questions.questions)
        for kind in summary.questions.kinds
    }
    return [f"{kind} ({number})" for kind, number in count.items()]


def _kind_cells(summary: "Summary", system: "SystemSummary") -> list[str]:
    rows = [system.by_kind[kind] for kind in summary.questions.kinds]
    shown = summary.headlines[:KIND_MEASURES]
    return [" / ".join(_share(row[name].mean) if name in row else NONE for name in shown) for row in rows]


_COST_TITLES = [
    "",
    "p50 ms",
    "p95 ms",
    *BUDGET_NAMES,
    "tokens to answer",
    "abstains",
    "wrongly",
    "AUROC",
    "LLM calls",
    "failed",
]


def _cost_cells(system: "SystemSummary") -> list[str]:
    latency = system.latency
    return [
        system.system,
        f"{latency.p50:.1f}" if latency else NONE,
        f"{latency.p95:.1f}" if latency else NONE,
        *(_share(system.overall[name].mean) if name in system.overall else NONE for name in BUDGET_NAMES),
        f"{system.tokens_to_answer:,.0f}" if system.tokens_to_answer is not None else NONE,
        f"{system.abstention:.0%}" if system.abstention is not None else NONE,
        f"{system.false_abstention:.0%}" if system.false_abstention is not None else NONE,
        _share(system.auroc) if system.auroc is not None else NONE,
        f"{system.llm_calls:,}",
        f"{system.failed:,}",
    ]


def _loss_cells(system: "SystemSummary") -> list[str]:
    return [f"{system.losses[stage]:,}" if system.losses else NONE for stage in Stage]


_PAIR_TITLES = ["", "against", "measure", "difference", "p", "won", "lost", "tied"]


def _pair_cells(item: "Comparison") -> list[str]:
    found = item.difference
    sign = "+" if found.mean > 0 else ""
    interval = f"{sign}{_share(found.mean)} [{_share(found.low)} {_share(found.high)}]"
    p = f"{found.p:.4f}{' *' if found.is_significant else ''}"
    return [item.first, item.second, item.measure, interval, p, str(found.wins), str(found.losses), str(found.ties)]


def _show(page: Page, titles: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Columns as wide as their longest cell, the first one left, the others right; rows are never broken."""
    cells = [[sanitize_line(str(cell)) for cell in row] for row in (titles, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for number, row in enumerate(cells):
        first, *others = zip(row, widths, strict=True)
        text = "  ".join([f"{first[0]:<{first[1]}}", *(f"{cell:>{width}}" for cell, width in others)])
        page.line(Text(text, QUIET if number == 0 else ""))
