"""A folder on disk as a sorted list of documents, and the text of each.

Nothing here trusts the folder: links that leave it are not followed, only regular files are opened, and whatever is
not read is named with its reason. Ignore rules are in `ignore.py`.

CorpusError
├── UnreadableFolderError       the folder to be indexed is missing or cannot be listed
├── UnreadableDocumentError     one file cannot be read as text
└── IgnorePatternError          a pattern of the caller is no gitignore pattern (raised by `ignore.py`)
"""

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pageindex.text import NotTextError, decode, digest_of, with_lf

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


# Which paths a folder's .gitignore files and the caller's patterns exclude.

MAX_WILDCARDS = 3
"""In one name, and of `**` in one pattern. Patterns become regular expressions whose time is the length of a name to
the power of its wildcards, and whoever writes the .gitignore of a folder writes its names too."""


KEPT_CHARS = 64_000
"""A .gitignore of at most so many characters is parsed once: each look at a folder and at a file meets it again."""
KEPT_PATTERNS = 1_000


class CorpusError(Exception):
    """A folder or a file cannot be read as documents."""


class IgnorePatternError(CorpusError):
    """A pattern of the caller is no gitignore pattern."""


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The rules that hold in one folder."""

    caller: "GitIgnoreSpec | None" = None
    """The caller's patterns: asked first."""
    layers: "tuple[tuple[int, GitIgnoreSpec], ...]" = ()
    """One for each .gitignore above, innermost first: (how many characters of a path lead to its folder, patterns)."""

    @classmethod
    def of_caller(cls, patterns: tuple[str, ...]) -> "IgnoreRules":
        """Rules of patterns given by the caller.

        Raises:
            IgnorePatternError: one of them is no pattern.
        """
        return cls(_spec(patterns) if patterns else None)

    def below(self, folder: str, patterns: tuple[str, ...]) -> "IgnoreRules":
        """These rules and the ones of a .gitignore in `folder`."""
        if not patterns:
            return self
        spec = _kept_spec(patterns) if len(patterns) <= KEPT_PATTERNS else _spec(patterns)
        layer = (len(folder) + 1 if folder else 0, spec)
        return IgnoreRules(self.caller, (layer, *self.layers))

    def ignores(self, path: str) -> bool:
        """Whether a path relative to the root is excluded; a folder's path ends with `/`."""
        asked = ((0, self.caller), *self.layers) if self.caller else self.layers
        for skip, spec in asked:
            verdict = spec.check_file(path[skip:]).include
            if verdict is not None:
                return verdict
        return False


