"""This user's indexes: which one is meant, what there is, and how one is deleted.

An index is found in three ways. It is named. Else it is the one that covers the folder in question: the folder to be
indexed or, without one, the current folder. As git finds its repository, that is the innermost indexed folder at or
above it, so a folder inside an indexed one is part of that index. Else it is the one that was indexed last below the
current folder, or of all where that holds no documents. What is not obvious about a choice is logged.

The folders of an index are known from what this user named for it, and believed when the index says so too.
"""

import contextlib
import json
import logging
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from pageindex.corpus import CorpusError, find_document, has_documents, list_files
from retriever.errors import IndexUnusableError, NoIndexError, RetrieverError, UsageError, suggest
from retriever.indexing.request import (
    INDEX_VARIABLE,
    IndexRequest,
    check_folders,
    check_server,
    forget_named,
    holds_home,
    home_folder,
    is_own,
    list_named,
    read_named_folders,
)
from retriever.places import FolderStore, Store, open_store
from retriever.settings import collect_settings
from retriever.store import reading
from retriever.store.database import make_damage_error
from retriever.store.files import absolute, is_folder, remove_files, require_own, writer_lock, writing_to
from retriever.store.reading import StoredFolder
from retriever.text import as_tuple, suggest_among
from retriever.types import Encoder

MAX_LISTED = 5  # indexes that a message names
LOOK_S = 1.0  # how long a folder without an index is looked through for documents

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ListedIndex:
    """An index of this user: in the data folder, or elsewhere with folders that this user named for it.

    >>> index = ListedIndex("docs-cf3c1456", "/indexes/docs-cf3c1456", tuple(f"/{sign}/docs" for sign in "abcdef"))
    >>> index.names, index.where
    (('docs-cf3c1456', 'docs'), 'docs-cf3c1456 (/a/docs, /b/docs, /c/docs, /d/docs, /e/docs)')
    >>> ListedIndex("/idx", "/idx", ()).where
    '/idx (/idx)'
    """

    name: str
    """For people, and for --index: its folder's name in the data folder, else its path."""
    path: str
    """The index's folder."""
    folders: tuple[str, ...]
    """The indexed folders, absolute."""
    documents: int = 0
    trouble: str = ""
    """Why it cannot be read; empty when it can."""

    @property
    def names(self) -> tuple[str, str]:
        """Its folder's name, `docs-cf3c1456`, and the first indexed folder's, which others may have."""
        name = Path(self.path).name
        return name, name.rpartition("-")[0]

    @property
    def missing(self) -> tuple[str, ...]:
        """Those of the folders that are not there: moved, deleted, or on a disk that is away."""
        return tuple(folder for folder in self.folders if not is_folder(folder))

    @property
    def store(self) -> Store:
        """Where it is kept."""
        return open_store(self.path)

    @property
    def size_bytes(self) -> int:
        """Of all that it takes; 0 for a database that does not answer."""
        with contextlib.suppress(RetrieverError):
            return self.store.size_bytes()
        return 0

    @property
    def updated(self) -> float:
        """When it was last brought up to date, in seconds since 1970; 0 for a database."""
        return self.store.updated()

    @property
    def where(self) -> str:
        """Its name and its folders, for messages."""
        return f"{self.name} ({', '.join(self.folders[:MAX_LISTED]) or self.path})"


def find_index(index: str | Path | Store | None, docs: Sequence[Path] = ()) -> Store:
    """Return the index that is meant.

    Args:
        index: its name or folder; None for HYBRID_RETRIEVE_INDEX, else the one that covers `docs` (or a new one for
            them), else the one that covers the current folder, else the one indexed last.
        docs: the folders to be indexed, absolute; empty where an index is to be asked.

    Raises:
        NoIndexError: there is no such index, or none at all; the current folder holds documents that no index covers.
        IndexUnusableError: the index that covers the current folder cannot be used.
    """
    named = index if index is not None else os.environ.get(INDEX_VARIABLE)
    if named:
        return resolve_name(named, is_asked=not docs)
    if not docs:
        return _find_here()
    covering = {cover and cover[0] for cover in (_find_cover(folder, reads=True) for folder in docs)}
    only = covering.pop() if len(covering) == 1 else None
    if only:
        return only
    # The name of the first folder, for people, and a digest of all of them; the same in any order.
    paths = sorted(map(str, docs))
    readable = "".join(sign if sign.isalnum() else "-" for sign in Path(paths[0]).name)[:40]
    digest = sha256(os.fsencode("\n".join(paths))).hexdigest()[:8]
    return FolderStore(home_folder() / f"{readable or 'root'}-{digest}")


