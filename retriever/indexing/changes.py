"""What is different between the folders and the index. Reads the disk, writes nothing."""

import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from itertools import chain, count
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
from pageindex.formats import READERS
from pageindex.ignore import CorpusError
from retriever.errors import DocumentsError
from retriever.protocols import Progress
from retriever.settings.schema import DocumentSettings
from retriever.store.reading import StoredDocument, StoredFolder

# A file that changes again this soon after it was read may keep its size and its times: the coarsest clocks of file
# systems tick every two seconds.
YOUNG_NS = 2_000_000_000
# The year 1980: what is older was set (0 and 1 by archives and package managers) or is of a clock that was not.
OLDEST_NS = 315_532_800 * 10**9
_ODD_IN_PREFIX = re.compile(r"[:#\\]|[^\w\x20-\x7e]")  # a prefix is printed as it is, and ends at its colon
UNTRUSTED = 0  # stands for a time that is too young or too old


@dataclass(frozen=True, slots=True)
class StatDiff:
    """How the files of a folder differ from the index, by size, times and inode alone."""

    folder: StoredFolder
    listing: Listing
    new: tuple[SourceFile, ...]
    different: tuple[tuple[StoredDocument, SourceFile], ...]  # known files whose size or mtime is another
    # Known files of the same size and mtime whose ctime or inode is another, or could not be trusted: only their
    # content can tell. After a look into them (`settle_unsure`): those whose rows are worth renewing.
    unsure: tuple[tuple[StoredDocument, SourceFile], ...]
    gone: tuple[StoredDocument, ...]
    unchanged: int  # how many files are known and look the same

    @property
    def is_listed(self) -> bool:
        """Whether the folder could be looked at."""
        return bool(self.listing.files or self.gone)

    @property
    def paths(self) -> list[str]:
        """What has probably changed, sorted; the unsure are not among them."""
        return sorted(
            [file.path for file in self.new]
            + [file.path for _, file in self.different]
            + [document.path for document in self.gone]
        )

    def __len__(self) -> int:
        return len(self.new) + len(self.different) + len(self.gone)

    @property
    def count(self) -> int:
        """How many files it is worth to look into, the unsure included."""
        return len(self) + len(self.unsure)


@dataclass(slots=True)
class Changes:
    """How the documents of a folder differ from the index, by their content."""

    folder: StoredFolder
    unchanged: int
    is_listed: bool = True  # whether it could be looked at
    # New files and their text, None once it was parsed; the document's key is 0.
    added: list[tuple[StoredDocument, DocumentText | None]] = field(default_factory=list)
    # Known files with another content: the document with its old key and what it looks like now.
    changed: list[tuple[StoredDocument, DocumentText | None]] = field(default_factory=list)
    # Known files with the same content and other times or another inode, these new.
    touched: list[StoredDocument] = field(default_factory=list)
    removed: list[StoredDocument] = field(default_factory=list)  # known files that are gone or cannot be read any more
    # Files that cannot be read, with what they look like, and the reason.
    unreadable: list[tuple[StoredDocument, str]] = field(default_factory=list)
    skipped: tuple[Skipped, ...] = ()  # what the listing left out, and why
    units: tuple[int, ...] = ()  # of the queue, which a worker has in hand; empty for a folder that was looked at

    @property
    def rows(self) -> list[StoredDocument]:
        return [document for document, _ in (*self.added, *self.changed)]

    @property
    def replaced(self) -> list[StoredDocument]:
        return [*self.removed, *(document for document, _ in self.changed)]

    @property
    def moved(self) -> int:
        """How many of the added files have the content of a removed one."""
        left = Counter(document.digest for document in self.removed)
        came = Counter(document.digest for document, _ in self.added)
        return (left & came).total()


def list_folders(folders: Sequence[Path], settings: DocumentSettings) -> dict[str, Listing]:
    """The listing of each folder that somebody named, by path; DocumentsError for one without documents."""
    listings = {str(folder): list_documents(folder, settings) for folder in folders}
    for folder, listing in listings.items():
        if not listing.files:
            endings = ", ".join(settings.suffixes or READERS)
            raise DocumentsError(f"{folder} holds no documents ({endings}); name the folder that does")
    return listings


