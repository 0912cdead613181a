"""Documents out of an index: their texts and vectors leave every file of it. The files on disk are not touched.

SQLite and ChromaDB keep what was deleted until its place is used again. So index.sqlite is written anew, its log is
emptied, and ChromaDB goes until the next `index`. What was forgotten stays out until it is taken back.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from retriever.embedding import open_encoder
from retriever.errors import EncoderError, NoIndexError, UnknownReferenceError, UsageError, suggest
from retriever.indexing.request import IndexRequest, locate_path
from retriever.places.background import renew_background
from retriever.places.words import build_words
from retriever.store import reading, writing
from retriever.store.database import Connection, transaction
from retriever.store.reading import StoredFolder
from retriever.trace import NO_PROGRESS


@dataclass(frozen=True)
class ForgetReport:
    path: str  # the index's folder
    # As the index names it; `drafts/` for all below that folder, an absolute path for a whole indexed folder.
    forgotten: tuple[str, ...]
    documents: int  # how many documents left the index; 0 for what had been forgotten before
    remaining: tuple[str, ...]  # files of the index that may still hold the text, because another process reads them
    kept: str  # where else the text may be, which nothing here can reach; empty for an index in a folder


@dataclass(frozen=True)
class Target:
    folder: StoredFolder
    path: str  # of a document, or of a folder with a slash at its end; empty for the indexed folder itself

    @property
    def name(self) -> str:
        return self.folder.prefix + self.path if self.path else self.folder.path

    @property
    def place(self) -> Path:
        return Path(self.folder.path, self.path)


def forget(request: IndexRequest, references: Sequence[str], *, undo: bool = False) -> ForgetReport:
    """Remove what the references name from every file of an index, and keep it out; see `api.forget_documents`.

    >>> from retriever.places import open_store
    >>> from retriever.settings import Profile
    >>> forget(IndexRequest(open_store("/dev/null/idx"), (), Profile(), {}), ["tea.md"])
    Traceback (most recent call last):
        ...
    retriever.errors.NoIndexError: there is no index in /dev/null/idx, so there is nothing to forget
    """
    store = request.store
    if not store.exists():
        raise NoIndexError(f"there is no index in {store}, so there is nothing to forget")
    with store.write(request.wait_s) as connection:
        targets = [find_target(connection, reference) for reference in references]
        names = tuple(target.name for target in targets)
        if undo:
            take_back(connection, targets)
            return ForgetReport(str(store), names, 0, (), "")
        with transaction(connection):
            removed = sum(remove_target(connection, target) for target in targets)
            # What was made of texts that no document has any more: earlier versions of these may be among them.
            for table in ("vectors", "pending"):
                connection.execute(f"DELETE FROM {table} WHERE text_hash NOT IN (SELECT text_hash FROM chunks)")
            with suppress(EncoderError):  # then the scale of confidence stays as it was until the next `index`
                made_by = reading.meta(connection, "fingerprint")
                renew_background(connection, request.encoder or open_encoder(request.profile.encoder, made_by))
            build_words(connection, ())
        store.finish(connection, NO_PROGRESS, with_chroma=False)
        return ForgetReport(str(store), names, removed, tuple(store.erase(connection)), store.kept_elsewhere)


def take_back(connection: Connection, targets: Sequence[Target]) -> None:
    """Let what was forgotten be indexed again: the next `index` reads it. UsageError when it was not forgotten."""
    for target in targets:
        if target.path not in target.folder.forgotten:
            raise UsageError(f"{target.name} was not forgotten", hint=suggest("status", "to see what was, run"))
    with transaction(connection):
        rows = [(target.folder.key, target.path) for target in targets]
        connection.executemany("DELETE FROM forgotten WHERE folder_key = ? AND path = ?", rows)


def find_target(connection: Connection, reference: str) -> Target:
    """Find what a reference names: an id with its folder's name, a path in a folder, or one from the current folder.

    Raises:
        UsageError: it names nothing that is known, or two places.
    """
    folders = reading.folders(connection)
    meant = [
        (folder, path.strip("/"))
        for folder in folders
        for path in (reference, reference.removeprefix(folder.prefix))
        if path and not path.startswith("/")
    ]
    meant += locate_path(folders, reference)
    known = {item.key: {*reading.files(connection, item.key), *item.forgotten} for item in folders}
    found = set()
    for folder, path in meant:
        below = f"{path}/"
        if not path or path in known[folder.key]:
            found.add(Target(folder, path))
        elif any(name.startswith(below) for name in known[folder.key]):
            found.add(Target(folder, below))
    if not found:
        ends = f"/{reference}"  # a file's name alone is not enough to remove it
        near = [Target(item, path).name for item in folders for path in known[item.key] if path.endswith(ends)]
        raise UnknownReferenceError(reference, sorted(near))
    if len(found) > 1:
        places = ", ".join(sorted(str(target.place) for target in found))
        raise UsageError(f"{reference!r} may be any of {places}; write the one in full")
    return found.pop()


def remove_target(connection: Connection, target: Target) -> int:
    """Remove the rows of a target, and note that it was forgotten; return how many documents it was."""
    folder = replace(target.folder, forgotten=(target.path,))
    files = reading.files(connection, folder.key).values()
    meant = [file for file in files if not target.path or folder.forgets(file.path)]
    keys = [file.key for file in meant if file.key]
    writing.remove_documents(connection, keys)
    if not target.path:
        connection.execute("DELETE FROM folders WHERE folder_key = ?", (folder.key,))
        return len(keys)
    rows = [(folder.key, file.path) for file in meant]
    connection.executemany("DELETE FROM skipped WHERE folder_key = ? AND path = ?", rows)
    row = (folder.key, target.path)
    connection.execute("INSERT INTO forgotten (folder_key, path) VALUES (?, ?) ON CONFLICT DO NOTHING", row)
    writing.set_link_targets(connection, folder)
    return len(keys)
