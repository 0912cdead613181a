"""What is different between the folders and the index. Reads the disk, writes nothing."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pageindex.files import (
    CorpusOptions,
    DocumentText,
    Listing,
    Skipped,
    SourceFile,
    UnreadableDocumentError,
    list_files,
    read_document,
)
from pageindex.ignore import CorpusError
from retriever.errors import DocumentsError
from retriever.settings.schema import DocumentSettings
from retriever.store.reading import StoredDocument, StoredFolder

YOUNG_NS = 2_000_000_000
"""A file changed again so soon after it was read may keep its size and its times: the coarsest clocks of file systems
tick every two seconds."""
OLDEST_NS = 315_532_800 * 10**9
"""The year 1980: what is older was set (0 and 1 by archives and package managers) or is of a clock that was not."""
UNTRUSTED = 0
"""Stands for a time that is too young or too old."""


@dataclass(frozen=True, slots=True)
class Suspects:
    """What sizes, times and inodes alone say about a folder."""

    folder: StoredFolder
    listing: Listing
    new: tuple[SourceFile, ...]
    different: tuple[tuple[StoredDocument, SourceFile], ...]
    """Known files whose size or mtime is another."""
    doubtful: tuple[tuple[StoredDocument, SourceFile], ...]
    """Known files of the same size and mtime whose ctime or inode is another, or could not be trusted: only their
    content can tell. After a look into them (`without_doubt`): those whose rows are worth renewing."""
    gone: tuple[StoredDocument, ...]
    unchanged: int
    """How many files are known and look the same."""

    @property
    def paths(self) -> list[str]:
        """What has probably changed, sorted; the doubtful are not among them."""
        return sorted(
            [file.path for file in self.new]
            + [file.path for _, file in self.different]
            + [document.path for document in self.gone]
        )

    def __len__(self) -> int:
        return len(self.new) + len(self.different) + len(self.gone)

    @property
    def count(self) -> int:
        """How many files it is worth to look into, the doubtful included."""
        return len(self) + len(self.doubtful)


@dataclass(slots=True)
class Changes:
    """What reading the suspects of a folder says."""

    folder: StoredFolder
    unchanged: int
    added: list[tuple[StoredDocument, DocumentText]] = field(default_factory=list)
    """New files and their text; the document's key is 0."""
    changed: list[tuple[StoredDocument, DocumentText]] = field(default_factory=list)
    """Known files with another content: the document with its old key and what it looks like now."""
    touched: list[StoredDocument] = field(default_factory=list)
    """Known files with the same content and other times or another inode, these new."""
    removed: list[StoredDocument] = field(default_factory=list)
    """Known files that are gone or cannot be read any more."""
    unreadable: list[tuple[StoredDocument, str]] = field(default_factory=list)
    """Files that cannot be read, with what they look like, and the reason."""
    skipped: tuple[Skipped, ...] = ()
    """What the listing left out, and why."""

    @property
    def rows(self) -> list[tuple[StoredDocument, DocumentText]]:
        """What has a new content, and that."""
        return [*self.added, *self.changed]

    @property
    def replaced(self) -> list[StoredDocument]:
        """The documents whose rows go."""
        return [*self.removed, *(document for document, _ in self.changed)]

    @property
    def moved(self) -> int:
        """How many of the added files have the content of a removed one."""
        left = Counter(document.digest for document in self.removed)
        came = Counter(document.digest for document, _ in self.added)
        return (left & came).total()


def list_folders(folders: Sequence[Path], settings: DocumentSettings) -> dict[str, Listing]:
    """The listings of folders that somebody named, by path.

    Raises:
        DocumentsError: as `list_documents`, and for a folder that holds no documents.
    """
    listings = {str(folder): list_documents(folder, settings) for folder in folders}
    for folder, listing in listings.items():
        if not listing.files:
            endings = ", ".join(settings.suffixes)
            raise DocumentsError(f"{folder} holds no documents ({endings}); name the folder that does")
    return listings


def list_documents(folder: Path, settings: DocumentSettings) -> Listing:
    """The documents of a folder with their sizes and times: milliseconds for thousands of files.

    Raises:
        DocumentsError: the folder is missing or cannot be listed, or a pattern to ignore is none.
    """
    try:
        return list_files(folder, CorpusOptions(settings.suffixes, settings.ignore, settings.max_file_bytes))
    except CorpusError as error:
        raise DocumentsError(str(error)) from error


