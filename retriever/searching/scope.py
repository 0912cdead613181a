"""The part of an index that a question may find, decided before anything is ranked.

A scope names folders, tags, days, fields of the front matter, words and phrases. What it names is looked up here; the
result is the nodes that are left. A `View` of a scope (`View.within`) gives every ranking those alone, so that a scope
of one folder finds as if only that were indexed. How rare a word is, and how near unrelated questions come, stay those
of the whole index.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property, partial
from itertools import chain
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from retriever.errors import ScopeError
from retriever.indexing.request import locate_path
from retriever.lexical.properties import TEXT_FIELDS, find_days
from retriever.lexical.tokens import tokenize
from retriever.query import Scope
from retriever.store import reading
from retriever.store.connection import Connection
from retriever.text import suggest_among

if TYPE_CHECKING:
    import numpy.typing as npt

    from retriever.lexical.postings import IntArray
    from retriever.searching.open_index import View

Mask: TypeAlias = "npt.NDArray[np.bool_]"

MAX_CHOICES = 300  # of folders, and of tags, in a list to choose from
MAX_FLAG_SECTIONS = 2_000  # in so many of the sections with the word, a `-word` is looked for
DAY_FORMS = "2024, 2024-05, 2024-05-01, 1.5.2024, 1 May 2024, today, yesterday, or how long ago: 7d, 2w, 3m, 1y"

_AGO = re.compile(r"(\d{1,4})([dwmy])")
_DAY = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?")
_DAY_IN_NAME = re.compile(r"\d{4}-\d{2}-\d{2}(?!\d)")
_MARKUP = r"[*_`~=]"  # what stands around words that are emphasised


@dataclass(frozen=True, slots=True)
class Part:
    """What a scope leaves of an index."""

    scope: Scope
    rows: "Mask"
    """Of all sections, in the order of their keys, which are left."""
    node_keys: "IntArray"
    """Of those, ascending."""
    documents: int
    """How many documents have them."""
    reason: str = ""
    """Why there are none, as a sentence; empty where there are some."""

    def names_field(self, key: str, value: str) -> bool:
        """Whether the scope asks for a tag or a field of front matter that this is."""
        if key == "tags" and any(fold_tag(tag) in tag_and_above(value) for tag in self.scope.tags):
            return True
        return key in (condition.partition("=")[0].strip().lower() for condition in self.scope.where)

    def holds(self, node_keys: Sequence[int]) -> list[bool]:
        """Which of the nodes are left."""
        places = np.searchsorted(self.node_keys, node_keys)
        last = max(0, len(self.node_keys) - 1)
        found: list[bool] = (self.node_keys[np.minimum(places, last)] == node_keys).tolist()
        return found


@dataclass(frozen=True, slots=True)
class Choices:
    """What filters can name in an index."""

    folders: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    """Those of the most documents first."""
    properties: tuple[str, ...] = ()
    """`status=draft`, likewise."""
    days: tuple[str, ...] = ()
    """The first and the last day of a document; none where there is no document."""


@dataclass(frozen=True, slots=True)
class ScopedDocument:
    """What scopes ask of a document."""

    key: int
    path: str
    names: tuple[str, ...]
    """Paths that mean it: as it is indexed, as its ids have it, below the name of its folder."""
    dated: int | None
    """Seconds since 1970: the date in its front matter."""
    mtime_ns: int
    """Of its file; 0 when it could not be trusted."""

    @property
    def day(self) -> str:
        """`2024-05-01`: the date in its front matter, else the one that its name begins with, else its file's time."""
        if self.dated is not None:
            with suppress(ValueError, OverflowError, OSError):
                return datetime.fromtimestamp(self.dated, UTC).date().isoformat()
        written = _DAY_IN_NAME.match(PurePosixPath(self.path).name)
        if written and _parse_day(written[0]):
            return written[0]
        # A time that cannot be trusted was too young, or too old, when the file was read.
        return (date.fromtimestamp(self.mtime_ns / 1e9) if self.mtime_ns else date.today()).isoformat()


