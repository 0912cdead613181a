"""A folder on disk as a sorted list of documents, and the text of each.

Nothing here trusts the folder: links that leave it are not followed, only regular files are opened, and whatever is
not read is named with its reason.

CorpusError                     the folder cannot be listed, or a pattern of the caller is no gitignore pattern
└── UnreadableDocumentError     one file cannot be read as text
"""

import errno
import hashlib
import json
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pageindex.formats import READERS, NotTextError, decode, to_markdown, with_lf

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

# How the bytes of a regular file are opened, although something else may have taken its place since it was listed.
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_FILE = os.O_RDONLY | _NO_LINK | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)

# A file's (size, mtime_ns, ctime_ns, inode): what tells, without reading it, whether it is as it was.
Seen = tuple[int, int, int, int]


def identify(status: os.stat_result) -> Seen:
    """Return the values by which one state of a file differs from another."""
    # ctime is when a file last changed, and nobody can set it. Windows has the time of creation there and no inode in
    # listings: mtime and 0 stand for these.
    if os.name == "nt":
        return status.st_size, status.st_mtime_ns, status.st_mtime_ns, 0
    inode = status.st_ino & (2**63 - 1)  # SQLite keeps no larger number; some file systems have larger ones
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, inode


def read_file(path: str | os.PathLike[str], limit: int, *, follow_link: bool = False) -> bytes:
    """Return the bytes of a regular file of at most `limit` bytes; only `follow_link` lets `path` be a link.

    A pipe does not block. Raises OSError as the system gives it, and for what is no regular file or larger.
    """
    return _read(path, limit, follow_link=follow_link)[0]


