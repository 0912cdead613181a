"""Looking around in an index without a question: what a reference names, a section, its neighbors, what is similar.

One look-up of references serves the command line, MCP, the page and the library. Exact forms come first: a node id
(`guide.md#guide/install`), its short form (`guide.md#install`), a path of a file or a folder as the index or the
current folder sees it. Only where these name nothing, what people type is looked for: a file's name alone,
`Note#Heading` and `[[Note#Heading]]` as Obsidian writes them, an alias, a title.
"""

import contextlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import PurePosixPath
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pageindex.formats import drop_ending
from pageindex.node import DocumentTree, Node, NodeKind, Span
from pageindex.text import WIKILINK, count_lines, fold_heading
from retriever.errors import RetrieverError, UnknownReferenceError, UsageError, suggest
from retriever.indexing.request import FolderAccess, locate_path
from retriever.lexical.sections import drop_arguments, list_names
from retriever.lexical.tokens import remove_accents
from retriever.places.view import View
from retriever.searching.citations import Anchors
from retriever.store import reading
from retriever.store.database import Connection
from retriever.store.reading import read_titles
from retriever.store.text_vectors import relate, sample_vectors, vectors_of_nodes
from retriever.store.writing import NODE_BITS
from retriever.text import cut
from retriever.types import Cited, FloatMatrix, Neighbour

LINES = re.compile(r"(?P<path>.+):(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?", re.DOTALL)  # as a hit is cited
MAX_NAMED = 8  # sections that a reference may mean; more are not listed
MAX_NEAR = 3  # that are asked about where it means none
MAX_NAME_CHARS = 300  # nobody types a longer name
NEAR = 0.6  # how alike (difflib) a name is that is asked about


def list_ids(connection: Connection, reference: str) -> Iterator[list[str]]:
    """Yield the ids that a reference may mean: those of the first list that has any; several are files of one name.

    It is an id, else a path in any of the folders, else a path as the current folder sees it.
    """
    if not reference.strip() or any(sign == "\0" or "\ud800" <= sign <= "\udfff" for sign in reference):
        return  # nothing in an index may be called so
    folders = reading.folders(connection)
    yield [reference]
    yield [folder.prefix + reference for folder in folders]
    path, sign, slugs = reference.partition("#")
    for folder, inside in locate_path(folders, path):  # one place is in two folders where one is inside the other
        yield [folder.prefix + inside + sign + slugs]


def find_place(connection: Connection, reference: str) -> tuple[str, tuple[int, int] | None]:
    """Return the id of the file or section that a reference names, and the lines that it names.

    Raises:
        UnknownReferenceError: there is no such file or section; it says which are called nearly so.
        UsageError: there are several.
    """
    for ids in list_ids(connection, reference):
        keys = reading.keys_of_nodes(connection, ids)
        if keys:
            return only(reference, [node_id for node_id in ids if node_id in keys]), None
    if match := LINES.fullmatch(reference):
        with contextlib.suppress(UnknownReferenceError):  # then it is a name that ends like lines
            node_id, _ = find_place(connection, match["path"])
            return node_id, (int(match["first"]), int(match["last"] or match["first"]))
    return find_by_name(connection, reference), None


def find_section(connection: Connection, reference: str) -> str:
    """Return the id of the file or section that a reference names; of lines, the section that holds the first.

    Raises as `find_place`, and UsageError where the file has no such line.
    """
    node_id, lines = find_place(connection, reference)
    if lines is None:
        return node_id
    _, nodes = read_document_of(connection, node_id)
    check_lines(nodes[0], join_texts(nodes), (lines[0], lines[0]))
    return find_line_holder(nodes, lines[0]).id


def read_document_of(connection: Connection, node_id: str) -> tuple[int, list[Node]]:
    """Read the document of a node: its key, and all its nodes in document order, the file first."""
    key = reading.keys_of_nodes(connection, [node_id])[node_id] >> NODE_BITS
    return key, [stored.node for stored in reading.nodes_of_documents(connection, [key])]


def join_texts(nodes: Iterable[Node]) -> str:
    """Return the whole text of a document, from all its nodes."""
    return "".join(node.text for node in nodes)


def find_line_holder(nodes: Iterable[Node], line: int) -> Node:
    """Return the section, or file, that holds a line of a document, from all its nodes."""
    return next(node for node in nodes if node.span and node.span.last >= line)


