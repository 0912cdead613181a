"""Folders -> an index that follows them, save by save.

The system's notice of a change is only a reason to look: the index itself decides whether there is something to do. So
a file that is ignored, or saved under another name and renamed, is never mistaken for a document.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from retriever.errors import DocumentsError, RetrieverError
from retriever.indexing.request import IndexReport

SETTLED_MS = 300  # the saves of an editor, or a branch switch, are over when nothing has changed for this long
LONGEST_BURST_MS = 10_000  # where files never stop changing, the index follows after this long
LOOK_MS = 500  # how often the folders are compared with those that are watched: one that is made again is another
RETRY_S = 10.0  # a failed run is tried again after this long, or when something changes


def follow_folders(
    folders: Sequence[Path], index: str, update: Callable[[Sequence[Path]], IndexReport]
) -> Iterator[IndexReport | RetrieverError]:
    """Index at once, then after every change.

    Args:
        folders: absolute.
        index: where the paths of the index begin; what is written there is no change.
        update: indexes these folders, or all that the index has.

    Yields:
        Each run that changed something, and each later failure, which is tried again; one that repeats itself once.
    """
    last = update(folders)
    yield last
    failed, retry_at = "", 0.0
    for is_notified in wait_for_changes(folders, index):
        if not is_notified and (not failed or time.monotonic() < retry_at):
            continue
        try:
            report = update(())
        except RetrieverError as error:
            if str(error) != failed:
                yield error
            failed, retry_at = str(error), time.monotonic() + RETRY_S
        else:
            failed = ""
            if report.added or report.changed or report.removed or report.skipped != last.skipped:
                yield report
            last = report


def wait_for_changes(folders: Sequence[Path], index: str) -> Iterator[bool]:
    """Yield every LOOK_MS at the latest: whether something may have changed meanwhile."""
    from watchfiles import watch  # 60 ms, where something is watched

    while True:
        watched = [read_inode(folder) for folder in folders]
        is_notified = True  # something may have changed before the watching began
        try:
            for changes in watch(
                *(folder for folder, inode in zip(folders, watched, strict=True) if inode),
                watch_filter=lambda _, path: not path.startswith(index),
                step=SETTLED_MS,
                debounce=LONGEST_BURST_MS,
                rust_timeout=LOOK_MS,
                yield_on_timeout=True,
                ignore_permission_denied=True,
            ):
                yield is_notified or bool(changes)
                is_notified = False
                if [read_inode(folder) for folder in folders] != watched:
                    break
        except FileNotFoundError:  # it went away just now
            continue
        except OSError as error:
            raise DocumentsError(
                f"the folders cannot be watched: {error}; with WATCHFILES_FORCE_POLLING=1 they are looked at in turn"
            ) from error


def read_inode(folder: Path) -> int:
    """Tell a folder from another one under its name; 0 where there is none."""
    try:
        return folder.stat().st_ino
    except OSError:
        return 0
