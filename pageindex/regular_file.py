"""The bytes of a regular file inside a folder, whatever was put in its place since the folder was listed."""

import errno
import os
import stat

_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_FILE = os.O_RDONLY | _NO_LINK | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_FOLDER = os.O_RDONLY | _NO_LINK | getattr(os, "O_DIRECTORY", 0)

Seen = tuple[int, int, int, int]
"""A file's (size, mtime_ns, ctime_ns, inode): what tells, without reading it, whether it is as it was."""


def identify(status: os.stat_result) -> Seen:
    """What tells one state of a file from another.

    ctime is when the content or anything else of the file last changed: nobody can set it. Windows has the time of
    creation in its place, which says nothing, and no inode in listings: mtime and 0 stand for these there.
    """
    if os.name == "nt":
        return status.st_size, status.st_mtime_ns, status.st_mtime_ns, 0
    inode = status.st_ino & (2**63 - 1)  # SQLite keeps no larger number; some file systems have larger ones
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, inode


def read_regular(root: str, path: str, limit: int) -> tuple[bytes, Seen, Seen]:
    """A regular file's bytes, and what it looked like before and after they were read.

    No link below the root is followed, also none that has taken the place of a folder, and a pipe does not block.

    Args:
        root: the indexed folder, absolute.
        path: the file's below it, with `/`.
        limit: in bytes.

    Raises:
        OSError: as the system gives it, and for what is no regular file or larger than the limit.
    """
    return _read(_opened(root, path), limit)


def read_file(path: str | os.PathLike[str], limit: int, *, follow_link: bool = False) -> bytes:
    """A regular file's bytes, of a place that the caller chose; a pipe does not block.

    Args:
        path: the file's.
        limit: in bytes.
        follow_link: whether `path` itself may be a link, as files that a user names may be.

    Raises:
        OSError: as the system gives it, and for what is no regular file or larger than the limit.
    """
    return _read(open_regular(path, follow_link=follow_link), limit)[0]


def open_regular(path: str | os.PathLike[str], flags: int = os.O_RDONLY, *, follow_link: bool = False) -> int:
    """A descriptor of a regular file, for its owner alone where `flags` make it; a pipe does not block.

    Raises:
        OSError: as the system gives it, and for what is no regular file.
    """
    truncates = flags & os.O_TRUNC  # not before it is known what would be cut
    descriptor = os.open(path, (flags & ~truncates) | _FILE & ~(_NO_LINK if follow_link else 0), 0o600)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        if truncates:
            os.truncate(descriptor, 0)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def require_regular(path: str | os.PathLike[str]) -> None:
    """Look at a file that a library is about to open by its name: a pipe would block it, a link lead elsewhere.

    Raises:
        OSError: as the system gives it, and for what is no regular file.
    """
    if not stat.S_ISREG(os.stat(path, follow_symlinks=False).st_mode):  # noqa: PTH116 - takes strings, too
        raise OSError(errno.EINVAL, "not a regular file")


def _read(descriptor: int, limit: int) -> tuple[bytes, Seen, Seen]:
    with open(descriptor, "rb", buffering=0) as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        if status.st_size > limit:
            raise OSError(errno.EFBIG, f"{status.st_size:,} bytes, more than the limit of {limit:,}")
        raw = file.read(status.st_size + 1)  # one byte more shows that it grew
        after = os.fstat(descriptor)
    return raw, identify(status), identify(after)


def _opened(root: str, path: str) -> int:
    """A descriptor of the file, reached step by step: a link in the middle of a path is followed by `open` itself."""
    *folders, name = path.split("/")
    if ".." in folders or name == "..":
        raise OSError(errno.EINVAL, "its path leaves the folder")
    if os.open not in os.supports_dir_fd:  # Windows
        return os.open(os.path.join(root, path), _FILE)  # noqa: PTH118 - strings all along, as in corpus.py
    here = os.open(root, _FOLDER & ~_NO_LINK)
    try:
        for folder in folders:
            inner = os.open(folder, _FOLDER, dir_fd=here)
            os.close(here)
            here = inner
        return os.open(name, _FILE, dir_fd=here)
    finally:
        os.close(here)
