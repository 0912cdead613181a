"""Folders -> an index that follows them, save by save.

The system's notice of a change is only a reason to look: the listing of the folders decides whether there is something
to index. So a file that is ignored, or saved under another name and renamed, is never mistaken for a document.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pageindex.corpus import Listing, SourceFile
from retriever.errors import DocumentsError, RetrieverError
from retriever.indexing.changes import YOUNG_NS, list_documents
from retriever.indexing.report import IndexReport
from retriever.settings.schema import DocumentSettings

SETTLED_MS = 300  # the saves of an editor, or a branch switch, are over when nothing has changed for this long
LONGEST_BURST_MS = 10_000  # where files never stop changing, the index follows after this long
LOOK_MS = 500  # how often the folders are compared with those that are watched: one that is made again is another
RETRY_S = 10.0  # a failed run is tried again after this long, or when something changes


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One update of the index."""

    # Documents that looked different from the run before, sorted: the folder, and the path in it.
    files: tuple[tuple[str, str], ...]
    report: IndexReport


class Watcher:
    """Keeps one index up to date with its folders.

    Args:
        folders: absolute.
        settings: which files of them are documents.
        update: indexes some of the folders.
    """

    def __init__(
        self, folders: Sequence[Path], settings: DocumentSettings, update: Callable[[Sequence[Path]], IndexReport]
    ) -> None:
        self._folders = folders
        self._documents = settings
        self._index = update
        self._known: dict[str, frozenset[SourceFile]] = {}
        self._seen: dict[str, Listing | str] = {}
        self._young_ns = 0
        self._failed: dict[str, Listing | str] = {}
        self._retry_at = 0.0

    def follow(self) -> Iterator[WatchEvent | RetrieverError]:
        """Indexes at once, then after every change; yields each run, and each later failure, which is tried again."""
        yield self._update(self._look(), self._folders)
        reported = ""
        for is_notified in wait_for_changes(self._folders):
            if not (is_notified or self._failed):
                continue
            now = self._look()
            # A notice may be of a file that is no document, and a save may leave size and times as they were.
            is_same = now == self._seen
            is_settled = is_same and not (is_notified and self._has_young(now))
            if is_settled or (now == self._failed and time.monotonic() < self._retry_at):
                continue
            try:
                filled = [Path(folder) for folder, found in now.items() if isinstance(found, Listing) and found.files]
                event = self._update(now, filled)  # the index itself decides about folders that are away or empty
            except RetrieverError as error:
                self._failed, self._retry_at = now, time.monotonic() + RETRY_S
                # A folder that is away for a night is one line, not one every ten seconds.
                if str(error) != reported:
                    reported = str(error)
                    yield error
            else:
                reported = ""
                if event.report.changed or not is_same:
                    yield event

    def _look(self) -> dict[str, Listing | str]:
        """What each folder holds, or why it cannot be listed."""
        found: dict[str, Listing | str] = {}
        for folder in self._folders:
            try:
                found[str(folder)] = list_documents(folder, self._documents)
            except DocumentsError as error:
                found[str(folder)] = str(error)
        return found

    def _has_young(self, now: Mapping[str, Listing | str]) -> bool:
        """Whether a file was so young in the last run that a save since then may have left its times as they were."""
        listings = [found for found in now.values() if isinstance(found, Listing)]
        return any(file.ctime_ns > self._young_ns for listing in listings for file in listing.files)

    def _update(self, now: Mapping[str, Listing | str], docs: Sequence[Path]) -> WatchEvent:
        # Before the run: a file that is saved while it goes on is looked at once more.
        young_ns = time.time_ns() - YOUNG_NS
        report = self._index(docs)
        files = {folder: frozenset(found.files) for folder, found in now.items() if isinstance(found, Listing)}
        different = {
            (folder, file.path) for folder in files for file in files[folder] ^ self._known.get(folder, frozenset())
        }
        self._seen, self._young_ns, self._failed = dict(now), young_ns, {}
        self._known |= files
        return WatchEvent(tuple(sorted(different)), report)


def wait_for_changes(folders: Sequence[Path]) -> Iterator[bool]:
    """Yields every LOOK_MS at the latest: whether something may have changed meanwhile."""
    from watchfiles import watch  # 60 ms, where something is watched

    while True:
        watched = identify_folders(folders)
        is_notified = True  # something may have changed before the watching began
        try:
            for changes in watch(
                *(folder for folder in folders if watched[folder]),
                watch_filter=None,
                step=SETTLED_MS,
                debounce=LONGEST_BURST_MS,
                rust_timeout=LOOK_MS,
                yield_on_timeout=True,
                ignore_permission_denied=True,
            ):
                yield is_notified or bool(changes)
                is_notified = False
                if identify_folders(folders) != watched or any(Path(path) in watched for _, path in changes):
                    break
        except FileNotFoundError:  # it went away just now
            continue
        except OSError as error:
            raise DocumentsError(
                f"the folders cannot be watched: {error}; with WATCHFILES_FORCE_POLLING=1 they are looked at in turn"
            ) from error


def identify_folders(folders: Sequence[Path]) -> dict[Path, tuple[int, int] | None]:
    """The device and inode of each folder, which tell it from another one under its name; None where there is none."""
    found: dict[Path, tuple[int, int] | None] = {}
    for folder in folders:
        try:
            status = folder.stat()
            found[folder] = status.st_dev, status.st_ino
        except OSError:
            found[folder] = None
    return found
