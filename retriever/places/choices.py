"""The names for filters: the documents of an index with their folders, tags, days and fields."""

import re
from calendar import monthrange
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import PurePosixPath
from typing import TypeAlias

from retriever.lexical.sections import TEXT_FIELDS
from retriever.store.database import Connection

# Document keys to (key, value) of their front matter and tags.
Fields: TypeAlias = Mapping[int, Sequence[tuple[str, str]]]

MAX_CHOICES = 300  # of folders, and of tags, in a list to choose from
_DAY = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?")


@dataclass(frozen=True)
class Choices:
    """The folders, tags, days and fields that filters can name."""

    folders: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    """Those of the most documents first."""
    properties: tuple[str, ...] = ()
    """`status=draft`, likewise."""


@dataclass(frozen=True, slots=True)
class ScopedDocument:
    """The properties of a document that scopes ask for."""

    key: int
    path: str
    names: tuple[str, ...]
    """Paths that mean it: as it is indexed, as its ids have it, below the name of its folder."""
    dated: int | None
    """Seconds since 1970: the date in its front matter."""
    mtime_ns: int
    """Of its file; 0 when it could not be trusted."""

    @property
    def day(self) -> str:
        """`2024-05-01`: the date in its front matter, else the one that its name begins with, else its file's time."""
        if self.dated is not None:
            with suppress(ValueError, OverflowError, OSError):
                return datetime.fromtimestamp(self.dated, UTC).date().isoformat()
        name = PurePosixPath(self.path).name
        if parse_day(name[:10]) and not name[10:11].isdigit():
            return name[:10]
        # A time that cannot be trusted was too young, or too old, when the file was read.
        return (date.fromtimestamp(self.mtime_ns / 1e9) if self.mtime_ns else date.today()).isoformat()


def read_documents(connection: Connection) -> tuple[ScopedDocument, ...]:
    """Return all documents of an index, by folder and path."""
    rows = connection.execute(
        "SELECT document_key, prefix, folders.path, documents.path, dated, mtime_ns"
        " FROM documents JOIN folders USING (folder_key) ORDER BY folder_key, documents.path"
    )
    return tuple(
        ScopedDocument(
            key,
            path,
            (path, prefix + path, f"{PurePosixPath(folder).name}/{path}"),
            dated,
            mtime_ns,
        )
        for key, prefix, folder, path, dated, mtime_ns in rows
    )


def list_choices(documents: Sequence[ScopedDocument], fields: Fields) -> Choices:
    """Return what a form offers."""
    pairs = (f"{key}={value}" for own in fields.values() for key, value in own if key not in TEXT_FIELDS)
    return Choices(
        tuple(list_document_folders(documents)[:MAX_CHOICES]),
        tuple(list_values(fields, "tags")[:MAX_CHOICES]),
        tuple(name for name, _ in Counter(pairs).most_common(MAX_CHOICES)),
    )


def list_document_folders(documents: Iterable[ScopedDocument]) -> list[str]:
    """Return the folders that hold documents, below those that were indexed; the outermost first."""
    parents = {str(above) for item in documents for above in PurePosixPath(item.path).parents}
    return sorted(parents - {"."}, key=lambda path: (path.count("/"), path))


def list_values(fields: Fields, key: str) -> list[str]:
    """Return the values that a field has, those of the most documents first."""
    counts = Counter(value for own in fields.values() for name, value in own if name == key)
    return [value for value, _ in counts.most_common()]


def parse_day(text: str) -> tuple[str, str] | None:
    """Return the first and the last day of a year, a month or a day; None for any other text."""
    found = _DAY.fullmatch(text)
    if found is None:
        return None
    year, month, day = int(found[1]), found[2], found[3]
    with suppress(ValueError):
        last_month = int(month or 12)
        last_day = int(day or monthrange(year, last_month)[1])
        first = date(year, int(month or 1), int(day or 1))
        return first.isoformat(), date(year, last_month, last_day).isoformat()
    return None