def find_suspects(folder: StoredFolder, known: Mapping[str, StoredDocument], listing: Listing) -> Suspects:
    """Compares sizes, times and inodes with what the index knows, by path."""
    present = {file.path: file for file in listing.files if not folder.forgets(file.path)}
    different, doubtful, unchanged = [], [], 0
    for path, file in present.items():
        old = known.get(path)
        if old is None:
            continue
        if old.size != file.size or old.mtime_ns not in (file.mtime_ns, UNTRUSTED):
            different.append((old, file))
        elif old.ctime_ns == UNTRUSTED or (old.ctime_ns, old.inode) != (file.ctime_ns, file.inode):
            doubtful.append((old, file))
        else:  # every write sets the ctime, and nobody can set it back
            unchanged += 1
    new = tuple(file for path, file in present.items() if path not in known)
    gone = tuple(document for path, document in known.items() if path not in present)
    return Suspects(folder, listing, new, tuple(different), tuple(doubtful), gone, unchanged)


Digests = dict[str, tuple[SourceFile, str]]
"""Files by absolute path, as they were listed when their content was read, and its digest."""


def without_doubt(suspects: Suspects, max_file_bytes: int, digests: Digests | None = None) -> Suspects:
    """The suspects after a look into the doubtful files: each is different, or its row is renewed, or nothing is.

    Args:
        suspects: as `find_suspects` gives them.
        max_file_bytes: a larger file is not read.
        digests: of what was read before; what is read now and cannot change unseen is added.
    """
    digests = {} if digests is None else digests
    different: list[tuple[StoredDocument, SourceFile]] = []
    same: list[tuple[StoredDocument, SourceFile]] = []
    for old, file in suspects.doubtful:
        looked, digest = digests.get(file.absolute, (None, ""))
        if looked != file:
            try:
                digest = read_document(file, max_file_bytes).digest
                if _trusted(file.ctime_ns) != UNTRUSTED:
                    digests[file.absolute] = file, digest
            except UnreadableDocumentError:
                digest = ""  # what could not be read when it was indexed is known by this
        (same if digest == old.digest else different).append((old, file))
    renewed = tuple((old, file) for old, file in same if _describe(old.key, file, old.digest) != old)
    unchanged = suspects.unchanged + len(same)
    return replace(suspects, different=(*suspects.different, *different), doubtful=renewed, unchanged=unchanged)


def read_suspects(suspects: Suspects, max_file_bytes: int) -> Changes:
    """Reads the suspects and compares contents."""
    changes = Changes(suspects.folder, suspects.unchanged, removed=list(suspects.gone))
    changes.skipped = suspects.listing.skipped
    for file in suspects.new:
        _read(_describe(0, file, ""), file, max_file_bytes, changes)
    for old, file in (*suspects.different, *suspects.doubtful):
        _read(old, file, max_file_bytes, changes)
    return changes


def _read(old: StoredDocument, file: SourceFile, max_file_bytes: int, changes: Changes) -> None:
    try:
        text = read_document(file, max_file_bytes)
    except UnreadableDocumentError as error:
        changes.unreadable.append((_describe(0, file, ""), error.reason))
        changes.removed.extend([old] if old.key else [])
        return
    seen = replace(file, size=text.size, mtime_ns=text.mtime_ns, ctime_ns=text.ctime_ns, inode=text.inode)
    now = _describe(old.key, seen, text.digest)
    if not old.key:
        changes.added.append((now, text))
    elif old.digest != now.digest:
        changes.changed.append((now, text))
    elif old != now:
        changes.touched.append(now)
    else:
        changes.unchanged += 1


def _describe(key: int, file: SourceFile, digest: str) -> StoredDocument:
    """The file as the index keeps it."""
    return StoredDocument(
        key, file.path, file.size, _trusted(file.mtime_ns), digest, _trusted(file.ctime_ns), file.inode
    )


def _trusted(time_ns: int) -> int:
    """The time, if it is not too young (the file may change again and keep it) and not older than files are."""
    return time_ns if OLDEST_NS <= time_ns <= time.time_ns() - YOUNG_NS else UNTRUSTED
