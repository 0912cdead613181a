"""Reading and looking around in an index, without a question: the tree, a section, its neighbors, what is similar."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pageindex.node import DocumentTree, Node, NodeKind, Span
from pageindex.text import count_lines
from retriever.errors import RetrieverError, UsageError, suggest
from retriever.indexing.request import FolderAccess
from retriever.looking.references import (
    check_lines,
    find_document_holder,
    find_in_documents,
    find_last_line,
    find_node,
    find_place,
)
from retriever.places.view import View
from retriever.searching.citations import Anchors
from retriever.store import reading
from retriever.store.database import Connection
from retriever.store.reading import OutlineNode
from retriever.store.text_vectors import chunk_vectors, distinct_keys, relate, vectors_of_nodes
from retriever.text import cut
from retriever.types import CitationState, Cited, FloatMatrix, SimilarSection, SimilarSections


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
    return tree, find_node(connection, tree, reference) if reference else None


def read_nodes(connection: Connection, reference: str, depth: int | None) -> tuple[Node, ...]:
    """Read the nodes at and below the one that a reference names, with their texts; raises as `load_tree_at`."""
    tree, top = load_tree_at(connection, reference)
    found = list(tree.walk(top, depth))
    stored = {node.id: node for node in reading.nodes(connection, (node.id for node in found))}
    return tuple(stored.get(node.id, node) for node in found)  # folders are in no row


def read_excerpt(connection: Connection, reference: str, access: FolderAccess) -> Excerpt:
    """Read the lines that a reference names; UsageError when there is no such node, path or line.

    Besides a node id, with all that is below it, it may be a path, `path:first-last` or `path:line`; a path is
    absolute, or relative to an indexed folder or to the current one. `references` describes what else it may be.
    """
    key, node_id, lines = find_place(connection, reference)
    stored = list(reading.nodes_of_documents(connection, [key]))  # in document order, the file first
    file, anchors = stored[0].node, Anchors(connection, [key], access)
    state, now = anchors.look_at(key)

    def excerpt(node: Node, span: Span, text: str, state: CitationState) -> Excerpt:
        return Excerpt(
            node_id=node.id,
            folder=anchors.documents[key].folder,
            file=file.path,
            span=span,
            text=text,
            title=node.title,
            breadcrumb=node.breadcrumb,
            citation_state=state,
            cited_as=anchors.documents[key].name,
        )

    if state == "stale" and (lines or node_id == file.id):
        # Lines of a file that has changed: a citation of today names them as they are now.
        last_line = count_lines(now)
        span = check_lines(file, last_line, lines or (1, last_line))
        return excerpt(file, span, _cut(now, span), "exact")
    if lines:
        span = check_lines(file, find_last_line(stored), lines)
    else:
        below, spans = {node_id}, list[Span]()
        for item in stored:
            if item.node.id == node_id or item.parent_id in below:
                below.add(item.node.id)
                spans += [item.node.span] if item.node.span else []
        if not spans:
            raise UsageError(f"{file.path} is empty")
        span = Span(spans[0].first, spans[-1].last)
    text = _cut("".join(item.node.text for item in stored if item.node.span), span)
    anchor = anchors.anchor(key, span, text)
    return excerpt(find_document_holder(stored, span.first), anchor.span, text, anchor.state)


def _cut(text: str, span: Span) -> str:
    return "\n".join([*text.split("\n")[span.first - 1 : span.last], ""])


# What a section stands beside: its parent, its children, its siblings, and the links from it and to it.


@dataclass(frozen=True)
class CitedNode:
    """A file or a section as it is cited now."""

    node: Node
    citation: str
    state: CitationState


@dataclass(frozen=True)
class Relations:
    """A file or a section among its neighbours."""

    asked: CitedNode
    # By kind how many there are, and the first of them: parent, children and siblings (the nearest first) of a section;
    # links and backlinks, of a file those of its sections to other files and from them; similar ones.
    beside: Mapping[str, tuple[int, Sequence[CitedNode]]]


def find_relations(view: View, reference: str, access: FolderAccess, most: int) -> Relations:
    """Return the neighbours, at most `most` of a kind, of the file or section that a node id or a path names.

    Raises as `find_in_documents`.
    """
    key, node_id = find_in_documents(view.connection, reference)
    tree = view.tree
    tree.load_nodes([node_id])
    above = tree.parent(node_id)
    is_file = tree.node(node_id).kind is NodeKind.FILE
    # The links of a file stand in its sections.
    linking = [node_id, *(section.id for section in tree.sections(key) if is_file)]
    linked = {
        kind: [node for own in linking for node in list_linked(own) if not is_file or node.document_key != key]
        for kind, list_linked in (("links", tree.links), ("backlinks", tree.backlinks))
    }
    kinds: dict[str, Iterable[OutlineNode]] = {
        "parent": [above] if above else [],
        "children": tree.children(node_id),
        "siblings": tree.siblings(node_id),
        **linked,
    }
    found = {kind: list(dict.fromkeys(node.id for node in nodes)) for kind, nodes in kinds.items()}
    with contextlib.suppress(RetrieverError):  # it has no text, or the index no vectors: the rest can be said
        found["similar"] = list(score_similar(view, key, node_id, MOST_RELATED))
    nodes = tree.read([node_id, *(own for ids in found.values() for own in ids[:most])])
    keys = {own: tree.document_key(own) for own in nodes}
    anchors = Anchors(view.connection, set(keys.values()), access)

    def cite(own: str) -> CitedNode:
        node, name = nodes[own], anchors.documents[keys[own]].name
        if node.span is None:
            return CitedNode(node, name, "exact")
        anchor = anchors.anchor(keys[own], node.span, node.text)
        return CitedNode(node, f"{name}:{anchor.span}", anchor.state)

    beside = {kind: (len(ids), [cite(own) for own in ids[:most]]) for kind, ids in found.items()}
    return Relations(cite(node_id), beside)


# The sections that are nearest in meaning: no question, and no model but that of the index. What a section says is the
# mean of its chunks' vectors; how similar two are, the cosine of their means, as `relate` gives it. Candidates are the
# sections of the nearest chunks: a section whose mean is near has a chunk that is about as near. What is no nearer than
# unrelated sections of this index are to one another is not similar, and neither is a template that most files have.

MOST_RELATED = 5  # similar sections among the neighbours
FIRST_CHUNKS = 200  # of other sections, that are looked at
COMPARED = 500  # texts, each with each
FEWEST_FILES = 10  # with a title, for a template
SUMMARY_CHARS = 200


def find_similar(
    view: View,
    reference: str,
    access: FolderAccess,
    count: int,
    *,
    unlinked: bool = False,
) -> SimilarSections:
    """Find the sections nearest in meaning, as `Retriever.similar`; `access` is of its profile.

    Raises:
        UsageError: there is no such section or file, it has no text, or the index has no vectors.
        SnapshotError: the vectors are not those of the index.
    """
    key, node_id = find_in_documents(view.connection, reference)
    scores = score_similar(view, key, node_id, count, unlinked=unlinked)
    nodes = view.tree.read([node_id, *scores])
    asked, keys = nodes[node_id], {near: view.tree.document_key(near) for near in scores}
    anchors = Anchors(view.connection, set(keys.values()), access)
    sections = []
    for rank, (near, similarity) in enumerate(scores.items(), start=1):
        node, document = nodes[near], anchors.documents[keys[near]]
        assert node.span is not None, "only nodes with lines have chunks"
        anchor = anchors.anchor(keys[near], node.span, node.text)
        section = SimilarSection(
            rank=rank,
            node_id=near,
            folder=document.folder,
            file=node.path,
            span=anchor.span,
            title=node.title,
            breadcrumb=node.breadcrumb,
            summary=cut(node.summary, SUMMARY_CHARS),
            similarity=similarity,
            citation_state=anchor.state,
            cited_as=document.name,
        )
        sections.append(section)
    return SimilarSections(node_id=node_id, file=asked.path, title=asked.title, sections=tuple(sections))


def score_similar(
    view: View,
    key: int,
    node_id: str,
    count: int,
    *,
    unlinked: bool = False,
) -> dict[str, float]:
    """Return the nearest sections to one of a document, or to its file, and how near each is, the nearest first."""
    tree = view.tree
    tree.load([key])
    if not view.state.fingerprint:
        raise UsageError("the index has no vectors, by which to say what is similar", hint=suggest("index FOLDER"))
    of_file = {node.id for node in reading.outlines(view.connection, [key])}
    own = {part for part in of_file if f"{part}/".startswith((f"{node_id}/", f"{node_id}#"))}
    _, owners, matrix = vectors_of_nodes(view.connection, view.state.fingerprint, own)
    if not len(matrix):
        yet = " yet; ask again when more is" if view.state.embedded_share < 1 else ""
        raise UsageError(f"{node_id!r} has no text that was embedded{yet}")
    floor, templates = measure_unrelated(view)
    parts = tree.read(owners)
    telling = [row for part, row in zip(owners, matrix, strict=True) if parts[part].title not in templates]
    scores = score_near(view, np.mean(telling, axis=0, keepdims=True), of_file, count) if telling else {}
    tree.load_nodes(scores)
    nodes = tree.read(scores)
    linked = {node.document_key for part in of_file if unlinked for node in (*tree.links(part), *tree.backlinks(part))}
    near = sorted(
        near
        for near, score in scores.items()
        if score > floor
        and nodes[near].has_text
        and nodes[near].title not in templates
        and tree.document_key(near) not in linked - {key}
    )
    return {best: scores[best] for best in sorted(near, key=scores.__getitem__, reverse=True)[:count]}


def score_near(view: View, mean: FloatMatrix, left_out: set[str], count: int) -> dict[str, float]:
    """Return how near the mean of each near section is to this one, at most 1."""
    # The nearest chunks may be those that are left out, but these are not more than they have.
    more = len(vectors_of_nodes(view.connection, view.state.fingerprint, left_out)[1])
    nearest = view.find_nearest(mean, max(FIRST_CHUNKS, 3 * count) + more, "exact")
    candidates = {chunk.node_id for chunk in nearest} - left_out
    _, owners, matrix = vectors_of_nodes(view.connection, view.state.fingerprint, candidates)
    names, near, own = np.array(owners), sorted(candidates.intersection(owners)), mean[0].astype(np.float64)
    means = np.array([matrix[names == name].mean(axis=0, dtype=np.float64) for name in near]).reshape(-1, len(own))
    cosines = relate(means @ own, float(own @ own), (means**2).sum(axis=1), view.common)
    return dict(zip(near, np.minimum(cosines, 1.0).round(6).tolist(), strict=True))


def measure_unrelated(view: View) -> tuple[float, set[str]]:
    """Return how near unrelated sections are to one another, as `relate` gives it, and the titles of templates."""
    connection, fingerprint = view.connection, view.state.fingerprint

    def compare(keys: Sequence[int]) -> npt.NDArray[np.float64]:
        rows = chunk_vectors(connection, fingerprint, keys)[2].astype(np.float64)
        return relate((rows @ rows.T)[np.triu_indices(len(rows), 1)], 1.0, 1.0, view.common)

    keys = np.random.default_rng(0).permutation(distinct_keys(connection, fingerprint))  # the same ones each time
    pairs = compare(keys[:COMPARED].tolist())
    # Most pairs are unrelated: those below the median are so, and unrelated ones above it lie as far from it.
    low, middle = np.quantile(pairs, [0.05, 0.5]).tolist() if len(pairs) else (0.0, 0.0)
    floor = middle + 2 * (middle - low)
    most = max(FEWEST_FILES, reading.counts(connection).documents // 2)
    titles = connection.execute(
        "SELECT title FROM nodes GROUP BY title HAVING count(DISTINCT document_key) > ?", (most,)
    )
    of_title = "SELECT chunk_key FROM chunks JOIN nodes USING (node_key) WHERE title = ? ORDER BY chunk_key LIMIT ?"
    templates = set()
    for (title,) in titles.fetchall():
        same = compare([key for (key,) in connection.execute(of_title, (title, COMPARED))])
        if len(same) and np.median(same) > floor:  # a log of each day has one title, and says something else
            templates.add(title)
    return floor, templates
