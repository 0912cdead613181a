"""Which index is meant: the one that is named, the one that covers the folder in question, or the one used last.

An index is found as git finds its repository: the one of the current folder, else of the nearest folder above it that
is indexed. So a folder inside an indexed one is part of that index, and is not indexed a second time. The folders of
an index are known from what this user named for it (`named_file`), and believed when the index says the same.
"""

import contextlib
import json
import logging
import os
import re
import shlex
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pageindex.files import UnreadableDocumentError, count_documents, find_document, list_files, read_file
from pageindex.ignore import CorpusError
from retriever.errors import Command, NoIndexError, NotIndexedError, RetrieverError, UsageError
from retriever.files import is_folder
from retriever.indexing.consent import MAX_NAMED_BYTES, holds_home
from retriever.indexing.request import INDEX_VARIABLE, LAST_NAME, absolute, home_folder, is_own, name_index, named_file
from retriever.store import reading
from retriever.store.reading import StoredDocument, StoredFolder
from retriever.store.store import FolderStore, Store, open_store
from retriever.text import suggest_among

MAX_LAST_BYTES = 4096
MAX_LISTED = 5  # indexes that a message names
MAX_COMPARED = 100  # documents
MAX_NAME = 60  # characters
COUNT_S = 1.0  # how long the documents of a folder without an index are counted

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Choice:
    """The index that is meant, and the folders to index in it."""

    index: Store
    docs: tuple[Path, ...] = ()  # absolute; in place of a folder inside an indexed one, that one
    note: str = ""  # what to know about it, where it is not simply the one that was named; a sentence without a period


@dataclass(frozen=True, slots=True)
class KnownIndex:
    """An index of this user: in the data folder, or elsewhere with folders that this user named for it."""

    store: Store
    name: str  # for people and --index; no two have the same
    folders: tuple[str, ...]  # absolute
    documents: int = 0
    trouble: str = ""  # why it cannot be read

    @property
    def where(self) -> str:
        return f"{self.name} ({', '.join(self.folders[:MAX_LISTED]) or self.store})"


def find_index(docs: Sequence[Path], index: str | Path | Store | None) -> Choice:
    """As `choose_index`; what is to be known of the choice goes to the log."""
    choice = choose_index(docs, index)
    if choice.note:
        log.warning("note: %s", choice.note)
    return choice


def choose_index(docs: Sequence[Path], index: str | Path | Store | None) -> Choice:
    """The index that is meant.

    `index` (a folder, or the name of a known index), else HYBRID_RETRIEVE_INDEX, else the one that holds `docs`
    (absolute), else the one that covers the current folder, else the only one below it, else the one used last.
    Raises NotIndexedError in a folder of documents that no index covers, NoIndexError when nothing was indexed yet.
    """
    named = index if index is not None else os.environ.get(INDEX_VARIABLE)
    if named is not None and str(named):
        return _map_folders(resolve_name(named, is_asked=not docs), docs)
    return _choose_for_folders(docs) if docs else _choose_here()


def choose_new_place(docs: Sequence[Path], index: str | Path | Store | None) -> Store | None:
    """Return where an index of just these folders (absolute) is, or would be made; None where nothing is named."""
    named = index if index is not None else os.environ.get(INDEX_VARIABLE)
    if named:
        return resolve_name(named, is_asked=False)
    return FolderStore(home_folder() / name_index(docs)) if docs else None


def find_holder(path: str) -> Store | None:
    """The index of the current folder if that covers a path, else the one that does; None where none does."""
    if os.environ.get(INDEX_VARIABLE):
        return None
    place, around = absolute(path), _find_cover(absolute("."))
    covering = around if around and _is_inside(place, [around[1]]) else _find_cover(place)
    return covering[0] if covering else None