def open_regular(path: str | os.PathLike[str], *, follow_link: bool = False) -> int:
    """Open a regular file for reading and return its descriptor; raise OSError as `read_file` does."""
    descriptor = os.open(path, _FILE & ~(_NO_LINK if follow_link else 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file")
    return descriptor


def _read(path: str | os.PathLike[str], limit: int, *, follow_link: bool) -> tuple[bytes, Seen]:
    with open(open_regular(path, follow_link=follow_link), "rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        if status.st_size > limit:
            raise OSError(errno.EFBIG, f"{status.st_size:,} bytes, more than the limit of {limit:,}")
        return file.read(status.st_size + 1), identify(status)


MAX_FILE_BYTES = 10_000_000  # no document written by people is that long; a longer one is data


class CorpusError(Exception):
    """A folder or a file cannot be read as documents."""


class UnreadableDocumentError(CorpusError):
    """One file cannot be read as text.

    Attributes:
        reason: why, as a clause without the file's name.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.reason = reason


class SourceFile(NamedTuple):  # which takes a quarter of a dataclass's time to make: each question lists all files
    """A document as the folder lists it, not yet read."""

    path: str  # relative to the indexed folder, `/` on every system
    absolute: str  # where it is; no Path, which would take as long as the look at the disk
    size: int  # bytes
    mtime_ns: int  # when it says that it was written, in nanoseconds since 1970: anybody can set it
    ctime_ns: int = 0  # When it was last changed, likewise: the system alone sets it. 0: not known.
    inode: int = 0  # another one: it is another file under the same path, or the file system gives no lasting ones


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that could have been a document and was not read."""

    path: str  # Relative to the indexed folder; bytes that are not UTF-8 as `\xNN`. Not escaped for a terminal.
    reason: str  # why, as a clause


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of a folder."""

    files: tuple[SourceFile, ...]  # sorted by path
    # Sorted by path. What is hidden, ignored or not named like a document is not among them.
    skipped: tuple[Skipped, ...]


@dataclass(frozen=True)
class DocumentText:
    """The text of one document."""

    # Decoded, and Markdown (`formats.py`); every line end is LF, and lines are counted as an editor counts them.
    text: str
    digest: str  # SHA-256 of the bytes on disk, 64 hex digits
    file: SourceFile  # as it was when these bytes were read
    warnings: tuple[str, ...]  # what was replaced to make it text, as clauses


# What is ignored.

# In one name, and of `**` in one pattern. Patterns become regular expressions whose time is the length of a name to the
# power of its wildcards, and the author of a folder's .gitignore chooses its names too.
MAX_WILDCARDS = 3
VAULT_SETTINGS = ".obsidian/app.json"
MAX_IGNORE_BYTES = 65_536  # of one file: up to 64 of them are kept, parsed


@dataclass(frozen=True)
class IgnoreRules:
    """The rules that hold in one folder. Paths are relative to the top: the repository's folder, else the root."""

    lead: str = ""  # what leads from the top to the root, such as `docs/`
    caller: "GitIgnoreSpec | None" = None  # the caller's patterns, relative to the root: asked first
    # One for each .gitignore above, innermost first: (how many characters of a path lead to its folder, patterns).
    layers: "tuple[tuple[int, GitIgnoreSpec], ...]" = ()

    def below(self, folder: str, spec: "GitIgnoreSpec") -> "IgnoreRules":
        """Return these rules with those of a .gitignore in `folder` (relative to the top) added."""
        return replace(self, layers=((len(folder) + 1 if folder else 0, spec), *self.layers))

    def ignores(self, path: str) -> bool:
        """Return whether a path relative to the root is excluded; a folder's ends with `/`, the root's is empty."""
        verdict = self.caller.check_file(path).include if self.caller else None
        for skip, spec in self.layers if verdict is None else ():
            verdict = spec.check_file((self.lead + path)[skip:]).include
            if verdict is not None:
                break
        return bool(verdict)


@lru_cache(maxsize=64)  # each look at a folder and at a file meets its .gitignore again
def read_ignore_file(text: str) -> tuple["GitIgnoreSpec", tuple[str, ...]]:
    """Return a .gitignore's patterns, and clauses on what is not obeyed; like git, skip a line that is no pattern."""
    patterns, mistakes = [], []
    for number, line in enumerate(with_lf(text.removeprefix("\ufeff")).split("\n"), start=1):
        names = line.split("/")
        if names.count("**") > MAX_WILDCARDS or any(name.count("*") > MAX_WILDCARDS for name in names):
            mistakes.append(f"line {number} is not obeyed: more than {MAX_WILDCARDS} wildcards in one name")
            continue
        with suppress(CorpusError):
            _compile([line])
            patterns.append(line)
    return _compile(patterns), tuple(mistakes)


def _compile(patterns: Iterable[str]) -> "GitIgnoreSpec":
    from pathspec import GitIgnoreSpec  # 12 ms, where there are patterns
    from pathspec.patterns.gitignore import GitIgnorePatternError

    try:
        return GitIgnoreSpec.from_lines(patterns)
    except (GitIgnorePatternError, re.error) as error:  # the latter of a range that runs backwards: `[z-a]`
        raise CorpusError(f"not a gitignore pattern: {error}") from error


# A folder, and its files.


@dataclass
class _Walk:
    root: str
    ignore: Sequence[str]
    endings: Iterable[str]
    files: list[SourceFile] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    def skip(self, path: str, reason: str) -> None:
        # Bytes that are not UTF-8 as `\xNN`.
        shown = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        self.skipped.append(Skipped(shown, reason))

    def is_document(self, name: str) -> bool:
        return name.lower().endswith(tuple(self.endings))

    def run(self) -> Iterator[None]:
        """List one folder after the other, the root first."""
        pending: list[tuple[str, IgnoreRules]] = [("", self.first_rules())]
        while pending:  # a loop, not recursion: folders may be nested deeper than Python's stack
            pending.extend(self.list_folder(*pending.pop()))
            yield

    def list_folder(self, folder: str, rules: IgnoreRules) -> Iterator[tuple[str, IgnoreRules]]:
        """Note the folder's documents, and yield the folders in it with the rules that hold there."""
        try:
            with os.scandir(os.path.join(self.root, folder)) as found:  # noqa: PTH118 - a third of the time of Path
                entries = list(found)
        except OSError as error:
            if not folder:
                raise CorpusError(f"{self.root}: {_describe(error)}") from error
            self.skip(folder, f"the folder cannot be listed: {_describe(error)}")
            return
        if any(entry.name == ".gitignore" for entry in entries):
            rules = self.add_gitignore(folder, rules)
        for entry in (entry for entry in entries if not entry.name.startswith(".")):
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir(follow_symlinks=False):
                if not rules.ignores(f"{path}/") and self.check_name(entry.name, path):
                    yield path, rules
            elif entry.is_symlink():
                if not rules.ignores(path) and not rules.ignores(f"{path}/"):
                    self.note_link(entry, path)
            elif self.is_document(entry.name) and not rules.ignores(path):
                self.note_file(entry, path)

    def first_rules(self) -> IgnoreRules:
        """Return the rules of the root: the caller's, and those of the git repository that the root is a part of."""
        above = find_repository(self.root)
        lead = f"{os.path.relpath(self.root, above[-1])}/".replace(os.sep, "/") if above else ""
        rules = caller = IgnoreRules(lead, _compile(self.ignore) if self.ignore else None)
        folders = lead.split("/")[:-1]
        for depth, folder in enumerate(reversed(above)):
            if os.path.lexists(f"{folder}/.gitignore"):
                shown = f"{'../' * (len(above) - depth)}.gitignore"
                rules = rules.below("/".join(folders[:depth]), self.read_gitignore(f"{folder}/.gitignore", shown))
        # A folder that the repository ignores is read all the same when the caller names it.
        rules = caller if rules.ignores("") else rules
        if os.path.lexists(f"{self.root}/{VAULT_SETTINGS}"):
            rules = rules.below(lead.rstrip("/"), self.read_vault_filters())
        return rules

    def read_vault_filters(self) -> "GitIgnoreSpec":
        """Return the files that Obsidian excludes from a vault, as patterns; what is not obeyed is noted."""
        patterns = []
        try:
            settings = json.loads(read_file(f"{self.root}/{VAULT_SETTINGS}", MAX_IGNORE_BYTES))
            for item in settings.get("userIgnoreFilters") or ():
                if item.startswith("/") and item.endswith("/"):
                    self.skip(VAULT_SETTINGS, f"the filter {item} is not obeyed: regular expressions are not run")
                    continue
                literal = "".join(f"\\{char}" if char in "\\*?[ " else char for char in item)
                patterns.append(f"/{literal}" if item.endswith("/") else f"/{literal}*")  # the beginning of a path
        except (OSError, ValueError, TypeError, AttributeError, RecursionError):
            self.skip(VAULT_SETTINGS, "not all of its filters are obeyed: it is not as Obsidian writes it")
        return read_ignore_file("\n".join(patterns))[0]

    def add_gitignore(self, folder: str, rules: IgnoreRules) -> IgnoreRules:
        path = f"{folder}/.gitignore" if folder else ".gitignore"
        return rules.below((rules.lead + folder).rstrip("/"), self.read_gitignore(f"{self.root}/{path}", path))

    def read_gitignore(self, file: str, path: str) -> "GitIgnoreSpec":
        """Return the patterns of a .gitignore; what is wrong with it is noted under the path that is shown."""
        text = ""
        try:
            text = read_file(file, MAX_IGNORE_BYTES).decode("utf-8", "replace")
        except OSError as error:
            self.skip(path, f"its patterns are not obeyed: {_describe(error)}")
        patterns, mistakes = read_ignore_file(text)
        for mistake in mistakes:
            self.skip(path, mistake)
        return patterns

    def check_name(self, name: str, path: str) -> bool:
        """Return whether a name can be stored and printed; note one that cannot."""
        is_utf8 = name.isascii() or not any("\ud800" <= char <= "\udfff" for char in name)
        if not is_utf8:
            self.skip(path, "its name is not UTF-8")
        return is_utf8

    def note_file(self, entry: os.DirEntry[str], path: str) -> None:
        if not self.check_name(entry.name, path):
            return
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError as error:
            self.skip(path, _describe(error))
            return
        if not stat.S_ISREG(status.st_mode):
            self.skip(path, "not a regular file")
        elif status.st_size > MAX_FILE_BYTES:
            self.skip(path, f"{status.st_size:,} bytes, more than the limit of {MAX_FILE_BYTES:,}")
        else:
            self.files.append(SourceFile(path, entry.path, *identify(status)))

    def note_link(self, entry: os.DirEntry[str], path: str) -> None:
        """Note why a link is not followed, unless its target is listed under its own path below the root."""
        if not self.is_document(entry.name) and not os.path.isdir(entry.path):  # noqa: PTH112 - a string
            return
        if not os.path.exists(entry.path):  # noqa: PTH110 - likewise
            self.skip(path, "a link to nothing")
        elif not f"{os.path.realpath(entry.path)}{os.sep}".startswith(self.root.rstrip(os.sep) + os.sep):
            self.skip(path, "a link that leaves the folder")


def find_repository(root: str) -> list[str]:
    """Return the folders above the root, innermost first, up to the top of its git repository; none outside of one."""
    folders: list[str] = []
    here = root
    while not os.path.lexists(f"{here}/.git"):
        above = os.path.dirname(here)  # noqa: PTH120 - each look at a folder does this, and pathlib takes as long as the look
        if above == here:
            return []
        folders.append(above)
        here = above
    return folders


def list_files(root: Path, ignore: Sequence[str] = ()) -> Listing:
    """Return the documents below `root`; one stat for each of them and none for other files.

    `ignore` has gitignore patterns relative to the folder; they win over every .gitignore.

    Hidden names (with a leading dot) and ignored ones are passed over. A link that stays inside the folder adds
    nothing, because what it points at is listed under its own path. Raises CorpusError when `root` itself cannot be
    listed, or one of `ignore` is no pattern.
    """
    walk = _Walk(os.path.realpath(root), ignore, READERS)
    for _ in walk.run():
        pass
    files = sorted(walk.files, key=lambda file: file.path)
    return Listing(tuple(files), tuple(sorted(walk.skipped, key=lambda skipped: skipped.path)))


def has_documents(root: Path, *, seconds: float) -> bool:
    """Return whether `list_files` would list anything, as far as can be seen in `seconds`."""
    walk = _Walk(os.path.realpath(root), (), READERS)
    end = time.monotonic() + seconds
    with suppress(CorpusError):
        for _ in walk.run():
            if walk.files or time.monotonic() > end:
                break
    return bool(walk.files)


def find_document(root: str, path: str, ignore: Sequence[str] = (), endings: Iterable[str] = READERS) -> SourceFile:
    """Return the document at a path that another program or person gives, under the rules of `list_files`.

    `endings`, in lower case and with their dot, are those of other files than documents. Raises UnreadableDocumentError
    when `list_files` would not list it; CorpusError when one of `ignore` is no pattern.
    """
    walk = _Walk(root, ignore, endings)
    rules, here, names = walk.first_rules(), "", path.split("/")
    is_foreign = "\0" in path or (os.sep != "/" and (os.sep in path or ":" in path))  # the latter on Windows
    refused = UnreadableDocumentError(path, "no document that the folder lists")
    if is_foreign or not walk.is_document(path) or not all(name and name[0] != "." for name in names):
        raise refused
    try:
        for name in names:
            if os.path.lexists(f"{root}/{here}/.gitignore"):
                rules = walk.add_gitignore(here, rules)
            here = f"{here}/{name}" if here else name
            status, is_file = os.lstat(f"{root}/{here}"), here == path
            is_kind = (stat.S_ISREG if is_file else stat.S_ISDIR)(status.st_mode)
            if not is_kind or rules.ignores(here if is_file else f"{here}/"):
                raise refused  # behind the link of a folder nothing is looked at
    except OSError as error:
        raise UnreadableDocumentError(path, _describe(error)) from error
    if status.st_size > MAX_FILE_BYTES:
        raise refused
    return SourceFile(path, f"{root}/{path}", *identify(status))


def read_document(file: SourceFile) -> DocumentText:
    """Return the Markdown of a file; UnreadableDocumentError when it is gone, too large, or no text.

    A file that changes meanwhile differs from its times here, and is read anew when it is looked at next.
    """
    try:
        # Since it was listed, a link may have taken the place of a folder above it.
        root = file.absolute[: -len(file.path)]
        above = accumulate(file.path.split("/")[:-1], "{}/{}".format)
        if any(os.path.islink(f"{root}{folder}") for folder in above):  # noqa: PTH114 - as in `find_repository`
            raise UnreadableDocumentError(file.path, "reached through a link")
        raw, seen = _read(file.absolute, MAX_FILE_BYTES, follow_link=False)
        text, warnings = decode(raw)
        file = SourceFile(file.path, file.absolute, *seen)
        return DocumentText(to_markdown(file.path, text), hashlib.sha256(raw).hexdigest(), file, warnings)
    except NotTextError as error:
        raise UnreadableDocumentError(file.path, str(error)) from error
    except OSError as error:
        raise UnreadableDocumentError(file.path, _describe(error)) from error


def _describe(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
