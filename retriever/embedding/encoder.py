"""Parts of all encoders: prefixes, tokens, the refusal of long documents, the cut of long questions, unit vectors.

Embedding models want to read such texts as `query: ` and `passage: ` before a question and a document. A library of
models has them in each model's files; a server (Ollama, an OpenAI-compatible one) embeds what it is sent and adds
nothing. Without them a model that was trained with them finds far less: others measured nomic-embed-text at a recall of
.50 for the first hit, where all-MiniLM-L6-v2 has .875.
"""

import re
import tomllib
import unicodedata
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property, partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from retriever.errors import EncoderError
from retriever.settings import EncoderSettings
from retriever.types import FloatMatrix

if TYPE_CHECKING:
    from tokenizers import Tokenizer


_MODELS = Path(__file__).parent / "models"
ENGLISH_MODEL, MULTILINGUAL_MODEL = _MODELS / "sections-minilm-3", _MODELS / "sections-multilingual-1"
BUNDLED_MODELS = {"english": ENGLISH_MODEL, "multilingual": MULTILINGUAL_MODEL}
"""The folders of the models that come with the program, by what `encoder.model` calls them."""
_FAMILIES = Path(__file__).with_name("prefixes.toml")
NO_PREFIX = "none"  # as a setting: nothing, whatever the model asks for


class Prefixes(NamedTuple):
    """Texts that are put before what is encoded; empty: nothing."""

    query: str = ""
    document: str = ""

    def overridden(self, settings: EncoderSettings) -> "Prefixes":
        """Return what the settings say, where they do, else these."""
        given = zip((settings.query_prefix, settings.document_prefix), self, strict=True)
        return Prefixes(*("" if setting == NO_PREFIX else setting or own for setting, own in given))


def served_prefixes(settings: EncoderSettings) -> Prefixes:
    """Return the prefixes for a model that a server runs, by its name and tag; empty for one that is not known.

    >>> served_prefixes(EncoderSettings("ollama", "nomic-embed-text:latest")).query
    'search_query: '
    """
    name = settings.model.lower().replace("_", "-")
    families = tomllib.loads(_FAMILIES.read_text(encoding="utf-8"))["family"]
    known: dict[str, str] = next((family for family in families if re.search(family.pop("pattern"), name)), {})
    return Prefixes(**known).overridden(settings)


# A model's tokenizer, without its own truncation and padding: both would lose or add something in silence.

# A tokenizer's own record takes about 100 bytes a token: enough texts to keep all cores busy, and no more.
_TEXTS_AT_ONCE = 256
_WORD = re.compile(r"[^\W\d_]+")


class Tokens(ABC):
    """Counts and cuts texts by the tokens of one model; safe to share between threads."""

    def __init__(self, content: Callable[[], bytes]) -> None:
        """Take what gives the content of the model's file, when it is first needed."""
        self._content = content

    @abstractmethod
    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token numbers of each text, special ones included, without any cut."""

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, special ones included, without any cut."""
        return list(map(len, self.ids(texts)))

    def cut(self, text: str, max_tokens: int) -> str:
        """Return a beginning of the text, as long as can be, of at most `max_tokens` tokens, special ones included.

        >>> bundled_tokens().count(["Knead the dough", "Knead"])
        [6, 4]
        >>> [bundled_tokens().cut("Knead the dough", most) for most in (5, 6)]
        ['Knead the ', 'Knead the dough']
        """
        if self.count([text])[0] <= max_tokens:
            return text
        end = bisect_right(range(len(text)), max_tokens, key=lambda end: self.count([text[:end]])[0])
        return text[: end - 1]


