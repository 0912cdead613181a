"""The plots of a report: which numbers go into which plot."""

from collections.abc import Mapping, Sequence
from html import escape

from retriever.evaluation.losses import Stage
from retriever.evaluation.plots import Cell, Dot, Part, dot_plot, grid, stacked_bars
from retriever.evaluation.ranks import BANDS, NOT_RANKED, Judge
from retriever.evaluation.statistics import Estimate
from retriever.evaluation.summary import Summary

_TICKS = tuple((value / 4, f"{value / 4:g}") for value in range(5))

_GRID_COLUMNS = 20

STAGES: Mapping[Stage, str] = {
    Stage.RETURNED: "best",
    Stage.BELOW: "fair",
    Stage.CUT: "poor",
    Stage.NO_ARM: "lost",
}
"""The classes of the stages in the style sheet, best first."""

STAGE_LABELS: Mapping[Stage, str] = {
    Stage.RETURNED: "returned",
    Stage.BELOW: "a candidate, below top_k",
    Stage.CUT: "found by an arm, below the candidate cap",
    Stage.NO_ARM: "found by no arm",
}


def panel(title: str, body: str) -> str:
    """A plot under its title."""
    return f'<figure class="panel"><h3>{escape(title)}</h3>{body}</figure>'


def measure_panels(summary: Summary) -> list[str]:
    """A panel for each headline measure, a row for each system."""
    panels = []
    for name in summary.headlines:
        dots = [_dot(item.system, item.overall[name]) for item in summary.systems if name in item.overall]
        if dots:
            panels.append(panel(name, dot_plot(f"{name} of each profile", dots, 1.0, _TICKS)))
    return panels


def kind_panels(summary: Summary) -> list[str]:
    """A panel for each kind, a row for each system, by the first headline measure."""
    name = summary.headlines[0]
    panels = []
    for kind in summary.questions.kinds:
        values = {item.system: item.by_kind[kind] for item in summary.systems if name in item.by_kind[kind]}
        dots = [_dot(system, measures[name]) for system, measures in values.items()]
        if dots:
            count = next(iter(values.values()))[name].questions
            panels.append(panel(f"{kind} ({count})", dot_plot(f"{name} on {kind}", dots, 1.0, _TICKS)))
    return panels


def _dot(label: str, value: Estimate) -> Dot:
    title = f"{label}: {value.mean:.3f}, 95 % interval {value.low:.3f} to {value.high:.3f}, {value.questions} questions"
    return Dot(label, value.mean, value.low, value.high, f"{value.mean:.3f}", title)


def rank_panels(summary: Summary, judge: Judge) -> list[str]:
    """A panel for each system: how many questions in each band, and every question as a square."""
    panels = []
    for run in summary.runs:
        ranked = {item.id: judge.ranked(item, run) for item in summary.questions.questions}
        parts = [
            Part(band.name, f"with the first right answer {band.label}", count)
            for band in BANDS
            if (count := sum(item.band is band for item in ranked.values()))
        ]
        cells = [
            Cell(ranked[item.id].band.name, f"{item.id}: {ranked[item.id].text} {item.text}", question_anchor(item.id))
            for item in summary.questions.questions
        ]
        bars = stacked_bars(f"Ranks of the first right answer, {run.system}", [(run.system, parts)])
        squares = grid(f"Rank of the first right answer to each question, {run.system}", cells, _GRID_COLUMNS)
        panels.append(f'<figure class="panel">{bars}{squares}</figure>')
    return panels


def question_anchor(question_id: str) -> str:
    """The id of a question's element on the page."""
    return f"question-{question_id}"


def legend() -> str:
    """The bands of ranks and their colours."""
    return _legend([(band.name, band.label) for band in (*BANDS, NOT_RANKED)])


def stage_legend() -> str:
    """The stages and their colours."""
    return _legend([(name, STAGE_LABELS[stage]) for stage, name in STAGES.items()])


def _legend(items: Sequence[tuple[str, str]]) -> str:
    entries = "".join(f'<li><span class="{name}"></span>{escape(label)}</li>' for name, label in items)
    return f'<ul class="legend">{entries}</ul>'


def loss_panel(summary: Summary) -> str:
    """A bar for each system; empty where no trace is known."""
    bars = [
        (system.system, [Part(name, STAGE_LABELS[stage], system.losses[stage]) for stage, name in STAGES.items()])
        for system in summary.systems
        if system.losses
    ]
    return panel("Questions", stacked_bars("At which stage answers are lost", bars)) if bars else ""


def latency_panel(summary: Summary) -> str:
    """A line for each system, from the median to the 95th percentile; empty where no clock ran."""
    timed = [(system.system, system.latency) for system in summary.systems if system.latency]
    if not timed:
        return ""
    top = _round_up(max(latency.p95 for _, latency in timed))
    dots = [
        Dot(
            name,
            item.p50,
            item.p50,
            item.p95,
            f"{item.p50:.1f}",
            f"{name}: {item.p50:.1f} ms, 95 % below {item.p95:.1f} ms",
        )
        for name, item in timed
    ]
    ticks = [(top * part / 4, f"{top * part / 4:g}") for part in range(5)]
    return panel("Milliseconds", dot_plot("Milliseconds of a question", dots, top, ticks))


def _round_up(value: float) -> float:
    """The next 1, 2, 4 or 8 times a power of ten."""
    scale = 1.0
    while scale * 8 < value:
        scale *= 10
    return next(step * scale for step in (0.1, 0.2, 0.4, 0.8, 1, 2, 4, 8) if step * scale >= value)