class ScopeTables:
    """What is the same for every scope of one state of an index, each part read when it is first asked for."""

    def __init__(self, connection: Connection, node_keys: "IntArray") -> None:
        """Of the index, and the keys of all its sections, ascending."""
        self._connection = connection
        self._node_keys = node_keys
        self._texts: tuple[IntArray, IntArray] | None = None  # row of a section, and of a chunk that has its text
        rows = connection.execute(
            "SELECT document_key, prefix, folders.path, documents.path, dated, mtime_ns,"
            " (SELECT min(node_key) FROM nodes WHERE nodes.document_key = documents.document_key)"
            " FROM documents JOIN folders USING (folder_key) ORDER BY folder_key, documents.path"
        ).fetchall()
        self.documents = tuple(
            ScopedDocument(key, path, (path, prefix + path, f"{PurePosixPath(folder).name}/{path}"), dated, mtime_ns)
            for key, prefix, folder, path, dated, mtime_ns, _ in rows
        )
        # A document is written in one go: its nodes have the keys from its first one to that of the next document.
        first = np.array([row[-1] or 0 for row in rows], np.int64)
        order = np.argsort(first)
        places = np.searchsorted(first[order], node_keys, side="right") - 1
        self.documents_of_rows: IntArray = order[places] if len(rows) else places

    @cached_property
    def fields(self) -> dict[int, list[tuple[str, str]]]:
        """(key, value) of front matter and tags, by the document's key."""
        return reading.fields(self._connection)

    @cached_property
    def days(self) -> list[str]:
        """The day of each document."""
        return [document.day for document in self.documents]

    @cached_property
    def tags(self) -> dict[str, set[int]]:
        """The documents with each tag, by its case-folded name: a tag below another counts for both."""
        found: dict[str, set[int]] = {}
        for key, pairs in self.fields.items():
            for tag in {tag for name, value in pairs if name == "tags" for tag in tag_and_above(value)}:
                found.setdefault(tag, set()).add(key)
        return found

    @cached_property
    def tag_names(self) -> list[str]:
        """The tags as they are written, those of the most documents first."""
        counts = Counter(value for pairs in self.fields.values() for key, value in pairs if key == "tags")
        return [value for value, _ in counts.most_common()]

    def list_choices(self) -> Choices:
        """What a form offers."""
        folders, days = list_document_folders(self.documents), sorted(self.days)
        pairs = Counter(
            f"{key}={value}" for own in self.fields.values() for key, value in own if key not in TEXT_FIELDS
        )
        return Choices(
            tuple(folders[:MAX_CHOICES]),
            tuple(self.tag_names[:MAX_CHOICES]),
            tuple(name for name, _ in pairs.most_common(MAX_CHOICES)),
            tuple(days[:1] + days[-1:]),
        )

    def find(self, is_met: Callable[[ScopedDocument], bool]) -> set[int]:
        """The keys of the documents that meet a condition."""
        return {document.key for document in self.documents if is_met(document)}

    @cached_property
    def _chunks(self) -> "tuple[IntArray, IntArray]":
        """Of each chunk the row of its section, and the first chunk with its text."""
        nodes, chunks = (
            np.array((listed or "").split(",") if listed else [], np.int64)
            for listed in self._connection.execute(
                "SELECT group_concat(node_key), group_concat(chunk_key) FROM chunks INDEXED BY chunks_of_node"
            ).fetchone()
        )
        again = self._connection.execute(
            "SELECT chunk_key, first FROM chunks JOIN (SELECT text_hash, min(chunk_key) AS first FROM chunks"
            " GROUP BY text_hash HAVING count(*) > 1) USING (text_hash) ORDER BY chunk_key"
        )
        first = chunks.copy()
        pairs = np.array(again.fetchall(), np.int64).reshape(-1, 2)
        order = np.argsort(chunks)
        first[order[np.searchsorted(chunks[order], pairs[:, 0])]] = pairs[:, 1]
        return np.searchsorted(self._node_keys, nodes), first

    def texts_of(self, rows: "Mask", keys: "IntArray") -> "Mask":
        """Which of the chunks that are searched stand for the texts of these sections (`text_vectors`).

        Args:
            rows: of all sections, which are left.
            keys: of the chunks, ascending; the same at every call.
        """
        if self._texts is None:
            sections, first = self._chunks
            places = np.minimum(np.searchsorted(keys, first), max(0, len(keys) - 1))
            there = keys[places] == first if len(keys) else np.zeros(len(first), np.bool_)  # others have no vector
            self._texts = sections[there], places[there]
        sections, places = self._texts
        texts = np.zeros(len(keys), np.bool_)
        texts[places[rows[sections]]] = True
        return texts


