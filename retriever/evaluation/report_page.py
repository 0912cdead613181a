"""A summary as one page of HTML that needs nothing else: plots, tables, and every question with what was found.

The page is made from templates/report.html. It refers to nothing outside itself, holds no script, and its content
security policy lets it load nothing. All text that comes from documents or questions is escaped.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from retriever.display.sanitize import open_templates
from retriever.evaluation.measures import MEASURES, Estimate
from retriever.evaluation.questions import Judgements, Question, find_right_sections
from retriever.evaluation.results import HEADLINES, Summary, SystemSummary
from retriever.evaluation.runs import FoundSection, Run

SHOWN_HITS = 5  # of each question; the first right one is shown as well, however far down
NO_VALUE = "\u2014"  # an em dash
_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Band:
    """Ranks that are shown in one colour."""

    name: str  # of its class in report.css
    label: str
    last: float  # its last rank


BANDS = (
    Band("best", "first", 1),
    Band("good", "2 to 5", 5),
    Band("fair", "6 to 10", 10),
    Band("poor", "below 10", 1_000_000),
    Band("lost", "not found", float("inf")),
)
NOT_RANKED = Band("none", "without an answer, or failed", 0)


@dataclass(frozen=True, slots=True)
class Judged:
    """What one system found for one question."""

    rank: int | None  # of the first right section, from 1; None: none was found
    band: Band
    hits: tuple[tuple[int, FoundSection, bool], ...]  # (rank, section, whether it is right), those that are shown
    failures: tuple[str, ...]

    def __str__(self) -> str:
        return f"#{self.rank}" if self.rank else NO_VALUE


def judge(question: Question, run: Run, right: Judgements) -> Judged:
    """Return what of a system's answer is shown, given the sections that are right."""
    outcome = run.outcomes[question.id]
    ranked = [(rank, found, found.node_id in right) for rank, found in enumerate(outcome.found, start=1)]
    first = next((rank for rank, _, is_right in ranked if is_right), None)
    band = next(band for band in BANDS if (first or float("inf")) <= band.last)
    hits = tuple(item for item in ranked if item[0] <= SHOWN_HITS or item[0] == first)
    if outcome.failures or not question.is_answerable:
        first, band = None, NOT_RANKED
    return Judged(first, band, hits, outcome.failures)


@dataclass(frozen=True, slots=True)
class DotPlot:
    """A line for each dot over an axis from 0 to 1; a dashed line at the first one's value."""

    title: str
    label: str  # what the plot shows, for those who cannot see it
    values: Mapping[str, Estimate]  # by system, from top to bottom


def render_report(summary: Summary) -> str:
    questions = summary.questions.questions
    right = {item.id: find_right_sections(item, summary.sections) for item in questions}
    answerable = [question for question in questions if question.is_answerable]
    counts = [f"{sum(item.kind == kind for item in answerable)} {kind}" for kind in summary.questions.kinds]
    if unanswerable := len(questions) - len(answerable):
        counts.append(f"{unanswerable} without an answer in the documents")
    template = open_templates(_HERE / "templates").get_template("report.html")
    return template.render(
        summary=summary,
        headlines=HEADLINES,
        questions=questions,
        counts=counts,
        style=Markup((_HERE / "report.css").read_text(encoding="utf-8")),
        bands=(*BANDS, NOT_RANKED),
        no_value=NO_VALUE,
        measure_plots=list(plot_measures(summary)),
        kind_plots=list(plot_kinds(summary)) if len(summary.questions.kinds) > 1 else [],
        judged={run.system: {item.id: judge(item, run, right[item.id]) for item in questions} for run in summary.runs},
        measure_names=MEASURES,
        other_figures=OTHER_FIGURES,
    )


def plot_measures(summary: Summary) -> Iterator[DotPlot]:
    """Yield a plot for each headline measure, a row for each system."""
    for name in HEADLINES:
        values = {item.system: item.overall[name] for item in summary.systems if name in item.overall}
        if values:
            yield DotPlot(name, f"{name} of each profile", values)


def plot_kinds(summary: Summary) -> Iterator[DotPlot]:
    """Yield a plot for each kind of question, a row for each system, by the first headline measure."""
    name = HEADLINES[0]
    for kind in summary.questions.kinds:
        values = {item.system: item.by_kind[kind][name] for item in summary.systems if name in item.by_kind[kind]}
        if values:
            count = next(iter(values.values())).questions
            yield DotPlot(f"{kind} ({count})", f"{name} on {kind}", values)


def show_value(value: float | None, form: str) -> str:
    return NO_VALUE if value is None else format(value, form)


# What is no measure of a single question.
OTHER_FIGURES: Mapping[str, Callable[[SystemSummary], str]] = {
    "milliseconds (median)": lambda item: f"{item.latency.p50:.1f}",
    "milliseconds (95th percentile)": lambda item: f"{item.latency.p95:.1f}",
    "abstains where there is no answer": lambda item: show_value(item.abstention, ".0%"),
    "abstains where there is one": lambda item: show_value(item.false_abstention, ".0%"),
    "its confidence tells the two apart (AUROC)": lambda item: show_value(item.auroc, ".3f"),
    "questions with a failed stage": lambda item: f"{item.failed:,}",
}
