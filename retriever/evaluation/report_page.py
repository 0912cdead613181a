"""A summary as one page of HTML that needs nothing else: plots, tables, and every question with what was found.

The page is made from templates/report.html. It refers to nothing outside itself, and its content security policy lets
it load nothing. All text that comes from documents or questions is escaped.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from retriever.display.sanitize import open_templates
from retriever.evaluation.measures import MEASURES
from retriever.evaluation.questions import Question, QuestionSet, Sections, find_right_sections
from retriever.evaluation.results import HEADLINES, Summary, SystemSummary
from retriever.evaluation.runs import FoundSection, Run
from retriever.evaluation.statistics import Estimate

SHOWN_HITS = 5  # of each question; the first right one is shown as well, however far down
NO_VALUE = "\u2014"  # an em dash
_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Band:
    """Ranks that are shown in one colour."""

    name: str  # of its class in report.css
    label: str
    last: int | None = None  # its last rank; None: no rank at all


BANDS = (
    Band("best", "first", 1),
    Band("good", "2 to 5", 5),
    Band("fair", "6 to 10", 10),
    Band("poor", "below 10", 1_000_000),
    Band("lost", "not found"),
)
NOT_RANKED = Band("none", "without an answer, or failed")


@dataclass(frozen=True, slots=True)
class FirstRight:
    rank: int | None  # from 1; None: none was found
    band: Band

    def __str__(self) -> str:
        return f"#{self.rank}" if self.rank else NO_VALUE


class Judge:
    """Says which sections are right."""

    def __init__(self, questions: QuestionSet, sections: Sections) -> None:
        self._right = {question.id: find_right_sections(question, sections) for question in questions.questions}

    def first_right(self, question: Question, run: Run) -> FirstRight:
        outcome = run.outcomes[question.id]
        if outcome.failures or not question.is_answerable:
            return FirstRight(None, NOT_RANKED)
        places = enumerate(outcome.found, start=1)
        rank = next((place for place, found in places if found.node_id in self._right[question.id]), None)
        band = next(band for band in BANDS if band.last is None or (rank is not None and rank <= band.last))
        return FirstRight(rank, band)

    def shown_hits(self, question: Question, run: Run) -> Iterator[tuple[int, FoundSection, bool]]:
        """Yield (place from 1, section, whether it is right) of the first hits, and of the first right one."""
        shown_right = False
        for place, found in enumerate(run.outcomes[question.id].found, start=1):
            right = found.node_id in self._right[question.id]
            if place <= SHOWN_HITS or (right and not shown_right):
                yield place, found, right
            shown_right = shown_right or right


@dataclass(frozen=True, slots=True)
class DotPlot:
    """A line for each dot over an axis from 0 to 1; a dashed line at the first one's value."""

    title: str
    label: str  # what the plot shows, for those who cannot see it
    values: Mapping[str, Estimate]  # by system, from top to bottom


def render_report(summary: Summary) -> str:
    environment = open_templates(_HERE / "templates")
    style, script = (Markup((_HERE / name).read_text(encoding="utf-8")) for name in ("report.css", "report.js"))
    questions = summary.questions.questions
    answerable = [question for question in questions if question.is_answerable]
    counts = [f"{sum(item.kind == kind for item in answerable)} {kind}" for kind in summary.questions.kinds]
    if unanswerable := len(questions) - len(answerable):
        counts.append(f"{unanswerable} without an answer in the documents")
    judge = Judge(summary.questions, summary.sections)
    ranks = {run.system: {item.id: judge.first_right(item, run) for item in questions} for run in summary.runs}
    # The parts of each bar: a band, its meaning, and how many questions are in it.
    rank_bars = {}
    for system, first in ranks.items():
        sizes = Counter(right.band for right in first.values())
        rank_bars[system] = [(band, f"with the first right answer {band.label}", sizes[band]) for band in BANDS]
    return environment.get_template("report.html").render(
        summary=summary,
        headlines=HEADLINES,
        questions=questions,
        counts=counts,
        style=style,
        script=script,
        judge=judge,
        bands=BANDS,
        not_ranked=NOT_RANKED,
        no_value=NO_VALUE,
        measure_plots=list(plot_measures(summary)),
        kind_plots=list(plot_kinds(summary)) if len(summary.questions.kinds) > 1 else [],
        ranks=ranks,
        rank_bars=rank_bars,
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
    "milliseconds (median)": lambda item: show_value(item.latency.p50 if item.latency else None, ".1f"),
    "milliseconds (95th percentile)": lambda item: show_value(item.latency.p95 if item.latency else None, ".1f"),
    "abstains where there is no answer": lambda item: show_value(item.abstention, ".0%"),
    "abstains where there is one": lambda item: show_value(item.false_abstention, ".0%"),
    "its confidence tells the two apart (AUROC)": lambda item: show_value(item.auroc, ".3f"),
    "calls of a language model": lambda item: f"{item.llm_calls:,}",
    "questions with a failed stage": lambda item: f"{item.failed:,}",
}
