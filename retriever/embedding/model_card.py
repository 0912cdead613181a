"""What stands beside an ONNX model: how it is to be used, and which files it is."""

import json
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from pathlib import Path

from pageindex.regular_file import read_file
from retriever.errors import EncoderError

CARD_NAME = "encoder.json"
MAX_CARD_BYTES = 1_000_000
MODEL_NAME = "model.onnx"
TOKENIZER_NAME = "tokenizer.json"
POOLINGS = ("mean", "cls")
BUNDLED_MODEL = Path(__file__).parent / "models" / "all-MiniLM-L6-v2-int8"


@dataclass(frozen=True, slots=True)
class ModelCard:
    """The content of `encoder.json`, which `scripts/export_model.py` writes."""

    model_sha256: str
    """Of model.onnx, 64 hex digits."""
    tokenizer_sha256: str
    """Of tokenizer.json."""
    dimension: int
    """The length of a vector."""
    max_tokens: int
    """How many tokens of a text the model reads, special ones included."""
    pooling: str
    """How the vectors of the tokens become one: `mean` of all, or `cls`, the first alone."""
    query_prefix: str
    """What the model wants before a question."""
    document_prefix: str
    """What the model wants before a document."""

    def verify(self, folder: Path) -> None:
        """Compare the folder's files with the hashes.

        Raises:
            EncoderError: a file is not the one that the card describes.
        """
        for name, expected in ((MODEL_NAME, self.model_sha256), (TOKENIZER_NAME, self.tokenizer_sha256)):
            if file_sha256(folder / name) != expected:
                raise EncoderError(
                    f"{folder / name} is not the file that {CARD_NAME} beside it describes: copy it again"
                )


def read_card(folder: Path) -> ModelCard:
    """The card of a model folder.

    Raises:
        EncoderError: there is none, or it is not what it should be.
    """
    path = folder / CARD_NAME
    try:
        content = json.loads(read_file(path, MAX_CARD_BYTES, follow_link=True))
    except OSError as error:
        how = "make one with `uv run --extra models scripts/export_model.py MODEL FOLDER`"
        raise EncoderError(f"{folder} is no model folder ({CARD_NAME}: {error.strerror}): {how}") from error
    except ValueError as error:
        raise EncoderError(f"{path} is not JSON: {error}") from error
    if mistakes := _mistakes(content):
        raise EncoderError(f"{path}: {'; '.join(mistakes)}")
    return ModelCard(**content)


def model_folder(name: str) -> Path:
    """The folder of an ONNX model; the bundled one for the empty name."""
    return Path(name).expanduser() if name else BUNDLED_MODEL


def card_digest(name: str) -> str:
    """Tells whether a model's folder holds what it did, without loading the model; empty when it holds none."""
    try:
        return sha256(read_file(model_folder(name) / CARD_NAME, MAX_CARD_BYTES, follow_link=True)).hexdigest()
    except OSError:
        return ""


def write_card(card: ModelCard, folder: Path) -> None:
    """Write `encoder.json`."""
    (folder / CARD_NAME).write_text(json.dumps(asdict(card), indent=2) + "\n", encoding="utf-8")


def file_sha256(path: Path) -> str:
    """64 hex digits; 15 ms for 23 MB.

    Raises:
        EncoderError: the file cannot be read.
    """
    try:
        return sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise EncoderError(f"{path} cannot be read: {error.strerror}") from error


def _mistakes(content: object) -> list[str]:
    if not isinstance(content, dict):
        return ["must be an object"]
    expected = {field.name: field.type for field in fields(ModelCard)}
    wrong = [name for name, kind in expected.items() if type(content.get(name)) is not kind]
    unknown = sorted(content.keys() - expected.keys())
    pooling = [] if content.get("pooling") in POOLINGS else [f"pooling must be one of {', '.join(POOLINGS)}"]
    return [
        *(f"{name} is missing or of the wrong type" for name in wrong),
        *(f"unknown: {n}" for n in unknown),
        *pooling,
    ]