def find_several(named: Sequence[str | Path]) -> dict[str, Store]:
    """The folders of the indexes that are named, each once, by the names that people know them by; of all for none."""
    indexes = list_known()
    known = {index.store: index.name for index in indexes}
    places = [resolve_name(one, is_asked=True) for one in named] or [item.store for item in indexes if not item.trouble]
    if not places:
        raise NoIndexError("nothing has been indexed yet", hint=Command("index FOLDER"))
    return {known.get(place, str(place)): place for place in places}


def resolve_name(named: str | Path | Store, *, is_asked: bool) -> Store:
    """The index's folder that --index names: a path, a known index's name, or (to be asked) a folder that it covers."""
    store, text = open_store(named), str(named)
    if store.exists():
        return store
    place = store.folder
    if not text.startswith((".", "/", "~")):
        known = list_known()
        meant = [index for index in known if text in {index.name, Path(str(index.store)).name}]
        similar = meant or [index for index in known if Path(index.name).name == text]
        if len(similar) > 1:
            names = ", ".join(index.name for index in similar)
            raise UsageError(f"{text} may be any of the indexes {names}; name one of them")
        if similar:
            return similar[0].store
        if is_asked and known and re.fullmatch(r"[^/\\]+", text) and not place.exists():  # a name, with a slip perhaps
            raise NoIndexError(f"there is no index {text}{suggest_among([index.name for index in known], text)}")
    covering = _find_cover(place) if is_asked and is_folder(place) else None
    return covering[0] if covering else store


# Of folders that are to be indexed.


def _choose_for_folders(docs: Sequence[Path]) -> Choice:
    # The same folders named again are the same index, whatever else covers them by now.
    exact = FolderStore(home_folder() / name_index(docs))
    if exact.exists():
        stored = {folder.path for folder in _read_folders(exact)}
        if not stored or stored >= set(map(str, docs)):
            return _map_folders(exact, docs)
        exact = FolderStore(
            exact.folder.with_name(f"{exact.folder.name}-2")
        )  # what it was made for was moved, or forgotten
    own = [known for known in list_known(is_own_only=True) if not known.trouble]
    holders = [_find_reader(own, folder) for folder in docs]
    places = {holder[0] for holder in holders if holder}
    if len(places) == 1 and all(holders):
        return _map_folders(places.pop(), docs)
    docs, note = _drop_nested(docs)
    # A folder that was renamed is embedded once, not twice.
    moved = _find_moved(own, docs[0]) if len(docs) == 1 else None
    if moved:
        return Choice(moved[0].store, docs, f"{moved[1]} was moved to {docs[0]}: its index goes on with it")
    inner = [known for known in own if any(_is_inside(folder, docs, strictly=True) for folder in known.folders)]
    if inner:
        listed = ", ".join(known.where for known in inner[:MAX_LISTED])
        have, it = ("has an index of its own", "it") if len(inner) == 1 else ("have indexes of their own", "them")
        note = f"inside it {have}: {listed}; there these answer as before, and `indexes --drop NAME` removes {it}"
    return Choice(exact, docs, note)


def _find_moved(known: Iterable[KnownIndex], folder: Path) -> tuple[KnownIndex, str] | None:
    """The index with a folder that is not there any more, and whose files are here now."""
    for index in known:
        for old in index.folders:
            if not is_folder(old):
                with index.store.read() as connection:
                    stored = next(item for item in reading.folders(connection) if item.path == old)
                    if looks_moved(reading.documents(connection, stored.key).values(), folder):
                        return index, old
    return None


def looks_moved(documents: Iterable[StoredDocument], folder: Path) -> bool:
    """Whether most of the documents that an index knows of a folder are in another, with their sizes and times."""
    known = [document for document in documents if document.mtime_ns][:MAX_COMPARED]
    same = 0
    for document in known:
        with contextlib.suppress(OSError):
            status = (folder / document.path).stat()
            same += (status.st_size, status.st_mtime_ns) == (document.size, document.mtime_ns)
    return bool(known) and same >= 0.8 * len(known)