def find_part(view: "View", scope: Scope) -> Part:
    """The part of an index that meets every field of a scope.

    Raises:
        ScopeError: a folder, a tag or a field is not there, or a day is none.
    """
    tables, keys = view.scope_tables, view.lexical.keys
    left = {document.key for document in tables.documents}
    reason, met = "", ""
    for term, meeting in read_filters(view.connection, scope, tables):
        if left and not left & meeting:
            days = sorted(document.day for document in tables.documents if document.key in left)
            dated = f"; the days are {days[0]} to {days[-1]}" if term.startswith(("since:", "until:")) else ""
            reason = f"{met + ': ' if met else ''}no document meets {term}{dated}"
        met = f"{met} {term}".strip()
        left &= meeting
    are_left = np.fromiter((document.key in left for document in tables.documents), np.bool_, len(tables.documents))
    rows = are_left[tables.documents_of_rows] if len(are_left) else np.zeros(len(keys), np.bool_)
    for phrase in scope.phrases:
        if rows.any():
            rows = rows & np.isin(keys, find_phrase(view, phrase, keys[rows]))
            if not rows.any():
                words = "without the quotation marks its words are searched for"
                reason = f'{met + ": " if met else ""}no section holds "{phrase}"; {words}'
    for word in scope.without:
        if rows.any():
            rows = rows & ~np.isin(keys, find_word(view, word, keys[rows]))
            if not rows.any():
                reason = f"{met + ': ' if met else ''}every section holds {word!r}, which is to be left out"
    if not rows.any():
        return Part(scope, rows, keys[rows], 0, reason or "there is no section")
    return Part(scope, rows, keys[rows], int(np.count_nonzero(np.bincount(tables.documents_of_rows[rows]))))


# Documents: folders, tags, days, fields.


def read_filters(connection: Connection, scope: Scope, tables: ScopeTables) -> Iterator[tuple[str, set[int]]]:
    """(a filter as a question writes it, the keys of the documents that meet it) of what a scope asks of documents."""
    documents = tables.documents
    everything = {document.key for document in documents}
    if scope.folders:
        found = (find_folder(connection, f"in:{name}", name, documents) for name in scope.folders)
        yield " ".join(f"in:{name}" for name in scope.folders), set(chain.from_iterable(found))
    for name in scope.not_folders:
        yield f"-in:{name}", everything - find_folder(connection, f"-in:{name}", name, documents)
    for name in scope.tags:
        yield f"tag:{name}", find_tag(f"tag:{name}", name, tables)
    for name in scope.not_tags:
        yield f"-tag:{name}", everything - find_tag(f"-tag:{name}", name, tables)
    days = zip(documents, tables.days, strict=True) if scope.since or scope.until else ()
    dated = [(document.key, day) for document, day in days]
    if scope.since:
        first, _ = read_days(f"since:{scope.since}", scope.since)
        yield f"since:{scope.since}", {key for key, day in dated if day >= first}
    if scope.until:
        _, last = read_days(f"until:{scope.until}", scope.until)
        yield f"until:{scope.until}", {key for key, day in dated if day <= last}
    for condition in scope.where:
        yield f"where:{condition}", find_field(condition, tables)


