"""This user's indexes: which one is meant, what there is, and how one is deleted.

An index is found in three ways. It is named. Else it is the one that covers the folder in question: the folder to be
indexed or, without one, the current folder. As git finds its repository, that is the innermost indexed folder at or
above it, so a folder inside an indexed one is part of that index. Else it is the one that was used last, where the
current folder holds its documents or none.

The folders of an index are known from what this user named for it (`consent`), and believed when the index says so too.
"""

import contextlib
import logging
import os
import shlex
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pageindex.corpus import UnreadableDocumentError, find_document, has_documents, list_files, read_file
from pageindex.ignore import CorpusError
from retriever.errors import CommandHint, NoIndexError, RetrieverError, UsageError
from retriever.files import is_folder, writing_to
from retriever.indexing.consent import (
    check_documents,
    check_folders,
    check_server,
    drop_widening_settings,
    forget_named,
    holds_home,
    list_named,
)
from retriever.indexing.request import (
    INDEX_VARIABLE,
    LAST_NAME,
    IndexRequest,
    absolute,
    home_folder,
    is_own,
    name_index,
)
from retriever.protocols import Encoder
from retriever.settings.layers import collect_settings
from retriever.store import reading
from retriever.store.database import make_damage_error
from retriever.store.locks import writer_lock
from retriever.store.own_files import remove_files, require_own
from retriever.store.reading import StoredFolder
from retriever.store.store import FolderStore, Store, open_store
from retriever.text import as_tuple, suggest_among

MAX_LAST_BYTES = 4096
MAX_LISTED = 5  # indexes that a message names
LOOK_S = 1.0  # how long a folder without an index is looked through for documents

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Choice:
    """The index that is meant, and the folders to index in it."""

    index: Store
    docs: tuple[Path, ...] = ()
    """Absolute; in place of a folder inside an indexed one, that one."""
    note: str = ""
    """What to know about it, where it is not simply the one that was named; a sentence without a period."""


@dataclass(frozen=True, slots=True)
class ListedIndex:
    """An index of this user: in the data folder, or elsewhere with folders that this user named for it."""

    name: str
    """For people, and for --index; no two have the same."""
    path: str
    """The index's folder."""
    folders: tuple[str, ...]
    """The indexed folders, absolute."""
    documents: int = 0
    trouble: str = ""
    """Why it cannot be read; empty when it can."""

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


def find_index(docs: Sequence[Path], index: str | Path | Store | None) -> Choice:
    """Return the index that is meant, as `choose_index`, and log what is to be known of the choice."""
    choice = choose_index(docs, index)
    if choice.note:
        log.warning("note: %s", choice.note)
    return choice


def choose_index(docs: Sequence[Path], index: str | Path | Store | None) -> Choice:
    """Return the index that is meant.

    Args:
        docs: the folders to be indexed, absolute; empty where an index is to be asked.
        index: an index's name or folder; None for HYBRID_RETRIEVE_INDEX, else the one that covers `docs` (or a new one
            for them), else the one that covers the current folder, else the one used last.

    Raises:
        NoIndexError: there is no such index, or none of the current folder, which holds documents.
        UsageError: the name is that of an index of other folders.
    """
    named = index if index is not None else os.environ.get(INDEX_VARIABLE)
    if named:
        store = resolve_name(named, is_asked=not docs)
        if docs and store != open_store(named):  # by its name
            _check_meant(str(named), store, docs)
        return _map_folders(store, docs)
    if not docs:
        return _choose_here()
    holders = [_find_cover(folder, own_only=True, reads=True) for folder in docs]
    places = {holder[0] for holder in holders if holder}
    if len(places) == 1 and all(holders):
        return _map_folders(places.pop(), docs)
    return _map_folders(_find_free_place(docs), docs)


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
    folders = tuple(dict.fromkeys(map(absolute, as_tuple(docs))))
    choice = choose_index(folders, index)
    place, folders = choice.index, choice.docs
    remembered: dict[str, object] = {}
    if place.exists():
        try:
            with place.read() as connection:
                content: object = reading.index_settings(connection)
        except NoIndexError:  # another process has just begun to make it, and not said with which settings
            if not folders:
                raise
            content = {}
        except RecursionError:  # somebody else may have made the index
            content = None
        if not isinstance(content, dict):
            raise make_damage_error(place, "its settings are no mapping")
        remembered = content
    elif not everything:
        check_folders(folders)
    # What was given now overrules what the index remembers, of which nothing opens files that this user did not name.
    given = collect_settings(profile, settings, drop_widening_settings(place, remembered))
    check_server(place, given)
    if folders:
        check_documents(place, remembered, given)
    return IndexRequest(place, folders, given.profile(), given.for_index(), encoder, note=choice.note)


def choose_new_place(docs: Sequence[Path], index: str | Path | Store | None) -> Store | None:
    """Return where an index of just these folders (absolute) is, or would be made; None where nothing is named."""
    named = index if index is not None else os.environ.get(INDEX_VARIABLE)
    if named:
        return resolve_name(named, is_asked=False)
    return FolderStore(home_folder() / name_index(docs)) if docs else None