def _find_reader(known: Iterable[KnownIndex], folder: Path) -> tuple[Store, str] | None:
    """The index, and its folder, that reads what is in a folder: the innermost."""
    found = [(index.store, outer) for index in known for outer in index.folders if _is_inside(folder, [outer])]
    for place, outer in sorted(found, key=lambda item: (-len(item[1]), str(item[0]), item[1])):
        if folder == Path(outer) or _reads(place, outer, folder):
            return place, outer
    return None


def _map_folders(index: Store, docs: Sequence[Path]) -> Choice:
    """This index, with the folders that it has in place of those of `docs` that are inside them."""
    outer = [Path(folder.path) for folder in _read_folders(index)] if docs else []
    held: dict[Path, None] = {}
    notes = []
    for folder in docs:
        around = [place for place in outer if _is_inside(folder, [place], strictly=True) and folder not in outer]
        if around and _reads(index, str(around[0]), folder):
            held[around[0]] = None
            notes.append(f"{folder} is part of {around[0]}, which is indexed: the index of that is used")
        else:
            held[folder] = None
    docs, note = _drop_nested(tuple(held))
    return Choice(index, docs, "; ".join(filter(None, [*notes, note])))


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


def _drop_nested(docs: Sequence[Path]) -> tuple[tuple[Path, ...], str]:
    """The folders that are inside no other of them, and what to say of the others."""
    outer = tuple(folder for folder in docs if not _is_inside(folder, docs, strictly=True))
    inner = [str(folder) for folder in docs if folder not in outer]
    return outer, f"{', '.join(inner)}: inside another folder that was named, so read with that one" if inner else ""


def _is_inside(folder: str | Path, others: Iterable[str | Path], *, strictly: bool = False) -> bool:
    place = Path(folder)
    return any(place.is_relative_to(other) and not (strictly and place == Path(other)) for other in others)


# Of the folder where the user stands.


def _choose_here() -> Choice:
    try:
        here = Path.cwd().resolve()
    except FileNotFoundError:  # it was deleted
        return _choose_last("the current folder is gone")
    # As git looks for its repository: in the current folder, then above it.
    covering = _find_cover(here)
    if covering:
        place, outer = covering
        is_inner = outer != str(here)
        return Choice(place, note=f"{here} is part of {outer}, and the index of that answers" if is_inner else "")
    known = list_known()
    below = [index for index in known if any(_is_inside(folder, [here]) for folder in index.folders)]
    if len(below) == 1:
        return Choice(below[0].store, note=f"{here} has no index; asked the one below it: {below[0].where}")
    # Of a home folder nobody wants an offer to index it all, nor to wait for the count.
    if not holds_home(here):
        count, size, is_all = count_documents(here, seconds=COUNT_S)
        if count:
            raise NotIndexedError(
                _describe(here, count, known, below, is_all=is_all),
                here,
                count,
                size,
                is_all=is_all,
                hint=Command(f"index {shlex.quote(str(here))}", "to make one, run"),
            )
    return _choose_last(f"{here} has no index" + ("" if holds_home(here) else " and holds no Markdown"))


def _describe(here: Path, count: int, known: Sequence[KnownIndex], below: Sequence[KnownIndex], *, is_all: bool) -> str:
    files = f"{'' if is_all else 'more than '}{count:,} Markdown file{'' if count == 1 else 's'}"
    sentence = f"no index covers {here}, which holds {files}"
    moved = _find_moved([index for index in known if not index.trouble], here)
    if moved:
        return f"{sentence}; it seems to be {moved[1]}, moved here, whose index {moved[0].name} then goes on"
    if below:
        return f"{sentence}; indexed below it: {', '.join(index.where for index in below[:MAX_LISTED])}"
    if known:
        names = ", ".join(index.name for index in known[:MAX_LISTED]) + (", ..." if len(known) > MAX_LISTED else "")
        return f"{sentence}; to ask another one, name it with --index: {names}"
    return sentence


