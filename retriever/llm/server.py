"""One model on one Ollama server: what is known of it, and what it writes."""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import httpx

from retriever.errors import CutAnswerError, GeneratorTimeoutError, NoGeneratorError, WrongAnswerError
from retriever.llm.failures import BUSY, meaning, missing_model
from retriever.llm.ollama_client import RefusedError, StrangeAnswerError, ollama_client
from retriever.llm.transport import Patience, client_options

if TYPE_CHECKING:
    from collections.abc import Generator as Stream

    from ollama import ChatResponse, Client

LOOK_UP_S = 1.0
"""For all that is asked about a model; a server that needs longer is not well."""
_CONNECT_S = 0.5
_PAUSE_S = 0.3
_MAX_LINE_BYTES = 2**16
_BYTES_PER_TOKEN = 1024
"""Each token comes as a line of some 130 bytes."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """What a server says of a model."""

    name: str
    """As the server lists it, tag included."""
    is_loaded: bool
    """With the context window that is asked for: for another one it is loaded anew."""
    can_chat: bool
    """Embedding models cannot."""
    context_length: int | None
    """How many tokens the model can read at most; None: the server does not say."""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What a model is to write."""

    messages: tuple[Mapping[str, str], ...]
    """Each with `role` and `content`."""
    schema: Mapping[str, Any]
    """The JSON schema of the answer; models and versions heed it more or less."""
    options: Mapping[str, Any]
    """Ollama's own; `num_predict` also bounds how much is read."""
    keep_alive_s: int
    """How long the model stays loaded afterwards."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model wrote."""

    text: str
    """All of it; what it thought, when it wrote nothing else."""
    prompt_tokens: int | None
    """How many tokens of the messages it read; None: the server does not say."""
    first_token_s: float
    """From the request to the first piece of the answer."""


class OllamaChat:
    """One model on one Ollama server; the state is only whether the model lets itself be told not to think."""

    def __init__(self, model: str, url: str) -> None:
        self.model = model
        self.url = url
        self._think: bool | None = False

    def version(self) -> str:
        """Of the server, which its client does not ask for.

        Raises:
            NoGeneratorError: it does not run, or is no Ollama.
        """
        with self._seen(), httpx.Client(**client_options(Patience(_CONNECT_S, LOOK_UP_S), self.url)) as client:
            try:
                return str(client.get(f"{self.url}/api/version").raise_for_status().json()["version"])
            except (ValueError, TypeError, LookupError, httpx.HTTPStatusError) as error:
                raise StrangeAnswerError(str(error)) from error

    def look(self, num_ctx: int, seconds: float = LOOK_UP_S) -> ServedModel:
        """What the server says of the model, which is not run.

        Raises:
            NoGeneratorError: the server does not run, does not answer in LOOK_UP_S, or is no Ollama.
            GeneratorTimeoutError: it did not answer in fewer seconds than that.
            NoModelError: it has no such model; the message names those that it has.
        """
        with self._seen(seconds), ollama_client(self.url, Patience(_CONNECT_S, seconds)) as client:
            name = self._listed(client)
            windows = {model.model: model.context_length for model in client.ps().models}
            shown = client.show(name)
        lengths = (value for key, value in (shown.modelinfo or {}).items() if key.endswith(".context_length"))
        context_length = next((length for length in lengths if isinstance(length, int)), None)
        return ServedModel(
            name=name,
            is_loaded=name in windows and windows[name] in {None, min(num_ctx, context_length or num_ctx)},
            can_chat=shown.capabilities is None or "completion" in shown.capabilities,
            context_length=context_length,
        )

    def chat(self, request: ChatRequest, seconds: float, idle_s: float) -> Reply:
        """What the model writes; a connection that breaks is tried once more in the same time.

        Raises:
            GeneratorError: or one of its kinds; what the text says is not looked at.
        """
        deadline = time.monotonic() + seconds
        with self._explained():
            try:
                return self._chat(request, seconds, idle_s)
            except (httpx.HTTPError, RefusedError) as error:
                pause = self._pause(error)
                if pause is None or time.monotonic() + pause >= deadline:
                    raise
            time.sleep(pause)
            return self._chat(request, deadline - time.monotonic(), idle_s)

    def _chat(self, request: ChatRequest, seconds: float, idle_s: float) -> Reply:
        most = _MAX_LINE_BYTES + _BYTES_PER_TOKEN * int(request.options["num_predict"])
        patience = Patience(_CONNECT_S, seconds, idle_s=idle_s, max_bytes=most, max_line_bytes=_MAX_LINE_BYTES)
        with ollama_client(self.url, patience) as client:
            stream = client.chat(
                self.model,
                request.messages,
                stream=True,
                think=self._think,
                format=dict(request.schema),
                options=request.options,
                keep_alive=request.keep_alive_s,
            )
            with closing(cast("Stream[ChatResponse, None, None]", stream)):
                return self._reply(stream)

    def _reply(self, stream: "Iterable[ChatResponse]") -> Reply:
        started = time.monotonic()
        first: float | None = None
        text, thoughts = [], []
        for part in stream:
            first = first if first is not None else time.monotonic() - started
            text.append(part.message.content or "")
            thoughts.append(part.message.thinking or "")
            if part.done:
                self._check_end(part.done_reason)
                return Reply("".join(text).strip() or "".join(thoughts), part.prompt_eval_count, first)
        raise CutAnswerError(f"{self.model} at {self.url} ended its answer in the middle")

    def _check_end(self, reason: str | None) -> None:
        if reason == "length":
            raise CutAnswerError(f"{self.model} at {self.url} wrote more than it may, and was stopped")
        if reason != "stop":
            raise CutAnswerError(f"{self.model} at {self.url} stopped before its answer was complete ({reason})")

    def _pause(self, error: Exception) -> float | None:
        """Before another try, in seconds; None when it would do no better."""
        if not isinstance(error, RefusedError):
            passes = isinstance(error, httpx.NetworkError | httpx.ConnectTimeout | httpx.RemoteProtocolError)
            return _PAUSE_S if passes else None
        if error.status == 400 and self._think is not None and "think" in str(error):
            self._think = None  # it cannot be told not to think: a try without a word about it
            return 0.0
        return _PAUSE_S if error.status == BUSY else None

    def _listed(self, client: "Client") -> str:
        """The model's full name."""
        present = tuple(model.model or "" for model in client.list().models)
        for name in (self.model, f"{self.model}:latest"):
            if name in present:
                return name
        raise missing_model(self.model, self.url, present)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (httpx.HTTPError, RefusedError, StrangeAnswerError) as error:
            raise meaning(error, self.model, self.url) from error

    @contextmanager
    def _seen(self, seconds: float = LOOK_UP_S) -> Iterator[None]:
        """A server that cannot say what it has is none, if it was given the time."""
        try:
            with self._explained():
                yield
        except (GeneratorTimeoutError, WrongAnswerError, CutAnswerError) as error:
            if isinstance(error, GeneratorTimeoutError) and seconds < LOOK_UP_S:
                raise
            raise NoGeneratorError(f"no healthy Ollama at {self.url} ({error}): restart it, or see llm.url") from error
