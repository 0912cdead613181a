"""A model of Ollama, asked by Ollama's own client."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, cast

import httpx
import numpy.typing as npt

from retriever.served.server import (
    ODDS,
    THOUGHT_TOKENS,
    ModelInfo,
    ModelServer,
    StreamPiece,
    make_messages,
    share_of_yes,
)
from retriever.served.task import Measured, Task
from retriever.served.transport import (
    Limits,
    RefusedError,
    StrangeAnswerError,
    UnreachableError,
    client_options,
    translate_http_errors,
)

if TYPE_CHECKING:
    from ollama import ChatResponse, Client, ListResponse


class OllamaServer(ModelServer):
    """One model of Ollama, which writes and embeds; Ollama has no interface for rerankers."""

    program = "Ollama"
    start = "start it with `ollama serve`"
    missing = "Ollama at {url} has no {model}: run: ollama pull {model}"

    @property
    def _is_gpt_oss(self) -> bool:  # it cannot be told not to think, only how much
        return "gpt-oss" in self.model.lower()

    @property
    def thought_tokens(self) -> int:
        """As `ModelServer.thought_tokens`."""
        return THOUGHT_TOKENS if self._is_gpt_oss else 0

    def identity(self, limits: Limits) -> tuple[str, ...]:
        """Return the kind, the model's name and the digest of its weights, as in the server's list of models."""
        with self._client(limits) as client:
            return ("ollama", self.model, str(self._find(client).digest))

    def _find(self, client: "Client") -> "ListResponse.Model":
        models = client.list().models
        found = next((model for model in models if model.model in (self.model, f"{self.model}:latest")), None)
        if found is None:
            raise RefusedError(404, f"it has {', '.join(str(model.model) for model in models) or 'none'}")
        return found

    def embed(self, texts: Sequence[str], limits: Limits) -> npt.ArrayLike:
        """Return one vector for each text; the server is told to refuse what it would have to cut."""
        with self._client(limits) as client:
            return client.embed(self.model, texts, truncate=False).embeddings

    def judge(self, instructions: str, material: str, limits: Limits) -> float:
        """As `ModelServer.judge`; Ollama gives odds since 0.12.11."""
        with self._client(limits) as client:
            said = client.chat(
                self.model,
                make_messages(instructions, material),
                think=False,
                logprobs=True,
                top_logprobs=ODDS,
                options={"num_ctx": self._llm.num_ctx, "num_predict": 1},
                keep_alive=self._llm.keep_alive_seconds,
            )
        word = next(iter(said.logprobs or ()), None)
        if word is None:
            raise StrangeAnswerError("no logprobs")
        return share_of_yes([(item.token, item.logprob) for item in word.top_logprobs or ()])

    def look_up(self, limits: Limits) -> ModelInfo:
        """Return what Ollama says of the model."""
        with self._client(limits) as client:
            name = str(self._find(client).model)
            shown = client.show(name)
        lengths = (value for key, value in (shown.modelinfo or {}).items() if key.endswith(".context_length"))
        context_length = next((length for length in lengths if isinstance(length, int)), None)
        size = shown.details.parameter_size if shown.details else None
        return self._make_info(name, context_length, size or "")

    def _stream(self, task: Task[Any], limits: Limits, *, with_schema: bool) -> Generator[StreamPiece]:
        llm = self._llm
        max_tokens = task.max_tokens + self.thought_tokens
        with self._client(limits) as client:
            stream = client.chat(
                self.model,
                make_messages(task.instructions, task.material),
                stream=True,
                think="low" if self._is_gpt_oss else False,
                format=task.answer.model_json_schema() if with_schema else None,
                options={"num_ctx": llm.num_ctx, "num_predict": max_tokens, "temperature": task.temperature, "seed": 7},
                keep_alive=llm.keep_alive_seconds,
            )
            with closing(cast("Generator[ChatResponse]", stream)) as parts:
                for part in parts:
                    text, thought = part.message.content or "", part.message.thinking or ""
                    if not part.done:
                        yield StreamPiece(text, thought)
                        continue
                    read_s, written_s = (part.prompt_eval_duration or 0) / 1e9, (part.eval_duration or 0) / 1e9
                    measured = Measured(part.prompt_eval_count or 0, read_s, part.eval_count or 0, written_s)
                    yield StreamPiece(text, thought, part.done_reason, part.prompt_eval_count, measured)
                    return

    @contextmanager
    def _client(self, limits: Limits) -> "Iterator[Client]":
        """Yield a client for one try; its connections are closed at the end, also by an interrupt."""
        import ollama  # 335 ms

        def drop_key(request: httpx.Request) -> None:  # the client sends the environment's OLLAMA_API_KEY to any host
            request.headers.pop("authorization", None)

        options = {"event_hooks": {"request": [drop_key]}, **client_options(limits, self.url)}
        try:
            with translate_http_errors(), ollama.Client(self.url, **options) as client:
                yield client
        except ConnectionError as error:  # the client's own, which hides the reason
            raise UnreachableError(f"no connection to {self.url}") from error
        except ollama.ResponseError as error:
            raise RefusedError(error.status_code, str(error.error)) from error
        # Lists where objects belong make the client look for attributes, and deep ones exhaust its JSON parser.
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise StrangeAnswerError(str(error)) from error
