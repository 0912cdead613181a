"""A generator whose model runs in Ollama; docs/language-model.md says what it promises."""

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import httpx
from pydantic import BaseModel, ConfigDict

from retriever.errors import (
    CutAnswerError,
    LanguageModelError,
    LanguageModelTimeoutError,
    NoGeneratorError,
    NoModelError,
    TaskTooLongError,
    WrongAnswerError,
)
from retriever.http_client import (
    AnswerTooLargeError,
    OverdueError,
    RefusedError,
    StrangeAnswerError,
    Timeouts,
    client_options,
    ollama_client,
    ollama_url,
    one_line,
)
from retriever.llm.speed import LEAST_READ, Measured, Speed, SpeedFile
from retriever.llm.task import Task, Written, read_answer, size
from retriever.settings.schema import LlmSettings

if TYPE_CHECKING:
    from collections.abc import Generator as Stream

    from ollama import ChatResponse

progress = logging.getLogger("retriever.llm.progress")

BYTES_PER_TOKEN = 3  # prose has 4 and more in every script, code and German 3 to 4, long runs of digits fewer
PROMPT_SHARE = 0.75  # of the context window: a longer prompt would be cut in silence if it were estimated wrongly
LOOK_UP_S = 1.0  # for all questions about a model; a server that needs longer is not healthy
LOOK_EVERY_S = 30.0
CONNECT_S = 0.5
RETRY_PAUSE_S = 0.3
THOUGHT_TOKENS = (
    1024  # for the thoughts of a model that cannot be told not to think; the least level takes some hundred
)
THINKING_LEVELS = ("none", "minimal", "low", "medium", "high", "max")  # from the least on


@dataclass(frozen=True, slots=True)
class ModelInfo:
    name: str  # as the server lists it, tag included
    is_loaded: bool  # with the context window that is asked for: for another one it is loaded anew
    can_chat: bool  # embedding models cannot
    context_length: int | None  # how many tokens the model can read at most; None: the server does not say
    think: bool | str = False  # the least that the model can be told to think: not at all, or a level


@dataclass(frozen=True, slots=True)
class Reply:
    text: str  # all of it; its thoughts, when it wrote nothing else
    is_thoughts: bool  # whether it wrote nothing else
    prompt_tokens: int | None  # how many tokens of the messages it read; None: the server does not say
    first_token_s: float  # from the request to the first piece of the answer
    measured: Measured  # how long the server says that it took


class Thinking(BaseModel):
    """What a model can be told about thinking, in `/api/show`."""

    values: list[bool | str] = []


class ShownModel(BaseModel):
    """What is read of `/api/show`; Ollama's own client leaves out `thinking`."""

    model_config = ConfigDict(protected_namespaces=())

    model_info: dict[str, Any] | None = None
    capabilities: list[str] | None = None
    thinking: Thinking | None = None