def find_holder(path: str) -> Store | None:
    """Return the index that covers a path, that of the current folder before others; None where none does."""
    if os.environ.get(INDEX_VARIABLE):
        return None
    place, around = absolute(path), _find_cover(absolute("."))
    covering = around if around and _is_inside(place, [around[1]]) else _find_cover(place)
    return covering[0] if covering else None


def split_reference(reference: str) -> tuple[Store | None, str]:
    """Return the index that an answer of several names in a reference (`notes::guide.md:3`), and what is behind it."""
    if "::" in reference:
        for index in list_indexes():
            if reference.startswith(f"{index.name}::"):
                return index.store, reference.removeprefix(f"{index.name}::")
    return None, reference


def find_several(named: Sequence[str | Path]) -> dict[str, Store]:
    """Return the named indexes, each once, by the names that people know them by; all of them for none."""
    indexes = list_indexes()
    known = {index.store: index.name for index in indexes}
    stores = [resolve_name(one, is_asked=True) for one in as_tuple(named)]
    stores = stores or [index.store for index in indexes if not index.trouble]
    if not stores:
        raise NoIndexError("nothing has been indexed yet", hint=CommandHint("index FOLDER"))
    return {known.get(store, str(store)): store for store in stores}


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
    meant = [index for index in known if text in {index.name, Path(index.path).name}]
    similar = meant or [index for index in known if Path(index.name).name == text]
    if len(similar) > 1:
        names = ", ".join(index.name for index in similar)
        raise UsageError(f"{text} may be any of the indexes {names}; name one of them")
    if similar:
        return similar[0].store
    if is_asked and known and "/" not in text and not store.folder.exists():  # a name, with a slip perhaps
        raise NoIndexError(f"there is no index {text}{suggest_among([index.name for index in known], text)}")
    return store


# Of folders that are to be indexed.


def _check_meant(name: str, index: Store, docs: Sequence[Path]) -> None:
    """Raise UsageError where an index of other folders would get these, because a name was the same."""
    held = [folder.path for folder in _read_folders(index)]
    new = [folder for folder in docs if not _is_inside(folder, held)]
    if new and not set(held) <= set(map(str, docs)):
        raise UsageError(
            f"{name} is an index of {', '.join(held)}, and {', '.join(map(str, new))} is not in it; for an index of its"
            f" own, name a folder: --index ./{Path(name).name}",
            hint=CommandHint(
                f"index {shlex.join([*held, *map(str, new)])} --index {shlex.quote(name)}", "if one index is meant, run"
            ),
        )


def _find_free_place(docs: Sequence[Path]) -> Store:
    """Return the place of the index of these folders; another one where the index there is of others by now."""
    store = FolderStore(home_folder() / name_index(docs))
    stored = {folder.path for folder in _read_folders(store)}
    is_others = stored and not stored >= set(map(str, docs))
    return FolderStore(store.folder.with_name(f"{store.folder.name}-2")) if is_others else store


def _map_folders(index: Store, docs: Sequence[Path]) -> Choice:
    """Return this index, with the folders that it has in place of those of `docs` that are inside them."""
    outer = [Path(folder.path) for folder in _read_folders(index)] if docs else []
    held: dict[Path, None] = {}
    notes = []
    for folder in docs:
        around = [place for place in outer if _is_inside(folder, [place], strictly=True) and folder not in outer]
        if around and _reads(index, str(around[0]), folder):
            held[around[0]] = None
            notes.append(f"{folder} is part of {around[0]}, which is indexed as a whole")
        else:
            held[folder] = None
    inner = [folder for folder in held if _is_inside(folder, held, strictly=True)]
    if inner:
        notes.append(f"{', '.join(map(str, inner))}: inside another folder that was named, so read with that one")
    return Choice(index, tuple(folder for folder in held if folder not in inner), "; ".join(notes))


def _reads(index: Store, outer: str, folder: Path) -> bool:
    """Whether an index reads the documents of a folder inside one of its own: not if they are ignored or forgotten."""
    if not is_folder(folder):
        return False
    inside = folder.relative_to(outer).as_posix()
    with index.read() as connection:
        stored = next(item for item in reading.folders(connection) if item.path == outer)
        if stored.forgets(f"{inside}/"):
            return False
        if any(path.startswith(f"{inside}/") for path in reading.documents(connection, stored.key)):
            return True
    with contextlib.suppress(CorpusError):
        for file in list_files(folder).files[:1]:  # it is new, or left out
            with contextlib.suppress(UnreadableDocumentError):
                find_document(outer, f"{inside}/{file.path}")
                return True
    return False


def _is_inside(folder: str | Path, others: Iterable[str | Path], *, strictly: bool = False) -> bool:
    place = Path(folder)
    return any(place.is_relative_to(other) and not (strictly and place == Path(other)) for other in others)


# Of the folder where the user stands.