def _choose_last(reason: str) -> Choice:
    """The index used last."""
    try:
        name = read_file(home_folder() / LAST_NAME, MAX_LAST_BYTES).decode("utf-8").strip()
        place = FolderStore(home_folder() / name)
        if not place.exists():
            raise FileNotFoundError(name)
    except (OSError, UnicodeDecodeError):
        raise NoIndexError("nothing has been indexed yet", hint=Command("index FOLDER")) from None
    used = next((known.where for known in list_known() if known.store == place), str(place))
    return Choice(place, note=f"{reason}; asked the index used last: {used}")


def _find_cover(folder: Path) -> tuple[Store, str] | None:
    """The index that covers a folder, and its folder there: the innermost; one in the data folder; the one of less."""
    recorded = _read_recorded()
    imported = {
        place: [stored.path for stored in _read_folders(place)] for place in _list_own() if place not in recorded
    }
    found = [
        (-len(outer), not is_own(index), len(folders), str(index), outer, index)
        for index, folders in (recorded | imported).items()
        for outer in folders
        if _is_inside(folder, [outer])
    ]
    for *_, outer, index in sorted(found, key=lambda item: item[:-1]):
        if outer in {stored.path for stored in _read_folders(index)}:
            return index, outer
    return None


def _read_folders(index: Store) -> tuple[StoredFolder, ...]:
    """The folders of an index; none where it is gone or cannot be read."""
    try:
        with index.read() as connection:
            return reading.folders(connection)
    except RetrieverError:
        return ()


def _read_recorded() -> dict[Store, tuple[str, ...]]:
    """The indexes that may be there, and the folders that this user named for them."""
    try:
        home = home_folder()
    except UsageError:
        return {}
    recorded: dict[Store, tuple[str, ...]] = {}
    for file in sorted(home.with_name("folders").glob("*.json")):
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
            content = json.loads(read_file(file, MAX_NAMED_BYTES))
            index = open_store(content["index"])
            if named_file(index) == file:
                recorded[index] = tuple(map(str, content["folders"]))
    return recorded


def _list_own() -> list[Store]:
    """The folders of the user's data folder."""
    try:
        return [FolderStore(place) for place in home_folder().iterdir() if place.is_dir()]
    except (OSError, UsageError):
        return []


# All of them.


def list_known(*, is_own_only: bool = False) -> tuple[KnownIndex, ...]:
    """This user's indexes by name: those in the data folder, and those elsewhere that folders were named for."""
    places = set(_list_own()) if is_own_only else {*_list_own(), *_read_recorded()}
    read = [_read_known(place) for place in sorted(places, key=str) if _may_be_index(place)]
    return tuple(sorted(_name_all(read), key=lambda known: known.name))


def _may_be_index(place: Store) -> bool:
    with contextlib.suppress(RetrieverError):
        return place.exists()
    return False


def _read_known(place: Store) -> KnownIndex:
    try:
        with place.read() as connection:
            folders = tuple(folder.path for folder in reading.folders(connection))
            return KnownIndex(place, "", folders, reading.document_count(connection))
    except (RetrieverError, sqlite3.Error) as error:
        return KnownIndex(place, "", _read_recorded().get(place, ()), trouble=str(error))


def _name_all(indexes: Sequence[KnownIndex]) -> Iterator[KnownIndex]:
    """Each with a name of its own: its folder's, with as many of those above as tell it from the others."""

    def tail(index: KnownIndex, length: int) -> str:
        if not is_own(index.store):
            return str(index.store)
        last = ["/".join(Path(folder).parts[1:][-length:]) or "root" for folder in sorted(index.folders)]
        return "+".join(last) or Path(str(index.store)).name

    counts = {length: Counter(tail(index, length) for index in indexes) for length in range(1, 5)}
    for index in indexes:
        lengths = (length for length in range(1, 5) if counts[length][tail(index, length)] == 1)
        name = tail(index, next(lengths, 1))
        if counts[1][name] > 1 or (len(name) > MAX_NAME and is_own(index.store)):
            name = Path(str(index.store)).name
        yield KnownIndex(index.store, name, index.folders, index.documents, index.trouble)
