"""What is asked, and what answers it."""

from dataclasses import dataclass

from pageindex.node import Span

NO_KIND = "all"
"""The kind of questions of which no kind is known."""


@dataclass(frozen=True, slots=True)
class Gold:
    """Lines that answer a question, each on its own."""

    file: str
    """Relative to the folder of documents, with `/` on every system."""
    span: Span | None = None
    """None: the file as a whole; which of its sections answers is not known."""
    gain: int = 1
    """How much they answer, at least 1; more than 1 in graded judgements alone."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and what answers it."""

    id: str
    text: str
    kind: str = NO_KIND
    gold: tuple[Gold, ...] = ()
    """Empty: the documents hold no answer, and the best thing to find is nothing."""
    excluded: tuple[Gold, ...] = ()
    """Lines that the question was taken from: their sections are left out of what was found."""

    @property
    def is_answerable(self) -> bool:
        """Whether the documents hold an answer."""
        return bool(self.gold)


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """The questions of a file."""

    name: str
    questions: tuple[Question, ...]
    """In the order of the file; every id once."""
    has_lines: bool
    """Whether it is known which lines answer; otherwise files alone can be right or wrong."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of the answerable questions, in the order in which they first come."""
        return tuple(dict.fromkeys(question.kind for question in self.questions if question.is_answerable))
