"""Texts to vectors: the kinds of encoder, each in its module, and which one the settings ask for."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from retriever.embedding.encoder import BUNDLED_MODEL, bundled_tokens
from retriever.protocols import Encoder
from retriever.settings.schema import EncoderSettings

if TYPE_CHECKING:
    from retriever.embedding.onnx import OnnxEncoder


def open_encoder(settings: EncoderSettings, dimension: int | None = None) -> Encoder | None:
    """Return the encoder that the settings ask for; None for the kind `none`.

    `dimension` is the length of the vectors that an index has of it: a server need not be asked for it. Where it now
    gives others, encoding raises EncoderError.

    Nothing is downloaded and no server is asked yet: models are loaded, and servers reached, by the first call that
    needs them, `fingerprint` and `dimension` included; those then raise EncoderError.

    Raises:
        EncoderError: there is no such model.
    """
    # Each kind is imported when it is asked for: they cost 20 to 350 ms.
    match settings.kind:
        case "onnx":
            if settings.model in ("", BUNDLED_MODEL.name):
                return bundled_encoder(settings)
            from retriever.embedding.onnx import OnnxEncoder

            return OnnxEncoder(Path(settings.model).expanduser(), settings)
        case "sentence-transformers":
            from retriever.embedding.sentence_transformers import SentenceTransformersEncoder

            return SentenceTransformersEncoder(settings)
        case "ollama" | "openai":
            from retriever.embedding.remote import open_remote

            return open_remote(settings, dimension)
        case "none":
            return None


@lru_cache(maxsize=2)
def bundled_encoder(settings: EncoderSettings) -> "OnnxEncoder":
    """Return the bundled model, one for the whole process: it takes 50 MB, and its files do not change."""
    from retriever.embedding.onnx import OnnxEncoder

    return OnnxEncoder(settings=settings)


def is_english_word(word: str) -> bool:
    """Return whether the bundled tokenizer has the word (in lower case) as a whole: 20,000 of the commonest."""
    return bundled_tokens().is_word(word)


def unread_tokens(encoder: Encoder, questions: Sequence[str]) -> list[int]:
    """Return how many tokens at the end of each question the encoder does not read; 0 for all but the longest."""
    return [max(0, count - encoder.max_tokens) for count in encoder.count_tokens(questions)]


def measure_known_text(encoder: Encoder, text: str, *, in_english: bool = True) -> float:
    """Return the share of a text that the encoder knows, 0 to 1 (`Tokens.measure_known`); 1 without its vocabulary."""
    # Asked by name, as for its tokens: to look at a remote one's properties would call its server.
    own: Callable[..., float] | None = getattr(encoder, "measure_known", None)
    return own(text, in_english=in_english) if own else 1.0