class CircuitBreaker:
    """After two failures in a row, everything fails at once for a minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures = 0
        self._reason: LanguageModelError | None = None
        self._open_until = 0.0

    def check(self) -> None:
        """Raises the last failure, of its own kind, while the breaker is open."""
        left = self._open_until - self._clock()
        if self._reason and left > 0:
            raise type(self._reason)(f"{self._reason} (failed 2 times; asked again in {left:.0f} s)")

    def record_failure(self, reason: LanguageModelError) -> None:
        """Opens the breaker at the second failure in a row, and at the first one after that minute."""
        self._failures += 1
        self._reason = reason
        if self._failures >= 2:
            self._open_until = self._clock() + 60.0

    def record_success(self) -> None:
        self._failures = 0


class OllamaServer:
    def __init__(self, settings: LlmSettings) -> None:
        self._settings = settings
        self.model = settings.model
        try:
            self.url = ollama_url(settings.url, allow_remote=settings.allow_remote)
        except ValueError as error:
            raise NoGeneratorError(f"{'llm.url' if settings.url else 'OLLAMA_HOST'}: {error}") from error
        self.think: bool | str | None = False  # None once the model has refused to be told how much to think
        self.has_begun = False  # whether the last answer began
        self.has_schema = True  # whether the server is given the schema; without, it stands in the instructions

    def version(self) -> str:
        with self._as_unhealthy():
            try:
                return str(self._ask("/api/version", LOOK_UP_S)["version"])
            except (LookupError, RefusedError) as error:
                raise StrangeAnswerError(str(error)) from error

    def _ask(self, path: str, seconds: float, **body: str) -> Mapping[str, Any]:
        """What Ollama's own client does not ask for, or does not give back whole."""
        with httpx.Client(**client_options(Timeouts(CONNECT_S, seconds), self.url)) as client:
            response = client.request("POST" if body else "GET", f"{self.url}{path}", json=body or None)
        try:
            content = response.json()
        except ValueError:
            content = {} if response.is_error else None
        if not isinstance(content, dict):
            raise StrangeAnswerError(f"{path}: {one_line(response.text)}")
        if not response.is_success:
            raise RefusedError(response.status_code, str(content.get("error", response.text)))
        return content

    def look_up(self, seconds: float = LOOK_UP_S) -> ModelInfo:
        """What the server says of the model, without running it; waits for LOOK_UP_S, or fewer `seconds`."""
        with self._as_unhealthy(seconds), ollama_client(self.url, Timeouts(CONNECT_S, seconds)) as client:
            present = [model.model or "" for model in client.list().models]
            name = next((name for name in (self.model, f"{self.model}:latest") if name in present), None)
            if name is None:
                others = f"; it has {', '.join(present)} (llm.model)" if present else ""
                raise NoModelError(self._pull_advice() + others)
            windows = {model.model: model.context_length for model in client.ps().models}
            details = ShownModel.model_validate(self._ask("/api/show", seconds, model=name))
        lengths = (value for key, value in (details.model_info or {}).items() if key.endswith(".context_length"))
        context_length = next((length for length in lengths if isinstance(length, int)), None)
        window = served_window(context_length, self._settings)
        return ModelInfo(
            name=name,
            is_loaded=name in windows and windows[name] in {None, window},
            can_chat=details.capabilities is None or "completion" in details.capabilities,
            context_length=context_length,
            think=choose_thinking(name, details.thinking),
        )

    def chat(self, task: Task[Any], seconds: float, *, is_second_try: bool = False) -> Reply:
        """The model's answer to a task, unchecked; a connection that breaks is tried once more in the same time."""
        deadline = time.monotonic() + seconds
        with self._explained():
            try:
                return self._chat(task, seconds, is_second_try=is_second_try)
            except (httpx.HTTPError, RefusedError) as error:
                pause = RETRY_PAUSE_S
                status = error.status if isinstance(error, RefusedError) else 0
                if status == 400 and self.think is not None and "think" in str(error):
                    self.think, pause = None, 0.0
                elif not _may_pass(error):
                    raise
                if time.monotonic() + pause >= deadline:
                    raise
            time.sleep(pause)
            return self._chat(task, deadline - time.monotonic(), is_second_try=is_second_try)

    def _chat(self, task: Task[Any], seconds: float, *, is_second_try: bool) -> Reply:
        settings, schema = self._settings, task.answer.model_json_schema()
        instructions, max_tokens = task.instructions, task.max_tokens + self.thought_tokens
        if is_second_try or not self.has_schema:  # where a server or model ignores the schema, words may help
            shape = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
            instructions += (
                "\n\nWrite one JSON object and nothing else: no thoughts, no words before or after it, "
                f"no code fence. It must match this JSON schema: {shape}"
            )
        messages = [
            # A lone surrogate, which the name of a file may hold, cannot be sent.
            {"role": role, "content": text.encode("utf-8", "replace").decode("utf-8")}
            for role, text in (("system", instructions), ("user", task.material))
        ]
        options = {
            "num_ctx": settings.num_ctx,
            "num_predict": max_tokens,
            "temperature": task.temperature,
            "seed": 7,
        }
        # Each token comes as a line of JSON of some 130 bytes.
        timeouts = Timeouts(CONNECT_S, seconds, idle_s=settings.idle_seconds, max_bytes=2**15 + 512 * max_tokens)
        with ollama_client(self.url, timeouts) as client:
            stream = client.chat(
                self.model,
                messages,
                stream=True,
                think=cast("Any", self.think),  # the client's own type does not know every level that a server has
                format=schema if self.has_schema else None,
                options=options,
                keep_alive=settings.keep_alive_seconds,
            )
            with closing(cast("Stream[ChatResponse, None, None]", stream)) as parts:
                return self._read(parts, task.on_text)

    def _read(self, parts: "Iterator[ChatResponse]", on_text: Callable[[str], None] | None) -> Reply:
        started, first = time.monotonic(), None
        text, thoughts = [], []
        self.has_begun = False
        for part in parts:
            first = first if first is not None else time.monotonic() - started
            self.has_begun = True
            text.append(part.message.content or "")
            thoughts.append(part.message.thinking or "")
            if on_text is not None and part.message.content:
                on_text("".join(text))
            if part.done and part.done_reason == "stop":
                written = "".join(text).strip()
                return Reply(written or "".join(thoughts), not written, part.prompt_eval_count, first, _measured(part))
            if part.done and part.done_reason == "length" and not "".join(text).strip() and thoughts:
                what = f"{self.model} at {self.url} thought aloud until it was stopped, and wrote no answer"
                raise CutAnswerError(f"{what}: choose an llm.model that does not think, or thinks less")
            if part.done and part.done_reason == "length":
                raise CutAnswerError(f"{self.model} at {self.url} wrote more than it may, and was stopped")
            if part.done:
                reason = part.done_reason
                raise CutAnswerError(f"{self.model} at {self.url} stopped before its answer was complete ({reason})")
        raise CutAnswerError(f"{self.model} at {self.url} ended its answer in the middle")

    @property
    def thought_tokens(self) -> int:
        """How many tokens are added to an answer for thoughts that cannot be switched off."""
        return THOUGHT_TOKENS if self.think else 0

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turns a failure of the connection or of the server into a LanguageModelError that says what to do."""
        try:
            yield
        except (httpx.HTTPError, RefusedError, StrangeAnswerError) as error:
            raise self._explain(error) from error

    @contextmanager
    def _as_unhealthy(self, seconds: float = LOOK_UP_S) -> Iterator[None]:
        """The same; a server that cannot answer simple questions in its time is taken to be no Ollama."""
        try:
            with self._explained():
                yield
        except (LanguageModelTimeoutError, WrongAnswerError, CutAnswerError) as error:
            if isinstance(error, LanguageModelTimeoutError) and seconds < LOOK_UP_S:
                raise
            raise NoGeneratorError(f"no healthy Ollama at {self.url} ({error}): restart it, or see llm.url") from error

    def _explain(self, error: Exception) -> LanguageModelError:
        model, url = self.model, self.url
        match error:
            case RefusedError():
                return self._explain_refusal(error.status, one_line(str(error)))
            case StrangeAnswerError():
                return WrongAnswerError(f"what answers at {url} speaks otherwise than Ollama ({one_line(str(error))})")
            case AnswerTooLargeError():
                return WrongAnswerError(f"{model} at {url} writes without end ({error})")
            case httpx.ConnectError() | httpx.ConnectTimeout():
                return NoGeneratorError(f"no Ollama answers at {url}: start it with `ollama serve`")
            case OverdueError():
                advice = "choose a smaller model (llm.model) or wait longer (llm.seconds)"
                return LanguageModelTimeoutError(f"{model} at {url} took longer than it may: {advice}")
            case httpx.TimeoutException():
                advice = "see whether `ollama ps` still lists it, or wait longer (llm.idle_seconds)"
                return LanguageModelTimeoutError(f"{model} at {url} fell silent: {advice}")
        return CutAnswerError(f"the connection to {url} broke before the answer was complete ({error})")

    def _explain_refusal(self, status: int, said: str) -> LanguageModelError:
        model, url = self.model, self.url
        if status == 404:
            return NoModelError(self._pull_advice())
        if status == 503:
            return NoGeneratorError(f"Ollama at {url} is busy ({said}): ask again later")
        if 300 <= status < 400:
            advice = "which is not followed: set llm.url to Ollama's own"
            return NoGeneratorError(f"{url} sends on to another address, {advice}")
        if "does not support chat" in said:
            return self.cannot_chat()
        if "context" in said and ("exceed" in said or "length" in said):
            return TaskTooLongError(f"{model} at {url} cannot read so much ({said}): see llm.num_ctx")
        if status < 0:
            return CutAnswerError(f"{model} at {url} stopped in the middle of its answer: {said}")
        return LanguageModelError(f"Ollama at {url} failed: status {status}: {said}; its log says more")

    def _pull_advice(self) -> str:
        return f"Ollama at {self.url} has no {self.model}: run: ollama pull {self.model}"

    def cannot_chat(self) -> NoModelError:
        advice = "as embedding models cannot: name a chat model (llm.model)"
        return NoModelError(f"{self.model} at {self.url} cannot chat, {advice}")


def choose_thinking(name: str, thinking: "Thinking | None") -> bool | str:
    """The least that a model can be told to think."""
    if thinking is None:  # an older server: it says whether a model thinks, and not how it is told
        return "low" if "gpt-oss" in name.lower() else False
    if not thinking.values or False in thinking.values:
        return False
    known = [level for level in THINKING_LEVELS if level in thinking.values]
    return next(iter([*known, *thinking.values]))


def _may_pass(error: Exception) -> bool:
    """Whether a second try may help: a connection that failed or broke, or a busy server."""
    if isinstance(error, RefusedError):
        return error.status == 503
    return isinstance(error, httpx.NetworkError | httpx.ConnectTimeout | httpx.RemoteProtocolError)


class OllamaGenerator:
    """Writes with a model of Ollama."""

    # After two failures in a row it fails at once for a minute. A wrong answer is no such failure, because the server
    # works, nor is a task that allowed less time than the settings do.

    def __init__(self, settings: LlmSettings) -> None:
        self._settings = settings
        self._breaker = CircuitBreaker()
        self._model: ModelInfo | None = None
        self._window: int | None = None  # what the model reads, as the server said last
        self._looked_up_at = 0.0
        self.answers = 0  # how many tasks were answered; those that failed do not count
        self.reply: Reply | None = None  # the last one
        self.stage_s = settings.stage_seconds
        self._speeds = SpeedFile.of_user()

    @property
    def name(self) -> str:
        return self._settings.model

    @cached_property
    def speed(self) -> Speed | None:
        """How fast the model is, as far as is known: measured by each answer, and kept in the user's cache folder."""
        return self._speeds.read(self._speed_key)

    def _learn(self, measured: Measured) -> None:
        if (speed := measured.joined(self.speed)) is not None and speed != self.speed:
            self.__dict__["speed"] = speed
            self._speeds.write(self._speed_key, speed)

    @cached_property
    def _speed_key(self) -> str:
        return f"{self._server.url} {self.name}"

    def room(self, instructions: str, max_tokens: int, seconds: float | None = None) -> int:
        """As `Generator.room`; the window is the served model's, which the server is asked for once."""
        if self._window is None:
            with self._guarded(seconds):
                self._look_up(min(LOOK_UP_S, seconds or LOOK_UP_S))
        window = self._window or self._settings.num_ctx
        tokens = _prompt_tokens(window, max_tokens + self._server.thought_tokens)
        return max(0, tokens * BYTES_PER_TOKEN - size(instructions))

    def write(self, task: Task[Written]) -> Written:
        self._check_length(task, self._settings.num_ctx)
        with self._guarded(task.seconds):
            written = self._write(task)
        self._breaker.record_success()
        self.answers += 1
        return written

    @contextmanager
    def _guarded(self, seconds: float | None) -> Iterator[None]:
        """What asks the server in so many seconds; nothing is asked while the breaker is open."""
        self._breaker.check()
        try:
            yield
        except (WrongAnswerError, TaskTooLongError):
            self._breaker.record_success()
            raise
        except LanguageModelError as error:
            model, self._model = self._model, None  # look it up again before the next task
            is_late = isinstance(error, LanguageModelTimeoutError)
            if is_late and seconds is not None and seconds < self._settings.seconds:
                # The task had no time: that says nothing of the server.
                time_given = f"in the {seconds:.1f} s that it had"
                if model is not None and not model.is_loaded:
                    advice = f"was not loaded {time_given}: `ollama run {self.name}` loads it"
                else:
                    advice = f"did not finish {time_given}: give it more, or choose a smaller llm.model"
                raise LanguageModelTimeoutError(f"{self.name} {advice}") from error
            self._breaker.record_failure(error)
            raise

    def _write(self, task: Task[Written]) -> Written:
        started = time.monotonic()
        model = self._look_up(min(LOOK_UP_S, task.seconds or LOOK_UP_S))
        window = served_window(model.context_length, self._settings)
        self._check_length(task, window)
        deadline = started + longest_wait(task, model, self._settings)
        problem = ""
        for is_second_try in (False, True):
            self.reply = reply = self._chat(task, model, deadline, is_second_try=is_second_try)
            if (reply.prompt_tokens or 0) >= window:
                raise TaskTooLongError(f"{self.name} read the first {window} tokens of the task alone: see llm.num_ctx")
            self._model, self._looked_up_at = replace(model, is_loaded=True), time.monotonic()
            try:
                return read_answer(reply.text, task.answer)
            except WrongAnswerError as error:
                problem = str(error)
                if reply.is_thoughts and self._server.has_schema:
                    # Some thinking models write nothing under a schema; what they write without one is read as well.
                    self._server.has_schema, problem = False, "nothing under a JSON schema"
        self._server.has_schema = True
        raise WrongAnswerError(f"{self.name} wrote {problem}, and so it did when asked again: try another llm.model")

    def _chat(self, task: Task[Any], model: ModelInfo, deadline: float, *, is_second_try: bool) -> Reply:
        """The answer, by which the speed is learned; nothing is asked where reading alone would take too long."""
        left = deadline - time.monotonic()
        prompt, speed = task.instructions + task.material, self.speed
        if speed is not None and (needed := speed.seconds(prompt, 1)) > left:
            self.__dict__["speed"] = replace(speed, reads=1.25 * speed.reads)  # so that it is tried again some time
            what = f"{self.name} would read for {needed:.0f} s ({speed})"
            raise LanguageModelTimeoutError(f"{what}, and has {left:.0f} s")
        # A third of what may be written is usual. A terminal shows this line, for the wait is long.
        about = f", about {speed.seconds(prompt, task.max_tokens // 3):.0f} s" if speed else ""
        progress.info("asking %s%s%s", self.name, "" if model.is_loaded else ", which has to be loaded", about)
        try:
            reply = self._server.chat(task, left, is_second_try=is_second_try)
        except LanguageModelTimeoutError:
            if model.is_loaded and not self._server.has_begun:  # it read until the end: it is slower than that
                tokens = max(LEAST_READ, size(prompt) // BYTES_PER_TOKEN)
                self._learn(Measured(tokens, max(left, tokens / speed.reads if speed else 0.0), 0, 0.0))
            raise
        self._learn(reply.measured)
        return reply

    @cached_property
    def _server(self) -> OllamaServer:
        return OllamaServer(self._settings)

    def _look_up(self, seconds: float) -> ModelInfo:
        """What the server says of the model; asked again when it is old."""
        max_age_s = min(LOOK_EVERY_S, self._settings.keep_alive_seconds)
        if self._model is None or time.monotonic() - self._looked_up_at >= max_age_s:
            self._model, self._looked_up_at = self._server.look_up(seconds), time.monotonic()
            self._window = served_window(self._model.context_length, self._settings)
        if not self._model.can_chat:
            raise self._server.cannot_chat()
        if self._server.think is not None:  # it has not refused
            self._server.think = self._model.think
        return self._model

    @property
    def manner(self) -> str:
        """How the model is asked, where that is not as usual: how much it thinks, and whether it follows a schema."""
        server = self._server
        thinks = f"it cannot be told not to think (think: {server.think})" if server.think else ""
        return ", ".join(filter(None, (thinks, "" if server.has_schema else "it writes JSON only without a schema")))

    def _check_length(self, task: Task[Written], window: int) -> None:
        needed = -(-(size(task.instructions) + size(task.material)) // BYTES_PER_TOKEN)
        room = _prompt_tokens(window, task.max_tokens + self._server.thought_tokens)
        if needed > room:
            raise TaskTooLongError(
                f"the task has up to {needed} tokens, and {self.name} reads {room} beside its answer: see llm.num_ctx"
            )


def longest_wait(task: Task[Any], model: ModelInfo, settings: LlmSettings) -> float:
    """Seconds for a task; a model that is not loaded gets longer, but a task's own limit always holds."""
    seconds = settings.seconds + (0 if model.is_loaded else settings.load_seconds)
    return seconds if task.seconds is None else min(seconds, task.seconds)


def served_window(context_length: int | None, settings: LlmSettings) -> int:
    """How many tokens the model reads: as many as are asked for, unless it was made for fewer."""
    return min(settings.num_ctx, context_length or settings.num_ctx)


def _measured(part: "ChatResponse") -> Measured:
    read_ns, written_ns = part.prompt_eval_duration or 0, part.eval_duration or 0
    return Measured(part.prompt_eval_count or 0, read_ns / 1e9, part.eval_count or 0, written_ns / 1e9)


def _prompt_tokens(window: int, max_tokens: int) -> int:
    """How many tokens of instructions and material fit into a context window."""
    # 256 are for the model's own chat template, and for what a second try adds.
    return min(int(window * PROMPT_SHARE), window - max_tokens) - 256
