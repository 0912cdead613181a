"""Indexing requests, and which folders an index may read.

An index may have come from somebody else, as a file or as a folder beside documents. The folders that it names are
looked at only when this user has named them for it, which a file in the user's data folder remembers; another machine
reads nothing because an index says so.
"""

import contextlib
import json
import logging
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from platformdirs import user_data_path

from pageindex.corpus import read_file
from retriever.errors import UsageError, suggest
from retriever.places import Store, open_store
from retriever.settings import GivenSettings, Profile
from retriever.store import reading
from retriever.store.database import Connection
from retriever.store.files import absolute, make_private_folder, write_file, writing_to
from retriever.store.reading import StoredFolder
from retriever.types import Encoder

# Rises when the same documents and settings give other nodes, chunks or tokens: everything is then made anew, and only
# texts that the encoder has never read are embedded.
CONFIG_VERSION = 37
WAIT_FOR_WRITER_S = 10.0


@dataclass(frozen=True)
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
        """The settings by which documents become nodes, chunks and vectors; others make every document anew."""
        chosen = self.profile.encoder  # the fingerprint says what is behind its name
        model: object = (chosen.kind, chosen.model, chosen.query_prefix, chosen.document_prefix)
        if self.encoder:
            model = self.encoder.fingerprint
        return json.dumps([CONFIG_VERSION, model, chosen.max_tokens])

    @property
    def remembered(self) -> dict[str, str]:
        """The part that the index keeps: questions that come later begin with the same settings."""
        return {
            "settings": json.dumps(self.settings, sort_keys=True),
            "index_config": self.index_config,
            "documents": json.dumps(asdict(self.profile.documents)),
        }


def matches_config(connection: Connection, request: IndexRequest) -> bool:
    """Return whether an index was made with the settings of a request: if not, an update makes all of it anew."""
    remembered = request.remembered
    return all(reading.meta(connection, key) == remembered[key] for key in ("index_config", "documents"))


def locate_path(folders: Sequence[StoredFolder], path: str) -> Iterator[tuple[StoredFolder, str]]:
    """Yield each indexed folder that holds a path as the current folder sees it, and the path in it ("" for all)."""
    place = absolute(path)
    for folder in folders:
        if place.is_relative_to(folder.path):
            inside = place.relative_to(folder.path).as_posix()
            yield folder, "" if inside == "." else inside


@dataclass(frozen=True)
class IndexReport:
    """The result of indexing."""

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
    snapshot: str


# What the user allows.

INDEX_VARIABLE = "HYBRID_RETRIEVE_INDEX"
MAX_NAMED_BYTES = 10_000_000

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FolderAccess:
    folders: frozenset[str]  # the folders that this user has named for it, absolute
    ignore: tuple[str, ...]  # patterns of files that are no documents


def explain_refusal(folder: str) -> str:
    """Return the message for a folder that the user has not named."""
    return f"{folder} is not looked at until you name it with --docs"


def home_folder() -> Path:
    """Return the folder of this user's indexes; UsageError without a home folder."""
    try:
        data = user_data_path("hybrid-retrieve", appauthor=False)
    except RuntimeError:
        data = Path()
    if not data.is_absolute():  # older versions of platformdirs give a path in the current folder
        raise UsageError(f"this user has no home folder; name the index with --index or {INDEX_VARIABLE}")
    return data / "indexes"


def is_own(store: Store) -> bool:
    """Return whether an index is in the user's data folder, where nobody else puts one."""
    try:
        return store.folder.parent == home_folder()  # a database is in no folder
    except UsageError:
        return False


def named_file(store: Store) -> Path:
    """Return the file beside the indexes, not in them, that holds which folders of an index this user has named."""
    return home_folder().with_name("folders") / f"{sha256(os.fsencode(str(store))).hexdigest()}.json"


def read_named_folders(store: Store) -> tuple[str, ...]:
    """Return the folders that an index may look at, absolute."""
    with contextlib.suppress(UsageError):  # no home
        return _read_named(named_file(store))[1]
    return ()


def list_named() -> dict[Store, tuple[str, ...]]:
    """Return the indexes that may be there, and the folders that this user has named for each."""
    with contextlib.suppress(UsageError):
        files = sorted(home_folder().with_name("folders").glob("*.json"))
        return {open_store(index): folders for index, folders in map(_read_named, files) if index}
    return {}


def _read_named(file: Path) -> tuple[str, tuple[str, ...]]:
    try:
        content = json.loads(read_file(file, MAX_NAMED_BYTES))
        return str(content["index"]), tuple(map(str, content["folders"]))
    except (OSError, ValueError, LookupError, TypeError):
        return "", ()


def name_folders(store: Store, folders: Sequence[Path]) -> None:
    """Remember folders that this user has named for an index."""
    known = read_named_folders(store)
    named = tuple(dict.fromkeys([*known, *map(str, folders)]))
    if named == known:
        return
    try:
        file = named_file(store)
        make_private_folder(file.parent)
        write_file(file, json.dumps({"index": str(store), "folders": named}))
    except (OSError, UsageError) as error:
        log.warning("note: questions do not look for changes in these folders: %s", error)


def forget_named(store: Store) -> None:
    """Forget which folders were named for an index, as another one takes its place."""
    with contextlib.suppress(UsageError):
        file = named_file(store)
        with writing_to(file):
            file.unlink(missing_ok=True)


def check_folders(folders: Sequence[Path]) -> None:
    """Refuse the user's home folder, and those that hold it: they are hardly ever meant."""
    for folder in folders:
        if holds_home(folder):
            raise UsageError(
                f"{folder} holds everything that is yours: name the folder of documents",
                hint=suggest(f"index --yes {shlex.quote(str(folder))}", "if all of it is meant, run"),
            )


def holds_home(folder: Path) -> bool:
    """Return whether it is the user's home folder, or one that holds it."""
    try:
        return Path.home().resolve().is_relative_to(folder)
    except (RuntimeError, OSError):
        return False


def check_server(store: Store, given: GivenSettings) -> None:
    """Refuse a server on another machine that the index alone names, unless it was made here.

    >>> own = {"encoder": {"kind": "ollama", "model": "bge-m3", "url": "http://10.0.0.1:11434"}}
    >>> check_server(open_store("/tmp/idx"), GivenSettings((("index", own), ("the command line", own))))
    >>> check_server(open_store(home_folder() / "notes"), GivenSettings((("index", own),)))
    >>> check_server(open_store("/tmp/idx"), GivenSettings((("index", own),)))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    retriever.errors.UsageError: the index /tmp/idx names the server http://10.0.0.1:11434, which would ...
    """
    # An index may have come with somebody's documents, and the server that it names would read the questions, and what
    # changes in the documents.
    encoder = given.profile.encoder
    if encoder.kind not in {"ollama", "openai"} or not encoder.url or is_own(store):
        return
    from retriever.served.transport import is_this_machine

    others = [layer.get("encoder", {}) for place, layer in given.layers if place != "index"]
    if not is_this_machine(encoder.url) and not any("url" in layer for layer in others):
        raise UsageError(
            f"the index {store} names the server {encoder.url}, which would read questions and documents:"
            f" if that is meant, give it as well: --encoder-url {encoder.url}"
        )