def index_request(
    docs: Sequence[str | Path],
    index: str | Path | Store | None,
    profile: str,
    settings: Mapping[str, Any] | None,
    encoder: Encoder | None = None,
    *,
    everything: bool = False,
) -> IndexRequest:
    """Return what `open_retriever` or `index_folders` was asked for, with its folders and settings resolved."""
    named = tuple(dict.fromkeys(map(absolute, as_tuple(docs))))
    store = find_index(index, named)
    folders = _map_folders(store, named)
    remembered: dict[str, object] = {}
    if store.exists():
        try:
            with store.read() as connection:
                remembered = dict(json.loads(reading.meta(connection, "settings") or "{}"))
        except NoIndexError:  # another process has just begun to make it, and not said with which settings
            if not folders:
                raise
        except (RecursionError, TypeError, ValueError) as error:  # somebody else may have made the index
            raise make_damage_error(store, "its settings are no mapping") from error
    elif not everything:
        check_folders(folders)
    if not read_named_folders(store):  # it may be a stranger's, who does not say which files are documents here
        remembered.pop("documents", None)
    # What was given now overrules what the index remembers.
    given = collect_settings(profile, settings, remembered)
    check_server(store, given)
    return IndexRequest(store, folders, given.profile, given.for_index(), encoder)


def find_holder(path: str) -> Store | None:
    """Return the index that covers a path; None where none does, or one is named by HYBRID_RETRIEVE_INDEX."""
    covering = None if os.environ.get(INDEX_VARIABLE) else _find_cover(absolute(path))
    return covering[0] if covering else None


def resolve_name(named: str | Path | Store, *, is_asked: bool) -> Store:
    """Return the index that --index names: by its place, or a known index's name; to be asked, it must be known.

    Raises:
        NoIndexError: there is no index of that name to be asked.
        UsageError: there are several.
    """
    store, text = open_store(named), str(named)
    if store.exists() or text.startswith((".", "/", "~")):
        return store
    known = list_indexes()
    meant = [index for index in known if text in index.names]
    if len(meant) > 1:
        raise UsageError(f"{text} may be any of the indexes {', '.join(index.where for index in meant)}")
    if meant:
        return meant[0].store
    if is_asked and known and "/" not in text and not store.folder.exists():  # a name, with a typo perhaps
        also = [index.names[1] for index in known]
        raise NoIndexError(f"there is no index {text}{suggest_among([index.name for index in known], text, also)}")
    return store


# Of folders that are to be indexed.


def _map_folders(index: Store, docs: Sequence[Path]) -> tuple[Path, ...]:
    """Return the folders, with those that the index has in place of what is inside them."""
    stored = _read_folders(index) if docs else ()
    mapped = dict.fromkeys(
        next((Path(outer.path) for outer in stored if _is_part(folder, outer)), folder) for folder in docs
    )
    outermost = tuple(folder for folder in mapped if not mapped.keys() & set(folder.parents))
    for folder in docs:
        if folder not in outermost:
            outer = next(place for place in outermost if place in folder.parents)
            log.warning("note: %s is part of %s, which is indexed as a whole", folder, outer)
    return outermost


def _is_part(folder: Path, outer: StoredFolder) -> bool:
    """Return whether a folder is inside an indexed one whose index reads it: not if it is ignored or forgotten."""
    if Path(outer.path) not in folder.parents or not is_folder(folder):
        return False
    inside = folder.relative_to(outer.path).as_posix()
    if outer.forgets(f"{inside}/"):
        return False
    with contextlib.suppress(CorpusError):
        for file in list_files(folder).files[:1]:
            find_document(outer.path, f"{inside}/{file.path}")
            return True
    return False


