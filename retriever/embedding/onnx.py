"""Models as int8 ONNX, run on the CPU: the encoder and the reader that come with the program, and others.

An encoder sees a question and a text apart; a cross-encoder reads both together and says with one number whether the
text answers. A small one, the reader, reads six units a question, for their choice and the verdict. Larger ones,
whose folders `scripts/export_model.py` makes, rerank.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache, cached_property, lru_cache, partial
from hashlib import sha256
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from pageindex.corpus import read_file
from retriever.embedding.encoder import (
    BUNDLED_MODELS,
    ENGLISH_MODEL,
    LibraryTokens,
    Prefixes,
    TokenEncoder,
    fingerprint,
    measure_foreign,
    read_model_file,
    unit_rows,
)
from retriever.embedding.unigram import UnigramTokens
from retriever.errors import EncoderError
from retriever.settings import EncoderSettings
from retriever.types import FloatMatrix, Reading

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer


MODEL_NAME, LAYERS_NAME, ENGLISH_NAME, WEIGHTS_NAME = "model.onnx", "layers.onnx", "english.onnx", "weights.bin"
TOKENIZER_NAME = "tokenizer.json"
ENCODER_CARD, RERANKER_CARD = "encoder.json", "reranker.json"
MAX_CARD_BYTES = 1_000_000


@dataclass(frozen=True)
class ModelCard:
    """The `encoder.json` or `reranker.json` beside a model; `scripts/export_model.py` writes them."""

    model_sha256: str  # of model.onnx, 64 hex digits
    tokenizer_sha256: str
    max_tokens: int  # that are read of a text, of a cross-encoder of both texts, special ones included
    # Of an encoder alone:
    dimension: int = 0  # the length of a vector
    pooling: str = ""  # how the vectors of the tokens become one: `mean` of all, or `cls`, the first alone
    query_prefix: str = ""  # what it wants before a question
    document_prefix: str = ""
    question_type: int = 0  # the token type that says that a text is a question
    is_reader: bool = False  # whether it has learned to read a question and a text together
    layers_sha256: str = ""  # of layers.onnx, where there is one
    english_sha256: str = ""  # of english.onnx: what stands for layers.onnx where texts in English are embedded
    weights_sha256: str = ""  # of weights.bin, likewise
    tokenizer: str = TOKENIZER_NAME  # its file: this, or one that `UnigramTokens` reads

    @classmethod
    def read(cls, folder: Path, name: str = ENCODER_CARD) -> Self:
        """Return the card of a model folder; EncoderError where there is none, or it is not what it should be."""
        path = folder / name
        how = "make one with `uv run --extra models scripts/export_model.py MODEL FOLDER`"
        try:
            return cls(**json.loads(read_file(path, MAX_CARD_BYTES, follow_link=True)))
        except OSError as error:
            raise EncoderError(f"{folder} is no model folder ({name}: {error.strerror}): {how}") from error
        except (ValueError, TypeError) as error:  # it is not JSON, or a field is missing or unknown
            raise EncoderError(f"{path} is no card of a model ({error}): {how}") from error

    def verify(self, folder: Path) -> None:
        """Raise EncoderError where a file of the folder is not the one that the card describes."""
        hashes = {
            MODEL_NAME: self.model_sha256,
            self.tokenizer: self.tokenizer_sha256,
            LAYERS_NAME: self.layers_sha256,
            ENGLISH_NAME: self.english_sha256,
            WEIGHTS_NAME: self.weights_sha256,
        }
        for name, expected in hashes.items():
            if expected and file_sha256(folder / name) != expected:
                raise EncoderError(f"{folder / name} is not the file that the card beside it describes: copy it again")


def file_sha256(path: Path) -> str:
    """Return 64 hex digits; EncoderError where the file cannot be read. 15 ms for 23 MB."""
    return sha256(read_model_file(path)).hexdigest()


# Of a question and a text that are read together: the types of their tokens, and how many are read of it, and of both.
ASKED_TYPE, READ_TYPE = 2, 1
MAX_ASKED, MAX_READ = 64, 128


class OnnxEncoder(TokenEncoder):
    """Unit vectors from a folder with model.onnx, encoder.json, and tokenizer.json or unigram.txt.

    Each text is run on its own. The weights are int8, and the activations are quantised while the model runs, by one
    scale for all that is in a batch, padding included: beside others a text's vector came to a cosine of .994 (mean)
    and .974 (worst) with what it is alone, and no batch size was faster than none. So a text has one vector, to the
    last bit, whatever is encoded with it and by however many threads. Another kind of processor may round otherwise.
    """

    def __init__(self, folder: Path = ENGLISH_MODEL, settings: EncoderSettings | None = None) -> None:
        """Read encoder.json alone; the tokenizer and the model are loaded when they are first needed.

        Raises:
            EncoderError: the folder holds no model.
        """
        settings = settings or EncoderSettings()
        self._card = card = ModelCard.read(folder)
        self._prefixes = Prefixes(card.query_prefix, card.document_prefix).overridden(settings)
        self._limit = min(settings.max_tokens, card.max_tokens)
        self.fingerprint = fingerprint((*asdict(card).values(), *self._prefixes, self._limit))
        self.dimension = card.dimension
        self.is_reader = card.is_reader
        self.name = folder.name
        self.bundled_as = {path: name for name, path in BUNDLED_MODELS.items()}.get(folder, "")
        """Its name in `encoder.model`, `english` or `multilingual`; empty where it does not come along."""
        kind = LibraryTokens if card.tokenizer == TOKENIZER_NAME else UnigramTokens
        self._tokens = kind(partial(read_model_file, folder / card.tokenizer))
        self._model = Model(folder / MODEL_NAME)

    def _embed(self, texts: Sequence[str], ids: Sequence[Sequence[int]], *, are_questions: bool) -> FloatMatrix:
        token_type = self._card.question_type if are_questions else 0
        layers = [LAYERS_NAME if are_questions else self._find_layers(text) for text in texts]
        of_tokens = self._model.run(((own, token_type) for own in ids), layers=layers)
        rows = [vectors.mean(axis=0) if self._card.pooling == "mean" else vectors[0] for vectors in of_tokens]
        return unit_rows(rows, len(texts), source=self.name)

    def _find_layers(self, text: str) -> str:
        """Return the file of the layers for a text with its prefix."""
        if self._card.english_sha256 and not measure_foreign([text.removeprefix(self._prefixes.document)]):
            return ENGLISH_NAME
        return LAYERS_NAME

    def score(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return logits, which rise with how well each text answers, of a model that can read; EncoderError."""
        return [logit.item() for logit in self._model.run(self.join(question, texts), output=1)]

    def join(self, question: str, texts: Sequence[str]) -> list[tuple[list[int], list[int]]]:
        """Return the tokens of the question with each text, and their types; what is too long is cut at its end.

        >>> pairs = OnnxEncoder().join("how long?", ["rest " * 200, "an hour"])
        >>> [(len(ids), types.count(ASKED_TYPE)) for ids, types in pairs]
        [(128, 6), (9, 6)]
        """
        asked, *read = self._tokens.ids([self._prefixes.query + question, *texts])
        asked = [*asked[: MAX_ASKED - 1], asked[-1]]
        texts_of = [[*ids[1:-1][: MAX_READ - 1 - len(asked)], ids[-1]] for ids in read]
        return [([*asked, *ids], [ASKED_TYPE] * len(asked) + [READ_TYPE] * len(ids)) for ids in texts_of]

    def encode_tokens(self, texts: Sequence[str], *, are_questions: bool = False) -> list[FloatMatrix]:
        """Return a unit vector for each token of each text, (t, d) float32, special ones left out.

        Each is what its token means beside the others, and is compared with other tokens' alone (`interact`). The
        English model has an output of its own for them; of a longer text the first tokens are read.
        """
        prefix = self._prefixes.query if are_questions else self._prefixes.document
        read = [self._tokens.cut(prefix + text, self._limit) for text in texts]
        of_tokens = self._model.run(((ids, 0) for ids in self._tokens.ids(read)), output=-1)
        return [unit_rows(vectors[1:-1], len(vectors) - 2, source=self.name) for vectors in of_tokens]


