"""The part of an index that a question may find, decided before anything is ranked.

A scope names folders, tags, days, fields of the front matter, words and phrases. What it names is looked up here; the
result is the nodes that are left. A `View` of a scope (`View.within`) gives every ranking those alone, so that a scope
of one folder finds as if only that were indexed. How rare a word is, and how near unrelated questions come, stay those
of the whole index.
"""

import re
import sqlite3
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import chain
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import numpy as np

from retriever.errors import ScopeError
from retriever.indexing.request import locate_path
from retriever.lexical.tokens import tokenize
from retriever.query import Scope
from retriever.store import reading
from retriever.text import cut

if TYPE_CHECKING:
    from retriever.lexical.postings import IntArray
    from retriever.searching.open_index import View

MAX_NAMED = 8  # of what there is, in a message
MAX_NAME_CHARS = 60
MAX_FLAG_SECTIONS = 2_000  # in so many of the sections with the word, a `-word` is looked for
DAY_FORMS = "2024, 2024-05, 2024-05-01, today, yesterday, or how long ago: 7d, 2w, 3m, 1y"

_AGO = re.compile(r"(\d{1,4})([dwmy])")
_DAY = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?")
_DAY_IN_NAME = re.compile(r"\d{4}-\d{2}-\d{2}(?!\d)")
_MARKUP = re.compile(r"[*_`\\]+|\s+")


@dataclass(frozen=True, slots=True)
class Part:
    """What a scope leaves of an index."""

    scope: Scope
    node_keys: "IntArray"
    """Of the sections that are left, ascending."""
    documents: int
    """How many documents have them."""
    reason: str = ""
    """Why there are none, as a sentence; empty where there are some."""

    def names_field(self, key: str, value: str) -> bool:
        """Whether the scope asks for a tag or a field of front matter that this is."""
        if key == "tags" and any(is_tag(value, tag) for tag in self.scope.tags):
            return True
        names = (condition.partition("=")[0].strip().lower() for condition in self.scope.where)
        return key in names

    def keep(self, connection: sqlite3.Connection, node_ids: Iterable[str]) -> set[str]:
        """Those of the nodes that are left."""
        keys = reading.keys_of_nodes(connection, node_ids)
        wanted = np.fromiter(keys.values(), np.int64, len(keys))
        are_left = np.isin(wanted, self.node_keys).tolist()
        return {node_id for node_id, is_left in zip(keys, are_left, strict=True) if is_left}


@dataclass(frozen=True, slots=True)
class ScopedDocument:
    """What scopes ask of a document."""

    key: int
    path: str
    paths: tuple[str, ...]
    """What may name it, each with the folders above: as it is indexed, as its ids have it, with its folder's name."""
    day: str
    """`2024-05-01`: the date in its front matter, else the one that its name begins with, else its file's time."""
    fields: tuple[tuple[str, str], ...]
    """(key, value) of its front matter and tags."""


