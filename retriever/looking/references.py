"""References and the places they name: one look-up for the command line, MCP, the page and the library.

Exact forms come first: a node id (`guide.md#guide/install`), its short form (`guide.md#install`), a path of a file or a
folder as the index or the current folder sees it. Only where these name nothing, what people type is looked for: a
file's name alone, `Note#Heading` and `[[Note#Heading]]` as Obsidian writes them, an alias, a title.
"""

import contextlib
import json
import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import PurePosixPath
from typing import NamedTuple

from pageindex.formats import drop_ending
from pageindex.node import Node, Span
from pageindex.text import WIKILINK, fold_heading
from retriever.errors import UnknownReferenceError, UsageError
from retriever.indexing.request import locate_path
from retriever.lexical.sections import drop_arguments, list_names
from retriever.lexical.tokens import remove_accents
from retriever.store import reading
from retriever.store.database import Connection
from retriever.store.reading import StoredNode, read_titles
from retriever.store.writing import NODE_BITS

LINES = re.compile(r"(?P<path>.+):(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?", re.DOTALL)  # as a hit is cited
MAX_NAMED = 8  # sections that a reference may mean; more are not listed
MAX_NEAR = 3  # that are asked about where it means none
MAX_NAME_CHARS = 300  # nobody types a longer name
NEAR = 0.6  # how alike (difflib) a name is that is asked about


def list_ids(connection: Connection, reference: str) -> Iterator[list[str]]:
    """Yield the ids that a reference may mean: those of the first list that has any; several are files of one name.

    It is an id that begins with a folder's name, else a path in any of the folders, else a path as the current folder
    sees it.
    """
    if not _is_name(reference):
        return
    folders = reading.folders(connection)
    if any(folder.prefix and reference.startswith(folder.prefix) for folder in folders):
        yield [reference]
    yield list(dict.fromkeys([reference, *(folder.prefix + reference for folder in folders)]))
    path, sign, slugs = reference.partition("#")
    for folder, inside in locate_path(folders, path):  # one place is in two folders where one is inside the other
        yield [folder.prefix + inside + sign + slugs]


def find_place(connection: Connection, reference: str) -> tuple[int, str, tuple[int, int] | None]:
    """Return the key of the document, the id of the file or section that a reference names, and the lines it names.

    Raises:
        UnknownReferenceError: there is no such file or section; it says which are called nearly so.
        UsageError: there are several.
    """
    for ids in list_ids(connection, reference):
        keys = reading.keys_of_nodes(connection, ids)
        if keys:
            node_id = only(reference, [node_id for node_id in ids if node_id in keys])
            return keys[node_id] >> NODE_BITS, node_id, None
    if not _is_name(reference):
        raise UnknownReferenceError(reference)
    if match := LINES.fullmatch(reference):
        with contextlib.suppress(UnknownReferenceError):  # then it is a name that ends like lines
            key, node_id, _ = find_place(connection, match["path"])
            return key, node_id, (int(match["first"]), int(match["last"] or match["first"]))
    return *find_by_name(connection, reference), None


def find_in_documents(connection: Connection, reference: str) -> tuple[int, str]:
    """Do as `find_place`, without the lines: where there are some, the section that holds the first.

    Raises:
        UsageError: also where the file has no such line.
    """
    key, node_id, lines = find_place(connection, reference)
    if lines is None:
        return key, node_id
    stored = list(reading.nodes_of_documents(connection, [key]))
    check_lines(stored[0].node, find_last_line(stored), (lines[0], lines[0]))
    return key, find_document_holder(stored, lines[0]).id


def refuse_two_files(connection: Connection, path: str) -> None:
    """Raise UsageError where a path is one document of the index, and as the current folder sees it another."""
    folders = reading.folders(connection)
    ways = [(folder, path) for folder in folders], [*locate_path(folders, path)]
    named, here = (
        {
            f"{folder.path}/{inside}"
            for folder, inside in way
            if reading.keys_of_nodes(connection, [folder.prefix + inside])
        }
        for way in ways
    )
    if here and named - here:
        raise UsageError(f"{path!r} may be any of {', '.join(sorted(named | here))}; write the one in full")


def check_lines(file: Node, last_line: int, lines: tuple[int, int]) -> Span:
    """Return the lines of a file that ends at `last_line`. Raises UsageError when it has no such lines."""
    first, last = lines
    if not last_line:
        raise UsageError(f"{file.path} is empty")
    if not 1 <= first <= last <= last_line:
        asked = f"{first}-{last}" if last != first else first
        raise UsageError(f"{file.path} has the lines 1-{last_line}, not {asked}")
    return Span(first, last)


def find_last_line(stored: Iterable[StoredNode]) -> int:
    """Return the last line of a document, from its nodes; 0 for an empty one."""
    return max((item.node.span.last for item in stored if item.node.span), default=0)


def find_document_holder(stored: Iterable[StoredNode], line: int) -> Node:
    """Return the section, or file, that holds a line of a document, from its nodes in their order."""
    return next(item.node for item in stored if item.node.span and item.node.span.last >= line)


def find_node(connection: Connection, tree: Container[str], reference: str) -> str:
    """Return the id of the node of a tree that a reference names: a file, a section, or a folder.

    Raises:
        UnknownReferenceError: there is no such node.
        UsageError: there are several.
    """
    for ids in list_ids(connection, reference):
        # A folder's id ends with a slash.
        found = [known for node_id in ids for known in (node_id, f"{node_id.rstrip('/')}/") if known in tree]
        if found:
            return only(reference, list(dict.fromkeys(found)))
    _, node_id = find_in_documents(connection, reference)
    if node_id not in tree:
        raise UnknownReferenceError(reference)
    return node_id


