"""The sections that are nearest in meaning to a section or a file: no question, and no model but that of the index.

What a section says is the mean of its chunks' vectors; how similar two are, the cosine of their means. Candidates are
the sections of the nearest chunks: a section whose mean is near has a chunk that is about as near.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from pageindex.node import NodeKind
from retriever.errors import CommandHint, UsageError
from retriever.indexing.consent import FolderAccess
from retriever.looking.references import find_in_documents
from retriever.searching.citations import Anchors
from retriever.searching.open_index import View
from retriever.settings.schema import VectorChoice
from retriever.store.text_vectors import vectors_of_nodes
from retriever.text import cut
from retriever.types import SimilarSection, SimilarSections

if TYPE_CHECKING:
    from retriever.types import FloatMatrix

DEFAULT_COUNT = 10
FIRST_CHUNKS = 200  # of other sections, that are looked at
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
    if not view.fingerprint:
        raise UsageError(
            "this index has no vectors, so nothing can be said of what is similar", hint=CommandHint("index FOLDER")
        )
    own = {node_id, *list_below(view, node_id)}
    _, _, matrix = vectors_of_nodes(view.connection, view.fingerprint, own)
    if not len(matrix):
        yet = " yet; ask again when more is" if view.embedded_share < 1 else ""
        raise UsageError(f"{node_id!r} has no text that was embedded{yet}")
    mean = average(matrix)

    # The nearest chunks may be those that are left out, but these are not more than the file has.
    left_out = own if same_file else own | {section.id for section in tree.sections(key)}
    more = len(vectors_of_nodes(view.connection, view.fingerprint, left_out)[1])
    nearest = view.find_nearest(mean, max(FIRST_CHUNKS, 3 * count) + more, how)
    candidates = {chunk.node_id for text in nearest for chunk in text.chunks} - left_out
    _, owners, matrix = vectors_of_nodes(view.connection, view.fingerprint, candidates)
    names = np.array(owners)
    scores = {
        near: round(float(np.dot(average(matrix[names == near])[0].astype(np.float64), mean[0])), 6)
        for near in candidates.intersection(owners)
    }

    tree.load_nodes(scores)
    nodes = tree.read(scores)
    best = [near for near in sorted(scores, key=lambda near: (-scores[near], near)) if nodes[near].has_text][:count]
    keys = {near: tree.document_key(near) for near in best}
    anchors = Anchors(view.connection, set(keys.values()), access)
    sections = []
    for rank, near in enumerate(best, start=1):
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
                similarity=scores[near],
                same_file=document == key,
                citation_state=anchor.state,
                cited_as=anchors.names[document],
            )
        )
    title = asked.title or asked.path if asked.kind is NodeKind.FILE else asked.title
    return SimilarSections(node_id=node_id, file=asked.path, title=title, sections=tuple(sections))


def list_below(view: View, node_id: str) -> Iterator[str]:
    for child in view.tree.children(node_id):
        yield child.id
        yield from list_below(view, child.id)


def average(matrix: "FloatMatrix") -> "FloatMatrix":
    """(1, d) float32, a unit row: the mean of the rows."""
    mean = matrix.mean(axis=0, dtype=np.float64, keepdims=True)
    length = float(np.linalg.norm(mean))
    unit: FloatMatrix = (mean / (length or 1.0)).astype(np.float32)
    return unit