def _choose_here() -> Choice:
    try:
        here = Path.cwd().resolve()
    except FileNotFoundError:  # it was deleted
        return _choose_last("the current folder is gone")
    covering = _find_cover(here)
    if covering:
        place, outer = covering
        is_inner = outer != str(here)
        return Choice(place, note=f"{here} is part of {outer}, which is searched" if is_inner else "")
    # Nobody wants an index of a whole home folder.
    if holds_home(here) or not has_documents(here, seconds=LOOK_S):
        return _choose_last(f"{here} has no index" + ("" if holds_home(here) else " and holds no Markdown"))
    with contextlib.suppress(NoIndexError):
        last = _choose_last(f"{here} has no index of its own")
        if any(_is_inside(folder.path, [here]) for folder in _read_folders(last.index)):
            return last
    known = [index.name for index in list_indexes()]
    others = f"; to ask another one, name it with --index: {', '.join(known[:MAX_LISTED])}" if known else ""
    raise NoIndexError(
        f"no index covers {here}{others}{', ...' if len(known) > MAX_LISTED else ''}",
        hint=CommandHint(f"index {shlex.quote(str(here))}", "to make one, run"),
    )


def _choose_last(reason: str) -> Choice:
    """Return the index used last."""
    try:
        name = read_file(home_folder() / LAST_NAME, MAX_LAST_BYTES).decode("utf-8").strip()
        store = FolderStore(home_folder() / name)
        if not store.exists():
            raise FileNotFoundError(name)
    except (OSError, UnicodeDecodeError):
        raise NoIndexError("nothing has been indexed yet", hint=CommandHint("index FOLDER")) from None
    used = next((known.where for known in list_indexes() if known.store == store), str(store))
    return Choice(store, note=f"{reason}: the index used last is {used}")


def _find_cover(folder: Path, *, own_only: bool = False, reads: bool = False) -> tuple[Store, str] | None:
    """Return the index that covers a folder, and its folder there.

    The innermost one; of several one in the data folder, then the one of fewer folders.

    Args:
        folder: absolute.
        own_only: whether only indexes in the data folder count.
        reads: whether the index must read what is in the folder.
    """
    recorded = list_named()
    imported = {place: [item.path for item in _read_folders(place)] for place in _list_own() if place not in recorded}
    found = [
        (-len(outer), not is_own(index), len(folders), str(index), outer, index)
        for index, folders in (recorded | imported).items()
        for outer in folders
        if _is_inside(folder, [outer]) and not (own_only and not is_own(index))
    ]
    for *_, outer, index in sorted(found, key=lambda item: item[:-1]):
        is_there = outer in {stored.path for stored in _read_folders(index)}
        if is_there and (not reads or folder == Path(outer) or _reads(index, outer, folder)):
            return index, outer
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
    """Return all indexes of this user, by name: those in the data folder, and those elsewhere with named folders."""
    named, found = list_named(), []
    for store in sorted({*_list_own(), *named}, key=str):
        try:
            if not store.exists():
                continue
            with store.read() as connection:
                folders = tuple(folder.path for folder in reading.folders(connection))
                found.append(ListedIndex("", str(store), folders, reading.document_count(connection)))
        except (RetrieverError, sqlite3.Error) as error:
            found.append(ListedIndex("", str(store), named.get(store, ()), trouble=str(error)))

    # By its folder's name, with the one above where that tells it from others; one that was placed by its path.
    def name(index: ListedIndex, length: int) -> str:
        if not is_own(index.store):
            return index.path
        tails = ["/".join(Path(folder).parts[1:][-length:]) or "root" for folder in sorted(index.folders)]
        return "+".join(tails) or Path(index.path).name

    counts = Counter(own for index in found for own in {name(index, 1), name(index, 2)})
    names = [next((name(item, length) for length in (1, 2) if counts[name(item, length)] == 1), "") for item in found]
    listed = (replace(item, name=own or Path(item.path).name) for item, own in zip(found, names, strict=True))
    return tuple(sorted(listed, key=lambda index: index.name))


def drop_index(name: str) -> Path:
    """Delete an index with everything in it; the documents stay as they are.

    Args:
        name: as `list_indexes` gives it, or the index's folder.

    Returns:
        The folder that it was in.

    Raises:
        UsageError: there is no such index.
        IndexLockedError: another process writes to it.
        StorageError: it cannot be deleted.
    """
    store = find_named(name)
    place = store.folder  # a database is dropped where it is
    require_own(place)
    with writer_lock(place, 0.0), writing_to(place):
        forget_named(store)
        remove_files(place)
    with contextlib.suppress(OSError, UsageError):
        last = home_folder() / LAST_NAME
        if last.read_text(encoding="utf-8").strip() == place.name and is_own(store):
            last.unlink()
    return place


def find_named(name: str) -> Store:
    """Return the index of that name; UsageError when there is none."""
    store = resolve_name(name, is_asked=False)
    if not store.exists():
        raise UsageError(f"there is no index {name!r}", hint=CommandHint("indexes", "to see what there is, run"))
    return store
