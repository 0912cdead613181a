"""A model of Ollama, asked by Ollama's own client."""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, cast

import httpx
import numpy.typing as npt

from retriever.errors import NoModelError
from retriever.served.server import (
    CONNECT_S,
    LOOK_UP_S,
    ModelInfo,
    ModelServer,
    Piece,
    Reply,
    least_temperature,
    read_billions,
    served_window,
)
from retriever.served.speed import Measured
from retriever.served.task import Task
from retriever.served.transport import (
    Limits,
    RefusedError,
    ServedError,
    StrangeAnswerError,
    UnreachableError,
    client_options,
    request_json,
    translate_errors,
)

if TYPE_CHECKING:
    from collections.abc import Generator as Stream

    from ollama import ChatResponse, Client


class OllamaServer(ModelServer):
    """One model of Ollama, which writes and embeds; Ollama has no interface for rerankers."""

    program = api = "Ollama"
    start = "start it with `ollama serve`"
    check = "see whether `ollama ps` still lists it"
    parallel = 1  # the others would wait their turn

    @property
    def name(self) -> str:
        """Such as `Ollama's nomic-embed-text at http://127.0.0.1:11434`."""
        return f"Ollama's {self.model} at {self.url}"

    def missing(self, said: str = "") -> str:
        """Return that Ollama has no such model, and how to get it."""
        return f"Ollama at {self.url} has no {self.model}: run: ollama pull {self.model}"

    def identity(self, limits: Limits) -> tuple[str, ...]:
        """Return the kind, the model's name and the digest of its weights, as in the server's list of models."""
        with self._client(limits) as client:
            models = client.list().models
        names = (self.model, f"{self.model}:latest")
        digest = next((model.digest for model in models if model.model in names), None)
        # Without a digest nobody could tell when the model behind the name is another one.
        if not digest:
            raise RefusedError(404, "not in its list of models")
        return ("ollama", self.model, digest)

    def embed(self, texts: Sequence[str], limits: Limits) -> npt.ArrayLike:
        """Return one vector for each text; the server is told to refuse what it would have to cut."""
        with self._client(limits) as client:
            return client.embed(self.model, texts, truncate=False).embeddings

    def describe(self) -> str:
        """Return Ollama's version and address."""
        try:
            version = request_json(f"{self.url}/api/version", Limits(CONNECT_S, LOOK_UP_S)).get("version")
            if not version:
                raise StrangeAnswerError("it has no version")
        except ServedError as error:
            strange = StrangeAnswerError(str(error)) if isinstance(error, RefusedError) else error
            raise self.explain_unhealthy(strange, LOOK_UP_S) from error
        return f"Ollama {version} at {self.url}"

    def look_up(self, seconds: float) -> ModelInfo:
        """Return what Ollama says of the model."""
        try:
            with self._client(Limits(CONNECT_S, seconds)) as client:
                present = [model.model or "" for model in client.list().models]
                name = next((name for name in (self.model, f"{self.model}:latest") if name in present), None)
                if name is None:
                    others = f"; it has {', '.join(present)} (llm.model)" if present else ""
                    raise NoModelError(self.missing() + others)
                windows = {model.model: model.context_length for model in client.ps().models}
                shown = client.show(name)
        except ServedError as error:
            raise self.explain_unhealthy(error, seconds) from error
        lengths = (value for key, value in (shown.modelinfo or {}).items() if key.endswith(".context_length"))
        context_length = next((length for length in lengths if isinstance(length, int)), None)
        if self.think is not None and "gpt-oss" in name.lower():  # it has not refused; it can be told levels alone
            self.think = "low"
        details = shown.details
        return ModelInfo(
            name=name,
            is_loaded=name in windows and windows[name] in {None, served_window(context_length, self._llm)},
            can_chat=shown.capabilities is None or "completion" in shown.capabilities,
            context_length=context_length,
            billions=read_billions(details.parameter_size if details else None, name),
        )

    def _generate(self, task: Task[Any], seconds: float, *, with_schema: bool) -> Reply:
        llm, max_tokens, started = self._llm, task.max_tokens + self.thought_tokens, time.monotonic()
        temperature = max(task.temperature, least_temperature(self.model))
        options = {"num_ctx": llm.num_ctx, "num_predict": max_tokens, "temperature": temperature, "seed": 7}
        # Each token comes as a line of JSON of some 130 bytes.
        limits = Limits(CONNECT_S, seconds, llm.idle_seconds, lambda: self.has_begun, 2**15 + 512 * max_tokens)
        with self._client(limits) as client:
            stream = client.chat(
                self.model,
                self._write_messages(task, with_schema=with_schema),
                stream=True,
                think=cast("Any", self.think),  # the client's own type does not know every level that a server has
                format=task.answer.model_json_schema() if with_schema else None,
                options=options,
                keep_alive=llm.keep_alive_seconds,
            )
            with closing(cast("Stream[ChatResponse, None, None]", stream)) as parts:
                return self._collect(self._read(parts), task, started)

    def _read(self, parts: "Iterator[ChatResponse]") -> Iterator[Piece]:
        for part in parts:
            text, thought = part.message.content or "", part.message.thinking or ""
            if not part.done:
                yield Piece(text, thought)
                continue
            read_s, written_s = (part.prompt_eval_duration or 0) / 1e9, (part.eval_duration or 0) / 1e9
            measured = Measured(part.prompt_eval_count or 0, read_s, part.eval_count or 0, written_s)
            yield Piece(text, thought, part.done_reason, part.prompt_eval_count, measured)
            return

    def _adapt(self, error: ServedError) -> bool:
        if isinstance(error, RefusedError) and error.status == 400 and self.think is not None and "think" in str(error):
            self.think = None
            return True
        return False

    @contextmanager
    def _client(self, limits: Limits) -> "Iterator[Client]":
        """Yield a client for one try; its connections are closed at the end, also by an interrupt."""
        import ollama  # 335 ms

        def drop_key(request: httpx.Request) -> None:  # the client sends the environment's OLLAMA_API_KEY to any host
            request.headers.pop("authorization", None)

        options = {"event_hooks": {"request": [drop_key]}, **client_options(limits, self.url)}
        try:
            with translate_errors(), ollama.Client(self.url, **options) as client:
                yield client
        except ConnectionError as error:  # the client's own, which hides the reason
            raise UnreachableError(f"no connection to {self.url}") from error
        except ollama.ResponseError as error:
            raise RefusedError(error.status_code, str(error.error)) from error
        # Lists where objects belong make the client look for attributes, and deep ones exhaust its JSON parser.
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise StrangeAnswerError(str(error)) from error
