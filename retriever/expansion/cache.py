"""What a model wrote for a question, kept in the user's cache folder.

Not in the index: an index may be read-only, and what is written for a question depends on the index only by the
vocabulary that the model was given, which is part of the key. The file is bounded, private and dispensable: when it
cannot be read or written, nothing is cached; a damaged one of ours is made anew.
"""

import contextlib
import errno
import json
import logging
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from io import FileIO
from pathlib import Path
from typing import Any

from pageindex.corpus import open_regular
from retriever.arguments import check_arguments
from retriever.errors import StorageError
from retriever.expansion.prompt import WrittenExpansion
from retriever.files import find_cache_file, make_private_folder
from retriever.served.task import Task

log = logging.getLogger(__name__)

FILE_NAME = "expansions.sqlite"
MAX_CHARS = 50_000  # of an entry; no question needs a longer answer
_FORMAT = 2
_OWNER = 0x48524554  # SQLite's application_id of this file: others are neither used nor removed
_SCHEMA = "CREATE TABLE expansions (key TEXT PRIMARY KEY, content TEXT NOT NULL, written INTEGER NOT NULL);"


@dataclass(frozen=True, slots=True)
class CachedExpansion:
    """What a model wrote for one question."""

    written: WrittenExpansion
    milliseconds: float  # how long it took to write it


@dataclass(frozen=True, slots=True)
class CacheContent:
    """What is kept outside of the indexes of what was asked."""

    path: str  # empty for a user without a cache folder
    expansions: int  # questions with the texts that a model wrote for them
    size_bytes: int


class ExpansionCache:
    """Expansions by key in one SQLite file, opened for each use and closed again: several processes share it."""

    def __init__(self, path: Path | None, max_entries: int) -> None:
        """Use this file, for at most so many expansions; None or 0: nothing is kept."""
        self._path = path if max_entries else None
        self._max_entries = max_entries

    @classmethod
    def of_user(cls, max_entries: int = 1) -> "ExpansionCache":
        """Return the cache in the user's cache folder; one that keeps nothing for a user without one."""
        return cls(find_cache_file(FILE_NAME), max_entries)

    def get(self, key: str) -> CachedExpansion | None:
        """Return what is kept for the key, if anything."""
        rows = self._read("SELECT content FROM expansions WHERE key = ?", key)
        try:
            milliseconds, written = json.loads(rows[0][0])
            return CachedExpansion(WrittenExpansion.model_validate(written), float(milliseconds))
        except (LookupError, ValueError, TypeError):  # there is none, or another version wrote it
            return None

    def put(self, key: str, entry: CachedExpansion) -> None:
        """Keep the expansion; the oldest ones go."""
        content = json.dumps([entry.milliseconds, entry.written.model_dump()])
        if self._path is None or len(content) > MAX_CHARS:
            return
        with self._logging_failures():
            make_private_folder(self._path.parent)
            # The words of questions are nobody else's to read, whatever the umask says.
            FileIO(open_regular(self._path, os.O_CREAT | os.O_RDONLY), "r").close()
            with self._connect() as connection, connection:
                connection.execute("INSERT OR REPLACE INTO expansions VALUES (?, ?, ?)", (key, content, time.time_ns()))
                connection.execute(
                    "DELETE FROM expansions WHERE key NOT IN"
                    " (SELECT key FROM expansions ORDER BY written DESC LIMIT ?)",
                    (self._max_entries,),
                )

    def content(self) -> CacheContent:
        """Return how much the file holds."""
        ((count,),) = self._read("SELECT count(*) FROM expansions WHERE key <> ?", "") or [(0,)]
        size = self._path.stat().st_size if self._path is not None and self._path.is_file() else 0
        return CacheContent(str(self._path or ""), count, size)

    def clear(self) -> None:
        """Remove the file; StorageError where that fails."""
        if self._path is not None and os.path.lexists(self._path):
            try:
                if not self._is_own():
                    raise StorageError(f"{self._path} is no cache of this program; remove it yourself")
                self._path.unlink()
            except OSError as error:
                raise StorageError(f"{self._path} cannot be deleted: {error.strerror}") from error

    def _read(self, query: str, value: str) -> list[tuple[Any, ...]]:
        if self._path is not None and self._path.is_file():
            with self._logging_failures(), self._connect() as connection:
                return list(connection.execute(query, (value,)))
        return []

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        assert self._path
        if not self._is_own():
            raise OSError(errno.EEXIST, "it is no cache of ours")
        with closing(sqlite3.connect(self._path, timeout=1.0)) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version not in (0, _FORMAT):
                raise sqlite3.DatabaseError(f"it has format {version}")
            if not version:
                connection.executescript(
                    f"{_SCHEMA} PRAGMA application_id = {_OWNER}; PRAGMA user_version = {_FORMAT};"
                )
            yield connection

    @contextmanager
    def _logging_failures(self) -> Iterator[None]:
        """Log a failure in place of raising it; a damaged file of ours is removed."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            log.info("%s: %s", self._path, error)
            # An OperationalError says that it is locked, full or read-only: there is nothing wrong with the file.
            if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
                assert self._path
                with contextlib.suppress(OSError):
                    if self._is_own():
                        self._path.unlink()

    def _is_own(self) -> bool:
        """Return whether the file is ours by its first bytes, or new; OSError for a link."""
        assert self._path
        with FileIO(open_regular(self._path), "r") as file:
            head = file.read(72)
        return not head or head[68:] == _OWNER.to_bytes(4, "big")  # where SQLite keeps the application_id


@check_arguments
def read_cache(*, clear: bool = False) -> "CacheContent":
    """Return what this user's cache folder keeps of questions: what a language model wrote for them.

    Args:
        clear: delete it; what is given is what was there.

    Raises:
        StorageError: it cannot be deleted.
    """
    cache = ExpansionCache.of_user()
    content = cache.content()
    if clear:
        cache.clear()
    return content


def cache_key(model: str, task: Task[WrittenExpansion]) -> str:
    """Return a hash of the model, the prompt and its numbers, the question in any case and spacing, the grounding."""
    parts = [model, task.instructions, task.temperature, task.max_tokens, " ".join(task.material.casefold().split())]
    return sha256(json.dumps(parts).encode()).hexdigest()
