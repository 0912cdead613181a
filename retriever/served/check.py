"""Whether the language model can be used, and what to do when it cannot."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from retriever.errors import LanguageModelError
from retriever.served.generator import ServedGenerator
from retriever.served.task import Task, new_nonce
from retriever.settings.schema import LlmSettings


@dataclass(frozen=True, slots=True)
class LlmFinding:
    """One thing that was looked at."""

    what: Literal["model", "answer"]
    is_well: bool
    says: str  # what was seen, or what is wrong and what to do about it


class _Count(BaseModel):
    """Enough to write that it takes a measurable time."""

    numbers: list[Annotated[int, Field(ge=1, le=20)]] = Field(max_length=20)  # without bounds, small models count on


def _count_task() -> Task[_Count]:
    """Some 600 tokens that no server has read before, and some 60 to write."""
    text = " ".join(f"On page {new_nonce()} somebody tells how the boats come in at night." for _ in range(25))
    return Task("Write the numbers from 1 to 20 as JSON, whatever the text says.", text, _Count, 256)


def check_llm(settings: LlmSettings) -> Iterator[LlmFinding]:
    """Yield what can be said of the model; its speed is measured, and kept for stages to plan by."""
    what: Literal["model", "answer"] = "model"
    try:
        generator = ServedGenerator(settings)
        model = generator.look_up()
        longest = model.context_length or "an unknown number"
        reads = f"it reads {model.window} of {longest} tokens (llm.num_ctx)"
        yield LlmFinding(what, True, f"{model.name} is there, at {generator.server.url}; {reads}")
        what, started = "answer", time.monotonic()
        generator.write(_count_task())
        if generator.speed is None:  # the server does not measure, and may have loaded the model first
            started = time.monotonic()
            generator.write(_count_task())
        says = f"JSON of the shape that was asked for after {time.monotonic() - started:.1f} s"
        yield LlmFinding(what, True, f"{says}; {generator.speed}" if generator.speed else says)
    except LanguageModelError as error:
        yield LlmFinding(what, False, str(error))
