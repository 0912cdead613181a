"""Texts to vectors: the kinds of encoder, each in its module, and which one the settings ask for."""

from collections.abc import Callable, Sequence
from functools import lru_cache

from retriever.settings.schema import EncoderSettings
from retriever.types import Encoder

__all__ = ["EncoderSettings", "bundled_counter", "open_encoder", "unread_tokens"]


def open_encoder(settings: EncoderSettings) -> Encoder | None:
    """The encoder that the settings ask for; None for the kind `none`.

    Nothing is downloaded and no server is asked yet: models are loaded, and servers reached, by the first call that
    needs them, `fingerprint` and `dimension` included; those then raise EncoderError.

    Raises:
        EncoderError: there is no such model.
    """
    # Each kind is imported when it is asked for: they cost 20 to 350 ms.
    match settings.kind:
        case "onnx":
            from retriever.embedding.onnx import OnnxEncoder, model_folder

            return OnnxEncoder(model_folder(settings.model), settings) if settings.model else _bundled(settings)
        case "sentence-transformers":
            from retriever.embedding.sentence_transformers import SentenceTransformersEncoder

            return SentenceTransformersEncoder(settings)
        case "ollama":
            from retriever.embedding.remote import open_ollama

            return open_ollama(settings)
        case "openai":
            from retriever.embedding.remote import open_openai

            return open_openai(settings)
        case "none":
            return None


@lru_cache(maxsize=2)
def _bundled(settings: EncoderSettings) -> Encoder:
    """The model that comes with the program, once for the whole process: it takes 50 MB; its files do not change."""
    from retriever.embedding.onnx import OnnxEncoder

    return OnnxEncoder(settings=settings)


def bundled_counter() -> Callable[[Sequence[str]], list[int]]:
    """What measures chunks when there is no encoder: a later one will find them of a good length."""
    from retriever.embedding.onnx import BUNDLED_MODEL
    from retriever.embedding.tokens import Tokens

    return Tokens.in_file(BUNDLED_MODEL / "tokenizer.json").count


def unread_tokens(encoder: Encoder, questions: Sequence[str]) -> list[int]:
    """How many tokens at the end of each question the encoder does not read; 0 for all but the longest."""
    return [max(0, count - encoder.max_tokens) for count in encoder.count_tokens(questions)]