# Of the folder where the user stands.


def _find_here() -> Store:
    try:
        here = Path.cwd().resolve()
    except FileNotFoundError:
        raise NoIndexError("the current folder is gone; name an index with --index") from None
    if covering := _find_cover(here):
        store, outer = covering
        if outer.path != str(here):
            log.warning("note: %s is part of %s, which is searched", here, outer.path)
        return store
    known = list_indexes()
    for index in known:
        if index.trouble and any(map(here.is_relative_to, index.folders)):
            raise IndexUnusableError(index.trouble)
    own = [index for index in known if is_own(index.store)]
    below = [index for index in own if any(here in Path(folder).parents for folder in index.folders)]
    # Nobody wants an index of a whole home folder.
    if not below and not holds_home(here) and has_documents(here, seconds=LOOK_S):
        names = ", ".join(index.name for index in known[:MAX_LISTED])
        others = f"; to ask another one, name it with --index: {names}" if known else ""
        hint = suggest(f"index {shlex.quote(str(here))}", "to make one, run")
        error = NoIndexError(f"no index covers {here}{others}", hint=hint)
        error.folder = str(here)
        raise error
    last = max(below or own, key=lambda index: index.updated, default=None)
    if last is None:
        raise NoIndexError("nothing has been indexed yet", hint=suggest("index FOLDER"))
    log.warning("note: %s has no index, searching %s", here, last.where)
    return last.store


def _find_cover(folder: Path, *, reads: bool = False) -> tuple[Store, StoredFolder] | None:
    """Return the index that covers a folder, and its folder there.

    The innermost one; of several one in the data folder, then the one of fewer folders.

    Args:
        folder: absolute.
        reads: whether the index must read what is in the folder.
    """
    named = list_named()
    named |= {own: tuple(item.path for item in _read_folders(own)) for own in _list_own() if own not in named}
    found = [(outer, index) for index, folders in named.items() for outer in folders if folder.is_relative_to(outer)]
    found.sort(key=lambda pair: (-len(pair[0]), not is_own(pair[1]), len(named[pair[1]]), str(pair[1])))
    for outer, index in found:
        stored = next((item for item in _read_folders(index) if item.path == outer), None)
        if stored and (not reads or folder == Path(outer) or _is_part(folder, stored)):
            return index, stored
    return None


def _read_folders(index: Store) -> tuple[StoredFolder, ...]:
    """Return the folders of an index; none where it is gone or cannot be read."""
    try:
        with index.read() as connection:
            return reading.folders(connection)
    except RetrieverError:
        return ()


def _list_own() -> list[Store]:
    """Return the folders of the user's data folder."""
    try:
        return [FolderStore(place) for place in home_folder().iterdir() if place.is_dir()]
    except (OSError, UsageError):
        return []


# All of them.


def list_indexes() -> tuple[ListedIndex, ...]:
    """Return all indexes of this user, by folders: those in the data folder, and those elsewhere with named folders."""
    named, found = list_named(), []
    for store in {*_list_own(), *named}:
        name = store.folder.name if is_own(store) else str(store)
        try:
            if not store.exists():
                continue
            with store.read() as connection:
                folders = reading.read_state(connection).folders
                found.append(ListedIndex(name, str(store), folders, reading.counts(connection).documents))
        except RetrieverError as error:
            found.append(ListedIndex(name, str(store), named.get(store, ()), trouble=str(error)))
    return tuple(sorted(found, key=lambda index: (index.folders, index.name)))


def drop_index(store: Store) -> Path:
    """Delete an index with everything in it, and return the folder that it was in; the documents stay as they are.

    Raises:
        UsageError: it is in a database, which is dropped there.
        IndexLockedError: another process writes to it.
        StorageError: it cannot be deleted.
    """
    place = store.folder
    require_own(place)
    with writer_lock(place, 0.0), writing_to(place):
        forget_named(store)
        remove_files(place)
    return place
