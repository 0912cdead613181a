"""The cosines of questions on other topics than the documents': the scale on which a cosine says something.

How near is near? It depends on the model (some put all texts within .7 and 1) and on how much there is to search: the
best of 100,000 cosines is higher than the best of ten. So a fixed list of everyday questions is asked when an index is
made, and every later question is compared with what they find. docs/internals/confidence.md has what else was tried.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np

from retriever.embedding.encoder import unit_rows
from retriever.store import reading, text_vectors, writing
from retriever.store.database import Connection
from retriever.types import Encoder, FloatMatrix

DRIFT = 1.25  # times more or fewer chunks: by then the best cosine has moved by about .005, and is measured anew
EXACT_UP_TO = 20_000  # chunks of a folder: of fewer, it is measured with each change, in some 50 ms

# Everyday topics, so that no folder of documents covers more than a few.
UNRELATED_QUESTIONS = tuple(Path(__file__).with_name("unrelated.txt").read_text(encoding="utf-8").splitlines())


@dataclass(frozen=True)
class Background:
    common: float  # the mean of all their cosines: what all texts have in common
    best: float  # the median of their best; documents about one of the fields do not move it
    deviation: float  # the standard deviation of all of them, above 0
    length: int  # of the vectors
    abroad: "Background | None" = None  # where questions that are not English have a scale of their own


@dataclass(frozen=True)
class Cosines:
    """Those of the questions with some chunks: of several folders they add up to a `Background`."""

    best: Sequence[float]  # of each question
    total: float  # of all
    squares: float  # the sum of all their squares
    chunks: int
    length: int  # of the vectors


def read_background(connection: Connection) -> Background | None:
    """Read that of the folders that may be seen; None without vectors."""
    rows = connection.execute("SELECT content FROM backgrounds ORDER BY folder_key")
    found = [[Cosines(**cosines) for cosines in json.loads(content)] for (content,) in rows]
    background, abroad, *_ = *map(add_cosines, zip(*found, strict=True)), None, None
    return replace(background, abroad=abroad) if background else None


def renew_background(connection: Connection, encoder: Encoder | None) -> None:
    """Ask them again of folders where the scale may have moved; not while vectors are to come, which would move it."""
    if text_vectors.pending_count(connection):
        return
    if encoder is None or encoder.fingerprint != reading.meta(connection, "fingerprint"):
        connection.execute("DELETE FROM backgrounds")
        return
    questions, fingerprint = load_unrelated(connection, encoder), encoder.fingerprint
    writing.set_meta(connection, "unrelated", json.dumps([fingerprint, questions.astype("<f4").tobytes().hex()]))
    # By all numbers of the vectors, then by those that texts in all languages have.
    lengths = filter(None, (questions.shape[1], getattr(encoder, "shared", None)))
    scales = [slice(length) for length in lengths]
    known = dict(connection.execute("SELECT folder_key, content FROM backgrounds"))
    connection.execute("DELETE FROM backgrounds")
    for folder, count in reading.chunk_counts(connection).items():
        content = known.get(folder, "[]")
        chunks = sum(cosines["chunks"] for cosines in json.loads(content)[:1])
        # Scores are relative to it, and an index that grew has the scores of one that is made at once.
        if count <= EXACT_UP_TO or not count / DRIFT <= chunks <= count * DRIFT:
            vectors = text_vectors.vectors_of_folder(connection, fingerprint, folder)
            measured = [asdict(measure_cosines(questions[:, scale], vectors[:, scale])) for scale in scales]
            content = json.dumps(measured)
        connection.execute("INSERT INTO backgrounds (folder_key, content) VALUES (?, ?)", (folder, content))


def load_unrelated(connection: Connection, encoder: Encoder) -> FloatMatrix:
    """Return the vectors of the questions, (48, d) unit rows, as the index keeps them or else made.

    The bundled model takes .2 s to make them, a server that takes .3 s for a text 18 s.

    Raises:
        EncoderError: they cannot be made.
    """
    count = len(UNRELATED_QUESTIONS)
    made_by, rows = json.loads(reading.meta(connection, "unrelated") or '["", ""]')
    if made_by == encoder.fingerprint:
        return np.frombuffer(bytes.fromhex(rows), "<f4").reshape(count, -1)
    return unit_rows(encoder.encode_queries(UNRELATED_QUESTIONS), count, encoder.dimension)


def measure_cosines(questions: FloatMatrix, chunks: FloatMatrix) -> Cosines:
    """Measure the cosines of the questions with (n, d) unit rows.

    >>> measure_cosines(np.eye(2), np.array([[0, 1], [-1, 0]]))
    Cosines(best=[0.0, 1.0], total=0.0, squares=2.0, chunks=2, length=2)
    """
    # Sums and maxima, not the median: those of several folders add up to those of all, without their vectors.
    cosines = (questions @ chunks.T).astype("float64")
    total, squares = float(cosines.sum()), float(np.vdot(cosines, cosines))
    return Cosines(cosines.max(axis=1).tolist(), total, squares, *chunks.shape)


def add_cosines(parts: Sequence[Cosines]) -> Background | None:
    """Return the background of all of these, which are of one encoder; None without deviation."""
    chunks = sum(part.chunks for part in parts)
    cosines = len(UNRELATED_QUESTIONS) * chunks
    mean = sum(part.total for part in parts) / cosines
    square = sum(part.squares for part in parts) / cosines
    # Six digits: the same on machines that sum in another order.
    deviation = round(max(0.0, square - mean**2) ** 0.5, 6)
    best = median(max(rows) for rows in zip(*(part.best for part in parts), strict=True))
    return Background(round(mean, 6), round(best, 6), deviation, parts[0].length) if deviation else None
