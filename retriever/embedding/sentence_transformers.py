"""Any SentenceTransformer model that is on this machine; needs the extra `models` (torch)."""

from collections.abc import Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from retriever.embedding.encoder import CutText, Prefixes, TokenEncoder, Tokens, fingerprint, unit_rows
from retriever.embedding.onnx import file_sha256
from retriever.errors import EncoderError, name_installer
from retriever.settings import EncoderSettings
from retriever.types import FloatMatrix

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

# Models call it one of these.
_DOCUMENT_PROMPTS = ("document", "passage", "corpus")


class SentenceTransformersEncoder(TokenEncoder):
    """Unit vectors from PyTorch; a text's vector is the same to about 1e-6 whatever is encoded with it.

    Nothing is downloaded: the model is a folder, or in the cache of Hugging Face.
    """

    def __init__(self, settings: EncoderSettings) -> None:
        """Find the model's files; they are loaded when they are first needed.

        Raises:
            EncoderError: the model is not on this machine.
        """
        if not settings.model:
            raise EncoderError(
                "encoder.model: name a model, such as sentence-transformers/all-MiniLM-L6-v2, or a folder"
            )
        self._settings = settings
        self._folder = find_model_folder(settings.model)
        self._tokens = Tokens(self._tokenizer_content)

    @cached_property
    def fingerprint(self) -> str:
        """Over the model's files, the prefixes and the limit."""
        settings = self._settings
        return fingerprint(
            (_files_sha256(self._folder), settings.query_prefix, settings.document_prefix, settings.max_tokens)
        )

    @cached_property
    def dimension(self) -> int:
        """The length of a vector."""
        return len(self._embed([CutText("", ())], are_questions=True)[0])

    @cached_property
    def _model(self) -> "SentenceTransformer":
        from huggingface_hub.utils.tqdm import disable_progress_bars

        disable_progress_bars()  # the libraries' own, before sentence_transformers is imported, which asks just then
        try:
            from sentence_transformers import SentenceTransformer  # 5 s, with torch
        except ModuleNotFoundError as error:
            if error.name != "sentence_transformers":  # it is there, and broken
                raise
            raise EncoderError(
                f"encoder.kind sentence-transformers needs the extra `models`; run: {name_installer('models')}"
            ) from error
        try:
            return SentenceTransformer(str(self._folder), local_files_only=True, trust_remote_code=False)
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            raise EncoderError(f"{self._folder} cannot be loaded: {error}") from error

    @cached_property
    def _prefixes(self) -> Prefixes:
        """The user's, else the model's own."""
        return own_prefixes(self._model).overridden(self._settings)

    @cached_property
    def _limit(self) -> int:
        return min(self._settings.max_tokens, self._model.max_seq_length or self._settings.max_tokens)

    def _embed(self, texts: Sequence[CutText], *, are_questions: bool) -> FloatMatrix:
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        # The prefix is in the text already.
        rows: npt.ArrayLike = self._model.encode([text.text for text in texts], prompt="", show_progress_bar=False)
        return unit_rows(rows, len(texts), self._settings.model)

    def _tokenizer_content(self) -> str:
        """Return the tokenizer as tokenizer.json would have it, which not every model ships."""
        # Chunks are cut by counts of tokens, thousands a second: only a fast tokenizer gives them.
        backend = getattr(self._model.tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise EncoderError(f"{self._settings.model} has no fast tokenizer, so its tokens cannot be counted")
        content: str = backend.to_str()
        return content


def own_prefixes(model: "SentenceTransformer") -> Prefixes:
    """Return the prefixes that the model itself asks for."""
    document = next((model.prompts[name] for name in _DOCUMENT_PROMPTS if model.prompts.get(name)), "")
    return Prefixes(model.prompts.get("query") or "", document)


def find_model_folder(name: str, owner: str = "sentence-transformers") -> Path:
    """Return the folder of that name, else that of the model in Hugging Face's cache, by default `owner`'s.

    Raises:
        EncoderError: the model is not on this machine.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    from huggingface_hub import snapshot_download  # 100 ms

    repository = name if "/" in name else f"{owner}/{name}"
    try:
        return Path(snapshot_download(repository, local_files_only=True))
    except (OSError, ValueError) as error:  # not in the cache; not a name
        how = f"fetch it once with: uv run hf download {repository}"
        raise EncoderError(f"{name} is neither a folder nor a model on this machine; {how}") from error


def _files_sha256(folder: Path) -> str:
    """Return the hash of the folder's file names and contents, without hidden files and those for people alone."""
    lines = []
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        is_hidden = any(part.startswith(".") for part in inside.parts)
        if path.is_file() and path.suffix != ".md" and not is_hidden:
            lines.append(f"{inside.as_posix()} {file_sha256(path)}")
    return sha256("\n".join(lines).encode()).hexdigest()
