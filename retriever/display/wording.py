"""Small phrases that several commands say alike."""

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from retriever.types import IndexState

CITATION_STATES = {
    "exact": "",
    "moved": "moved here since it was indexed",
    "stale": "stale: these lines have changed since they were indexed",
    "gone": "gone: the file can no longer be read",
    "unchecked": "unchecked: as it was indexed; its folder is not looked at until named with --docs",
}
"""What is said beside the lines that are cited, by `CitationState`; nothing where they are what was indexed."""


def doubt(state: str) -> str:
    """A citation's state in a word, two blanks before it; nothing where the lines are what was indexed."""
    return "" if state == "exact" else f"  {state}"


def counted(number: int, noun: str) -> str:
    """`1 file`, `1,203 files`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def freshness(state: "IndexState") -> str:
    """How the index stands to the files on disk."""
    words = []
    if state.refreshed_files:
        words.append(f"{counted(state.refreshed_files, 'file')} re-indexed first")
    if state.stale_files:
        words.append(f"{counted(state.stale_files, 'file')} stale")
    if state.unchecked_folders:
        words.append(f"{counted(state.unchecked_folders, 'folder')} not looked at")
    return ", ".join(words) or "up to date"


def refresh_command(state: "IndexState", index: str | None) -> str:
    """The command that brings the index up to date; `index` as it was given with --index."""
    option = ["--index", index] if index else []
    return shlex.join(["hybrid_retrieve.py", "index", *option, *state.folders])


def size(number: int) -> str:
    """Bytes for people, in powers of 1000: `22.9 MB`."""
    if number < 1000:
        return f"{number} bytes"
    amount = float(number)
    for unit in ("kB", "MB", "GB"):
        amount /= 1000
        if amount < 1000:
            return f"{amount:.1f} {unit}"
    return f"{amount / 1000:.1f} TB"