class Model:
    """The model of a file, on the CPU; every method may raise an EncoderError."""

    def __init__(self, path: Path) -> None:
        """Take the file, which is loaded when it is first needed."""
        self._path = path
        self._open = cache(self._load)

    def _load(self, layers: str) -> "InferenceSession":
        """Load the model; a file beside it, where there is one, gives the weights of the layers, of 4 bits in 8."""
        # Otherwise it reports to its maker 8 s after its import; disable_telemetry_events() does not prevent that.
        os.environ["ORT_DISABLE_TELEMETRY"] = "1"
        import onnxruntime  # 150 ms: not needed where nothing is encoded

        options = onnxruntime.SessionOptions()
        # Several texts at once keep the cores busier than one text on all of them.
        options.intra_op_num_threads = 1
        options.enable_mem_reuse = False  # its plan takes a fifth of the time of loading, and saves nothing
        providers = ["CPUExecutionProvider"]
        with onnx_errors(f"{self._path} cannot be loaded"):
            if (weights := self._path.with_name(layers)).exists():
                # It was put together by hand: to look for a better graph takes a third of the time, and finds none.
                options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
                packed = onnxruntime.InferenceSession(str(weights), options, providers=providers)
                names = [output.name for output in packed.get_outputs()]
                values = map(onnxruntime.OrtValue.ortvalue_from_numpy, packed.run(names, {}))
                options.add_external_initializers(names, list(values))
            return onnxruntime.InferenceSession(str(self._path), options, providers=providers)

    def run(
        self,
        texts: Iterable[tuple[Sequence[int], npt.ArrayLike]],
        output: int = 0,
        layers: Iterable[str] = repeat(LAYERS_NAME),
    ) -> Iterator[FloatMatrix]:
        """Yield one of its outputs for each text: for its tokens, all of one type or each of its own."""

        def run_one(text: tuple[Sequence[int], npt.ArrayLike], session: "InferenceSession") -> FloatMatrix:
            ids, types = text
            known = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.full_like(ids, types)}
            given = {item.name: np.array([known[item.name]], dtype=np.int64) for item in session.get_inputs()}
            with onnx_errors(f"{self._path} cannot be run"):
                values: FloatMatrix = session.run([session.get_outputs()[output].name], given)[0][0]
                return values

        affinity = getattr(os, "sched_getaffinity", None)  # Linux alone
        with ThreadPoolExecutor(len(affinity(0)) if affinity else os.cpu_count()) as pool:
            # Loaded by this thread, not by every one at once.
            yield from pool.map(run_one, texts, map(self._open, layers))


