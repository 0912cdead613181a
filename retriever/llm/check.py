"""Whether the language model can be asked, and what to do when it cannot."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel

from retriever.errors import GeneratorError, WrongAnswerError
from retriever.llm.answers import read_answer
from retriever.llm.failures import wrong_kind
from retriever.llm.generator import Task
from retriever.llm.ollama import chat_request, open_chat, seconds_for
from retriever.llm.server import OllamaChat, ServedModel
from retriever.settings.stages import LlmSettings


@dataclass(frozen=True, slots=True)
class LlmFinding:
    """One thing that was looked at."""

    what: Literal["server", "model", "context window", "answer"]
    is_well: bool
    says: str
    """What was seen, or what is wrong and what to do about it."""


class _Ready(BaseModel):
    """The smallest answer that shows that the model heeds a schema."""

    ready: Literal["yes"]


_TASK = Task(
    instructions='Write the JSON object {"ready": "yes"}.', material="Are you ready?", answer=_Ready, max_tokens=32
)


def check_llm(settings: LlmSettings) -> tuple[LlmFinding, ...]:
    """What there is to say of the server, the model, its context window and an answer that it really writes.

    Each but the window rests on those before it: the first of them that is not well is the last that is looked at.
    """
    return tuple(_findings(settings))


def _findings(settings: LlmSettings) -> Iterator[LlmFinding]:
    what: Literal["server", "model", "answer"] = "server"
    try:
        server = open_chat(settings)
        yield LlmFinding(what, True, f"Ollama {server.version()} at {server.url}")
        what = "model"
        model = server.look(settings.num_ctx)
        if not model.can_chat:
            raise wrong_kind(server.model, server.url)
        yield LlmFinding(what, True, f"{model.name} is there, {_loaded(model)}")
        yield _window(model, settings.num_ctx)
        what = "answer"
        yield LlmFinding(what, True, _answer(server, model, settings))
    except GeneratorError as error:
        yield LlmFinding(what, False, str(error))


def _loaded(model: ServedModel) -> str:
    return "loaded" if model.is_loaded else "and not loaded yet: its first answer takes longer"


def _window(model: ServedModel, num_ctx: int) -> LlmFinding:
    longest = model.context_length
    if longest is None:
        return LlmFinding(
            "context window", True, f"{num_ctx} tokens; the server does not say how many {model.name} reads"
        )
    if longest < num_ctx:
        advice = f"{model.name} reads {longest} tokens, fewer than llm.num_ctx: set it to {longest}"
        return LlmFinding("context window", False, advice)
    return LlmFinding("context window", True, f"{num_ctx} of the {longest} tokens that {model.name} can read")


def _answer(server: OllamaChat, model: ServedModel, settings: LlmSettings) -> str:
    """How long it took to write a small object, of the right shape at the first try."""
    started = time.monotonic()
    reply = server.chat(chat_request(_TASK, settings), seconds_for(_TASK, model, settings), settings.idle_seconds)
    total_s = time.monotonic() - started
    try:
        read_answer(reply.text, _TASK.answer)
    except WrongAnswerError as error:
        advice = f"{model.name} was asked for JSON of one shape and wrote {error}: try another llm.model"
        raise WrongAnswerError(advice) from error
    return (
        f"JSON of the shape that was asked for; first word after {reply.first_token_s:.1f} s, all after {total_s:.1f} s"
    )