class ScopeTables:
    """What is the same for every scope of one state of an index, read once."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.documents = read_documents(connection)
        self.node_documents, self.node_keys = _columns(connection, "SELECT document_key, node_key FROM nodes", 2)
        self._connection = connection
        self._chunks: tuple[IntArray, IntArray] | None = None

    def nodes_of(self, documents: Collection[ScopedDocument]) -> "IntArray":
        """The keys of all their nodes, ascending."""
        keys = np.fromiter((document.key for document in documents), np.int64, len(documents))
        return np.sort(self.node_keys[np.isin(self.node_documents, keys)])

    def texts_of(self, node_keys: "IntArray") -> "IntArray":
        """The chunks that stand for the texts of these nodes where vectors are searched (`text_vectors`)."""
        if self._chunks is None:
            nodes, chunks = _columns(self._connection, "SELECT node_key, chunk_key FROM chunks", 2)
            # The first chunk of each text; of a text that comes once it is the chunk itself.
            again, first = _columns(
                self._connection,
                "SELECT chunk_key, first FROM (SELECT chunk_key, min(chunk_key) OVER (PARTITION BY text_hash) AS first"
                " FROM chunks) WHERE chunk_key <> first",
                2,
            )
            order = np.argsort(again)
            firsts = chunks.copy()
            is_again = np.isin(chunks, again)
            firsts[is_again] = first[order][np.searchsorted(again[order], chunks[is_again])]
            self._chunks = nodes, firsts
        nodes, firsts = self._chunks
        return firsts[np.isin(nodes, node_keys)]


def _columns(connection: sqlite3.Connection, query: str, count: int) -> "tuple[IntArray, ...]":
    rows = np.array(connection.execute(query).fetchall(), np.int64).reshape(-1, count)
    return tuple(np.ascontiguousarray(rows[:, place]) for place in range(count))


def read_documents(connection: sqlite3.Connection) -> tuple[ScopedDocument, ...]:
    """Every document of an index, by folder and path."""
    fields = reading.fields(connection)
    today = date.today().isoformat()
    rows = connection.execute(
        "SELECT document_key, prefix, folders.path, documents.path, dated, mtime_ns"
        " FROM documents JOIN folders USING (folder_key) ORDER BY folder_key, documents.path"
    )
    found = []
    for key, prefix, folder, path, dated, mtime_ns in rows:
        name = PurePosixPath(path).name
        if dated is not None:
            with suppress(ValueError, OverflowError, OSError):
                dated = datetime.fromtimestamp(dated, UTC).date().isoformat()
        elif (written := _DAY_IN_NAME.match(name)) and _parse_day(written[0]):
            dated = written[0]
        else:  # without a time that can be trusted it was too young, or too old, when it was read
            dated = date.fromtimestamp(mtime_ns / 1e9).isoformat() if mtime_ns else today
        paths = tuple(dict.fromkeys((path, prefix + path, f"{PurePosixPath(folder).name}/{path}")))
        found.append(ScopedDocument(key, path, paths, str(dated), tuple(fields.get(key, ()))))
    return tuple(found)


def find_part(view: "View", scope: Scope) -> Part:
    """The part of an index that meets every field of a scope.

    Raises:
        ScopeError: a folder, a tag or a field is not there, or a day is none.
    """
    tables = view.scope_tables
    documents, reason, met = tables.documents, "", ""
    for term, meeting in read_filters(view.connection, scope, documents):
        left = tuple(document for document in documents if document.key in meeting)
        if documents and not left:
            days = sorted(document.day for document in documents)
            dated = f"; the days are {days[0]} to {days[-1]}" if term.startswith(("since:", "until:")) else ""
            reason = f"{met + ': ' if met else ''}no document meets {term}{dated}"
        met = f"{met} {term}".strip()
        documents = left
    keys = np.intersect1d(tables.nodes_of(documents), view.lexical.keys)
    for phrase in scope.phrases:
        if len(keys):
            keys = find_phrase(view, phrase, keys)
            if not len(keys):
                words = "without the quotation marks its words are searched for"
                reason = f'{met + ": " if met else ""}no section holds "{phrase}"; {words}'
    for word in scope.without:
        if len(keys):
            keys = np.setdiff1d(keys, find_word(view, word, keys))
            if not len(keys):
                reason = f"{met + ': ' if met else ''}every section holds {word!r}, which is to be left out"
    if not len(keys):
        return Part(scope, keys, 0, reason or "there is no section")
    return Part(scope, keys, len(np.unique(tables.node_documents[np.isin(tables.node_keys, keys)])))


# Documents: folders, tags, days, fields.


def read_filters(
    connection: sqlite3.Connection, scope: Scope, documents: Sequence[ScopedDocument]
) -> Iterator[tuple[str, Collection[int]]]:
    """(a filter as a question writes it, the keys of the documents that meet it) of what a scope asks of documents."""

    def those(is_met: Callable[[ScopedDocument], bool]) -> frozenset[int]:
        return frozenset(document.key for document in documents if is_met(document))

    if scope.folders:
        found = (find_folder(connection, f"in:{name}", name, documents) for name in scope.folders)
        yield " ".join(f"in:{name}" for name in scope.folders), frozenset(chain.from_iterable(found))
    for name in scope.not_folders:
        inside = find_folder(connection, f"-in:{name}", name, documents)
        yield f"-in:{name}", {document.key for document in documents} - inside
    for name in scope.tags:
        check_tag(f"tag:{name}", name, documents)
        yield f"tag:{name}", those(partial(has_tag, name=name))
    for name in scope.not_tags:
        check_tag(f"-tag:{name}", name, documents)
        tagged = those(partial(has_tag, name=name))
        yield f"-tag:{name}", {document.key for document in documents} - tagged
    if scope.since:
        first, _ = read_days(f"since:{scope.since}", scope.since)
        yield f"since:{scope.since}", those(lambda document: document.day >= first)
    if scope.until:
        _, last = read_days(f"until:{scope.until}", scope.until)
        yield f"until:{scope.until}", those(lambda document: document.day <= last)
    for condition in scope.where:
        key, value = check_field(condition, documents)
        yield f"where:{condition}", those(partial(has_field, key=key, value=value))


def find_folder(
    connection: sqlite3.Connection, term: str, name: str, documents: Sequence[ScopedDocument]
) -> frozenset[int]:
    """The documents in a folder, or the one of a file's name: by a path, by the end of one, by a path on the disk."""
    wanted = name.replace("\\", "/").removeprefix("./").strip("/")

    def find(is_there: Callable[[str], bool]) -> frozenset[int]:
        return frozenset(document.key for document in documents if any(map(is_there, document.paths)))

    low = f"{wanted.casefold()}/"
    if wanted and (
        found := find(lambda path: f"{path}/".startswith(f"{wanted}/"))
        or find(lambda path: f"{path.casefold()}/".startswith(low))
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
    parents = {str(above) for item in documents for above in PurePosixPath(item.path).parents}
    folders = sorted(parents - {"."}, key=lambda path: (path.count("/"), path))
    files = [document.path for document in documents]
    names = [PurePosixPath(path).name for path in folders]
    listed = list_known([*folders, *files], wanted, also=names)
    raise ScopeError(term, f"there is no folder or file {name!r}{listed}")


def _is_below(path: str, folder: str) -> bool:
    return not folder or f"{path}/".startswith(f"{folder}/")


def has_tag(document: ScopedDocument, name: str) -> bool:
    """Whether it has the tag, or one below it."""
    return any(key == "tags" and is_tag(value, name) for key, value in document.fields)


def is_tag(own: str, name: str) -> bool:
    """Whether a tag is the one that is asked for, or one below it (`project/alpha` for `project`), in any case."""
    return _is_below(own.casefold(), name.removeprefix("#").strip("/").casefold())


def check_tag(term: str, name: str, documents: Sequence[ScopedDocument]) -> None:
    """Raises where no document has the tag."""
    if not any(has_tag(document, name) for document in documents):
        counts = Counter(value for document in documents for key, value in document.fields if key == "tags")
        known = [value for value, _ in counts.most_common()]
        raise ScopeError(term, f"no document has the tag {name!r}{list_known(known, name) or ', or any other'}")


def has_field(document: ScopedDocument, key: str, value: str | None) -> bool:
    """Whether its front matter has that key, with that value where one is asked for; both are case folded."""
    return any(name == key and (value is None or own.casefold() == value) for name, own in document.fields)


def check_field(condition: str, documents: Sequence[ScopedDocument]) -> tuple[str, str | None]:
    """`status=draft` as `has_field` compares it; raises where no document has that key, or none that value."""
    name, sign, given = condition.partition("=")
    key, value = name.strip().lower(), " ".join(given.split()).casefold() if sign else None
    term = f"where:{condition}"
    if not any(has_field(document, key, None) for document in documents):
        counts = Counter(name for document in documents for name in dict(document.fields))
        known = [name for name, _ in counts.most_common()]
        what = f"the field {name.strip()!r} in its front matter" if known else "front matter"
        raise ScopeError(term, f"no document has {what}{list_known(known, key)}")
    if not any(has_field(document, key, value) for document in documents):
        held = Counter(own for document in documents for name, own in document.fields if name == key)
        known = [own for own, _ in held.most_common()]
        raise ScopeError(term, f"{key} is {given!r} in no document{list_known(known, given)}")
    return key, value


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
    elif days := _parse_day(wanted[:10]):
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


def list_known(known: Sequence[str], wanted: str, also: Sequence[str] = ()) -> str:
    """`; did you mean daily? There are: daily, work`: the nearest, of `also` too, and the first of what there is."""
    listed = [cut(name, MAX_NAME_CHARS) for name in dict.fromkeys(known) if name]
    if not listed:
        return ""
    import difflib  # 15 ms, for mistakes alone

    by_fold = {name.casefold(): name for name in reversed([*listed, *also])}
    near = difflib.get_close_matches(wanted.casefold(), by_fold, 1, 0.6)
    shown = ", ".join(listed[:MAX_NAMED]) + (", ..." if len(listed) > MAX_NAMED else "")
    return f"; did you mean {by_fold[near[0]]}? There are: {shown}" if near else f"; there are: {shown}"


# Sections: words and phrases.


def find_word(view: "View", word: str, keys: "IntArray") -> "IntArray":
    """Those of the sections that hold a word in any of its forms, or several words word for word."""
    terms = tokenize(word)
    if not terms or any(sign.isspace() for sign in word):
        return find_phrase(view, word, keys)
    return np.intersect1d(keys, view.lexical.find_holding(terms))


def find_phrase(view: "View", phrase: str, keys: "IntArray") -> "IntArray":
    """Those of the sections that hold a phrase in their text, title or other names, but for case, markup and breaks."""
    wanted = fold(phrase)
    # Words end where the phrase ends; in a script without spaces nothing says where.
    ends = [r"" if sign > "\u2e7f" or not sign.isalnum() else r"\b" for sign in (wanted[:1], wanted[-1:])]
    pattern = re.compile(f"{ends[0]}{re.escape(wanted)}{ends[1]}")
    terms = tokenize(phrase)
    if terms:
        keys = np.intersect1d(keys, view.lexical.find_holding(terms))
    names = {document.key: "\n".join(value for _, value in document.fields) for document in view.scope_tables.documents}
    found = [
        stored.key
        for stored in reading.rankable_nodes(view.connection, keys.tolist())
        if pattern.search(fold("\n".join((stored.node.title, stored.node.body))))
        or pattern.search(fold(names[stored.document_key]))
    ]
    return np.array(found, np.int64)


def fold(text: str) -> str:
    """A text without case, markup and line breaks."""
    return " ".join(_MARKUP.sub(" ", unicodedata.normalize("NFKC", text).casefold()).split())


def find_flags(view: "View", words: Iterable[str]) -> tuple[str, ...]:
    """Which of the words the documents write with a dash before them: `-xzf` of a command is not to be left out."""
    flags = []
    for word in words:
        written = re.compile(rf"(?<![\w-])-{re.escape(word)}(?![\w-])", re.IGNORECASE)
        keys = view.lexical.find_holding(tokenize(word))[:MAX_FLAG_SECTIONS]
        nodes = reading.rankable_nodes(view.connection, keys.tolist())
        if any(written.search(stored.node.body) for stored in nodes):
            flags.append(word)
    return tuple(flags)