def name_folders_apart(folders: Sequence[StoredFolder]) -> list[StoredFolder]:
    """The folders of an index, each of several with a prefix: its name, with as much above it as tells it apart.

    One alone has none. A prefix stays when other folders come or go, for it is in the ids of nodes.
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


def list_documents(folder: Path, settings: DocumentSettings) -> Listing:
    """The documents of a folder with their sizes and times: milliseconds for thousands of files."""
    try:
        return list_files(folder, CorpusOptions(settings.suffixes, settings.ignore, settings.max_file_bytes))
    except CorpusError as error:
        raise DocumentsError(str(error)) from error


def list_known_folder(folder: StoredFolder, known: Sized, settings: DocumentSettings) -> Listing:
    """The same of an indexed folder; DocumentsError too where none of its documents is left: a drive is not mounted."""
    listing = list_documents(Path(folder.path), settings)
    if known and not listing.files:
        raise DocumentsError(f"{folder.path} holds no documents any more (is a drive not mounted?)")
    return listing


def detect_changes(folder: StoredFolder, known: Mapping[str, StoredDocument], listing: Listing) -> StatDiff:
    """Compares sizes, times and inodes with what the index knows, by path."""
    present = {file.path: file for file in listing.files if not folder.forgets(file.path)}
    different, unsure, unchanged = [], [], 0
    for path, file in present.items():
        old = known.get(path)
        if old is None:
            continue
        if old.size != file.size or old.mtime_ns not in (file.mtime_ns, UNTRUSTED):
            different.append((old, file))
        elif old.ctime_ns == UNTRUSTED or (old.ctime_ns, old.inode) != (file.ctime_ns, file.inode):
            unsure.append((old, file))
        else:  # every write sets the ctime, and nobody can set it back
            unchanged += 1
    new = tuple(file for path, file in present.items() if path not in known)
    gone = tuple(document for path, document in known.items() if path not in present)
    return StatDiff(folder, listing, new, tuple(different), tuple(unsure), gone, unchanged)


# Files by absolute path, as they were listed when their content was read, and its digest.
Digests = dict[str, tuple[SourceFile, str]]


def settle_unsure(diff: StatDiff, max_file_bytes: int, digests: Digests | None = None) -> StatDiff:
    """The difference after a look into the unsure files: each is different, or its row is renewed, or nothing is."""
    digests = {} if digests is None else digests
    different: list[tuple[StoredDocument, SourceFile]] = []
    same: list[tuple[StoredDocument, SourceFile]] = []
    for old, file in diff.unsure:
        looked, digest = digests.get(file.absolute, (None, ""))
        if looked != file:
            try:
                digest = read_document(file, max_file_bytes).digest
                if trust_time(file.ctime_ns) != UNTRUSTED:
                    digests[file.absolute] = file, digest
            except UnreadableDocumentError:
                digest = ""  # what could not be read when it was indexed is known by this
        (same if digest == old.digest else different).append((old, file))
    renewed = tuple((old, file) for old, file in same if describe_file(old.key, file, old.digest) != old)
    unchanged = diff.unchanged + len(same)
    return replace(diff, different=(*diff.different, *different), unsure=renewed, unchanged=unchanged)


def read_changes(diff: StatDiff, max_file_bytes: int, progress: Progress) -> Changes:
    """Read the files that differ, and compare contents; the progress is told of those that are surely different."""
    changes = Changes(diff.folder, diff.unchanged, removed=list(diff.gone), skipped=diff.listing.skipped)
    changes.is_listed = diff.is_listed
    new = [(describe_file(0, file, ""), file) for file in diff.new]
    total = len(new) + len(diff.different)
    if total:
        progress.start("reading", total, "files")
    for done, (old, file) in enumerate((*new, *diff.different, *diff.unsure), start=1):
        if done <= total:
            progress.advance("reading", done)
        try:
            text = read_document(file, max_file_bytes)
        except UnreadableDocumentError as error:
            changes.unreadable.append((describe_file(0, file, ""), error.reason))
            changes.removed.extend([old] if old.key else [])
            continue
        seen = file._replace(size=text.size, mtime_ns=text.mtime_ns, ctime_ns=text.ctime_ns, inode=text.inode)
        now = describe_file(old.key, seen, text.digest)
        if old.digest != now.digest:
            (changes.changed if old.key else changes.added).append((now, text))
        elif old != now:
            changes.touched.append(now)
        else:
            changes.unchanged += 1
    if total:
        progress.finish("reading")
    return changes


def describe_file(key: int, file: SourceFile, digest: str) -> StoredDocument:
    """The file as the index keeps it."""
    times = trust_time(file.mtime_ns), trust_time(file.ctime_ns)
    return StoredDocument(key, file.path, file.size, times[0], digest, times[1], file.inode)


def trust_time(time_ns: int) -> int:
    """The time, if it is not too young (the file may change again and keep it) and not older than files are."""
    return time_ns if OLDEST_NS <= time_ns <= time.time_ns() - YOUNG_NS else UNTRUSTED
