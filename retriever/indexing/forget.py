"""Documents out of an index: their texts and vectors leave every file of it. The files on disk are not touched.

SQLite and ChromaDB keep what was deleted until its place is used again. So index.sqlite is written anew, its log is
emptied, and the next snapshot is made from scratch. What was forgotten stays out until it is taken back.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from retriever.embedding import open_encoder
from retriever.errors import CommandHint, EncoderError, NoIndexError, UnknownReferenceError, UsageError
from retriever.indexing.background import renew_background
from retriever.indexing.derived import open_derived
from retriever.indexing.request import IndexRequest, locate_path
from retriever.store import reading, writing
from retriever.store.connection import Connection
from retriever.store.database import FILE_NAME, transaction
from retriever.store.reading import StoredFolder

MAX_NEAR = 5  # documents of that name, in an error


@dataclass(frozen=True, slots=True)
class ForgetReport:
    path: str  # the index's folder
    # As the index names it; `drafts/` for all below that folder, an absolute path for a whole indexed folder.
    forgotten: tuple[str, ...]
    documents: int  # how many documents left the index; 0 for what had been forgotten before
    remaining: tuple[str, ...]  # files of the index that may still hold the text, because another process reads them
    kept: str  # where else the text may be, which nothing here can reach; empty for an index in a folder
    seconds: float


@dataclass(frozen=True, slots=True)
class _Target:
    folder: StoredFolder
    path: str  # of a document, or of a folder with a slash at its end; empty for the indexed folder itself

    @property
    def name(self) -> str:
        return self.folder.prefix + self.path if self.path else self.folder.path

    @property
    def place(self) -> Path:
        return Path(self.folder.path, self.path)


def forget(request: IndexRequest, references: Sequence[str]) -> ForgetReport:
    """Removes what the references name from every file of an index, and keeps it out; see `api.forget_documents`."""
    started = time.perf_counter()
    with _writing(request) as connection:
        targets = [target for reference in references for target in _targets(connection, reference)]
        with transaction(connection):
            removed = sum(_remove(connection, target) for target in targets)
            # What was made of texts that no document has any more: earlier versions of these may be among them.
            for table in ("vectors", "pending"):
                connection.execute(f"DELETE FROM {table} WHERE text_hash NOT IN (SELECT text_hash FROM chunks)")
            number = 0  # nothing was ever searched here
            if reading.snapshot_number(connection):
                with suppress(EncoderError):  # then the scale of confidence stays as it was until the next `index`
                    encoder = request.encoder or open_encoder(request.profile.encoder)
                    renew_background(connection, encoder)
                number = open_derived(request.store).renew(connection)
        remaining = tuple(_purge(connection, request, number))
    names = tuple(target.name for target in targets)
    kept = request.store.kept_elsewhere
    return ForgetReport(str(request.store), names, removed, remaining, kept, time.perf_counter() - started)


def take_back(request: IndexRequest, references: Sequence[str]) -> ForgetReport:
    """Lets what was forgotten be indexed again: the next `index` reads it. UsageError when it was not forgotten."""
    started = time.perf_counter()
    with _writing(request) as connection:
        targets = []
        for reference in references:
            meant = _targets(connection, reference)
            targets += [target for target in meant if target.path in target.folder.forgotten]
            if not any(target in targets for target in meant):
                raise UsageError(f"{reference!r} was not forgotten", hint=CommandHint("status", "to see what was, run"))
        with transaction(connection):
            rows = [(target.folder.key, target.path) for target in targets]
            connection.executemany("DELETE FROM forgotten WHERE folder_key = ? AND path = ?", rows)
    names = tuple(target.name for target in targets)
    return ForgetReport(str(request.store), names, 0, (), "", time.perf_counter() - started)


def list_forgotten(connection: Connection) -> Iterator[tuple[str, str]]:
    """What was forgotten, each with how to take it back."""
    for folder in reading.folders(connection):
        for path in folder.forgotten:
            yield _Target(folder, path).name, "forgotten, and kept out; `forget --undo` takes it back"


@contextmanager
def _writing(request: IndexRequest) -> Iterator[Connection]:
    if not request.store.exists():
        raise NoIndexError(f"there is no index in {request.store}, so there is nothing to forget")
    with request.store.write(request.wait_s) as (connection, _):
        yield connection


def _targets(connection: Connection, reference: str) -> list[_Target]:
    """What a reference names: one place, which two folders hold where one of them is inside the other."""
    folders = reading.folders(connection)
    # An id with the name of its folder; else a path in any of the folders, or as the current folder sees it.
    named = [(item, reference.removeprefix(item.prefix)) for item in folders if item.prefix]
    by_id = [(folder, path.strip("/")) for folder, path in named if path != reference and path.strip("/")]
    paths = [] if reference.startswith("/") else [(folder, reference.strip("/")) for folder in folders]
    ways = by_id, [*paths, *locate_path(folders, reference)]
    found = ({target for folder, path in way if (target := _known(connection, folder, path))} for way in ways)
    targets = next(filter(None, found), set())
    if not targets:
        name = f"/{reference.strip('/')}"
        known = (f"{folder.prefix}{path}" for folder in folders for path in reading.documents(connection, folder.key))
        raise UnknownReferenceError(reference, [path for path in known if f"/{path}".endswith(name)][:MAX_NEAR])
    places = sorted({str(target.place) for target in targets})
    if len(places) > 1:
        raise UsageError(f"{reference!r} may be any of {', '.join(places)}; write the one in full")
    within = (_known(connection, folder, inside) for folder, inside in locate_path(folders, places[0]))
    return sorted(targets.union(filter(None, within)), key=lambda target: target.name)


def _known(connection: Connection, folder: StoredFolder, path: str) -> _Target | None:
    """A document, a folder that holds some, or what was forgotten before; None for anything else."""
    below = f"{path}/"
    known = [*reading.documents(connection, folder.key), *reading.unreadable(connection, folder.key)]
    known += [path for (path,) in connection.execute("SELECT path FROM queue WHERE folder_key = ?", (folder.key,))]
    if not path or path in known or path in folder.forgotten:
        return _Target(folder, path)
    if below in folder.forgotten or any(name.startswith(below) for name in known):
        return _Target(folder, below)
    return None


def _remove(connection: Connection, target: _Target) -> int:
    """Removes the rows of a target, and notes that it was forgotten; how many documents it was."""
    folder = replace(target.folder, forgotten=(target.path,))
    documents = reading.documents(connection, folder.key).values()
    if not target.path:
        writing.remove_folder(connection, folder.key)
        return len(documents)
    keys = [document.key for document in documents if folder.forgets(document.path)]
    writing.remove_documents(connection, keys)
    skipped = connection.execute("SELECT folder_key, path FROM skipped WHERE folder_key = ?", (folder.key,)).fetchall()
    rows = [row for row in skipped if folder.forgets(row[1])]
    connection.executemany("DELETE FROM skipped WHERE folder_key = ? AND path = ?", rows)
    writing.remove_queued(connection, folder.key, folder.forgets)
    row = (folder.key, target.path)
    connection.execute("INSERT INTO forgotten (folder_key, path) VALUES (?, ?) ON CONFLICT DO NOTHING", row)
    writing.set_link_targets(connection, folder)
    return len(keys)


def _purge(connection: Connection, request: IndexRequest, number: int) -> Iterator[str]:
    """Empties every place where SQLite and older snapshots keep what was deleted; names those in use by others."""
    derived = open_derived(request.store)
    derived.remove_old(number)
    if not request.store.erase(connection):
        yield f"{request.store.folder / FILE_NAME}-wal"
    yield from derived.list_old(number)