class LibraryTokens(Tokens):
    """Tokens by the package `tokenizers`, of a `tokenizer.json`."""

    @cached_property
    def tokenizer(self) -> "Tokenizer":
        """Open the model's tokenizer, which neither cuts nor pads texts."""
        from tokenizers import Tokenizer  # 20 ms: not needed by commands without vectors

        tokenizer = Tokenizer.from_buffer(self._content())
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token numbers of each text, special ones included, without any cut."""
        return [
            encoding.ids
            for start in range(0, len(texts), _TEXTS_AT_ONCE)
            for encoding in self.tokenizer.encode_batch_fast(texts[start : start + _TEXTS_AT_ONCE])
        ]


@cache
def bundled_tokens() -> LibraryTokens:
    """Return the tokens of the English model, by which texts are counted for models whose own are not known."""
    return LibraryTokens(partial(read_model_file, ENGLISH_MODEL / "tokenizer.json"))


def is_english_word(word: str) -> bool:
    r"""Return whether the English tokenizer has the word (in lower case) as a whole: 20,000 of the commonest.

    >>> [is_english_word(word) for word in ("oven", "ofen", "\udcff")]
    [True, False, False]
    """
    # A name of a file that is no UTF-8 has halves of characters, which the tokenizer refuses.
    return word.isprintable() and bundled_tokens().tokenizer.token_to_id(word) is not None


LEAST_LATIN = 2 / 3  # of the letters of a text: in other scripts each one is a piece, of Latin ones four


def can_read(encoder: object, text: str) -> bool:
    """Return whether a model knows most of a text: the English one where its letters are Latin, others any.

    >>> from retriever.embedding import bundled_encoder
    >>> texts = ("ta \u03b1", "the \u03b1\u03b2\u03b3\u03b4", "12")
    >>> [can_read(bundled_encoder(EncoderSettings()), text) for text in texts]
    [True, False, True]
    >>> can_read(bundled_encoder(EncoderSettings(), "multilingual"), "\u6771\u4eac")
    True
    """
    if getattr(encoder, "bundled_as", "") != "english":
        return True
    return sum(map(is_latin_letter, text)) >= LEAST_LATIN * sum(map(str.isalpha, text))


@cache
def is_latin_letter(letter: str) -> bool:
    return unicodedata.name(letter, "").startswith("LATIN ")


READ_CHARS, LONG_WORD = 3_000, 4  # of a text; the shortest word in Latin letters that tells languages apart
# Known words of these: one of 262 pages in English has fewer, none of 400 in 18 other languages more, without code.
ENGLISH_FROM = 0.5
FOREIGN_FROM = 0.1  # of the texts of an index: the multilingual model is for these, with the English one for as much


def choose_bundled(foreign: float) -> str:
    """Return which bundled model is for texts of which this share is not in English, as `encoder.model` names it.

    >>> [choose_bundled(share) for share in (0.09, 0.1, 0.9, 0.91)]
    ['english', 'both', 'both', 'multilingual']
    """
    if foreign < FOREIGN_FROM:
        return "english"
    return "both" if foreign <= 1 - FOREIGN_FROM else "multilingual"


def measure_foreign(texts: Iterable[str]) -> float:
    """Return the share of texts that are not in English, 0 to 1, by length: the English model lacks most words.

    >>> measure_foreign(["Knead the dough", "Teig kneten", "404"])
    0.4230769230769231
    >>> measure_foreign(["Das ist ein Tag in der Stadt"])  # short words are words of many languages
    1.0
    """
    foreign = total = 0
    for text in texts:
        found = _WORD.findall(text[:READ_CHARS].lower())
        words = [word for word in found if len(word) >= (LONG_WORD if is_latin_letter(word[0]) else 2)]
        if words:
            total += len(text)
            if sum(map(is_english_word, words)) < ENGLISH_FROM * len(words):
                foreign += len(text)
    return foreign / total if total else 0.0


def read_model_file(file: Path) -> bytes:
    """Return the content of a model's file; EncoderError where it cannot be read.

    >>> read_model_file(Path("missing.onnx"))
    Traceback (most recent call last):
        ...
    retriever.errors.EncoderError: missing.onnx cannot be read: No such file or directory
    """
    try:
        return file.read_bytes()
    except OSError as error:
        raise EncoderError(f"{file} cannot be read: {error.strerror}") from error


class TokenEncoder(ABC):
    """An encoder whose texts are counted and cut by tokens; a subclass gives the vectors."""

    _tokens: Tokens
    _prefixes: Prefixes
    _limit: int
    """How many tokens of a text with its prefix are read, special ones included."""

    @abstractmethod
    def _embed(self, texts: Sequence[str], ids: Sequence[Sequence[int]], *, are_questions: bool) -> FloatMatrix:
        """Return (n, d) float32, unit rows, of texts with their prefixes, and of their tokens; EncoderError."""

    @cached_property
    def max_tokens(self) -> int:
        """Return how many tokens of a text are read, special ones included, the prefix not; at least 1."""
        alone, *lengths = self.count_tokens(["", *self._prefixes])
        return max(1, self._limit - (max(lengths) - alone))

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the length of each text in tokens, special ones included, without any cut."""
        return self._tokens.count(texts)

    def encode_documents(self, texts: Sequence[str]) -> FloatMatrix:
        """Return (n, d) float32, unit rows, in the order of the texts.

        Raises:
            EncoderError: a text is longer than `max_tokens`, or the model cannot be used.
        """
        prefixed = [self._prefixes.document + text for text in texts]
        ids = self._tokens.ids(prefixed)
        for position, length in enumerate(map(len, ids)):  # nothing of a document is cut in silence
            if length > self._limit:
                raise EncoderError(f"text {position} has {length} tokens and the encoder reads {self._limit}: cut it")
        return self._embed(prefixed, ids, are_questions=False)

    def encode_queries(self, texts: Sequence[str]) -> FloatMatrix:
        """Do as `encode_documents`, but of a longer question read only `max_tokens` tokens.

        Raises:
            EncoderError: the model cannot be used.
        """
        read = [self._tokens.cut(self._prefixes.query + text, self._limit) for text in texts]
        return self._embed(read, self._tokens.ids(read), are_questions=True)


# What any model's answer must be before it is used: one finite vector for each text, made a unit vector.


def unit_rows(
    rows: npt.ArrayLike, count: int, dimension: int | None = None, *, source: str = "the embedding model"
) -> FloatMatrix:
    """Return the rows at length 1, (count, d) float32.

    >>> unit_rows([[3, 4], [0, 2]], 2)
    array([[0.6, 0.8],
           [0. , 1. ]], dtype=float32)

    Args:
        rows: `count` vectors of one length.
        count: how many texts were sent.
        dimension: the length that they must have.
        source: names the model in messages.

    Raises:
        EncoderError: the number of vectors or their lengths are wrong, one of them holds NaN or infinity, or is zero.
    """
    try:
        matrix = np.array(rows, np.float32, ndmin=2)
    except (OverflowError, TypeError, ValueError) as error:
        raise EncoderError(f"{source} gave no vectors of one length: {error}") from error
    if matrix.shape != (count, dimension or matrix.shape[1]):
        wanted = f"{count} vectors of {dimension or 'some'} numbers"
        raise EncoderError(f"{source} gave an array of shape {matrix.shape} instead of {wanted}")
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    if not (np.isfinite(lengths) & (lengths > 0)).all():
        raise EncoderError(f"{source} gave a vector of zeros, or one that holds NaN or infinity")
    unit: FloatMatrix = matrix / lengths
    return unit


def fingerprint(parts: Sequence[str | float]) -> str:
    """Return the first 16 hex digits of the SHA-256 over everything that decides a vector.

    >>> fingerprint(("model", 256))
    '26a565df62b58a7c'
    """
    return sha256("\x1f".join(map(str, parts)).encode()).hexdigest()[:16]
