"""The differences between the folders and the index. Reads the disk, writes nothing."""

import logging
import re
import shlex
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain, count
from pathlib import Path

from pageindex.corpus import (
    CorpusError,
    Listing,
    Skipped,
    SourceFile,
    UnreadableDocumentError,
    list_files,
    read_document,
)
from pageindex.formats import READERS
from pageindex.markers import find_dialect
from retriever.errors import DocumentsError, RetrieverError, UsageError, suggest
from retriever.indexing.request import IndexRequest, explain_refusal, read_named_folders
from retriever.settings import DocumentSettings
from retriever.store import reading
from retriever.store.database import Connection
from retriever.store.reading import StoredDocument, StoredFolder

log = logging.getLogger(__name__)

# A file that changes again this soon after it was read may keep its size and its times: the coarsest clocks of file
# systems tick every two seconds.
YOUNG_NS = 2_000_000_000
UNTRUSTED = 0  # stands for a time that is too young
_ODD_IN_PREFIX = re.compile(r"[:#\\]|[^\w\x20-\x7e]")  # a prefix is printed as it is, and ends at its colon


@dataclass
class FolderChanges:
    """How the files of a folder differ from the documents in the index."""

    folder: StoredFolder
    listing: Listing
    # New files, and known ones with another content; what is known of these.
    differing: list[SourceFile] = field(default_factory=list)
    outdated: list[StoredDocument] = field(default_factory=list)
    # Known files with the same content and other times or another inode, these new.
    touched: list[StoredDocument] = field(default_factory=list)
    gone: list[StoredDocument] = field(default_factory=list)
    unchanged: int = 0
    problem: str = ""  # why the folder could not be looked at
    # Files that turned out to be unreadable (`write_documents`), with what they look like, and the reason.
    unreadable: list[tuple[StoredDocument, str]] = field(default_factory=list)

    @property
    def paths(self) -> list[str]:
        """The changed files, sorted."""
        return sorted([*(file.path for file in self.differing), *(document.path for document in self.gone)])

    @property
    def reread(self) -> list[StoredDocument]:
        """Known documents that were read anew, after `write_documents`."""
        lost = {item.path for item, _ in self.unreadable}
        return [document for document in self.outdated if document.path not in lost]

    def __len__(self) -> int:
        return len(self.differing) + len(self.gone)


def list_folders(folders: Sequence[Path], settings: DocumentSettings) -> dict[str, Listing]:
    """List the files of each folder that the caller named, by path; DocumentsError for one without documents."""
    listings = {str(folder): list_documents(folder, settings) for folder in folders}
    for folder, listing in listings.items():
        if not listing.files:
            raise DocumentsError(f"{folder} holds no documents ({', '.join(READERS)}); name the folder that does")
    return listings


def name_folders_apart(folders: Sequence[StoredFolder]) -> list[StoredFolder]:
    """Return the folders of an index, each of several with a prefix: the end of its path that tells it apart.

    One alone has none. A prefix stays when other folders come or go, for it is in the ids of nodes.

    >>> def name(*paths):
    ...     return [folder.prefix for folder in name_folders_apart([StoredFolder(0, path, "", "") for path in paths])]
    >>> name("/a/notes"), name("/a/notes", "/b/notes", "/c/tea: #1"), name("/notes", "/a/notes", "/")
    ([''], ['a/notes:', 'b/notes:', 'tea- -1:'], ['notes~2:', 'a/notes:', 'root:'])
    """
    if len(folders) < 2:
        return list(folders)
    taken = {folder.prefix for folder in folders if folder.prefix}
    parts = {folder.path: [_ODD_IN_PREFIX.sub("-", part) for part in Path(folder.path).parts[1:]] for folder in folders}
    named = []
    for folder in folders:
        own = parts[folder.path] or ["root"]
        others = [other for path, other in parts.items() if path != folder.path]
        tails = (own[-length:] for length in range(1, len(own) + 1))
        names = ["/".join(tail) for tail in tails if not any(other[-len(tail) :] == tail for other in others)]
        spare = (f"{'/'.join(own)}~{number}" for number in count(2))
        free = (f"{name}:" for name in chain(names, spare) if f"{name}:" not in taken)
        named.append(replace(folder, prefix=folder.prefix or next(free)))
        taken.add(named[-1].prefix)
    return named


