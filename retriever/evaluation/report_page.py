"""A summary as one page of HTML that needs nothing else: plots, every pair, every question with what was found.

The page is made from report.html. It refers to nothing outside itself, holds no script, and its content
security policy lets it load nothing. All text that comes from documents or questions is escaped.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from retriever.display.sanitize import open_templates
from retriever.evaluation.measures import Estimate
from retriever.evaluation.questions import Question
from retriever.evaluation.results import HEADLINES, Run, Summary

SHOWN_HITS = 5  # of each question; the first right one is shown as well, however far down
_HERE = Path(__file__).parent

# How high the first right section stands: the class in report.css, what it says, and the last rank.
BANDS = (("best", "first", 1), ("good", "2 to 5", 5), ("fair", "6 to 10", 10), ("poor", "below 10", 1_000_000))
LOST = ("lost", "not found")
NOT_RANKED = ("none", "without an answer, or failed")


@dataclass(frozen=True, slots=True)
class Judged:
    """What one system found for one question."""

    band: str
    label: str  # of the band
    mark: str  # the rank of the first right section: `#1`; a dash where none was found
    hits: tuple[tuple[int, str, bool], ...]  # (rank, node id, whether it is right), those that are shown
    failures: tuple[str, ...]


def judge(question: Question, run: Run) -> Judged:
    """Return what of a system's answer is shown."""
    outcome, right = run.outcomes[question.id], run.sections.find_right(question.gold)
    ranked = [(rank, node_id, node_id in right) for rank, node_id in enumerate(outcome.found, start=1)]
    first = next((rank for rank, _, is_right in ranked if is_right), None)
    band, label = next(((name, says) for name, says, last in BANDS if first and first <= last), LOST)
    hits = tuple(item for item in ranked if item[0] <= SHOWN_HITS or item[0] == first)
    if outcome.failures or not question.is_answerable:
        (band, label), first = NOT_RANKED, None
    return Judged(band, label, f"#{first}" if first else "\u2014", hits, outcome.failures)


def render_report(summary: Summary) -> str:
    questions, kinds = summary.questions, summary.questions.kinds
    measures = {name: collect(name, {item.system: item.overall for item in summary.systems}) for name in HEADLINES}
    first = HEADLINES[0]
    by_kind = {
        kind: collect(first, {item.system: item.by_kind[kind] for item in summary.systems})
        for kind in (kinds if len(kinds) > 1 else ())
    }
    return (
        open_templates(_HERE)
        .get_template("report.html")
        .render(
            summary=summary,
            questions=questions.questions,
            unanswerable=sum(not item.is_answerable for item in questions.questions),
            style=Markup((_HERE / "report.css").read_text(encoding="utf-8")),
            bands=(*(band[:2] for band in BANDS), LOST, NOT_RANKED),
            first_measure=first,
            measure_plots=measures,
            kind_plots=by_kind,
            judged={
                run.system.name: {item.id: judge(item, run) for item in questions.questions} for run in summary.runs
            },
        )
    )


def collect(name: str, systems: Mapping[str, Mapping[str, Estimate]]) -> dict[str, Estimate]:
    """Return one measure by system, of those that have it: a plot, from top to bottom."""
    return {system: values[name] for system, values in systems.items() if name in values}
