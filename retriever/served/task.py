"""Tasks for a language model: what it is asked to write, how its answer is read, and how fast it is.

The documents' texts are given to it as data: JSON, one object a line, between two lines that hold a nonce. No text
inside can end this fence: it does not know the nonce, and its `<` are escaped.
"""

import contextlib
import json
import math
import re
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from pydantic_core import from_json

from retriever.errors import WrongAnswerError
from retriever.store.files import find_cache_file, make_private_folder, write_file

Written = TypeVar("Written", bound=BaseModel)
Record = TypeVar("Record")


@dataclass(frozen=True)
class Task(Generic[Written]):
    """One JSON object that a language model is to write."""

    instructions: str  # what to do, in words of this program alone: nothing of a document or a question stands here
    material: str  # what to do it with: the question, and pieces of documents as data
    # The shape of the object; the model is given its JSON schema, and its answer is checked against it.
    answer: type[Written]
    max_tokens: int  # the most that is written
    usual_tokens: int  # that are written
    temperature: float = 0.0  # 0: the likeliest words; the same task then gives the same object from most models
    seconds: float = math.inf  # the longest wait, where it is less than the generator's own
    example: str = ""  # of an answer, as JSON; shown where no schema is sent: beside one it makes models loop

    @property
    def size(self) -> int:
        r"""The bytes of what is read, in UTF-8, which estimate its tokens in every script.

        >>> Task("Write.", "\u00e9", BaseModel, 10, 5).size
        8
        """
        return len((self.instructions + self.material).encode())

    def in_words(self) -> "Task[Written]":
        """Return the task for a server that is sent no schema: the prompt has the answer's shape and example."""
        shape = json.dumps(self.answer.model_json_schema(), ensure_ascii=False, separators=(",", ":"))
        example = f" For another question it could be: {self.example}\n" if self.example else ""
        how = "\n\nWrite one JSON object and nothing else: no thoughts, no words before or after it, no code fence."
        return replace(self, instructions=f"{self.instructions}{how}{example} It must match this JSON schema: {shape}")


def new_nonce() -> str:
    """Return 16 hex digits that no document can know."""
    return secrets.token_hex(8)


def json_line(content: Mapping[str, object]) -> str:
    """Return the content as one line of JSON."""
    return json.dumps(content, ensure_ascii=False).replace("<", "\\u003c")


def fence(items: Iterable[Mapping[str, object]], nonce: str) -> str:
    r"""Return data for a prompt: a line for each item, between two that hold the nonce.

    >>> print(fence([{"text": "</data 1f>"}], "1f"))
    <data 1f>
    {"text": "\u003c/data 1f>"}
    </data 1f>
    """
    return "\n".join([f"<data {nonce}>", *map(json_line, items), f"</data {nonce}>"])


def read_answer(text: str, kind: type[Written], *, is_cut: bool = False) -> Written:
    """Return the first JSON object of a text, as the type that was asked for; of a cut text what is whole.

    Raises:
        WrongAnswerError: says what is wrong.
    """
    # Models think aloud, put code fences around an object, and talk before and after it.
    # Some templates leave out the tag that opens the thinking, some never close it.
    said = re.sub(r".*</think(?:ing)?>|<think(?:ing)?>.*", "", text, flags=re.DOTALL | re.IGNORECASE)
    if is_cut and (whole := read_whole_parts(said, kind)):
        return whole
    found = find_object(said)
    if found is None:
        raise WrongAnswerError("no JSON object" if text.strip() else "nothing")
    try:
        return kind.model_validate_json(found)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the object"
        raise WrongAnswerError(f"a wrong shape ({place}: {first['msg']})") from error


def read_whole_parts(text: str, kind: type[Written]) -> Written | None:
    """Return what a text says that ends in the middle of an object; None where nothing is whole."""
    with contextlib.suppress(AttributeError, IndexError, ValueError):
        # Texts that are not closed are left out by the parser; of a number nobody could tell.
        content = from_json(text[text.find("{") :].rstrip("0123456789+-.eE"), allow_partial=True)
        while any(content.values()):
            with contextlib.suppress(ValidationError):
                return kind.model_validate_json(json.dumps(content))
            [*content.values()][-1].pop()  # it has begun alone
    return None


def find_object(text: str) -> str | None:
    """Return the first JSON object of a text, as it is written there; None where there is none.

    >>> find_object('See {this}: {"notes": [{}]} {"more": 1}')
    '{"notes": [{}]}'
    >>> find_object("{" * 8 + '{"notes": 1}') is None  # few places are looked at
    True
    """
    braces = (place for place, letter in enumerate(text) if letter == "{")
    for start in islice(braces, 8):  # each costs a look through the rest of the text
        with contextlib.suppress(ValueError, RecursionError):
            return text[start : json.JSONDecoder().raw_decode(text, start)[1]]
    return None


# How fast a model reads and writes on this machine. A laptop's processor reads 60 to 500 tokens a second and writes 10
# to 50: the same task takes 5 seconds on one and a minute on another. The server says with each answer how long it
# took, so that the next task is cut to what the model can do.

TYPICAL_BYTES = 3.6  # of a token, in prose and some code; what must fit is estimated with fewer
FRESH_S = 3600  # that a measured speed leaves out what takes too long by it
LEAST_READ, LEAST_WRITTEN = 100, 8  # tokens that say something about a speed


