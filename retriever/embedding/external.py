"""Models that the program does not run itself: on a server, or by sentence-transformers (extra `models`: torch)."""

from collections.abc import Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from retriever.embedding.encoder import (
    LibraryTokens,
    Prefixes,
    TokenEncoder,
    bundled_tokens,
    fingerprint,
    served_prefixes,
    unit_rows,
)
from retriever.embedding.onnx import file_sha256
from retriever.errors import EncoderError, name_installer
from retriever.served.server import PAUSES_S, SERVERS
from retriever.settings import EncoderSettings
from retriever.types import FloatMatrix

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

# The longest wait for a batch while indexing, where a server may be busy, and for a question, where a person waits.
DOCUMENTS_S, QUESTION_S = 120.0, 10.0
DOCUMENT_PAUSES_S = (0.5, 1, 2)  # before the second try, the third ..
BATCH_SIZE = 32  # texts in a request: what is lost with one that fails is little


class RemoteEncoder(TokenEncoder):
    """Unit vectors from a server.

    What the model's tokens are is not known here, so texts are counted by the tokenizer of the bundled model; most
    models' own counts are within a third of that. A text is refused, never cut, when the server's own count says so.
    """

    def __init__(self, settings: EncoderSettings, dimension: int | None = None) -> None:
        """Take what names the server, which is not asked yet, and the length of its vectors where that is known.

        Raises:
            EncoderError: no model is named, or the address may not be asked.
        """
        if not settings.model:
            raise EncoderError("encoder.model: name the server's embedding model, such as nomic-embed-text")
        # OLLAMA_HOST is followed as for the language model; to another machine only where encoder.url names it.
        allow_remote = bool(settings.url)
        self._server = SERVERS[settings.kind]("encoder", settings.model, settings.url, allow_remote)
        self._prefixes = served_prefixes(settings)
        self._limit = settings.max_tokens
        self._tokens = bundled_tokens()
        self._known_dimension = dimension

    @cached_property
    def fingerprint(self) -> str:
        """Over the server's kind, the model's name and digest, the dimension, the prefixes and the limit, not the URL.

        Raises:
            EncoderError: as `encode_documents`.
        """
        # Not the URL: the same model behind another address gives the same vectors, and needs no new index.
        identity = self._server.attempt(self._server.identity)
        return fingerprint((*identity, self.dimension, *self._prefixes, self._limit))

    @cached_property
    def dimension(self) -> int:
        """Return the length of a vector: the index's, or that of a text that is sent to find it.

        Raises:
            EncoderError: as `encode_documents`.
        """
        return self._known_dimension or len(self._ask(["dimension"], None, are_questions=True)[0])

    def _embed(self, texts: Sequence[str], ids: Sequence[Sequence[int]], *, are_questions: bool) -> FloatMatrix:
        batches = (texts[start : start + BATCH_SIZE] for start in range(0, len(texts), BATCH_SIZE))
        # The model may have been changed under its name: two lengths in one index compare with nothing.
        return np.concatenate([self._ask(batch, self.dimension, are_questions=are_questions) for batch in batches])

    def _ask(self, texts: Sequence[str], dimension: int | None, *, are_questions: bool) -> FloatMatrix:
        server = self._server
        end = server.deadline(QUESTION_S if are_questions else DOCUMENTS_S)
        pauses = PAUSES_S if are_questions else DOCUMENT_PAUSES_S
        rows = server.attempt(lambda: server.embed(texts, end), pauses)
        return unit_rows(rows, len(texts), dimension, source=f"{server.model} at {server.url}")


# By sentence-transformers.


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
        self._tokens = LibraryTokens(self._tokenizer_content)

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
        return len(self._embed([""], (), are_questions=True)[0])

    @cached_property
    def _model(self) -> "SentenceTransformer":
        from huggingface_hub.utils.tqdm import disable_progress_bars

        disable_progress_bars()  # the libraries' own, before sentence_transformers is imported, which asks just then
        try:
            from sentence_transformers import SentenceTransformer  # 5 s, with torch
        except ModuleNotFoundError as error:
            raise EncoderError(
                f"encoder.kind sentence-transformers needs the extra `models`; run: {name_installer('models')}"
            ) from error
        try:
            return SentenceTransformer(str(self._folder), local_files_only=True, trust_remote_code=False)
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            raise EncoderError(f"{self._folder} cannot be loaded: {error}") from error

    @cached_property
    def _prefixes(self) -> Prefixes:  # type: ignore[override]  # known when the model is loaded
        """The user's, else the model's own."""
        return own_prefixes(self._model).overridden(self._settings)

    @cached_property
    def _limit(self) -> int:  # type: ignore[override]  # likewise
        return min(self._settings.max_tokens, self._model.max_seq_length or self._settings.max_tokens)

    def _embed(self, texts: Sequence[str], ids: Sequence[Sequence[int]], *, are_questions: bool) -> FloatMatrix:
        # The prefix is in the text already.
        rows: npt.ArrayLike = self._model.encode(list(texts), prompt="", show_progress_bar=False)
        return unit_rows(rows, len(texts), source=self._settings.model)

    def _tokenizer_content(self) -> bytes:
        """Return the tokenizer as tokenizer.json would have it, which not every model ships."""
        # Chunks are cut by counts of tokens, thousands a second: only a fast tokenizer gives them.
        backend = getattr(self._model.tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise EncoderError(f"{self._settings.model} has no fast tokenizer, so its tokens cannot be counted")
        return str(backend.to_str()).encode()


def own_prefixes(model: "SentenceTransformer") -> Prefixes:
    """Return the prefixes that the model itself asks for.

    >>> from types import SimpleNamespace
    >>> own_prefixes(SimpleNamespace(prompts={"query": "q: ", "document": "", "passage": "p: "}))
    Prefixes(query='q: ', document='p: ')
    >>> own_prefixes(SimpleNamespace(prompts={"query": None}))
    Prefixes(query='', document='')
    """
    names = ("document", "passage", "corpus")  # models call it one of these
    document = next((model.prompts[name] for name in names if model.prompts.get(name)), "")
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
    """Return the hash of the folder's file names and contents, without hidden files and those for people alone.

    >>> from tempfile import TemporaryDirectory
    >>> hashes = []
    >>> for name in ("README.md", ".cache", "model.bin"):
    ...     with TemporaryDirectory() as folder:
    ...         _ = Path(folder, name).write_text("x")
    ...         hashes.append(_files_sha256(Path(folder))[:8])
    >>> hashes
    ['e3b0c442', 'e3b0c442', '8d32a7b2']
    """
    lines = []
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder).as_posix()
        if path.is_file() and path.suffix != ".md" and "/." not in f"/{inside}":
            lines.append(f"{inside} {file_sha256(path)}")
    return sha256("\n".join(lines).encode()).hexdigest()