@contextmanager
def onnx_errors(what: str) -> Iterator[None]:
    """Turn ONNX Runtime's errors, which have no common base but Exception, into an EncoderError."""
    try:
        yield
    except Exception as error:
        raise EncoderError(f"{what}: {error}") from error


READER = Path(__file__).parent / "models" / "reader-4"
MAX_QUESTION_CHARS = 300
MAX_TITLES = 3
# The multilingual model's logit counts as the English reader's with a late interaction of this for each 1.
AS_INTERACTION = 0.03


class CrossEncoder:
    """The model in a folder with model.onnx, tokenizer.json and reranker.json; loaded by the first question."""

    def __init__(self, folder: Path) -> None:
        """Take the model's folder."""
        self._folder = folder
        self._model = Model(folder / MODEL_NAME)

    def score(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return logits, which rise with how well each text answers; what is too long is cut at its end.

        Each pair is run by itself: what is quantized together shares one scale, so that a score would depend on the
        texts beside it.

        Raises:
            EncoderError: the model cannot be used.
        """
        pairs = [self._tokenizer.encode(question, text) for text in texts]
        logits = list(self._model.run((pair.ids, pair.type_ids) for pair in pairs))
        if not all(logit.size == 1 and np.isfinite(logit).all() for logit in logits):
            raise EncoderError(f"{self._folder} gave no single number for a question and a text")
        return [logit.item() for logit in logits]

    @cached_property
    def _tokenizer(self) -> "Tokenizer":
        card = ModelCard.read(self._folder, RERANKER_CARD)
        tokenizer = LibraryTokens(partial(read_model_file, self._folder / TOKENIZER_NAME)).tokenizer
        tokenizer.enable_truncation(card.max_tokens)
        return tokenizer


class PassageReader:
    """Reads passages: by the cross-encoder and late interaction, or by a multilingual model that can read alone."""

    def __init__(self, encoder: OnnxEncoder, folder: Path = READER) -> None:
        """Take a bundled encoder, and the cross-encoder that goes with the English one."""
        self.encoder = encoder
        self._model = CrossEncoder(folder)

    def read(self, question: str, passages: Sequence[tuple[Sequence[str], str]]) -> list[Reading]:
        """Return a reading of each passage, given with the titles above it; EncoderError."""
        question = question[:MAX_QUESTION_CHARS]
        titles = [" > ".join(above[-MAX_TITLES:]) for above, _ in passages]
        texts = [f"{above}: {text}" for above, (_, text) in zip(titles, passages, strict=True)]
        if self.encoder.is_reader:
            return [Reading(logit, AS_INTERACTION * logit) for logit in self.encoder.score(question, texts)]
        logits = self._model.score(question, texts)
        (asked,) = self.encoder.encode_tokens([question.rstrip("?.! \u3002\uff1f\uff01")], are_questions=True)
        near = [interact(asked, vectors) for vectors in self.encoder.encode_tokens([*texts, *titles])]
        return list(map(Reading, logits, near, near[len(texts) :]))


@lru_cache(maxsize=2)
def open_reader(encoder: OnnxEncoder) -> PassageReader:
    """Return the reader beside that encoder, one for the whole process: it takes 0.2 s to load."""
    return PassageReader(encoder)


def interact(question: FloatMatrix, text: FloatMatrix) -> float:
    """Return the mean, over the tokens of a question, of the cosine with the token of a text that is nearest, -1 to 1.

    Late interaction (Khattab and Zaharia, "ColBERT: efficient and effective passage search via contextualized late
    interaction over BERT", 2020), its sum divided by the number of tokens: questions of any length are comparable.

    Args:
        question: unit vectors, (q, d).
        text: unit vectors, (t, d).

    >>> interact(np.eye(2), np.array([[0.6, 0.8], [1, 0]]))
    0.9
    >>> interact(np.eye(2), np.empty((0, 2)))
    0.0
    """
    if not len(question) or not len(text):
        return 0.0
    return float((question @ text.T).max(axis=1).mean())
