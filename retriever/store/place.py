"""The place of an index: the address of a database, and what differs between that and a folder."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qsl, quote, unquote, urlencode

from retriever.errors import UsageError
from retriever.store import database
from retriever.store.database import Connection, translate_sqlite_errors
from retriever.store.files import FILE_NAME, measure_folder, require_own, writer_lock

SCHEMA = "hybrid_retrieve"
"""Where the tables are when the address names no schema."""
FORM = "postgresql://USER@HOST/DATABASE"


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    """`postgresql://user@host/database?schema=team&role=sales`, as libpq reads it, without its password."""

    text: str
    password: str | None = field(default=None, repr=False, compare=False)
    """None leaves it to libpq: PGPASSWORD, .pgpass, a service file."""

    def __str__(self) -> str:
        return self.text

    @property
    def schema(self) -> str:
        """Where the tables are."""
        return dict(parse_qsl(self.text.partition("?")[2])).get("schema", SCHEMA)

    @property
    def dsn(self) -> str:
        """What libpq is given."""
        place, _, query = self.text.partition("?")
        given = dict(parse_qsl(query))
        kept = {name: value for name, value in given.items() if name not in ("schema", "role")}
        if role := given.get("role"):
            # As the connection begins: there is no moment without it, and RESET ROLE comes back to it.
            escaped = re.sub(r"([\\\s])", r"\\\1", role)
            kept["options"] = f"{kept.get('options', '')} -crole={escaped}".strip()
        return f"{place}?{urlencode(kept, quote_via=quote)}" if kept else place

    def with_role(self, role: str) -> "DatabaseUrl":
        """Return the same index as another role of the server sees it: `?role=ROLE`."""
        place, _, query = self.text.partition("?")
        given = dict(parse_qsl(query)) | {"role": role}
        return replace(self, text=f"{place}?{urlencode(given, quote_via=quote)}")


def read_url(text: str) -> DatabaseUrl | None:
    """Read the address of a database; None for what may be a folder.

    Raises:
        UsageError: it is the address of something else, or cannot be read; nothing of a password is repeated.
    """
    scheme, found, rest = text.partition("://")
    if not found:
        if re.search(r"\bpassword\s*=", text) or text.lower().startswith(("postgresql:", "postgres:")):
            raise UsageError(f"write the address of a database as {FORM}")
        return None
    if scheme.lower() not in ("postgresql", "postgres"):
        raise UsageError(f"{scheme}: is no address of an index; name a folder, or {FORM}")
    place, _, query = rest.partition("?")
    account, at, host = place.rpartition("@")
    if not at and "@" in query and ":" in place:  # a password with a question mark
        raise UsageError(f"percent-encode the special characters of the password in {FORM}")
    user, _, password = account.partition(":")
    given = dict(parse_qsl(query))
    password = given.pop("password", unquote(password))
    plain = f"postgresql://{user}{at}{host}" + (f"?{urlencode(given, quote_via=quote)}" if given else "")
    return DatabaseUrl(plain, password or None)


@dataclass(frozen=True)
class Store(ABC):
    """An index in its place; two stores of one place are equal, and its text is what --index takes.

    Every method may raise an IndexUnusableError.
    """

    is_shared: ClassVar[bool]
    """Whether it is a database: others keep it up to date, and what searches need is in tables, not in files."""
    kept_elsewhere: ClassVar[str]
    """Where else deleted texts may be, a sentence; empty where nothing else has them."""

    place: Path | DatabaseUrl

    def __str__(self) -> str:
        return str(self.place)

    @property
    @abstractmethod
    def folder(self) -> Path:
        """The index's folder; UsageError for a database."""

    @property
    def url(self) -> DatabaseUrl:
        """The address of the database; UsageError for a folder."""
        raise UsageError(f"{self} is a folder, and this needs PostgreSQL: --index {FORM}")

    @abstractmethod
    def exists(self) -> bool:
        """Return whether there is an index."""

    def require_own(self) -> None:
        """Raise UsageError where the place holds something else than an index of ours."""
        return

    @abstractmethod
    def open(self) -> Connection:
        """Open a connection for a reader, of a read-only folder too; NoIndexError where there is no index."""

    @abstractmethod
    def write(self, wait_s: float) -> AbstractContextManager[Connection]:
        """Yield the one writer's connection, after `wait_s` seconds at most; make the index if there is none."""

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a reader's connection for the block, and turn its errors into those of this program."""
        with self.explain_errors(), closing(self.open()) as connection:
            yield connection

    @abstractmethod
    def explain_errors(self) -> AbstractContextManager[None]:
        """Turn the errors of the engine into those of this program."""

    def identify(self) -> object:
        """Return the identity of the open index, which changes when another takes its place; None where none can."""
        return None

    def updated(self) -> float:
        """Return when the index last changed, in seconds since 1970; 0 where that is not known without asking."""
        return 0.0

    @abstractmethod
    def size_bytes(self) -> int:
        """Return what the index takes on its disk."""

    @abstractmethod
    def erase(self, connection: Connection) -> bool:
        """Remove what the files still hold of deleted rows; return False where a reader prevents it.

        Args:
            connection: of the one writer, outside of a transaction.
        """


@dataclass(frozen=True)
class FolderStore(Store):
    """An index in a folder: `index.sqlite`, and snapshots beside it."""

    place: Path

    is_shared: ClassVar[bool] = False
    kept_elsewhere: ClassVar[str] = ""

    @property
    def folder(self) -> Path:
        """The index's folder."""
        return self.place

    def exists(self) -> bool:
        """Return whether there is an `index.sqlite`."""
        return database.is_index(self.folder)

    def require_own(self) -> None:
        """Look at the first bytes of index.sqlite; without one the folder has to be empty."""
        if self.exists():
            require_own(self.folder)
        elif self.folder.exists() and (not self.folder.is_dir() or any(self.folder.iterdir())):
            raise UsageError(f"{self.folder} holds something else than an index; name another place with --index")

    def open(self) -> Connection:
        """Open index.sqlite for a reader."""
        return database.open_file(self.folder)

    @contextmanager
    def write(self, wait_s: float) -> Iterator[Connection]:
        """Take the writer's lock."""
        with (
            writer_lock(self.folder, wait_s),
            translate_sqlite_errors(self.folder),
            closing(database.create_file(self.folder)) as connection,
        ):
            yield connection

    def explain_errors(self) -> AbstractContextManager[None]:
        """Turn SQLite's errors into those of this program."""
        return translate_sqlite_errors(self.folder)

    def identify(self) -> object:
        """Return the device and the inode of index.sqlite."""
        with suppress(OSError):
            status = (self.folder / FILE_NAME).stat()
            return status.st_dev, status.st_ino
        return None

    def updated(self) -> float:
        """Return when its files last changed."""
        files = [self.folder / FILE_NAME, *self.folder.glob("snapshot-*/manifest.json")]
        return max((file.stat().st_mtime for file in files if file.exists()), default=0.0)

    def size_bytes(self) -> int:
        """Return what all files of the folder take."""
        return measure_folder(self.folder)

    def erase(self, connection: Connection) -> bool:
        """Write index.sqlite anew, and empty SQLite's log."""
        connection.execute("VACUUM")
        (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not busy