def _is_name(reference: str) -> bool:
    """Return whether anything in an index may be called so."""
    return bool(reference.strip()) and not any(sign == "\0" or "\ud800" <= sign <= "\udfff" for sign in reference)


def only(reference: str, found: Sequence[str]) -> str:
    """Return the one that was found.

    Raises:
        UsageError: there are several.
    """
    if len(found) > 1:
        more = f" and {len(found) - MAX_NAMED} more" if len(found) > MAX_NAMED else ""
        raise UsageError(f"{reference!r} may be any of {', '.join(found[:MAX_NAMED])}{more}")
    return found[0]


# By the names that people know.


class DocumentName(NamedTuple):
    """A document and what it is called."""

    key: int
    node_id: str  # of its file
    path: str  # relative to its folder
    title: str
    aliases: str  # as JSON


class SectionName(NamedTuple):
    """A section and what it is called."""

    key: int  # of its document
    node_id: str
    title: str
    anchor: str
    above: str  # titles, as they are stored


_DOCUMENTS = (
    "SELECT document_key, prefix || documents.path, documents.path, title, aliases FROM documents"
    " JOIN folders USING (folder_key) ORDER BY length(documents.path), documents.path"
)
_SECTIONS = (
    "SELECT document_key, node_id, title, anchor, breadcrumb FROM nodes WHERE kind = 'section'"
    " ORDER BY document_key, node_key"
)


def find_by_name(connection: Connection, reference: str) -> tuple[int, str]:
    """Return the document (its key) and the id of the file or section that a reference names as people do.

    Raises:
        UnknownReferenceError: none is called so; it says which are called nearly so.
        UsageError: there are several.
    """
    documents = [DocumentName(*row) for row in connection.execute(_DOCUMENTS)]
    wikilink = WIKILINK.fullmatch(reference.strip())
    name, sign, heading = (wikilink[1] if wikilink else reference).strip().partition("#")
    exactly = ([document for document in documents if document.node_id in ids] for ids in list_ids(connection, name))
    named = next(filter(None, exactly), []) or match_documents(name, documents)
    if named and (not heading.strip() or heading.startswith("^")):  # `^` begins a block of Obsidian's
        return named[0].key, only(reference, [document.node_id for document in named])
    sections = [SectionName(*row) for row in connection.execute(_SECTIONS)]
    if named:
        keys = {document.key for document in named}
        sections = [section for section in sections if section.key in keys]
    wanted = heading if named or (sign and not name.strip()) else name
    if found := match_sections(wanted, sections):
        return found[0].key, only(reference, [section.node_id for section in found])
    called = {fold(section.title): section.node_id for section in sections}
    for document in () if named else documents:  # a file has the title of its first section, and stands for it
        file = document.path.rpartition("/")[2]
        names = (document.title, *json.loads(document.aliases), drop_ending(file), file, document.path)
        called |= {fold(name): document.node_id for name in names}
        called |= {fold(f"{folder}/"): f"{folder}/" for folder in PurePosixPath(document.node_id).parents[:-1]}
    asked = fold(wanted.rpartition("#")[2])[:MAX_NAME_CHARS]
    longer = re.compile(rf"(?<!\w){re.escape(asked)}(?!\w)")  # `Falke` of `Projekt Falke`
    near = sorted(filter(longer.search, called), key=len) if asked else []
    near += get_close_matches(asked, called, MAX_NEAR, NEAR)
    ids = dict.fromkeys(called[name] for name in near if called[name] != reference)
    raise UnknownReferenceError(reference, list(ids)[:MAX_NEAR])


def match_documents(name: str, documents: Sequence[DocumentName]) -> list[DocumentName]:
    """Return those of a path or the end of one, with or without its ending; else of a title or an alias."""
    wanted = fold(name.strip().removeprefix("./"))

    def is_path(document: DocumentName) -> bool:
        paths = document.path, drop_ending(document.path), drop_ending(document.node_id)
        return any(f"/{fold(path)}".endswith(f"/{wanted}") for path in paths)

    def is_title(document: DocumentName) -> bool:
        return wanted in map(fold, (document.title, *json.loads(document.aliases)))

    return (list(filter(is_path, documents)) or list(filter(is_title, documents))) if wanted else []


def match_sections(heading: str, sections: Sequence[SectionName]) -> list[SectionName]:
    """Return the sections of a heading as Obsidian writes it, `Heading` or `Heading#Deeper`, or of what it names.

    By title, else by anchor, else by the name of a function (`fs.access` of `fs.access(path, mode)`), else as Obsidian
    compares them.
    """
    above, _, deepest = heading.strip(" #").rpartition("#")
    wanted, bare, plain = fold(deepest), fold(drop_arguments(deepest)), fold_heading(deepest)
    ways: tuple[Callable[[SectionName], bool], ...] = (
        lambda section: fold(section.title) == wanted,
        lambda section: section.anchor == deepest,
        lambda section: bare in map(fold, list_names(section.title)),
        lambda section: fold_heading(section.title) == plain,
    )
    # The first way that finds any decides.
    matches = (list(filter(way, sections)) for way in ways if plain)
    found = next(filter(None, matches), [])
    for title in filter(None, above.split("#")):
        found = [section for section in found if fold(title) in map(fold, read_titles(section.above))] or found
    return found


def fold(name: str) -> str:
    """Return a name without case, accents and repeated blanks."""
    return " ".join(map(remove_accents, name.casefold().split()))
