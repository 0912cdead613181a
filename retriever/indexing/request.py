"""What is to be indexed and how, and whether an index was made just so."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from retriever.errors import UsageError
from retriever.protocols import Encoder
from retriever.settings.schema import Profile
from retriever.store import reading
from retriever.store.database import Connection
from retriever.store.reading import StoredFolder
from retriever.store.store import Store

# Rises when the same documents and settings give other nodes, chunks or tokens: everything is then made anew, and only
# texts that the encoder has never read are embedded.
CONFIG_VERSION = 8
WAIT_FOR_WRITER_S = 10.0


@dataclass(frozen=True, slots=True)
class IndexRequest:
    store: Store
    docs: tuple[Path, ...]  # folders to index, absolute; those that the index holds already are looked at too
    profile: Profile
    settings: Mapping[str, Any]  # the index sections of the settings that were given; the index remembers them
    encoder: Encoder | None = None  # the caller's own; None for the one of the profile
    wait_s: float = WAIT_FOR_WRITER_S  # how long to wait for another writer, in seconds
    # Which texts are embedded: a question waits for those of its own changes alone; `none` leaves them to workers.
    embeds: Literal["all", "changed", "none"] = "all"
    with_chroma: bool = False  # whether ChromaDB is brought up to date: no question waits for it

    @property
    def index_config(self) -> str:
        """What decides how documents become nodes, chunks and vectors; another one makes every document anew."""
        chosen = self.profile.encoder  # what is behind its name tells the fingerprint
        model: object = (chosen.kind, chosen.model, chosen.query_prefix, chosen.document_prefix, chosen.max_tokens)
        if self.encoder:
            model = self.encoder.fingerprint
        return json.dumps([CONFIG_VERSION, model, asdict(self.profile.chunks)])

    @property
    def remembered(self) -> dict[str, str]:
        """What the index keeps of it: questions that come later begin with the same settings."""
        return {
            "settings": json.dumps(self.settings, sort_keys=True),
            "index_config": self.index_config,
            "documents": json.dumps(asdict(self.profile.documents)),
        }


def matches_config(connection: Connection, request: IndexRequest) -> bool:
    """Whether an index was made with the settings of a request: otherwise an update would make all of it anew."""
    remembered = request.remembered
    return all(reading.meta(connection, key) == remembered[key] for key in ("index_config", "documents"))


def locate_path(folders: Sequence[StoredFolder], path: str) -> Iterator[tuple[StoredFolder, str]]:
    """The indexed folders that hold a path as the current folder sees it, and the path in each; "" for a whole one."""
    place = absolute(path)
    for folder in folders:
        if place.is_relative_to(folder.path):
            inside = place.relative_to(folder.path).as_posix()
            yield folder, "" if inside == "." else inside


def absolute(path: str | Path) -> Path:
    """The path without `~`, links and `..`. Raises UsageError when it is no path."""
    try:
        own = Path(path)  # a file may be called `~.md`
        return (own.expanduser() if own.parts[:1] == ("~",) else own).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise UsageError(f"{str(path)!r} is no folder: {error}") from error


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What indexing did."""

    path: str
    """The index's folder."""
    folders: tuple[str, ...]
    """All folders that it holds, absolute."""
    added: int
    """New files; a moved one counts here and in `removed`."""
    changed: int
    removed: int
    unchanged: int
    documents: int
    sections: int
    chunks: int
    embedded: int
    """Texts that the encoder read."""
    skipped: tuple[tuple[str, str], ...]
    """Files that could not be read, and why."""
    seconds: float
    snapshot: int
    prefixes: str = ""
    """What a served embedding model is given before each text, in words; empty for other kinds."""