def read_ignore_file(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The patterns of a .gitignore, and its mistakes as clauses; git passes over a pattern that is none as well."""
    return (_read_patterns if len(text) <= KEPT_CHARS else _read_patterns.__wrapped__)(text)


@lru_cache(maxsize=64)
def _read_patterns(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    patterns, mistakes = [], []
    for number, line in enumerate(with_lf(text).split("\n"), start=1):
        if _is_slow(line):
            mistakes.append(f"line {number} is not obeyed: more than {MAX_WILDCARDS} wildcards in one name")
        elif not _is_pattern(line):
            mistakes.append(f"line {number} is not obeyed: no pattern")
        else:
            patterns.append(line)
    return tuple(patterns), tuple(mistakes)


def _is_slow(pattern: str) -> bool:
    names = pattern.split("/")
    return names.count("**") > MAX_WILDCARDS or any(name.count("*") > MAX_WILDCARDS for name in names)


def _is_pattern(line: str) -> bool:
    try:
        _spec([line])
    except IgnorePatternError:
        return False
    return True


def _spec(patterns: Iterable[str]) -> "GitIgnoreSpec":
    """What pathspec makes of gitignore patterns.

    Raises:
        IgnorePatternError: one of them is no pattern.
    """
    from pathspec import GitIgnoreSpec  # 12 ms, where there are patterns
    from pathspec.patterns.gitignore import GitIgnorePatternError

    try:
        return GitIgnoreSpec.from_lines(patterns)
    except GitIgnorePatternError as error:
        raise IgnorePatternError(f"not a gitignore pattern: {error}") from error


_kept_spec = lru_cache(maxsize=64)(_spec)


# The bytes of a regular file inside a folder, whatever was put in its place since the folder was listed.

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


DOCUMENT_SUFFIXES = (".md", ".markdown", ".mdx", ".txt")
MAX_FILE_BYTES = 10_000_000
"""No document written by people is that long; a longer one is data."""


class UnreadableFolderError(CorpusError):
    """The folder to be indexed is missing or cannot be listed."""


class UnreadableDocumentError(CorpusError):
    """One file cannot be read as text.

    Attributes:
        reason: why, as a clause without the file's name.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class CorpusOptions:
    """Which files of a folder are documents."""

    suffixes: tuple[str, ...] = DOCUMENT_SUFFIXES
    """Endings of document names, lower case, with their dot; names are compared without regard to case."""
    ignore: tuple[str, ...] = ()
    """gitignore patterns relative to the folder; they win over every .gitignore."""
    max_file_bytes: int = MAX_FILE_BYTES
    """A larger file is skipped by name, unread."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A document as the folder lists it, not yet read."""

    path: str
    """Relative to the indexed folder, `/` on every system."""
    absolute: str
    """Where it is; no Path, which would take as long as the look at the disk."""
    size: int
    """Bytes."""
    mtime_ns: int
    """When it says that it was written, in nanoseconds since 1970: anybody can set it."""
    ctime_ns: int = 0
    """When it was last changed, likewise: the system alone sets it. 0: not known."""
    inode: int = 0
    """Another one: it is another file under the same path, or the file system gives no lasting ones."""

    @property
    def root(self) -> str:
        """The indexed folder, absolute."""
        return self.absolute[: -len(self.path)] or self.absolute


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that could have been a document and was not read."""

    path: str
    """Relative to the indexed folder; bytes that are not UTF-8 as `\\xNN`. Not escaped for a terminal."""
    reason: str
    """Why, as a clause."""


_Found = TypeVar("_Found", SourceFile, Skipped)


@dataclass(frozen=True, slots=True)
class Listing:
    """What a folder holds."""

    files: tuple[SourceFile, ...]
    """Sorted by path."""
    skipped: tuple[Skipped, ...]
    """Sorted by path. What is hidden, ignored or not named like a document is not among them."""


@dataclass(frozen=True, slots=True)
class DocumentText:
    """The text of one document."""

    text: str
    """Decoded; every line end is LF, and lines are counted as an editor counts them."""
    digest: str
    """SHA-256 of the bytes on disk, 64 hex digits."""
    size: int
    """Bytes on disk."""
    mtime_ns: int
    """This and the next two as they were when these bytes were read, and as `SourceFile` has them."""
    ctime_ns: int
    inode: int
    warnings: tuple[str, ...]
    """What was replaced to make it text, as clauses."""


@dataclass(slots=True)
class _Walk:
    """The state of one listing."""

    root: str
    options: CorpusOptions
    files: list[SourceFile] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    links: list[tuple[str, str]] = field(default_factory=list)
    """Links that stay inside the folder: (path, path of what they point at)."""
    folders: set[str] = field(default_factory=set)
    """Paths of the folders that were listed."""

    def skip(self, path: str, reason: str) -> None:
        """Name what is not read."""
        self.skipped.append(Skipped(printable_path(path), reason))


def list_files(root: Path, options: CorpusOptions | None = None) -> Listing:
    """The documents below `root`; one stat for each of them and none for other files.

    Hidden names (with a leading dot) and ignored ones are passed over. A link that stays inside the folder adds
    nothing, because what it points at is listed under its own path.

    Raises:
        UnreadableFolderError: `root` itself cannot be listed.
        IgnorePatternError: one of `options.ignore` is no pattern.
    """
    walk = _Walk(os.path.realpath(root), options or CorpusOptions())
    rules = IgnoreRules.of_caller(walk.options.ignore)
    pending: list[tuple[str, IgnoreRules]] = [("", rules)]
    while pending:  # a loop, not recursion: folders may be nested deeper than Python's stack
        folder, rules = pending.pop()
        pending.extend(_list_folder(walk, folder, rules))
    _name_lost_links(walk)
    return Listing(_by_path(walk.files), _by_path(walk.skipped))


def _by_path(found: list[_Found]) -> tuple[_Found, ...]:
    return tuple(sorted(found, key=lambda item: item.path))


def _list_folder(walk: _Walk, folder: str, rules: IgnoreRules) -> Iterator[tuple[str, IgnoreRules]]:
    """Note the folder's documents; yield the folders in it, with the rules that hold there."""
    try:
        with os.scandir(os.path.join(walk.root, folder)) as found:  # noqa: PTH118 - a third of the time of Path
            entries = list(found)
    except OSError as error:
        if not folder:
            raise UnreadableFolderError(f"{walk.root}: {_os_reason(error)}") from error
        walk.skip(folder, f"the folder cannot be listed: {_os_reason(error)}")
        return
    walk.folders.add(folder)
    if any(entry.name == ".gitignore" for entry in entries):
        rules = _with_gitignore(walk, folder, rules)
    for entry in entries:
        path = f"{folder}/{entry.name}" if folder else entry.name
        if not entry.name.startswith(".") and _note_entry(walk, entry, path, rules):
            yield path, rules


def _note_entry(walk: _Walk, entry: os.DirEntry[str], path: str, rules: IgnoreRules) -> bool:
    """Note a document or a link; True for a folder to be listed."""
    if entry.is_dir(follow_symlinks=False):
        return not rules.ignores(f"{path}/") and _has_utf8_name(walk, entry.name, path)
    if entry.is_symlink():
        if not rules.ignores(path) and not rules.ignores(f"{path}/"):
            _note_link(walk, entry, path)
    elif _is_document(entry.name, walk.options) and not rules.ignores(path):
        _note_file(walk, entry, path)
    return False


def _with_gitignore(walk: _Walk, folder: str, rules: IgnoreRules) -> IgnoreRules:
    """The rules inside a folder that has a .gitignore."""
    path = f"{folder}/.gitignore" if folder else ".gitignore"
    try:
        raw = read_regular(walk.root, path, MAX_FILE_BYTES)[0]
    except OSError as error:
        walk.skip(path, f"its patterns are not obeyed: {_os_reason(error)}")
        return rules
    patterns, mistakes = read_ignore_file(raw.decode("utf-8", "replace"))
    for mistake in mistakes:
        walk.skip(path, mistake)
    return rules.below(folder, patterns)


def _note_file(walk: _Walk, entry: os.DirEntry[str], path: str) -> None:
    """Add a file with a document's name, or say why not."""
    if not _has_utf8_name(walk, entry.name, path):
        return
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError as error:
        walk.skip(path, _os_reason(error))
        return
    if not stat.S_ISREG(status.st_mode):
        walk.skip(path, "not a regular file")
    elif status.st_size > walk.options.max_file_bytes:
        walk.skip(path, f"{status.st_size:,} bytes, more than the limit of {walk.options.max_file_bytes:,}")
    else:
        walk.files.append(SourceFile(path, entry.path, *identify(status)))


def _note_link(walk: _Walk, entry: os.DirEntry[str], path: str) -> None:
    """Remember a link that stays inside the folder, or say why it is not followed."""
    try:
        target = os.path.realpath(entry.path, strict=True)
        is_folder = entry.is_dir()
    except FileNotFoundError:
        walk.skip(path, "a link to nothing")
        return
    except OSError as error:
        walk.skip(path, f"a link that cannot be followed: {_os_reason(error)}")
        return
    if not is_folder and not _is_document(entry.name, walk.options):
        return
    if target != walk.root and not target.startswith(walk.root.rstrip(os.sep) + os.sep):
        walk.skip(path, "a link that leaves the folder")
    else:
        walk.links.append((path, os.path.relpath(target, walk.root).replace(os.sep, "/")))


def _name_lost_links(walk: _Walk) -> None:
    """Name the links whose target is not listed either; a silent one would lose what it points at."""
    listed = {file.path for file in walk.files} | walk.folders | {"."}
    for path, target in walk.links:
        if target not in listed:
            walk.skip(path, f"a link to {printable_path(target)}, which is hidden, ignored or not read")


def _is_document_path(path: str, options: CorpusOptions) -> bool:
    """Whether no part of a path is hidden or leads out of the folder, and its name is that of a document."""
    if os.sep != "/" and (os.sep in path or ":" in path):  # Windows
        return False
    parts = path.split("/")
    is_plain = "\0" not in path and all(part and not part.startswith(".") for part in parts)
    return is_plain and _is_document(parts[-1], options)


def _is_document(name: str, options: CorpusOptions) -> bool:
    return name.lower().endswith(options.suffixes)


def _has_utf8_name(walk: _Walk, name: str, path: str) -> bool:
    """Whether a name can be stored and printed; names one that cannot."""
    if name.isascii() or not any("\ud800" <= char <= "\udfff" for char in name):
        return True
    walk.skip(path, "its name is not UTF-8")
    return False


def find_document(root: str, path: str, options: CorpusOptions | None = None) -> SourceFile:
    """The document at a path that somebody else names, under the rules of `list_files`.

    Args:
        root: the folder, absolute.
        path: the document's below it, with `/`.
        options: which files are documents.

    Raises:
        UnreadableDocumentError: `list_files` would not list it; the reason says why.
        IgnorePatternError: one of `options.ignore` is no pattern.
    """
    walk = _Walk(root, options or CorpusOptions())
    rules = IgnoreRules.of_caller(walk.options.ignore)
    if not _is_document_path(path, walk.options):
        raise UnreadableDocumentError(path, "its path is not that of a document in the folder")
    parts = path.split("/")
    here = ""
    try:
        for place, part in enumerate(parts, start=1):
            if os.path.lexists(f"{root}/{here}/.gitignore"):
                rules = _with_gitignore(walk, here, rules)
            here = f"{here}/{part}" if here else part
            status = os.lstat(f"{root}/{here}")
            is_file = place == len(parts)
            if not (stat.S_ISREG if is_file else stat.S_ISDIR)(status.st_mode):
                raise UnreadableDocumentError(path, "not a regular file")
            if rules.ignores(here if is_file else f"{here}/"):
                raise UnreadableDocumentError(path, "it is ignored")
    except OSError as error:
        raise UnreadableDocumentError(path, _os_reason(error)) from error
    if status.st_size > walk.options.max_file_bytes:
        raise UnreadableDocumentError(path, f"more than the limit of {walk.options.max_file_bytes:,} bytes")
    return SourceFile(path, f"{root}/{path}", *identify(status))


def printable_path(path: str) -> str:
    r"""The path with bytes that are not UTF-8 as `\xNN`."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def read_document(file: SourceFile, max_file_bytes: int = MAX_FILE_BYTES) -> DocumentText:
    """The text of a listed file, read in one go.

    Raises:
        UnreadableDocumentError: it vanished, is no regular file any more, is too large, is not text, or changed while
            it was read, twice.
    """
    try:
        for _ in range(2):
            raw, before, after = read_regular(file.root, file.path, max_file_bytes)
            if before == after and len(raw) == before[0]:
                decoded = decode(raw)
                return DocumentText(decoded.text, digest_of(raw), *before, decoded.warnings)
    except NotTextError as error:
        raise UnreadableDocumentError(file.path, str(error)) from error
    except OSError as error:
        raise UnreadableDocumentError(file.path, _os_reason(error)) from error
    raise UnreadableDocumentError(file.path, "it changed while it was read")


def _os_reason(error: OSError) -> str:
    """An error of the system as a clause."""
    return (error.strerror or str(error)).lower()
