"""Where the first right answer of each question stands, and in which band of ranks. Pure."""

from dataclasses import dataclass

from retriever.evaluation.questions import Question, QuestionSet
from retriever.evaluation.relevance import Judgements, Sections, distinct, right_files, right_sections
from retriever.evaluation.runs import Found, Outcome, Run


@dataclass(frozen=True, slots=True)
class Band:
    """Ranks that are shown in one colour."""

    name: str
    """Of its class in a page's style sheet."""
    label: str
    last: int | None
    """Its last rank; None: no rank at all."""


NO_RANK = "\u2014"
"""An em dash."""

BANDS = (
    Band("best", "first", 1),
    Band("good", "2 to 5", 5),
    Band("fair", "6 to 10", 10),
    Band("poor", "below 10", 1_000_000),
    Band("lost", "not found", None),
)

NOT_RANKED = Band("none", "without an answer, or failed", None)


@dataclass(frozen=True, slots=True)
class Ranked:
    """How one system did on one question."""

    rank: int | None
    """Of the first right section, or file where no lines are known; None: none was found."""
    band: Band
    right: frozenset[str]
    """The names (of nodes, or of files) that are right."""

    @property
    def text(self) -> str:
        """`#3`, or a dash."""
        return f"#{self.rank}" if self.rank else NO_RANK


class Judge:
    """Says where the right answers stand."""

    def __init__(self, questions: QuestionSet, sections: Sections) -> None:
        self._by_lines = questions.has_lines
        self._right = {
            question.id: right_sections(question, sections) if self._by_lines else right_files(question)
            for question in questions.questions
        }

    def right(self, question: Question) -> Judgements:
        """What is right for a question."""
        return self._right[question.id]

    def is_right(self, question: Question, found: Found) -> bool:
        """Whether a section, or its file, is."""
        return self._name(found) in self._right[question.id]

    def ranked(self, question: Question, run: Run) -> Ranked:
        """How a run did on a question."""
        outcome, right = run.outcomes[question.id], frozenset(self._right[question.id])
        if outcome.failures or not question.is_answerable:
            return Ranked(None, NOT_RANKED, right)
        rank = next((place for place, name in enumerate(self._names(outcome), start=1) if name in right), None)
        return Ranked(rank, band_of(rank), right)

    def _names(self, outcome: Outcome) -> list[str]:
        return distinct(self._name(found) for found in outcome.found)

    def _name(self, found: Found) -> str:
        return found.node_id if self._by_lines else found.file


def band_of(rank: int | None) -> Band:
    """The band of a rank."""
    return next(band for band in BANDS if band.last is None or (rank is not None and rank <= band.last))
