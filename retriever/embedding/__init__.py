"""Texts to vectors: the kinds of encoder, each in its module, and which one the settings ask for."""

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from retriever.embedding.encoder import BUNDLED_MODELS
from retriever.settings import EncoderSettings
from retriever.types import Encoder

if TYPE_CHECKING:
    from retriever.embedding.both import BothEncoder
    from retriever.embedding.onnx import OnnxEncoder

CHOICES = (*BUNDLED_MODELS, "both")


def open_encoder(settings: EncoderSettings, made_by: str | None = None, dimension: int | None = None) -> Encoder | None:
    """Return the encoder that the settings ask for; None for the kind `none`.

    Args:
        settings: where they name no model, it is the bundled one that made the vectors of the index, else the English.
        made_by: the fingerprint of the encoder that made the vectors of the index; None without an index.
        dimension: the length of these vectors: a server need not be asked for it. Where it now gives others, encoding
            raises EncoderError.

    Nothing is downloaded and no server is asked yet: models are loaded, and servers reached, by the first call that
    needs them, `fingerprint` and `dimension` included; those then raise EncoderError.

    Raises:
        EncoderError: there is no such model.
    """
    # Each kind is imported when it is asked for: they cost 20 to 350 ms.
    match settings.kind:
        case "onnx":
            if bundled := find_bundled(settings, made_by):
                return bundled
            from retriever.embedding.onnx import OnnxEncoder

            return OnnxEncoder(Path(settings.model).expanduser(), settings)
        case "sentence-transformers":
            from retriever.embedding.external import SentenceTransformersEncoder

            return SentenceTransformersEncoder(settings)
        case "ollama" | "openai":
            from retriever.embedding.external import RemoteEncoder

            return RemoteEncoder(settings, dimension)
        case "none":
            return None


def find_bundled(settings: EncoderSettings, made_by: str | None) -> "OnnxEncoder | BothEncoder | None":
    """Return the bundled encoder that settings of the kind `onnx` mean, as in `open_encoder`; None for others."""
    for name in CHOICES:  # one by one: an index of English opens no other model
        encoder = open_bundled(settings, name)
        names = (encoder.bundled_as, encoder.name)
        if settings.model in names if settings.model else encoder.fingerprint == made_by:
            return encoder
    return None if settings.model else bundled_encoder(settings)


@lru_cache(maxsize=4)
def bundled_encoder(settings: EncoderSettings, name: str = "english") -> "OnnxEncoder":
    """Return a bundled model, one for the whole process: it takes 50 MB, and its files do not change."""
    from retriever.embedding.onnx import OnnxEncoder

    return OnnxEncoder(BUNDLED_MODELS[name], settings)


@lru_cache(maxsize=4)
def open_bundled(settings: EncoderSettings, name: str) -> "OnnxEncoder | BothEncoder":
    """Return one of `CHOICES`, likewise."""
    if name != "both":
        return bundled_encoder(settings, name)
    from retriever.embedding.both import BothEncoder

    return BothEncoder(bundled_encoder(settings), bundled_encoder(settings, "multilingual"))
