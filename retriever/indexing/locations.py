"""Where an index is when nobody says: one for each set of folders, in the user's data folder."""

import os
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from pageindex.regular_file import read_file
from retriever.disk import writing_to
from retriever.errors import NoIndexError, UsageError

INDEX_VARIABLE = "HYBRID_RETRIEVE_INDEX"
LAST_NAME = "last"
MAX_LAST_BYTES = 4096


def find_index(docs: Sequence[Path], index: str | Path | None) -> Path:
    """The index's folder, absolute; it need not exist.

    Args:
        docs: the folders to be searched, absolute; empty for those of the index used last.
        index: the index's folder; None for HYBRID_RETRIEVE_INDEX, else the one that belongs to `docs`.

    Raises:
        NoIndexError: nothing was named, and nothing has been indexed yet.
        UsageError: nothing was named, and this user has no home folder.
    """
    named = index if index is not None else os.environ.get(INDEX_VARIABLE)
    if named is not None and str(named):
        return absolute(named)
    if docs:
        return _home() / _name(docs)
    try:
        return _home() / read_file(_home() / LAST_NAME, MAX_LAST_BYTES).decode("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise NoIndexError("nothing has been indexed yet; begin with: hybrid_retrieve.py index FOLDER") from None


def remember(index: Path) -> None:
    """Makes an index in the user's data folder the one that is meant when nothing is named.

    Raises:
        StorageError: the folder cannot be written.
    """
    last = _home() / LAST_NAME
    if index.parent != _home():
        return
    with writing_to(last):
        if last.is_file() and last.read_bytes() == os.fsencode(index.name):
            return
        draft = last.with_suffix(f".{os.getpid()}")
        draft.touch(mode=0o600)
        draft.write_text(index.name, encoding="utf-8")
        draft.replace(last)


def is_own(index: Path) -> bool:
    """Whether an index is in the user's data folder, where nobody else puts one."""
    try:
        return index.parent == _home()
    except UsageError:
        return False


def named_file(index: Path) -> Path:
    """Where it is kept, beside the indexes and not in them, which folders of an index this user has named.

    Raises:
        UsageError: this user has no home folder.
    """
    return _home().with_name("folders") / f"{sha256(os.fsencode(absolute(index))).hexdigest()}.json"


def absolute(path: str | Path) -> Path:
    """The path without `~`, links and `..`.

    Raises:
        UsageError: it is no path.
    """
    try:
        return Path(path).expanduser().resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise UsageError(f"{str(path)!r} is no folder: {error}") from error


def _home() -> Path:
    from platformdirs import user_data_path

    try:
        data = user_data_path("hybrid-retrieve", appauthor=False)
    except RuntimeError:
        data = Path()
    if not data.is_absolute():  # older versions of platformdirs give a path in the current folder
        raise UsageError(f"this user has no home folder; name the index with --index or {INDEX_VARIABLE}")
    return data / "indexes"


def _name(docs: Sequence[Path]) -> str:
    """The name of one folder, for people, and a digest of all of them; the same in any order."""
    paths = sorted(map(str, docs))
    readable = "".join(sign if sign.isalnum() or sign in "-_" else "-" for sign in Path(paths[0]).name)[:40]
    digest = sha256(os.fsencode("\n".join(paths))).hexdigest()[:8]
    return f"{readable or 'root'}-{digest}"
