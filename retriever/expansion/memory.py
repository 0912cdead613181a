"""The file in the user's cache folder: what models wrote, and how the stage fared. Bounded, private, and dispensable.

Whatever is wrong with the file, there is then none: it is made anew, and until then nothing is remembered.
"""

import contextlib
import logging
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from retriever.disk import make_private_folder

log = logging.getLogger(__name__)

MAX_EVENTS = 10_000
WAIT_S = 1.0
"""For another process that is writing."""
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


def default_file() -> Path | None:
    """In the user's cache folder; None for a user without one."""
    from platformdirs import user_cache_path

    try:
        folder = user_cache_path("hybrid-retrieve", appauthor=False)
    except RuntimeError:
        return None
    return folder / FILE_NAME if folder.is_absolute() else None


class Memory:
    """Opened for each use, and closed: several processes share the file."""

    def __init__(self, file: Path | None) -> None:
        self._file = file

    def expansion(self, key: str) -> str | None:
        """What is kept under a key."""
        rows = self._rows("SELECT content FROM expansions WHERE key = ?", key)
        return str(rows[0][0]) if rows else None

    def put_expansion(self, key: str, content: str, entries: int) -> None:
        """Keeps it, and no more than so many: those that were written first go."""
        self._write(
            ("INSERT OR REPLACE INTO expansions VALUES (?, ?, ?)", (key, content, time.time_ns())),
            (
                "DELETE FROM expansions WHERE key NOT IN (SELECT key FROM expansions ORDER BY written DESC LIMIT ?)",
                (entries,),
            ),
        )

    def add_event(self, place: str, **event: object) -> None:
        """Notes how the stage fared once; the oldest of MAX_EVENTS go."""
        columns = ("used", "cached", "milliseconds", "texts", "dropped")
        self._write(
            (
                "INSERT INTO events (place, used, cached, milliseconds, texts, dropped) VALUES (?, ?, ?, ?, ?, ?)",
                (place, *(event[name] for name in columns)),
            ),
            ("DELETE FROM events WHERE event_key <= (SELECT max(event_key) FROM events) - ?", (MAX_EVENTS,)),
        )

    def events(self, place: str) -> list[tuple[Any, ...]]:
        """(used, cached, milliseconds, texts, dropped) of each, the oldest first."""
        return self._rows(
            "SELECT used, cached, milliseconds, texts, dropped FROM events WHERE place = ? ORDER BY event_key", place
        )

    def put_gain(self, place: str, questions: str, plain: float, expanded: float) -> None:
        """Notes what expansions were worth for a set of questions; the newest counts."""
        self._write(("INSERT OR REPLACE INTO gains VALUES (?, ?, ?, ?)", (place, questions, plain, expanded)))

    def gains(self, place: str) -> list[tuple[Any, ...]]:
        """(questions, plain, expanded) of each set, by name."""
        return self._rows("SELECT questions, plain, expanded FROM gains WHERE place = ? ORDER BY questions", place)

    def _rows(self, query: str, value: str) -> list[tuple[Any, ...]]:
        if self._file is None or not self._file.is_file():
            return []
        with self._forgiven(), self._connected() as connection:
            return list(connection.execute(query, (value,)))
        return []

    def _write(self, *statements: tuple[str, tuple[object, ...]]) -> None:
        if self._file is None:
            return
        with self._forgiven():
            make_private_folder(self._file.parent)
            self._file.touch(mode=0o600)
            with self._connected() as connection, connection:
                for statement, values in statements:
                    connection.execute(statement, values)

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        assert self._file
        with closing(sqlite3.connect(self._file, timeout=WAIT_S)) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version != _FORMAT:
                if version:
                    raise sqlite3.DatabaseError(f"it has format {version}")
                connection.executescript(f"{_SCHEMA} PRAGMA user_version = {_FORMAT};")
            yield connection

    @contextmanager
    def _forgiven(self) -> Iterator[None]:
        """What fails inside is logged; a file that is no database goes."""
        try:
            yield
        except sqlite3.OperationalError as error:  # locked, full, read-only
            log.info("%s: %s", self._file, error)
        except (sqlite3.DatabaseError, OSError) as error:
            log.info("%s: %s", self._file, error)
            if self._file and isinstance(error, sqlite3.DatabaseError):
                with contextlib.suppress(OSError):
                    self._file.unlink()
