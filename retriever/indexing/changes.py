"""What is different between the folders and the index. Reads the disk, writes nothing."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pageindex.corpus import (
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
from retriever.settings.profile import DocumentSettings
from retriever.store.reading import StoredDocument, StoredFolder

YOUNG_NS = 2_000_000_000
"""A file changed again so soon after it was read may keep its size and its time: the coarsest clocks of file systems
tick every two seconds."""
UNTRUSTED = 0
"""Stands for the time of such a file."""


@dataclass(frozen=True, slots=True)
class Suspects:
    """What sizes and times alone say about a folder."""

    folder: StoredFolder
    listing: Listing
    new: tuple[SourceFile, ...]
    different: tuple[tuple[StoredDocument, SourceFile], ...]
    """Known files whose size or time is another."""
    doubtful: tuple[tuple[StoredDocument, SourceFile], ...]
    """Known files of the same size whose time was too young to be trusted: only their content can tell."""
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
    """Known files with another content: the document with its old key and its new size, time and digest."""
    touched: list[StoredDocument] = field(default_factory=list)
    """Known files with the same content and another size or time, these new."""
    removed: list[StoredDocument] = field(default_factory=list)
    """Known files that are gone or cannot be read any more."""
    unreadable: list[tuple[StoredDocument, str]] = field(default_factory=list)
    """Files that cannot be read, with their size and time, and the reason."""
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
    """Compares sizes and times with what the index knows, by path."""
    present = {file.path: file for file in listing.files if not folder.forgets(file.path)}
    pairs = [(known[path], file) for path, file in present.items() if path in known]
    suspect = [(old, file) for old, file in pairs if (old.size, old.mtime_ns) != (file.size, file.mtime_ns)]
    doubtful = tuple(pair for pair in suspect if _is_doubtful(*pair))
    different = tuple(pair for pair in suspect if not _is_doubtful(*pair))
    new = tuple(file for path, file in present.items() if path not in known)
    gone = tuple(document for path, document in known.items() if path not in present)
    return Suspects(folder, listing, new, different, doubtful, gone, len(pairs) - len(suspect))


def _is_doubtful(old: StoredDocument, file: SourceFile) -> bool:
    return (old.size, old.mtime_ns) == (file.size, UNTRUSTED)


def without_doubt(suspects: Suspects, max_file_bytes: int) -> Suspects:
    """The suspects after a look into the doubtful files: each is different, or none."""
    different = tuple(pair for pair in suspects.doubtful if _digest(pair[1], max_file_bytes) != pair[0].digest)
    unchanged = suspects.unchanged + len(suspects.doubtful) - len(different)
    return replace(suspects, different=suspects.different + different, doubtful=(), unchanged=unchanged)


def _digest(file: SourceFile, max_file_bytes: int) -> str:
    """Of the file's content; of none when it cannot be read."""
    try:
        return read_document(file, max_file_bytes).digest
    except UnreadableDocumentError:
        return ""


def read_suspects(suspects: Suspects, max_file_bytes: int) -> Changes:
    """Reads the suspects and compares contents."""
    changes = Changes(suspects.folder, suspects.unchanged, removed=list(suspects.gone))
    changes.skipped = suspects.listing.skipped
    for file in suspects.new:
        _read(StoredDocument(0, file.path, file.size, file.mtime_ns, ""), file, max_file_bytes, changes)
    for old, file in (*suspects.different, *suspects.doubtful):
        _read(old, file, max_file_bytes, changes)
    return changes


def _read(old: StoredDocument, file: SourceFile, max_file_bytes: int, changes: Changes) -> None:
    try:
        text = read_document(file, max_file_bytes)
    except UnreadableDocumentError as error:
        changes.unreadable.append((StoredDocument(0, file.path, file.size, file.mtime_ns, ""), error.reason))
        changes.removed.extend([old] if old.key else [])
        return
    now = StoredDocument(old.key, file.path, text.size, _trusted(text.mtime_ns), text.digest)
    if not old.key:
        changes.added.append((now, text))
    elif old.digest != now.digest:
        changes.changed.append((now, text))
    elif old != now:
        changes.touched.append(now)
    else:
        changes.unchanged += 1


def _trusted(mtime_ns: int) -> int:
    """The time, if it is not too young: the file may change again and keep it."""
    return UNTRUSTED if time.time_ns() - mtime_ns < YOUNG_NS else mtime_ns
