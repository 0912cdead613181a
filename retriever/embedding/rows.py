"""What any model's answer must be before it is believed: one finite vector for each text, made a unit vector."""

from collections.abc import Sequence
from hashlib import sha256

import numpy as np
import numpy.typing as npt

from retriever.errors import EncoderError
from retriever.types import FloatMatrix


def unit_rows(rows: npt.ArrayLike, count: int, source: str) -> FloatMatrix:
    """The rows at length 1, (count, d) float32.

    Args:
        rows: `count` vectors of one length.
        count: how many texts were sent.
        source: names the model in messages.

    Raises:
        EncoderError: the number of vectors or their lengths are wrong, one of them holds NaN or infinity, or is zero.
    """
    try:
        matrix = np.asarray(rows, dtype=np.float32)
    except (ValueError, TypeError) as error:
        raise EncoderError(f"{source} gave no vectors of one length: {error}") from error
    if matrix.ndim != 2 or len(matrix) != count or matrix.shape[1] == 0:
        raise EncoderError(f"{source} gave an array of shape {matrix.shape} for {count} texts")
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    if not np.isfinite(lengths).all():
        raise EncoderError(f"{source} gave a vector that holds NaN or infinity")
    if not lengths.all():
        raise EncoderError(f"{source} gave a vector of zeros")
    unit: FloatMatrix = matrix / lengths
    return unit


def checked_rows(rows: npt.ArrayLike, count: int, dimension: int) -> FloatMatrix:
    """As `unit_rows`, for whatever an encoder gave: its callers believe none.

    Raises:
        EncoderError: as there, and for vectors of another length than the encoder says.
    """
    unit = unit_rows(rows, count, "the embedding model")
    if unit.shape[1] != dimension:
        raise EncoderError(f"the embedding model gave vectors of {unit.shape[1]} numbers instead of {dimension}")
    return unit


def fingerprint(parts: Sequence[str | int]) -> str:
    """The first 16 hex digits of the SHA-256 over everything that decides a vector."""
    return sha256("\x1f".join(map(str, parts)).encode()).hexdigest()[:16]