def find_folder(connection: Connection, term: str, name: str, documents: Sequence[ScopedDocument]) -> frozenset[int]:
    """The documents in a folder, or the one of a file's name: by a path, by the end of one, by a path on the disk."""
    wanted = name.replace("\\", "/").removeprefix("./").strip("/")

    def find(is_there: Callable[[str], bool]) -> frozenset[int]:
        return frozenset(document.key for document in documents if any(map(is_there, document.names)))

    low = f"{wanted.casefold()}/"
    if wanted and (
        found := find(lambda path: f"{path}/".startswith(f"{wanted}/"))
        or find(lambda path: f"{path.casefold()}/".startswith(low))
        or find(lambda path: wanted.endswith(":") and path.startswith(wanted))  # the name of an indexed folder
        or find(lambda path: f"/{low}" in f"/{path.casefold()}/")
        or find(
            lambda path: f"/{low}" in f"/{path.rpartition('.')[0].casefold()}/"
        )  # a note's name, without its ending
    ):
        return found
    for folder, inside in locate_path(reading.folders(connection), name):
        below = f"{folder.prefix}{inside}".rstrip("/")
        if found := find(partial(_is_below, folder=below)):
            return found
    folders = list_document_folders(documents)
    files = [document.path for document in documents]
    names = [PurePosixPath(path).name for path in folders]
    listed = suggest_among([*folders, *files], wanted, also=names)
    raise ScopeError(term, f"there is no folder or file {name!r}{listed}")


def list_document_folders(documents: Iterable[ScopedDocument]) -> list[str]:
    """The folders that hold documents, below those that were indexed; the outermost first."""
    parents = {str(above) for item in documents for above in PurePosixPath(item.path).parents}
    return sorted(parents - {"."}, key=lambda path: (path.count("/"), path))


def _is_below(path: str, folder: str) -> bool:
    return not folder or f"{path}/".startswith(f"{folder}/")


def tag_and_above(tag: str) -> tuple[str, ...]:
    """`area/part` and `area`, case folded."""
    parts = fold_tag(tag).split("/")
    return tuple("/".join(parts[:count]) for count in range(len(parts), 0, -1))


def fold_tag(name: str) -> str:
    """A tag as it is compared."""
    return name.removeprefix("#").strip("/").casefold()


def find_tag(term: str, name: str, tables: ScopeTables) -> set[int]:
    """The documents with a tag, or one below it; raises where none has it."""
    if fold_tag(name) not in tables.tags:
        raise ScopeError(
            term, f"no document has the tag {name!r}{suggest_among(tables.tag_names, name) or ', or any other'}"
        )
    return tables.tags[fold_tag(name)]


def find_field(condition: str, tables: ScopeTables) -> set[int]:
    """The documents whose front matter has `status=draft`, or `status`; raises where none has that key, or value."""
    name, sign, given = condition.partition("=")
    key, wanted = name.strip().lower(), " ".join(given.split())
    term = f"where:{condition}"
    held = [(document, own) for document, pairs in tables.fields.items() for known, own in pairs if known == key]
    if not held:
        counts = Counter(known for pairs in tables.fields.values() for known in dict(pairs))
        what = f"the field {name.strip()!r} in its front matter" if counts else "front matter"
        raise ScopeError(
            term, f"no document has {what}{suggest_among([known for known, _ in counts.most_common()], key)}"
        )
    low, days = wanted.casefold(), find_days(wanted)
    found = {document for document, own in held if not sign or own.casefold() == low}
    # Dates in any form, in a month or on a day; then the beginning of a value, such as `super` of `superseded`.
    found = found or {
        document for document, own in held for day in days for date in find_days(own) if date.startswith(day)
    }
    found = found or {document for document, own in held if low and own.casefold().startswith(low)}
    if not found:
        values = [own for own, _ in Counter(own for _, own in held).most_common()]
        raise ScopeError(term, f"{key} is {given!r} in no document{suggest_among(values, wanted)}")
    return found


