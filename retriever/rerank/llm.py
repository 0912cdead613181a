"""A language model as reranker: it reads many candidates at once and writes their numbers, best first.

Sun et al., "Is ChatGPT Good at Search? Investigating Large Language Models as Re-Ranking Agents", EMNLP 2023. What it
writes is only ever read as an order of what it was shown.
"""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from retriever.display.phrases import counted
from retriever.errors import GeneratorTimeoutError, WrongAnswerError
from retriever.llm.fence import fenced, new_nonce
from retriever.llm.generator import Generator, Task, size
from retriever.rerank import prompt
from retriever.rerank.ranks import completed, merged, worth
from retriever.rerank.remembered import Remembered, digest
from retriever.rerank.reranker import Judgement, Shown
from retriever.rerank.windows import tournament
from retriever.settings.stages import RerankSettings

SCALE = "1 / log2(1 + the model's rank)"
REMEMBERED_ORDERS = 1000


@dataclass(frozen=True, slots=True)
class _Asked:
    """What decides an answer."""

    model: str
    prompt: int
    """The version of its wording."""
    question: bytes
    candidates: tuple[bytes, ...]
    """In the order in which they are shown."""


class ListwiseReranker:
    """Orders from a language model; the same question about the same candidates is asked once."""

    scale = SCALE
    start_s = 0.0
    """A model that Ollama has yet to load is left when the time is over."""

    def __init__(self, generator: Generator, settings: RerankSettings, nonce: Callable[[], str] = new_nonce) -> None:
        self._generator = generator
        self._settings = settings
        self._nonce = nonce
        self._remembered: Remembered[_Asked, tuple[int, ...]] = Remembered(REMEMBERED_ORDERS)

    def judge(self, question: str, shown: Sequence[Shown], seconds: float | None = None) -> Judgement:
        """As `Reranker.judge`: a candidate's score is what its rank is worth.

        Raises:
            GeneratorError: as `Generator.write`; the question leaves no room for candidates; the seconds are over.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        room = self._room(question)
        fitting = [prompt.fitted(candidate, room // 2 - 1) for candidate in shown]
        meetings = _Meetings(self._named, question, fitting, room, self._settings, deadline)
        order = tournament(range(len(shown)), meetings.fit, meetings.compared) if shown else []
        scores = {item: worth(rank) for rank, item in enumerate(order, start=1)}
        shortened = sum(one != other for one, other in zip(shown, fitting, strict=True))
        return Judgement(tuple(scores[item] for item in range(len(shown))), meetings.note(shortened))

    def _room(self, question: str) -> int:
        """How much of candidates, each with the end of its line, fits beside the question, by `size`."""
        nonce = self._nonce()
        fence = fenced([prompt.question_line(question)], nonce)
        beside = prompt.max_tokens(self._settings.window)
        return max(0, self._generator.room(prompt.instructions(nonce), beside) - size(fence))

    def _named(self, question: str, shown: Sequence[Shown], deadline: float | None) -> tuple[Sequence[int], bool]:
        """The places of the candidates as the model ranks them, known ones only, and whether it was asked for that."""
        lines = [prompt.candidate_line(number, candidate) for number, candidate in enumerate(shown, start=1)]
        asked = _Asked(self._generator.name, prompt.VERSION, digest(question), tuple(map(digest, lines)))
        remembered = self._remembered.get(asked)
        if remembered is not None:
            return remembered, False
        nonce = self._nonce()
        task = Task(
            instructions=prompt.instructions(nonce),
            material=fenced([prompt.question_line(question), *lines], nonce),
            answer=prompt.order_of(len(lines)),
            max_tokens=prompt.max_tokens(len(lines)),
            seconds=_left(deadline),
        )
        numbers = self._generator.write(task).best_first
        named = tuple(number - 1 for number in numbers if 1 <= number <= len(lines))
        if not named:
            raise WrongAnswerError("the model named none of the candidates")
        self._remembered.put(asked, named)
        return named, True


@dataclass
class _Meetings:
    """The windows of one judgement."""

    named: Callable[[str, Sequence[Shown], float | None], tuple[Sequence[int], bool]]
    question: str
    shown: Sequence[Shown]
    room: int
    """Of a window, by `size`."""
    settings: RerankSettings
    deadline: float | None
    """By time.monotonic()."""
    windows: int = 0
    calls: int = 0
    remembered: int = 0

    def fit(self, items: Sequence[int]) -> bool:
        """Whether a window holds these candidates."""
        lines = (prompt.candidate_line(prompt.WIDEST_NUMBER, self.shown[item]) for item in items)
        return len(items) <= self.settings.window and sum(size(line) + 1 for line in lines) <= self.room

    def compared(self, window: Sequence[int]) -> list[int]:
        """The items of a window, best first, by one pass or by two."""
        self.windows += 1
        if len(window) == 1:
            return list(window)
        first = _shuffled(window, self.question) if self.settings.order == "shuffled" else list(window)
        return merged([self._passed(order) for order in (first, first[::-1])[: self.settings.passes]])

    def _passed(self, order: Sequence[int]) -> list[int]:
        """The items of an order as the model ranks them; those that it does not name follow in fused order."""
        named, was_asked = self.named(self.question, [self.shown[item] for item in order], self.deadline)
        self.calls += was_asked
        self.remembered += not was_asked
        return completed((order[place] for place in named), sorted(order))

    def note(self, shortened: int) -> str:
        """What was compared and asked."""
        met = f"{counted(len(self.shown), 'candidate')} in {counted(self.windows, 'window')}"
        parts = [met, counted(self.calls, "call")]
        parts += [f"{self.remembered} remembered"] if self.remembered else []
        parts += [f"{counted(shortened, 'passage')} shortened to fit"] if shortened else []
        return ", ".join(parts)


def _shuffled(items: Sequence[int], question: str) -> list[int]:
    """In an order that is always the same for a question."""
    order = list(items)
    random.Random(digest(question)).shuffle(order)
    return order


def _left(deadline: float | None) -> float | None:
    """Seconds.

    Raises:
        GeneratorTimeoutError: none are left.
    """
    if deadline is None:
        return None
    left = deadline - time.monotonic()
    if left <= 0:
        raise GeneratorTimeoutError("the time for reranking is over")
    return left
