"""Whether the language model can be used, and what to do when it cannot."""

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from retriever.errors import LanguageModelError, WrongAnswerError
from retriever.served.generator import ServedGenerator
from retriever.served.server import served_window
from retriever.served.task import Task, new_nonce
from retriever.settings.schema import LlmSettings


@dataclass(frozen=True, slots=True)
class LlmFinding:
    """One thing that was looked at."""

    what: Literal["server", "model", "context window", "answer", "speed"]
    is_well: bool
    says: str  # what was seen, or what is wrong and what to do about it


class _Ready(BaseModel):
    """The smallest answer that shows that the model follows a schema."""

    ready: Literal["yes"]


_TASK = Task(
    instructions='Write the JSON object {"ready": "yes"}.', material="Are you ready?", answer=_Ready, max_tokens=32
)


class _Count(BaseModel):
    """Enough to write that it takes a measurable time."""

    numbers: list[Annotated[int, Field(ge=1, le=20)]] = Field(max_length=20)  # without bounds, small models count on


def _speed_task() -> Task[_Count]:
    """Some 600 tokens that no server has read before, and some 60 to write."""
    words = " ".join(f"On page {new_nonce()} somebody tells how the boats come in at night." for _ in range(25))
    return Task("Write the numbers from 1 to 20 as JSON, whatever the text says.", words, _Count, 256)


def check_llm(settings: LlmSettings, *, measures: bool = False) -> tuple[LlmFinding, ...]:
    """Return what can be said of the model; with `measures` its speed as well, which is kept for stages to plan by."""
    return tuple(_findings(settings, measures=measures))


def _findings(settings: LlmSettings, *, measures: bool) -> Iterator[LlmFinding]:
    what: Literal["server", "model", "answer", "speed"] = "server"
    try:
        generator = ServedGenerator(settings)
        server = generator.server
        yield LlmFinding(what, True, server.describe())

        what = "model"
        model = server.look_up(server.look_up_s)
        if not model.can_chat:
            raise server.cannot_chat()
        loaded = ", loaded" if model.is_loaded else ", and not loaded yet: its first answer takes longer"
        yield LlmFinding(what, True, f"{model.name} is there{'' if model.is_loaded is None else loaded}")
        longest, wanted = model.context_length, settings.num_ctx
        window = f"{wanted} of the {longest} tokens that {model.name} can read"
        if longest is None:
            assumed = served_window(None, settings)
            window = f"{assumed} tokens are assumed (llm.num_ctx): the server does not say how many {model.name} reads"
        elif longest < wanted:
            window = (
                f"{model.name} reads {longest} tokens, fewer than llm.num_ctx ({wanted}): every task is cut to that"
            )
        yield LlmFinding("context window", True, window)

        what = "answer"
        started = time.monotonic()
        generator.write(_TASK)
        took = f"all after {time.monotonic() - started:.1f} s"
        if generator.reply is not None:
            took = f"first word after {generator.reply.first_token_s:.1f} s, {took}"
        says = "; ".join(filter(None, ("JSON of the shape that was asked for", server.manner, took)))
        yield LlmFinding(what, True, says)
        if measures:
            what = "speed"
            with suppress(WrongAnswerError):  # how long it took is known all the same
                generator.write(_speed_task())
            unknown = "the server does not say how long it takes: the stages ask for all that is set"
            yield LlmFinding(what, True, str(generator.speed or unknown))
    except LanguageModelError as error:
        yield LlmFinding(what, False, str(error))