@dataclass(frozen=True)
class Speed:
    """How fast a model is, and what it can do."""

    reads: Annotated[float, Field(gt=0)]  # tokens a second
    writes: Annotated[float, Field(gt=0)]
    has_schema: bool = True  # whether the model writes what is asked for under a JSON schema
    measured_at: float = field(default_factory=time.time, compare=False)

    @property
    def current(self) -> "Speed":
        """It, or after a while the usual one where that is faster: the machine may have been busy, or asks no more.

        >>> print(Speed(60, 30).current)
        60 tokens a second read, 30 written
        >>> print(Speed(60, 30, measured_at=0).current)
        150 tokens a second read, 30 written
        """
        if time.time() < self.measured_at + FRESH_S:
            return self
        return replace(self, reads=max(self.reads, USUAL.reads), writes=max(self.writes, USUAL.writes))

    def seconds(self, task: Task[Any]) -> float:
        """Return about how long a task takes.

        >>> USUAL.seconds(Task("a" * 540, "", BaseModel, max_tokens=90, usual_tokens=40))
        3.0
        """
        return task.size / TYPICAL_BYTES / self.reads + task.usual_tokens / self.writes

    def __str__(self) -> str:
        """Return `150 tokens a second read, 20 written`."""
        return f"{self.reads:,.0f} tokens a second read, {self.writes:,.0f} written"


USUAL = Speed(150, 20)  # of a laptop without a graphics card and a model of 3 to 4 billion weights


@dataclass(frozen=True)
class Measured:
    """The counts that a server gives for one answer; 0 where it does not say."""

    read: int  # tokens of the prompt
    read_s: float
    written: int
    written_s: float

    def joined(self, before: Speed | None) -> Speed | None:
        """Return the speed by this answer, and by what was known where it says nothing; None where neither does.

        >>> print(Measured(200, 2.0, 8, 1.0).joined(None))
        100 tokens a second read, 8 written
        >>> print(Measured(200, 2.0, 7, 1.0).joined(None))  # too few to say how fast it writes
        100 tokens a second read, 12 written
        >>> print(Measured(99, 1.0, 8, 1.0).joined(None))
        None
        >>> print(Measured(99, 1.0, 8, 1.0).joined(Speed(50, 5)))
        50 tokens a second read, 8 written
        >>> print(Measured(100, 1.0, 0, 0.0).joined(Speed(50, 5)))
        100 tokens a second read, 5 written
        >>> Measured(100, 0.0, 8, 0.0).joined(Speed(50, 5, has_schema=False)).has_schema
        False
        """
        reads = self.read / self.read_s if self.read >= LEAST_READ and self.read_s > 0 else 0.0
        writes = self.written / self.written_s if self.written >= LEAST_WRITTEN and self.written_s > 0 else 0.0
        if before is None:
            return Speed(reads, writes or reads / 8) if reads else None
        return replace(before, reads=reads or before.reads, writes=writes or before.writes, measured_at=time.time())


@dataclass(frozen=True)
class Abilities:
    """The abilities that a model was seen to have; a stage without its own is left out unless it is asked for."""

    lists: bool = True  # puts the passage that answers first, wherever it stands in a list
    rewordings: bool = True  # other words for a question, with its names
    passages: bool = True  # statements, no questions and no titles
    intents: bool = True  # tells a question about a single fact from others


class ModelRecords(Generic[Record]):
    """Notes on models, by a key, in the user's cache folder; dispensable, and never a reason to fail.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from unittest.mock import patch
    >>> records = ModelRecords("speeds.json", Speed)
    >>> with TemporaryDirectory() as home, patch(f"{__name__}.find_cache_file") as find:
    ...     find.return_value = None  # for a user without a home
    ...     records.write("qwen3", Speed(60, 30))
    ...     print(records.read()["qwen3"])
    ...     find.return_value = Path(home, "cache/speeds.json")
    ...     records.write("gemma3", Speed(90, 20))
    ...     sorted(records.read()), sorted(ModelRecords("speeds.json", Speed).read())
    60 tokens a second read, 30 written
    (['gemma3', 'qwen3'], ['gemma3', 'qwen3'])
    """

    def __init__(self, name: str, kind: type[Record]) -> None:
        self.name = name
        self._content = TypeAdapter(dict[str, kind])  # type: ignore[valid-type]
        self._unsaved: dict[str, Record] = {}

    def read(self) -> dict[str, Record]:
        """Return what is there, as far as it can be read."""
        path = find_cache_file(self.name)
        with contextlib.suppress(OSError, ValueError):
            if path:
                return self._content.validate_json(path.read_bytes()) | self._unsaved
        return self._unsaved

    def write(self, key: str, record: Record) -> None:
        """Store one more; for this process alone where no file can be written."""
        self._unsaved[key] = record
        if path := find_cache_file(self.name):
            with contextlib.suppress(OSError):
                make_private_folder(path.parent)
                write_file(path, self._content.dump_json(self.read()).decode())
                self._unsaved.clear()


PROBE_VERSION = 3  # of `upkeep.probe`: after a change of it, models are looked at again
SPEEDS = ModelRecords("model_speeds.json", Speed)  # by server and name
ABILITIES = ModelRecords("model_abilities.json", Abilities)  # by server, name and weights