def read_days(term: str, given: str) -> tuple[str, str]:
    """The first and the last day of what `since` and `until` name, as `2024-05-01`."""
    wanted, today = given.strip().lower(), date.today()
    if wanted in ("today", "yesterday"):
        day = today - timedelta(days=wanted == "yesterday")
        return day.isoformat(), day.isoformat()
    if ago := _AGO.fullmatch(wanted):
        number, months = int(ago[1]), {"m": 1, "y": 12}.get(ago[2], 0)
        with suppress(ValueError, OverflowError):
            day = today - timedelta(days=number * {"d": 1, "w": 7}.get(ago[2], 0))
            year, month = divmod(day.year * 12 + day.month - 1 - number * months, 12)
            day = day.replace(year=year, month=month + 1, day=min(day.day, 28) if months else day.day)
            return day.isoformat(), day.isoformat()
    elif days := _parse_day(wanted[:10]) or _parse_day("".join(find_days(wanted)[:1])):
        return days
    raise ScopeError(term, f"{given!r} is no day; write {DAY_FORMS}")


def _parse_day(text: str) -> tuple[str, str] | None:
    """The first and the last day of a year, a month or a day."""
    found = _DAY.fullmatch(text)
    if found is None:
        return None
    year, month, day = int(found[1]), found[2], found[3]
    with suppress(ValueError):
        first = date(year, int(month or 1), int(day or 1))
        after = date(year + 1, 1, 1) if not month else (first.replace(day=28) + timedelta(days=4)).replace(day=1)
        return first.isoformat(), (first if day else after - timedelta(days=1)).isoformat()
    return None


# Sections: words and phrases.


def find_word(view: "View", word: str, keys: "IntArray") -> "IntArray":
    """The sections that hold a word in any of its forms; of `keys`, those that hold several words word for word."""
    terms = tokenize(word)
    if not terms or any(sign.isspace() for sign in word):
        return find_phrase(view, word, keys)
    return view.lexical.find_holding(terms)


def find_phrase(view: "View", phrase: str, keys: "IntArray") -> "IntArray":
    """Those of the sections that hold a phrase in their text, title or other names, but for case, markup and breaks."""
    words = _normalize(phrase).split()
    first, *others = map(re.escape, words)
    # Words end where the phrase ends; in a script without spaces nothing says where.
    begins, ends = (sign.isalnum() and sign < "\u2e80" for sign in (words[0][0], words[-1][-1]))
    between = rf"{_MARKUP}*\s[\s>]*{_MARKUP}*"  # a line break in a quote as well
    # A pattern that begins with plain text, in lower case, is found five times as fast.
    before = rf"(?<!\w{first})" if begins else ""
    pattern = re.compile(between.join([first + before, *others]) + (r"\b" if ends else ""))
    terms = tokenize(phrase)
    if terms:
        keys = np.intersect1d(keys, view.lexical.find_holding(terms), assume_unique=True)
    fields = view.scope_tables.fields
    found = [
        key
        for key, document_key, title, body in reading.bodies(view.connection, keys.tolist())
        if pattern.search(_normalize(f"{title}\n{body}"))
        or any(pattern.search(_normalize(value)) for _, value in fields.get(document_key, ()))
    ]
    return np.array(found, np.int64)


def _normalize(text: str) -> str:
    return (text if text.isascii() else unicodedata.normalize("NFC", text)).lower()


def find_flags(view: "View", words: Iterable[str]) -> tuple[str, ...]:
    """Which of the words the documents write with a dash before them: `-xzf` of a command is not to be left out."""
    flags = []
    for word in words:
        flag = re.escape(f"-{_normalize(word)}")
        written = re.compile(rf"{flag}(?<![\w-]{flag})(?![\w-])")  # plain text first, as in `find_phrase`
        keys = view.lexical.find_holding(tokenize(word))[:MAX_FLAG_SECTIONS]
        bodies = reading.bodies(view.connection, keys.tolist())
        if any(written.search(_normalize(body)) for _, _, _, body in bodies):
            flags.append(word)
    return tuple(flags)
