"""What a model wrote for a question, cached for a minute in memory and for longer on disk; and how the stage did.

The file is in the user's cache folder, not in the index: an index may be read-only, and what is written for a question
depends on the index only by the vocabulary that the model was given, which is part of the key. The file is bounded,
private and dispensable: when it cannot be read or written, nothing is cached; a damaged one is made anew.
"""

import contextlib
import json
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from cachetools import TTLCache

from retriever.errors import StorageError
from retriever.expansion.prompt import WrittenExpansion
from retriever.files import find_cache_file, make_private_folder
from retriever.query import ExpansionReport
from retriever.served.task import Task

log = logging.getLogger(__name__)

MAX_EVENTS = 10_000
FILE_NAME = "expansions.sqlite"
_FORMAT = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS expansions (key TEXT PRIMARY KEY, content TEXT NOT NULL, written INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS events (
    event_key INTEGER PRIMARY KEY AUTOINCREMENT, place TEXT NOT NULL, used INTEGER NOT NULL, cached INTEGER NOT NULL,
    milliseconds REAL, texts INTEGER NOT NULL, dropped INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS gains (
    place TEXT NOT NULL, questions TEXT NOT NULL, plain REAL NOT NULL, expanded REAL NOT NULL,
    PRIMARY KEY (place, questions)
);
"""


@dataclass(frozen=True, slots=True)
class CachedExpansion:
    written: WrittenExpansion
    milliseconds: float  # how long it took to write it


@dataclass(frozen=True, slots=True)
class Gain:
    questions: str  # the name of the set
    plain: float  # mean nDCG@10 without expansions
    expanded: float  # mean nDCG@10 with them


@dataclass(frozen=True, slots=True)
class ExpansionMetrics:
    """How the stage did in the last 10,000 questions; shares are 0 to 1, None where nothing was counted."""

    questions: int  # asked with a language model switched on
    usage_rate: float | None  # questions that were searched with other texts
    cache_hit_rate: float | None  # of the expansions that were needed, those that were cached
    drop_rate: float | None  # of the texts that a model wrote, those that were not searched with
    p50_ms: float | None  # median time of a model for an expansion that was not cached
    p95_ms: float | None
    gains: tuple[Gain, ...]


@dataclass(frozen=True, slots=True)
class CacheContent:
    """What is kept outside of the indexes of what was asked."""

    path: str  # empty for a user without a cache folder
    expansions: int  # questions with the texts that a model wrote for them
    counted: int  # questions that are counted, without their words
    size_bytes: int


class CacheFile:
    """The SQLite file; opened for each use and closed again, because several processes share it."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    @classmethod
    def of_user(cls) -> "CacheFile":
        """The file in the user's cache folder; none for a user without one."""
        return cls(find_cache_file(FILE_NAME))

    def expansion(self, key: str) -> str | None:
        rows = self._read("SELECT content FROM expansions WHERE key = ?", key)
        return str(rows[0][0]) if rows else None

    def put_expansion(self, key: str, content: str, max_entries: int) -> None:
        """Keeps the content, and no more than `max_entries`: the oldest go."""
        self._write(
            ("INSERT OR REPLACE INTO expansions VALUES (?, ?, ?)", (key, content, time.time_ns())),
            (
                "DELETE FROM expansions WHERE key NOT IN (SELECT key FROM expansions ORDER BY written DESC LIMIT ?)",
                (max_entries,),
            ),
        )

    def add_event(self, index: Path, report: ExpansionReport) -> None:
        """Counts one question; the oldest of MAX_EVENTS go."""
        dropped = len(report.dropped)
        texts = len(report.queries) + dropped
        self._write(
            (
                "INSERT INTO events (place, used, cached, milliseconds, texts, dropped) VALUES (?, ?, ?, ?, ?, ?)",
                (str(index), report.used, report.cached, report.milliseconds, texts, dropped),
            ),
            ("DELETE FROM events WHERE event_key <= (SELECT max(event_key) FROM events) - ?", (MAX_EVENTS,)),
        )

    def put_gain(self, index: Path, questions: str, plain: float, expanded: float) -> None:
        """Keeps what expansions were worth for a set of questions, in place of what was measured before."""
        self._write(("INSERT OR REPLACE INTO gains VALUES (?, ?, ?, ?)", (str(index), questions, plain, expanded)))

    def content(self) -> CacheContent:
        """How much the file holds."""
        ((expansions, counted),) = self._read(
            "SELECT (SELECT count(*) FROM expansions), (SELECT count(*) FROM events) WHERE ? = ''", ""
        ) or [(0, 0)]
        is_there = self._path is not None and self._path.is_file()
        size = self._path.stat().st_size if self._path is not None and is_there else 0
        return CacheContent(str(self._path or ""), expansions, counted, size)

    def clear(self) -> None:
        """Removes the file. StorageError where that fails."""
        if self._path is not None:
            try:
                self._path.unlink(missing_ok=True)
            except OSError as error:
                raise StorageError(f"{self._path} cannot be deleted: {error.strerror}") from error

    def metrics(self, index: Path) -> ExpansionMetrics:
        def share(part: int, whole: int) -> float | None:
            return part / whole if whole else None

        def percentile(percent: int) -> float | None:  # by nearest rank
            return times[max(0, -(-percent * len(times) // 100) - 1)] if times else None

        events = self._read("SELECT used, cached, milliseconds, texts, dropped FROM events WHERE place = ?", str(index))
        gains = self._read(
            "SELECT questions, plain, expanded FROM gains WHERE place = ? ORDER BY questions", str(index)
        )
        # Questions that the gate spared were no use of the cache, and are in no share of it.
        needed = [(cached, milliseconds) for _, cached, milliseconds, _, _ in events if milliseconds is not None]
        times = sorted(milliseconds for cached, milliseconds in needed if not cached)
        return ExpansionMetrics(
            questions=len(events),
            usage_rate=share(sum(used for used, *_ in events), len(events)),
            cache_hit_rate=share(sum(cached for cached, _ in needed), len(needed)),
            drop_rate=share(sum(dropped for *_, dropped in events), sum(texts for *_, texts, _ in events)),
            p50_ms=percentile(50),
            p95_ms=percentile(95),
            gains=tuple(Gain(*row) for row in gains),
        )

    def _read(self, query: str, value: str) -> list[tuple[Any, ...]]:
        if self._path is None or not self._path.is_file():
            return []
        with self._logging_failures(), self._connect() as connection:
            return list(connection.execute(query, (value,)))
        return []

    def _write(self, *statements: tuple[str, tuple[object, ...]]) -> None:
        if self._path is None:
            return
        with self._logging_failures():
            make_private_folder(self._path.parent)
            # The words of questions are nobody else's to read, whatever the umask says.
            self._path.touch(mode=0o600)
            with self._connect() as connection, connection:
                for statement, values in statements:
                    connection.execute(statement, values)

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        assert self._path
        with closing(sqlite3.connect(self._path, timeout=1.0)) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version != _FORMAT:
                if version:
                    raise sqlite3.DatabaseError(f"it has format {version}")
                connection.executescript(f"{_SCHEMA} PRAGMA user_version = {_FORMAT};")
            yield connection

    @contextmanager
    def _logging_failures(self) -> Iterator[None]:
        """A failure is logged and not raised; a file that is no database is removed."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            log.info("%s: %s", self._path, error)
            # An OperationalError says that it is locked, full or read-only: there is nothing wrong with the file.
            if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
                assert self._path
                with contextlib.suppress(OSError):
                    self._path.unlink()


class ExpansionCache:
    """Expansions by key, in memory and on disk; safe to share between threads."""

    def __init__(self, file: CacheFile, max_entries: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`max_entries` on disk; 0: only memory is used."""
        self._file = file
        self._max_entries = max_entries
        self._recent: TTLCache[str, CachedExpansion] = TTLCache(maxsize=100, ttl=60.0, timer=clock)
        self._lock = threading.Lock()

    def get(self, key: str) -> CachedExpansion | None:
        # Memory first, for who asks a thing twice at once; the disk keeps what was written for weeks.
        with self._lock:
            found = self._recent.get(key)
        content = self._file.expansion(key) if found is None and self._max_entries else None
        if content is None:
            return found
        try:
            milliseconds, written = json.loads(content)
            return CachedExpansion(WrittenExpansion.model_validate(written), float(milliseconds))
        except (ValueError, TypeError):  # another version wrote it
            return None

    def put(self, key: str, entry: CachedExpansion) -> None:
        """Keeps it in both places; the oldest entries go."""
        with self._lock:
            self._recent[key] = entry
        content = json.dumps([entry.milliseconds, entry.written.model_dump()])
        if self._max_entries and len(content) <= 50_000:  # no question needs a longer answer
            self._file.put_expansion(key, content, self._max_entries)


def cache_key(model: str, task: Task[WrittenExpansion]) -> str:
    """A hash of the model, the prompt and its numbers, the question in any case and spacing, and the grounding."""
    parts = [model, task.instructions, task.temperature, task.max_tokens, " ".join(task.material.casefold().split())]
    return sha256(json.dumps(parts).encode()).hexdigest()