def check_lines(file: Node, text: str, lines: tuple[int, int] | None) -> Span:
    r"""Return the lines of a file that has this text, all where none are named; UsageError where it has them not.

    >>> file = Node("a.md", NodeKind.FILE, "a.md", "A", 0, (), None, "")
    >>> check_lines(file, "one\ntwo\n", None), check_lines(file, "one\ntwo\n", (2, 2))
    (Span(first=1, last=2), Span(first=2, last=2))
    >>> check_lines(file, "one\ntwo\n", (0, 1))
    Traceback (most recent call last):
    retriever.errors.UsageError: a.md has the lines 1-2, not 0-1
    >>> check_lines(file, "one\ntwo\n", (3, 3))
    Traceback (most recent call last):
    retriever.errors.UsageError: a.md has the lines 1-2, not 3
    >>> check_lines(file, "", (1, 1))
    Traceback (most recent call last):
    retriever.errors.UsageError: a.md is empty
    """
    last_line = count_lines(text)
    first, last = lines or (1, last_line)
    if not last_line:
        raise UsageError(f"{file.path} is empty")
    if not 1 <= first <= last <= last_line:
        asked = f"{first}-{last}" if last != first else first
        raise UsageError(f"{file.path} has the lines 1-{last_line}, not {asked}")
    return Span(first, last)


def only(reference: str, found: Sequence[str]) -> str:
    """Return the one that was found.

    >>> only("x", list("abcdefgh"))
    Traceback (most recent call last):
    retriever.errors.UsageError: 'x' may be any of a, b, c, d, e, f, g, h
    >>> only("x", list("abcdefghi"))
    Traceback (most recent call last):
    retriever.errors.UsageError: 'x' may be any of a, b, c, d, e, f, g, h and 1 more

    Raises:
        UsageError: there are several.
    """
    if len(found) > 1:
        more = f" and {len(found) - MAX_NAMED} more" if len(found) > MAX_NAMED else ""
        raise UsageError(f"{reference!r} may be any of {', '.join(found[:MAX_NAMED])}{more}")
    return found[0]


# By the names that people know.


class Name(NamedTuple):
    """A file or a section, and what it is called."""

    node_id: str
    kind: str
    title: str
    anchor: str
    above: str  # titles, as they are stored
    document_key: int
    path: str  # of the file, relative to its folder
    aliases: str  # likewise, as JSON

    @property
    def called(self) -> tuple[str, ...]:
        """The names of a file besides its path."""
        return self.title, *json.loads(self.aliases)


_NAMES = (
    "SELECT node_id, kind, nodes.title, anchor, breadcrumb, document_key, path, aliases"
    " FROM nodes JOIN documents USING (document_key) ORDER BY length(path), path, node_key"
)


def find_by_name(connection: Connection, reference: str) -> str:
    """Return the id of the file or section that a reference names as people do.

    Raises:
        UnknownReferenceError: none is called so; it says which are called nearly so.
        UsageError: there are several.
    """
    names = [Name(*row) for row in connection.execute(_NAMES)]
    files = [name for name in names if name.kind == NodeKind.FILE]
    wikilink = WIKILINK.fullmatch(reference.strip())
    name, sign, heading = (wikilink[1] if wikilink else reference).strip().partition("#")
    exactly = ([file for file in files if file.node_id in ids] for ids in list_ids(connection, name))
    named = next(filter(None, exactly), []) or (match_files(name, files) if name else [])
    if named and (not heading.strip() or heading.startswith("^")):  # `^` begins a block of Obsidian's
        return only(reference, [file.node_id for file in named])
    inside = {file.document_key for file in named or files}
    sections = [section for section in names if section.kind == NodeKind.SECTION and section.document_key in inside]
    wanted = heading if named or (sign and not name.strip()) else name
    asked = fold(wanted.rpartition("#")[2])[:MAX_NAME_CHARS]
    longer = re.compile(rf"(?<!\w){re.escape(asked)}(?!\w)")  # `Falke` of `Projekt Falke`
    held = [section for section in sections if asked and not sign and longer.search(fold(section.title))]
    if found := match_sections(wanted, sections) or (held if len(held) == 1 else []):
        return only(reference, [section.node_id for section in found])
    called = {fold(section.title): section.node_id for section in sections}
    for file in () if named else files:  # a file has the title of its first section, and stands for it
        last = file.path.rpartition("/")[2]
        called |= {fold(name): file.node_id for name in (*file.called, drop_ending(last), last, file.path)}
        called |= {fold(f"{folder}/"): f"{folder}/" for folder in PurePosixPath(file.node_id).parents[:-1]}
    near = sorted(filter(longer.search, called), key=len) if asked else []
    near += get_close_matches(asked, called, MAX_NEAR, NEAR)
    ids = dict.fromkeys(called[name] for name in near if called[name] != reference)
    raise UnknownReferenceError(reference, list(ids)[:MAX_NEAR])


