"""What a failure of the HTTP connection or of the server means for who asked, and what to do about it."""

import httpx

from retriever.errors import (
    CutAnswerError,
    GeneratorError,
    GeneratorTimeoutError,
    NoGeneratorError,
    NoModelError,
    TaskTooLongError,
    WrongAnswerError,
)
from retriever.llm.ollama_client import RefusedError, StrangeAnswerError
from retriever.llm.transport import AnswerTooLargeError, OverdueError, one_line

BUSY = 503
_MISSING = 404
_ELSEWHERE = range(300, 400)


def meaning(error: httpx.HTTPError | RefusedError | StrangeAnswerError, model: str, url: str) -> GeneratorError:
    """The same failure, in words for the user."""
    match error:
        case RefusedError():
            return _refusal(error, model, url)
        case StrangeAnswerError():
            return WrongAnswerError(f"what answers at {url} speaks otherwise than Ollama ({one_line(str(error))})")
        case AnswerTooLargeError():
            return WrongAnswerError(f"{model} at {url} writes without end ({error})")
        case httpx.ConnectError() | httpx.ConnectTimeout():
            return NoGeneratorError(f"no Ollama answers at {url}: start it with `ollama serve`")
        case OverdueError():
            return GeneratorTimeoutError(
                f"{model} at {url} took longer than it may: choose a smaller model (llm.model) or wait longer "
                "(llm.seconds)"
            )
        case httpx.TimeoutException():
            return GeneratorTimeoutError(
                f"{model} at {url} fell silent: see whether `ollama ps` still lists it, or wait longer "
                "(llm.idle_seconds)"
            )
        case _:
            return CutAnswerError(f"the connection to {url} broke before the answer was complete ({error})")


def missing_model(model: str, url: str, present: tuple[str, ...] = ()) -> NoModelError:
    """The server has no such model."""
    others = f"; it has {', '.join(present)} (llm.model)" if present else ""
    return NoModelError(f"Ollama at {url} has no {model}: run: ollama pull {model}{others}")


def wrong_kind(model: str, url: str) -> NoModelError:
    """The model is there, and writes no text."""
    return NoModelError(f"{model} at {url} cannot chat, as embedding models cannot: name a chat model (llm.model)")


def _refusal(error: RefusedError, model: str, url: str) -> GeneratorError:
    said = one_line(str(error))
    if error.status == _MISSING:
        return missing_model(model, url)
    if error.status == BUSY:
        return NoGeneratorError(f"Ollama at {url} is busy ({said}): ask again later")
    if error.status in _ELSEWHERE:
        return NoGeneratorError(
            f"{url} sends on to another address, which is not followed: set llm.url to Ollama's own"
        )
    if "does not support chat" in said:
        return wrong_kind(model, url)
    if "context" in said and ("exceed" in said or "length" in said):
        return TaskTooLongError(f"{model} at {url} cannot read so much ({said}): see llm.num_ctx")
    if error.status < 0:
        return CutAnswerError(f"{model} at {url} stopped in the middle of its answer: {said}")
    return GeneratorError(f"Ollama at {url} failed: status {error.status}: {said}; its log says more")
