"""A generator whose model runs in Ollama."""

import json
import time
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from retriever.errors import GeneratorError, GeneratorTimeoutError, NoGeneratorError, TaskTooLongError, WrongAnswerError
from retriever.llm.answers import read_answer
from retriever.llm.breaker import Breaker
from retriever.llm.failures import wrong_kind
from retriever.llm.generator import Task, Written, size
from retriever.llm.ollama_client import ollama_url
from retriever.llm.server import LOOK_UP_S, ChatRequest, OllamaChat, ServedModel
from retriever.settings.stages import LlmSettings

BYTES_PER_TOKEN = 3
"""At most so many tokens are in a text as its UTF-8 has bytes, divided by this: prose has 4 and more bytes a token in
every script, code and German 3 to 4. Only long runs of digits or hexadecimals have fewer; the margin is for them."""
PROMPT_SHARE = 0.75
"""Of the context window; a longer prompt would be cut in silence if it were estimated wrongly."""
_EXTRA_TOKENS = 256
"""For the model's own chat template, and for what a second try adds."""
_SEED = 7
_LOOK_EVERY_S = 30.0


@dataclass(frozen=True, slots=True)
class _Sight:
    """What was seen of the model, and when."""

    model: ServedModel
    seen_at: float


class OllamaGenerator:
    """Writes with a model of Ollama; see docs/language-model.md for what it promises.

    After two failures in a row it fails at once for a minute. A wrong answer is no such failure, as the server works,
    nor is a task that allowed less time than the settings do.
    """

    def __init__(self, settings: LlmSettings) -> None:
        self._settings = settings
        self._breaker = Breaker()
        self._sight: _Sight | None = None

    @property
    def name(self) -> str:
        """The model, as the settings name it."""
        return self._settings.model

    def room(self, instructions: str, max_tokens: int) -> int:
        """How much material fits, as `retriever.llm.generator.size` measures."""
        tokens = _prompt_tokens(self._settings.num_ctx, max_tokens)
        return max(0, tokens * BYTES_PER_TOKEN - size(instructions))

    def write(self, task: Task[Written]) -> Written:
        """What the model wrote, of the task's shape.

        Raises:
            GeneratorError: as the protocol says.
        """
        self._check_length(task, self._settings.num_ctx)
        self._breaker.check()
        try:
            written = self._write(task)
        except (WrongAnswerError, TaskTooLongError):
            self._breaker.succeeded()
            raise
        except GeneratorError as error:
            sight, self._sight = self._sight, None
            if _is_hurried(task, error, self._settings):
                raise self._too_short(task, sight) from error
            self._breaker.failed(error)
            raise
        self._breaker.succeeded()
        return written

    def _write(self, task: Task[Written]) -> Written:
        started = time.monotonic()
        model = self._look(min(LOOK_UP_S, task.seconds or LOOK_UP_S))
        window = min(self._settings.num_ctx, model.context_length or self._settings.num_ctx)
        self._check_length(task, window)
        deadline = started + seconds_for(task, model, self._settings)
        problem = ""
        for is_second_try in (False, True):
            request = chat_request(task, self._settings, is_second_try=is_second_try)
            reply = self._server.chat(request, deadline - time.monotonic(), self._settings.idle_seconds)
            if (reply.prompt_tokens or 0) >= window:
                raise TaskTooLongError(f"{self.name} read the first {window} tokens of the task alone: see llm.num_ctx")
            self._see(replace(model, is_loaded=True))
            try:
                return read_answer(reply.text, task.answer)
            except WrongAnswerError as error:
                problem = str(error)
        raise WrongAnswerError(f"{self.name} wrote {problem}, and so it did when asked again: try another llm.model")

    @cached_property
    def _server(self) -> OllamaChat:
        return open_chat(self._settings)

    def _look(self, seconds: float) -> ServedModel:
        """What is known of the model, asked again when that is old."""
        sight = self._sight
        fresh_s = min(_LOOK_EVERY_S, self._settings.keep_alive_seconds)
        if sight is None or time.monotonic() - sight.seen_at >= fresh_s:
            sight = self._see(self._server.look(self._settings.num_ctx, seconds))
        if not sight.model.can_chat:
            raise wrong_kind(self.name, self._server.url)
        return sight.model

    def _see(self, model: ServedModel) -> _Sight:
        self._sight = _Sight(model, time.monotonic())
        return self._sight

    def _too_short(self, task: Task[Any], sight: _Sight | None) -> GeneratorTimeoutError:
        had = f"in the {task.seconds or 0:.1f} s that it had"
        if sight is not None and not sight.model.is_loaded:
            return GeneratorTimeoutError(f"{self.name} was not loaded {had}: `ollama run {self.name}` loads it")
        return GeneratorTimeoutError(f"{self.name} did not finish {had}: give it more, or choose a smaller llm.model")

    def _check_length(self, task: Task[Written], window: int) -> None:
        needed = -(-(size(task.instructions) + size(task.material)) // BYTES_PER_TOKEN)
        room = _prompt_tokens(window, task.max_tokens)
        if needed > room:
            raise TaskTooLongError(
                f"the task has up to {needed} tokens, and {self.name} reads {room} beside its answer: see llm.num_ctx"
            )


def open_chat(settings: LlmSettings) -> OllamaChat:
    """The server that the settings or OLLAMA_HOST name.

    Raises:
        NoGeneratorError: the address is none, or is not one that may be asked.
    """
    try:
        url = ollama_url(settings.url, allow_remote=settings.allow_remote)
    except ValueError as error:
        raise NoGeneratorError(f"{'llm.url' if settings.url else 'OLLAMA_HOST'}: {error}") from error
    return OllamaChat(settings.model, url)


def _prompt_tokens(window: int, max_tokens: int) -> int:
    """How many tokens of instructions and material are let into a context window."""
    return min(int(window * PROMPT_SHARE), window - max_tokens) - _EXTRA_TOKENS


def seconds_for(task: Task[Any], model: ServedModel, settings: LlmSettings) -> float:
    """The longest wait for a task; a model that is not loaded gets longer, but a task's own limit holds always."""
    seconds = settings.seconds + (0 if model.is_loaded else settings.load_seconds)
    return seconds if task.seconds is None else min(seconds, task.seconds)


def chat_request(task: Task[Any], settings: LlmSettings, *, is_second_try: bool = False) -> ChatRequest:
    """The task as it is sent: our words as the system's message, the material as the user's."""
    instructions = _tighter(task) if is_second_try else task.instructions
    spoken = (("system", instructions), ("user", task.material))
    return ChatRequest(
        # Half of a surrogate pair, which a file's name may hold, cannot be sent.
        messages=tuple(
            {"role": role, "content": text.encode("utf-8", "replace").decode("utf-8")} for role, text in spoken
        ),
        schema=task.answer.model_json_schema(),
        options={
            "num_ctx": settings.num_ctx,
            "num_predict": task.max_tokens,
            "temperature": task.temperature,
            "seed": _SEED,
        },
        keep_alive_s=settings.keep_alive_seconds,
    )


def _is_hurried(task: Task[Any], error: GeneratorError, settings: LlmSettings) -> bool:
    """Whether it was the task that had no time: that says nothing of the server."""
    is_late = isinstance(error, GeneratorTimeoutError)
    return is_late and task.seconds is not None and task.seconds < settings.seconds


def _tighter(task: Task[Any]) -> str:
    """The instructions for a second try: where a server or model ignores the schema, words may help."""
    schema = json.dumps(task.answer.model_json_schema(), ensure_ascii=False, separators=(",", ":"))
    return (
        f"{task.instructions}\n\nWrite one JSON object and nothing else: no thoughts, no words before or after it, "
        f"no code fence. It must match this JSON schema: {schema}"
    )