def match_files(name: str, files: Sequence[Name]) -> list[Name]:
    """Return those of a path or the end of one, with or without its ending; else of a title or an alias."""
    wanted = fold(name.removeprefix("./"))

    def is_path(file: Name) -> bool:
        paths = file.path, drop_ending(file.path), drop_ending(file.node_id)
        return any(f"/{fold(path)}".endswith(f"/{wanted}") for path in paths)

    return list(filter(is_path, files)) or [file for file in files if wanted in map(fold, file.called)]


def match_sections(heading: str, sections: Sequence[Name]) -> list[Name]:
    """Return the sections of a heading as Obsidian writes it, `Heading` or `Heading#Deeper`, or of what it names.

    By title, else by anchor, else by the name of a function (`fs.access` of `fs.access(path, mode)`), else as Obsidian
    compares them.
    """
    above, _, deepest = heading.strip(" #").rpartition("#")
    wanted, bare, plain = fold(deepest), fold(drop_arguments(deepest)), fold_heading(deepest)
    ways: tuple[Callable[[Name], bool], ...] = (
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
    """Return a name without case, accents and repeated blanks.

    >>> fold(" Caf\u00e9  au LAIT")
    'cafe au lait'
    """
    return " ".join(map(remove_accents, name.casefold().split()))


# What is read at a place: the tree below it, or lines.


@dataclass(frozen=True, kw_only=True)
class Excerpt(Cited):
    """Lines of a document: a section as it was indexed, a file or lines of one as they are on the disk."""

    text: str  # the lines of `span`, each with its line end
    title: str  # of the node that holds the first of the lines
    breadcrumb: tuple[str, ...]  # the node's


def load_tree(connection: Connection) -> DocumentTree:
    """Load every folder, file and section, by folder and path, in document order; no texts, summaries and links."""
    tree = DocumentTree()
    rows = connection.execute(
        "SELECT node_id, parent_id, prefix, documents.path, kind, nodes.title, level, first_line, last_line"
        " FROM folders JOIN documents USING (folder_key) JOIN nodes USING (document_key)"
        " ORDER BY folder_key, documents.path, node_key"
    )
    for node_id, parent_id, prefix, path, kind, title, level, first, last in rows:
        span = None if first is None else Span(first, last)
        node = Node(node_id, NodeKind(kind), path, title, level, (), span, "")
        tree.add(node, parent_id or tree.add_folders(prefix, path))
    return tree


def load_tree_at(connection: Connection, reference: str) -> tuple[DocumentTree, str | None]:
    """Load the tree; return it and the id of the node that a reference names: None, for all of it, if empty.

    Raises:
        UnknownReferenceError: there is no such node.
        UsageError: there are several.
    """
    tree = load_tree(connection)
    for ids in list_ids(connection, reference):
        # A folder's id ends with a slash.
        found = [known for node_id in ids for known in (node_id, f"{node_id.rstrip('/')}/") if known in tree]
        if found:
            return tree, only(reference, list(dict.fromkeys(found)))
    return tree, find_section(connection, reference) if reference else None


def read_nodes(connection: Connection, reference: str, depth: int | None) -> tuple[Node, ...]:
    """Read the nodes at and below the one that a reference names, with their texts; raises as `load_tree_at`."""
    tree, top = load_tree_at(connection, reference)
    found = list(tree.walk(top, depth))
    stored = reading.nodes(connection, [node.id for node in found])
    return tuple(stored.get(node.id, node) for node in found)  # folders are in no row


def read_excerpt(connection: Connection, reference: str, access: FolderAccess) -> Excerpt:
    """Read the lines that a reference names; UsageError when there is no such node, path or line.

    Besides a node id, with all that is below it, it may be a path, `path:first-last` or `path:line`; a path is
    absolute, or relative to an indexed folder or to the current one. The first lines of this module say what else.
    """
    node_id, lines = find_place(connection, reference)
    key, nodes = read_document_of(connection, node_id)
    file, anchors = nodes[0], Anchors(connection, [key], access)
    has_lines = lines is not None or node_id == file.id
    state, now = anchors.look_at(key)
    # Lines of a file that has changed: a citation of today names them as they are now.
    is_new = state == "stale" and has_lines
    whole = now if is_new else join_texts(nodes)
    if has_lines:
        span = check_lines(file, whole, lines)
    else:
        spans = [node.span for node in nodes if node.span and is_within(node.id, node_id)]
        span = Span(spans[0].first, spans[-1].last)
    text = "\n".join([*whole.split("\n")[span.first - 1 : span.last], ""])
    node = file if is_new else find_line_holder(nodes, span.first)
    return Excerpt(
        **anchors.cite(key, node.id, span, text).place,
        text=text,
        title=node.title,
        breadcrumb=node.breadcrumb,
    )


def is_within(node_id: str, other: str) -> bool:
    """Return whether a file or section is another one of its document, or below that.

    >>> [is_within(one, "a.md#b") for one in ("a.md#b", "a.md#b/c", "a.md#bc", "a.md")]
    [True, True, False, False]
    >>> is_within("a.md#b", "a.md"), is_within("a.mdx", "a.md")
    (True, False)
    """
    return f"{node_id}/".startswith((f"{other}/", f"{other}#"))


# What a section stands beside: its parent, its children, its siblings, and the links from it and to it.


SUMMARY_CHARS = 200


@dataclass(frozen=True)
class Relations:
    """A file or a section among its neighbours."""

    asked: Neighbour
    # By kind how many there are, and the first of them: parent, children and siblings (the nearest first) of a section;
    # links and backlinks, of a file those of its sections to other files and from them; similar ones.
    beside: Mapping[str, tuple[int, Sequence[Neighbour]]]


def find_relations(view: View, reference: str, access: FolderAccess, most: int) -> Relations:
    """Return the neighbours, at most `most` of a kind, of the file or section that a node id or a path names.

    Raises as `find_section`.
    """
    node_id = find_section(view.connection, reference)
    tree = view.tree
    tree.load_nodes([node_id])
    above = tree.parent(node_id)
    # The links of a file stand in its sections.
    sections = () if above else tree.sections(tree.document_key(node_id))
    linking = {node_id, *(section.id for section in sections)}
    found = {
        "parent": [above.id] if above else [],
        "children": [node.id for node in tree.children(node_id)],
        "siblings": [node.id for node in tree.siblings(node_id)],
        "links": [own for own in reading.link_targets(view.connection, linking) if own not in linking],
        "backlinks": [own for own in reading.link_sources(view.connection, linking) if own not in linking],
    }
    with contextlib.suppress(RetrieverError):  # it has no text, or the index no vectors: the rest can be said
        found["similar"] = list(score_similar(view, node_id, MOST_RELATED))
    cited = cite_nodes(view, [node_id, *(own for ids in found.values() for own in ids[:most])], access)
    beside = {kind: (len(ids), [cited[own] for own in ids[:most]]) for kind, ids in found.items()}
    return Relations(cited[node_id], beside)


def cite_nodes(view: View, node_ids: Sequence[str], access: FolderAccess) -> dict[str, Neighbour]:
    """Cite files and sections, by their ids; a file without lines above its first heading by all its lines."""
    tree, nodes = view.tree, reading.nodes(view.connection, node_ids)
    tree.load_nodes(node_ids)
    keys = {node_id: tree.document_key(node_id) for node_id in nodes}
    anchors = Anchors(view.connection, set(keys.values()), access)
    cited = {}
    for node_id, key in keys.items():
        node = nodes[node_id]
        parts = (part.span.last for part in tree.sections(key) if part.span)
        span = node.span or Span(1, max(parts, default=1))
        cited[node_id] = Neighbour(
            **anchors.cite(key, node_id, span, node.text).place,
            title=node.title,
            breadcrumb=node.breadcrumb,
            summary=cut(node.summary, SUMMARY_CHARS),
        )
    return cited


# The sections that are nearest in meaning: no question, and no model but that of the index. What a section says is the
# mean of its chunks' vectors; how similar two are, the cosine of their means, as `relate` gives it. Candidates are the
# sections of the nearest chunks: a section whose mean is near has a chunk that is about as near. What is no nearer than
# unrelated sections of this index are to one another is not similar, and neither is a text that many files have.

MOST_RELATED = 5  # similar sections among the neighbours
FIRST_CHUNKS = 200  # of other sections, that are looked at
COMPARED = 500  # texts, each with each
MOST_COPIES = 10  # files with one text: what more have is a template, or navigation


def score_similar(
    view: View, node_id: str, count: int, *, unlinked: bool = False, elsewhere: bool = False
) -> dict[str, float]:
    """Return the sections of other files nearest to a section or file, and how near each is, the nearest first.

    Raises:
        UsageError: it has no text, or the index has no vectors.
        SnapshotError: the vectors are not those of the index.
    """
    connection, fingerprint, tree = view.connection, view.state.fingerprint, view.tree
    if not fingerprint:
        raise UsageError("the index has no vectors, by which to say what is similar", hint=suggest("index FOLDER"))
    tree.load_nodes([node_id])
    of_file = {node.id for node in reading.outlines(connection, [tree.document_key(node_id)])}
    owners, matrix = vectors_of_nodes(connection, fingerprint, of_file)
    keep_shared(view, matrix)
    own = [(part, row) for part, row in zip(owners, matrix, strict=True) if is_within(part, node_id)]
    if not own:
        yet = " yet; ask again when more is" if view.state.embedded_share < 1 else ""
        raise UsageError(f"{node_id!r} has no text that was embedded{yet}")
    floor, templates = measure_unrelated(view)
    telling = [row for part, row in own if part not in templates]
    if not telling:
        return {}
    mean = np.mean(telling, axis=0, keepdims=True)
    # The nearest chunks may be those of the file itself, but these are not more than it has.
    nearest = view.find_nearest(mean, max(FIRST_CHUNKS, 3 * count) + len(owners), "exact")
    candidates = {chunk.node_id for chunk in nearest} - of_file - templates
    tree.load_nodes(candidates)
    links = (reading.link_targets, reading.link_sources) if unlinked else ()
    linked = {key for list_linked in links for key in list_linked(connection, of_file).values()}
    shown = [
        node.id
        for node in reading.nodes(connection, candidates).values()
        if node.has_text
        and tree.document_key(node.id) not in linked
        and not (elsewhere and name_folder(node.id) == name_folder(node_id))
    ]
    owners, matrix = vectors_of_nodes(connection, fingerprint, shown)
    common = keep_shared(view, matrix)
    names, vector, near = np.array(owners), mean[0].astype(np.float64), sorted(set(owners))
    means = np.array([matrix[names == name].mean(axis=0, dtype=np.float64) for name in near]).reshape(-1, len(vector))
    cosines = relate(means @ vector, float(vector @ vector), (means**2).sum(axis=1), common)
    scores = dict(zip(near, np.minimum(cosines, 1.0).round(6).tolist(), strict=True))
    best = sorted(near, key=scores.__getitem__, reverse=True)
    return {name: scores[name] for name in best[:count] if scores[name] > floor}


def name_folder(node_id: str) -> str:
    """Return the path of the folder that holds a section's file.

    >>> name_folder("guide/a.md#install/linux"), name_folder("a.md")
    ('guide', '')
    """
    return node_id.partition("#")[0].rpartition("/")[0]


def keep_shared(view: View, rows: "FloatMatrix | npt.NDArray[np.float64]") -> float:
    """Put zeros for the numbers that not all texts have, and return the mean cosine of unrelated ones by the others."""
    if not view.background:
        return 0.0
    scale = view.background.abroad or view.background
    rows[:, scale.length :] = 0
    return scale.common


def measure_unrelated(view: View) -> tuple[float, set[str]]:
    """Return how near unrelated sections are to one another, as `relate` gives it, and the sections of templates."""
    connection, fingerprint = view.connection, view.state.fingerprint
    rows = sample_vectors(connection, fingerprint, COMPARED).astype(np.float64)
    common = keep_shared(view, rows)
    squares, compared = (rows**2).sum(axis=1), np.triu_indices(len(rows), 1)
    pairs = relate((rows @ rows.T)[compared], squares[compared[0]], squares[compared[1]], common)
    # Most pairs are unrelated: those below the median are so, and unrelated ones above it lie as far from it.
    low, middle = np.quantile(pairs, [0.05, 0.5]).tolist() if len(pairs) else (0.0, 0.0)
    templates = connection.execute(
        "SELECT node_id FROM nodes WHERE body_hash IN"
        " (SELECT body_hash FROM nodes GROUP BY body_hash HAVING count(DISTINCT document_key) > ?)",
        (MOST_COPIES,),
    )
    return middle + 2 * (middle - low), {node_id for (node_id,) in templates}
