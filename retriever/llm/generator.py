"""The seam to a language model: what it is asked to write, and what comes back."""

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from pydantic import BaseModel

Written = TypeVar("Written", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Task(Generic[Written]):
    """One JSON object that a language model is to write."""

    instructions: str
    """What to do, in words of ours alone: nothing of a document or a question stands here."""
    material: str
    """What to do it with: the question, and pieces of documents as data."""
    answer: type[Written]
    """The shape of the object; the model is given its JSON schema, and what it writes is checked against it."""
    max_tokens: int
    """At most so many are written."""
    temperature: float = 0.0
    """0: the likeliest words; the same task then gives the same object from most models."""
    seconds: float | None = None
    """The longest wait, where it is less than the generator's own."""


class Generator(Protocol):
    """A task in, an object out."""

    @property
    def name(self) -> str:
        """The model, as its server names it: what it wrote is remembered under this name."""

    def write(self, task: Task[Written]) -> Written:
        """What the model wrote, of the task's shape.

        Raises:
            GeneratorError: or one of its kinds: it is not there, has no such model, took too long, stopped in the
                middle, wrote something else, or the task is longer than it can read.
        """

    def room(self, instructions: str, max_tokens: int) -> int:
        """How much material fits beside the instructions and what is to be written, as `size` measures; at least 0."""


class CountedGenerator:
    """A generator that counts what it wrote."""

    def __init__(self, generator: Generator) -> None:
        self._generator = generator
        self.answers = 0
        """So many tasks were answered; those that failed do not count."""

    @property
    def name(self) -> str:
        """As `Generator.name`."""
        return self._generator.name

    def write(self, task: Task[Written]) -> Written:
        """As `Generator.write`.

        Raises:
            GeneratorError: as there.
        """
        written = self._generator.write(task)
        self.answers += 1
        return written

    def room(self, instructions: str, max_tokens: int) -> int:
        """As `Generator.room`."""
        return self._generator.room(instructions, max_tokens)


def size(text: str) -> int:
    """What a text takes of the room: its bytes in UTF-8, which tell of its tokens in every script.

    Half of a surrogate pair, which a file's name may hold, is three bytes.
    """
    return len(text.encode("utf-8", "surrogatepass"))
