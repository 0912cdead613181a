"""Survey which languages the documents are in, and how much of them the embedding model knows."""

from collections import Counter
from dataclasses import dataclass

from retriever.embedding import measure_known, open_encoder
from retriever.errors import EncoderError
from retriever.lexical.languages import STEMMED, detect_language
from retriever.settings.schema import EncoderSettings
from retriever.store import reading
from retriever.store.connection import Connection

SAMPLE = 300  # chunks that are looked at, from all over the index: 60 ms, and a share is right to .06 or better
WORTH_A_NOTE = 0.1  # of the text is unknown: from then on `status` says so
NAMED_FROM = 0.05  # of the text is in a language: those of less are not named


@dataclass(frozen=True, slots=True)
class TextSurvey:
    """What a sample of the documents' chunks is like; shares are of its length in UTF-8, which is fair to scripts."""

    unknown: float
    """Which share of the text the embedding model does not know, 0 to 1 (`Tokens.measure_known`)."""
    languages: tuple[tuple[str, float], ...]
    """(language, share of the text), most first; `english` is also what no language was recognised in."""

    @property
    def is_worth_a_note(self) -> bool:
        """Whether another model would know clearly more."""
        return self.unknown >= WORTH_A_NOTE

    def describe(self) -> str:
        """`41% of the text is unknown to the embedding model (English 59%, Chinese 41%)`, for people."""
        named = (f"{name.capitalize()} {share:.0%}" for name, share in self.languages if share >= NAMED_FROM)
        return f"{self.unknown:.0%} of the text is unknown to the embedding model ({', '.join(named)})"


def survey_texts(connection: Connection, settings: EncoderSettings) -> TextSurvey | None:
    """Look at a sample of the chunks.

    Returns:
        None without chunks, without an encoder, and for one whose vocabulary is not read here: of a server, or of
        PyTorch, which takes seconds to load.
    """
    keys = [key for (key,) in connection.execute("SELECT chunk_key FROM chunks ORDER BY chunk_key")]
    if settings.kind != "onnx" or not keys:
        return None
    sample = keys[:: -(-len(keys) // SAMPLE)]
    try:
        encoder = open_encoder(settings)
        assert encoder is not None, "the kind onnx is one"
        unknown, lengths = 0.0, Counter[str]()
        for chunk in reading.chunks(connection, sample).values():
            language, length = detect_language(chunk.text), len(chunk.text.encode(errors="replace"))
            lengths[language or "english"] += length
            known = measure_known(encoder, chunk.text, in_english=language not in STEMMED)
            unknown += (1 - known) * length
    except EncoderError:  # the model is not there any more; doctor says so elsewhere
        return None
    total = max(1, sum(lengths.values()))
    shares = tuple((name, length / total) for name, length in lengths.most_common())
    return TextSurvey(unknown / total, shares)