def find_changes(connection: Connection, request: IndexRequest, *, is_anew: bool = False) -> list[FolderChanges]:
    """Find what changed in the folders of the index and the new ones, whose key is 0; everything, if made anew.

    What is known of a folder that cannot be looked at stays: it may come back.

    Raises:
        DocumentsError: the index is made anew, and a folder cannot be looked at.
        UsageError: a folder holds one that the index has already: its sections would be found twice.
    """
    stored, docs = reading.folders(connection), dict.fromkeys(map(str, request.docs))
    for path in docs:
        others = (folder.path for folder in stored if folder.path != path)
        if inner := next((other for other in others if Path(other).is_relative_to(path)), None):
            command = shlex.join(["forget", inner, "--index", str(request.store)])
            hint = suggest(command, "take that out first, or name another index")
            raise UsageError(f"{path} holds {inner}, which this index has already", hint=hint)
    new = [StoredFolder(0, path, "", "") for path in docs if path not in {folder.path for folder in stored}]
    allowed, settings = {*read_named_folders(request.store), *docs}, request.profile.documents
    found = []
    for old, named in zip([*stored, *new], name_folders_apart([*stored, *new]), strict=True):
        # Under another prefix the ids of its nodes are others, and in another dialect its documents.
        folder = replace(named, dialect=choose_dialect(named, settings))
        try:
            found.append(look_at_folder(connection, folder, allowed, settings, is_anew=is_anew or folder != old))
        except DocumentsError as error:
            if is_anew:
                raise DocumentsError(f"{error}; bring it back, or make another index with --index") from error
            listing = Listing((), (Skipped(".", f"the folder is kept as it was: {error}"),))
            known = sum(bool(file.key) for file in reading.files(connection, old.key).values())
            found.append(FolderChanges(old, listing, unchanged=known, problem=str(error)))
    return found


def list_documents(folder: Path, settings: DocumentSettings) -> Listing:
    """List the documents of a folder with their sizes and times: milliseconds for thousands of files."""
    try:
        return list_files(folder, settings.ignore)
    except CorpusError as error:
        raise DocumentsError(str(error)) from error


def choose_dialect(folder: StoredFolder, settings: DocumentSettings) -> str:
    """Return the name of the dialect of a folder: the one that is set, else that of its markers."""
    if settings.dialect != "auto":
        return str(settings.dialect)
    path = Path(folder.path)
    return find_dialect(path) if path.exists() else folder.dialect


def look_at_folder(
    connection: Connection,
    folder: StoredFolder,
    named: Collection[str],
    settings: DocumentSettings,
    *,
    is_anew: bool,
) -> FolderChanges:
    """Find what changed in a folder; DocumentsError when it is not named, or empty now: a drive is not mounted.

    `named` are the folders that this user has named: an index from elsewhere may hold any.
    """
    if folder.path not in named:
        raise DocumentsError(explain_refusal(folder.path))
    known = reading.files(connection, folder.key)
    if is_anew:  # then none looks the same
        known = {path: file._replace(size=-1) for path, file in known.items()}
    listing = list_documents(Path(folder.path), settings)
    if known and not listing.files:
        raise DocumentsError(f"{folder.path} holds no documents any more (is a drive not mounted?)")
    return detect_changes(folder, known, listing)


def detect_changes(folder: StoredFolder, known: Mapping[str, StoredDocument], listing: Listing) -> FolderChanges:
    """Compare sizes, times and inodes with what the index knows, by path; where these cannot tell, contents.

    What could not be read is known too, without a key: it is tried again when it looks different.
    """
    changes = FolderChanges(folder, listing)
    present = {file.path: file for file in listing.files if not folder.forgets(file.path)}
    for path, file in present.items():
        old = known.get(path)
        # Every write sets the ctime, and nobody can set it back.
        if old and old.ctime_ns != UNTRUSTED and old[2:-1] == file[2:]:
            changes.unchanged += bool(old.key)
        elif old is None or not old.key:
            changes.differing.append(file)
        elif old.size != file.size or read_digest(file) != old.digest:
            changes.differing.append(file)
            changes.outdated.append(old)
        else:
            changes.unchanged += 1
            if (now := describe_file(old.key, file, old.digest)) != old:
                changes.touched.append(now)
    changes.gone = [document for path, document in known.items() if document.key and path not in present]
    return changes


def read_digest(file: SourceFile) -> str:
    """Return the digest of a file's content; empty for one that cannot be read."""
    with suppress(UnreadableDocumentError), isolate(file.path):
        return read_document(file).digest
    return ""


def describe_file(key: int, file: SourceFile, digest: str) -> StoredDocument:
    """Return the file as the index keeps it."""
    is_young = file.ctime_ns > time.time_ns() - YOUNG_NS
    ctime_ns = UNTRUSTED if is_young else file.ctime_ns
    return StoredDocument(key, file.path, file.size, file.mtime_ns, ctime_ns, file.inode, digest)


@contextmanager
def isolate(path: str) -> Iterator[None]:
    """Turn an unexpected error while one document is read into an UnreadableDocumentError."""
    try:
        yield
    except (CorpusError, RetrieverError, OSError):  # an OSError is of a disk or of the encoder's server
        raise
    except Exception as error:  # whatever a document sets off, the others are indexed and found
        log.info("%s", path, exc_info=True)
        reason = f"left out because of a bug, please report it: {error!r:.200}"
        raise UnreadableDocumentError(path, reason) from error
