"""ChromaDB, imported and opened so that nothing but this module configures it; its errors as ours.

`import chromadb` and its `Settings` read `.env` in the current folder and the environment, and obey them: a folder of
documents could send every text to a host of its choice, or have a module of its own imported. Both are closed here by
two documented parameters of pydantic's settings: no `.env` file, and a prefix for names of variables that no variable
can have. The current folder and the environment of the process stay as they are, for the sake of its other threads.
"""

import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from retriever.errors import GenerationError, StorageError

if TYPE_CHECKING:
    from types import ModuleType

    from chromadb.api.client import Client

Result = TypeVar("Result")

_UNCONFIGURED: dict[str, Any] = {"_env_file": None, "_env_prefix": "=", "_secrets_dir": None}
"""No name of an environment variable holds an equals sign."""

_RUST_API = "chromadb.api.rust.RustBindingsAPI"

_REFUSED = ("disk is full", "disk full", "readonly database", "no space left", "file too large", "read-only file")
"""What Chroma says, in one exception or another, when the disk takes no more or nothing at all."""

_NEARLY_FULL = 16_000_000
"""Bytes. A failure with less than this free is the disk's, whatever Chroma says of it."""

_importing = threading.Lock()


def open_client(folder: Path, *, writing: bool = False) -> "Client":
    """Open a folder of Chroma's, or make one; every call needs its `close()` before the folder is moved or removed.

    Raises:
        GenerationError: it cannot be opened.
        StorageError: when `writing`: the disk is full or read-only.
    """
    chromadb = _chromadb()
    path = str(folder.absolute())  # vector files are opened later, by this name: the current folder may change
    with chroma_errors(folder, writing=writing):
        settings = chromadb.config.Settings(
            **_UNCONFIGURED,
            is_persistent=True,
            persist_directory=path,
            chroma_api_impl=_RUST_API,
            chroma_product_telemetry_impl="chromadb.telemetry.product.posthog.Posthog",
            anonymized_telemetry=False,
            allow_reset=False,
            migrations="apply",
        )
        client: Client = chromadb.PersistentClient(path, settings=settings)
    api = type(client._server)  # the only witness of where data goes
    if f"{api.__module__}.{api.__qualname__}" != _RUST_API:
        client.close()
        raise GenerationError(f"{folder}: ChromaDB was opened as {api.__qualname__}, not as a folder")
    return client


def in_time(seconds: float, folder: Path, work: Callable[[], Result], *, writing: bool = True) -> Result:
    """What Chroma returns, or an error when it takes longer.

    On a full disk one of its connections may sleep for 1,000 s while another keeps the journal (measured). The thread
    that waits for it is left behind, and ends with the process; the folder that it wrote to is never published.

    Raises:
        StorageError: a write did not finish in time.
        GenerationError: nothing was written, and it did not answer in time.
    """
    done: list[Result] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(work())
        except BaseException as error:  # whatever it is, the caller gets it
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True, name="ChromaDB")
    thread.start()
    thread.join(seconds)
    if failed:
        raise failed[0]
    if not done and not writing:
        raise GenerationError(f"{folder}: ChromaDB did not answer within {seconds:g} s; index the documents again")
    if not done:
        raise StorageError(
            f"{folder}: ChromaDB did not finish within {seconds:g} s, as on a full disk; free some space, or keep the"
            " index elsewhere (--index)"
        )
    return done[0]


@contextmanager
def chroma_errors(folder: Path, *, writing: bool = False) -> Iterator[None]:
    """Turn whatever Chroma raises into a GenerationError (when `writing` and the disk refused: a StorageError)."""
    from chromadb.errors import ChromaError

    try:
        yield
    except (ChromaError, OSError, RuntimeError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise _translated(error, folder, writing) from error
    except BaseException as error:
        # A panic of the Rust code: derived from BaseException, in a module that cannot be imported.
        if type(error).__name__ != "PanicException":
            raise
        raise _translated(error, folder, writing) from error


def _translated(error: BaseException, folder: Path, writing: bool) -> GenerationError | StorageError:
    if writing and (any(phrase in str(error).lower() for phrase in _REFUSED) or _nearly_full(folder)):
        return StorageError(
            f"{folder}: the disk is full or read-only ({error}); free some space, or keep the index elsewhere (--index)"
        )
    return GenerationError(f"{folder}: ChromaDB failed ({error}); index the documents again")


def _nearly_full(folder: Path) -> bool:
    try:
        return shutil.disk_usage(folder).free < _NEARLY_FULL
    except OSError:
        return False  # then what Chroma said is all there is


@cache
def _chromadb() -> "ModuleType":
    with _importing, _settings_unconfigured():
        import chromadb
        import chromadb.config
    return chromadb


@contextmanager
def _settings_unconfigured() -> Iterator[None]:
    """While chromadb is imported, its settings (and no others) are made of their defaults alone."""
    if "chromadb" in sys.modules:  # imported by someone else; our own client is made of explicit settings either way
        yield
        return
    from pydantic_settings import BaseSettings

    original = BaseSettings.__init__

    @wraps(original)
    def initialise(settings: BaseSettings, **values: Any) -> None:  # noqa: ANN401 - passed on as they came
        ours = _UNCONFIGURED if type(settings).__module__.startswith("chromadb.") else {}
        original(settings, **(values | ours))

    BaseSettings.__init__ = initialise  # type: ignore[method-assign, assignment]  # for the time of the import
    try:
        yield
    finally:
        BaseSettings.__init__ = original  # type: ignore[method-assign]
