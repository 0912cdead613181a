"""Folders -> an index that follows them, save by save.

What the system tells of changes is a reason to look, no more: whether there is something to index, the listing of the
folders decides. So a file that is ignored, or saved under another name and renamed, is never mistaken for a document.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pageindex.files import Listing, SourceFile
from retriever.api import index_folders, index_request
from retriever.errors import DocumentsError, RetrieverError
from retriever.indexing.changes import YOUNG_NS, list_documents
from retriever.types import IndexReport, Progress

SETTLED_MS = 300
"""A burst of changes is over when nothing has changed for so long: the saves of an editor, a branch switch."""
LONGEST_BURST_MS = 10_000
"""Where files never stop changing, what there is after so long is indexed."""
LOOK_MS = 500
"""So often it is checked that the folders are those that are watched: one that is made again is another."""
RETRY_S = 10.0
"""A run that failed is tried again after so many seconds, or when something changes."""


@dataclass(frozen=True, slots=True)
class Run:
    """One time that the index was brought up to date."""

    files: tuple[tuple[str, str], ...]
    """Documents that looked different from the run before, sorted: the folder, and the path in it."""
    report: IndexReport


class Follower:
    """Keeps one index up to date with its folders; the arguments are those of `index_folders`."""

    def __init__(
        self,
        docs: Sequence[str | Path],
        index: str | Path | None,
        profile: str,
        settings: Mapping[str, Any] | None,
        progress: Progress | None,
    ) -> None:
        request = index_request(docs, index, profile, settings)
        self._folders = request.docs
        self._documents = request.profile.documents
        self._index_with = (request.index, profile, settings, progress)
        self._known: dict[str, frozenset[SourceFile]] = {}
        self._seen: dict[str, Listing | str] = {}
        self._young_ns = 0
        self._failed: dict[str, Listing | str] = {}
        self._retry_at = 0.0

    def follow(self) -> Iterator[Run | RetrieverError]:
        """Indexes at once, then after every change, until it is interrupted.

        Yields:
            Each run; a failure, which is tried again, once.

        Raises:
            RetrieverError: the first run failed.
        """
        yield self._run(self._look(), self._folders)
        said = ""
        for is_told in wakes(self._folders):
            if not (is_told or self._failed):
                continue
            now = self._look()
            is_same = now == self._seen
            is_settled = is_same and not (is_told and self._has_young(now))
            if is_settled or (now == self._failed and time.monotonic() < self._retry_at):
                continue
            try:
                run = self._run(now, [Path(folder) for folder, found in now.items() if _has_documents(found)])
            except RetrieverError as error:
                self._failed, self._retry_at = now, time.monotonic() + RETRY_S
                if str(error) != said:
                    said = str(error)
                    yield error
            else:
                said = ""
                if run.report.changed or not is_same:
                    yield run

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

    def _run(self, now: Mapping[str, Listing | str], docs: Sequence[Path]) -> Run:
        """Indexes: folders that are away or empty are known to the index, which decides about them."""
        index, profile, settings, progress = self._index_with
        young_ns = time.time_ns() - YOUNG_NS
        report = index_folders(docs, index, profile, settings, progress)
        files = {folder: frozenset(found.files) for folder, found in now.items() if isinstance(found, Listing)}
        different = {
            (folder, file.path) for folder in files for file in files[folder] ^ self._known.get(folder, frozenset())
        }
        self._seen, self._young_ns, self._failed = dict(now), young_ns, {}
        self._known |= files
        return Run(tuple(sorted(different)), report)


def _has_documents(found: Listing | str) -> bool:
    return isinstance(found, Listing) and bool(found.files)


def wakes(folders: Sequence[Path]) -> Iterator[bool]:
    """Comes back every LOOK_MS at the latest, and says whether something may have changed meanwhile.

    Raises:
        KeyboardInterrupt: a handler of a signal raised something.
        DocumentsError: the system cannot watch the folders.
    """
    from watchfiles import watch  # 60 ms, where something is watched

    while True:
        watched = identities(folders)
        is_told = True  # what changed before the watching began was told to nobody
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
                yield is_told or bool(changes)
                is_told = False
                if identities(folders) != watched or any(Path(path) in watched for _, path in changes):
                    break
        except FileNotFoundError:  # it went away just now
            continue
        except OSError as error:
            raise DocumentsError(
                f"the folders cannot be watched: {error}; with WATCHFILES_FORCE_POLLING=1 they are looked at in turn"
            ) from error


def identities(folders: Sequence[Path]) -> dict[Path, tuple[int, int] | None]:
    """What tells each folder from another one under its name; None where there is none."""
    found: dict[Path, tuple[int, int] | None] = {}
    for folder in folders:
        try:
            status = folder.stat()
            found[folder] = status.st_dev, status.st_ino
        except OSError:
            found[folder] = None
    return found
