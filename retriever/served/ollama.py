"""A model of Ollama, asked by Ollama's own client."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, cast

import httpx
import numpy.typing as npt

from retriever.served.server import ODDS, ModelInfo, ModelServer, StreamPiece, make_messages, share_of_yes
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
    may_think = False
    start = "start it with `ollama serve`"
    missing = "Ollama at {url} has no {model}: run: ollama pull {model}"

    def identity(self, limits: Limits) -> tuple[str, ...]:
        """As `ModelServer.identity`, with the digest of the weights from the server's list of models."""
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
            request = self._make_request(instructions, material, num_predict=1)
            said = client.chat(**request, think=False, logprobs=True, top_logprobs=ODDS)
        for word in said.logprobs or ():
            return share_of_yes([(item.token, item.logprob) for item in word.top_logprobs or ()])
        raise StrangeAnswerError("no logprobs")

    def look_up(self, limits: Limits) -> ModelInfo:
        """Return what Ollama says of the model."""
        with self._client(limits) as client:
            name = str(self._find(client).model)
            shown = client.show(name)
        lengths = (value for key, value in (shown.modelinfo or {}).items() if key.endswith(".context_length"))
        context_length = next((length for length in lengths if isinstance(length, int)), None)
        size = shown.details.parameter_size if shown.details else None
        return self._make_info(name, context_length, size or "")

    def stream(self, task: Task[Any], limits: Limits, *, with_schema: bool) -> Generator[StreamPiece]:
        """As `ModelServer.stream`."""
        options = {"num_predict": task.max_tokens + self.thought_tokens, "temperature": task.temperature, "seed": 7}
        with self._client(limits) as client:
            stream = client.chat(
                **self._make_request(task.instructions, task.material, **options),
                stream=True,
                think="low" if self.is_gpt_oss else False,
                format=task.answer.model_json_schema() if with_schema else None,
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

    def _make_request(self, instructions: str, material: str, **options: float) -> dict[str, Any]:
        return {
            "model": self.model,
            "messages": make_messages(instructions, material),
            "options": {"num_ctx": self.llm.num_ctx, **options},
            "keep_alive": self.llm.keep_alive_seconds,
        }

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
