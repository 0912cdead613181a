"""The sections that are nearest in meaning to a section or a file: no question, and no model but that of the index.

What a section says is the mean of its chunks' vectors; how similar two are, the cosine of their means. Candidates are
the sections of the nearest chunks: a section whose mean is near has a chunk that is about as near.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pageindex.node import Node, NodeKind
from retriever.errors import CommandHint, UsageError
from retriever.indexing.consent import FolderAccess
from retriever.looking.references import find_in_documents
from retriever.searching.citations import Anchors
from retriever.searching.open_index import View
from retriever.settings.schema import VectorChoice
from retriever.store import text_vectors
from retriever.text import cut
from retriever.types import SimilarSection, SimilarSections

if TYPE_CHECKING:
    from retriever.types import FloatMatrix

DEFAULT_COUNT = 10
FIRST_CHUNKS = 200  # that are looked at; ten times as many, then all, where most of them are the file's own
SUMMARY_CHARS = 200


def find_similar(
    view: View,
    reference: str,
    access: FolderAccess,
    count: int = DEFAULT_COUNT,
    *,
    same_file: bool = False,
    how: VectorChoice = "exact",
) -> SimilarSections:
    """The sections that are nearest in meaning to the section (with all below it) or file that a reference names.

    Args:
        view: the index.
        reference: a node id or a path.
        access: which of the folders may be looked at, and which of their files are documents.
        count: how many at most.
        same_file: whether other sections of the same file count, which are marked.
        how: as `vector_search` of the profile.

    Raises:
        UsageError: there is no such section or file, it has no text, or the index has no vectors.
        SnapshotError: the vectors are not those of the index.
    """
    key, node_id = find_in_documents(view.connection, reference)
    tree = view.tree
    tree.load([key])
    asked = tree.read([node_id])[node_id]
    own = [node_id, *_below(view, node_id)]
    if not view.fingerprint:
        raise UsageError(
            "this index has no vectors, so nothing can be said of what is similar", hint=CommandHint("index FOLDER")
        )
    _, _, matrix = text_vectors.vectors_of_nodes(view.connection, view.fingerprint, own)
    if not len(matrix):
        yet = " yet; ask again when more is" if view.embedded_share < 1 else ""
        raise UsageError(f"{node_id!r} has no text that was embedded{yet}")
    mean = _mean(matrix)
    nodes = _near_nodes(view, mean, (set(own), "" if same_file else key), count, how)
    scores = _score(view, mean, nodes)
    tree.load_nodes(scores)
    found = tree.read(scores)
    ordered = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    best = [item for item in ordered if found[item[0]].has_text][:count]
    title = asked.title or asked.path if asked.kind is NodeKind.FILE else asked.title
    return SimilarSections(
        node_id=node_id, file=asked.path, title=title, sections=_cite(view, best, found, key, access)
    )


def _cite(
    view: View,
    best: Sequence[tuple[str, float]],
    nodes: Mapping[str, Node],
    asked_document: int,
    access: FolderAccess,
) -> tuple[SimilarSection, ...]:
    """Return the sections with their similarities, best first, each with the lines where its text stands now."""
    keys = {near: view.tree.document_key(near) for near, _ in best}
    anchors = Anchors(view.connection, set(keys.values()), access)
    sections = []
    for rank, (near, similarity) in enumerate(best, start=1):
        node, document = nodes[near], keys[near]
        assert node.span is not None, "only nodes with lines have chunks"
        anchor = anchors.anchor(document, node.span, node.text)
        sections.append(
            SimilarSection(
                rank=rank,
                node_id=near,
                folder=anchors.folders[document],
                file=node.path,
                span=anchor.span,
                title=node.title,
                breadcrumb=node.breadcrumb,
                summary=cut(node.summary, SUMMARY_CHARS),
                similarity=similarity,
                is_same_file=document == asked_document,
                citation_state=anchor.state,
                cited_as=anchors.names[document],
            )
        )
    return tuple(sections)


def _below(view: View, node_id: str) -> Iterable[str]:
    for child in view.tree.children(node_id):
        yield child.id
        yield from _below(view, child.id)


def _mean(matrix: "FloatMatrix") -> "FloatMatrix":
    """(1, d) float32, a unit row: the mean of the rows."""
    mean = matrix.mean(axis=0, dtype=np.float64, keepdims=True)
    length = float(np.linalg.norm(mean))
    unit: FloatMatrix = (mean / (length or 1.0)).astype(np.float32)
    return unit


def _near_nodes(
    view: View,
    mean: "FloatMatrix",
    left_out: tuple[set[str], int | str],
    count: int,
    how: VectorChoice,
) -> list[str]:
    """The sections of the nearest chunks, without the asked one and, where its key is given, its document."""
    own, own_document = left_out
    total = view.counts.chunks
    nodes: dict[str, None] = {}
    for limit in (FIRST_CHUNKS, 10 * FIRST_CHUNKS, total):
        nearest = view.find_nearest(mean, max(1, min(limit, total)), how)
        chunks = [chunk for text in nearest for chunk in text.chunks]
        nodes = dict.fromkeys(
            chunk.node_id for chunk in chunks if chunk.node_id not in own and chunk.document_key != own_document
        )
        if len(nodes) >= 2 * count or limit >= total:
            break
    return list(nodes)


def _score(view: View, mean: "FloatMatrix", node_ids: Iterable[str]) -> dict[str, float]:
    """The cosine of each section's mean with this one, -1 to 1."""
    _, owners, matrix = text_vectors.vectors_of_nodes(view.connection, view.fingerprint, node_ids)
    rows: dict[str, list[int]] = {}
    for row, node_id in enumerate(owners):
        rows.setdefault(node_id, []).append(row)
    return {
        node_id: round(float(np.dot(_mean(matrix[places])[0].astype(np.float64), mean[0])), 6)
        for node_id, places in rows.items()
    }
