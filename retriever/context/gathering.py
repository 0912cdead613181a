"""The hits of an answer, and what completes their families, with their whole texts from the index."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from pageindex.node import Node, Span
from retriever.context.merging import completing
from retriever.context.sections import Section
from retriever.indexing.consent import FolderAccess
from retriever.lexical.tokens import tokenize
from retriever.searching.citations import Anchors, anchors_of
from retriever.searching.open_index import View
from retriever.searching.stored_tree import StoredTree
from retriever.store import reading
from retriever.types import Answer, Hit


def gathered(view: View, answer: Answer, access: FolderAccess) -> tuple[Section, ...]:
    """What a context of the answer may quote: its hits, best first, then what completes their families.

    Args:
        view: of the generation that answered.
        answer: of this view.
        access: which of the folders may be looked at, and which of their files are documents.
    """
    ids = [hit.node_id for hit in answer.hits]
    view.tree.load_nodes(ids)
    others = completing(ids, view.tree)
    keys = {view.tree.document_key(node_id) for node_id in (*ids, *others)}
    sources = _Sources(view.tree, anchors_of(view.connection, keys, access))
    passages = _passages(view, answer)
    ranks = {hit.node_id: hit.rank for hit in answer.hits}
    return tuple(
        sources.section(node_id, ranks.get(node_id), passages.get(node_id, ())) for node_id in chain(ids, others)
    )


@dataclass(frozen=True, slots=True)
class _Sources:
    """What sections are made of."""

    tree: StoredTree
    anchors: Anchors

    def section(self, node_id: str, rank: int | None, passages: tuple[Span, ...]) -> Section:
        """A section with the lines that it has by now; `passages` are those that it had."""
        node, key = self.tree.node(node_id), self.tree.document_key(node_id)
        assert node.span is not None, "only nodes with lines are found, or complete a family"
        anchor = self.anchors.anchor(key, node.span, node.text)
        down = anchor.span.first - node.span.first
        return Section(
            node_id=node_id,
            folder=self.anchors.folders[key],
            file=node.path,
            span=anchor.span,
            titles=(*node.breadcrumb, node.title),
            text=node.text,
            heading_id=_heading_of(node, self.tree),
            rank=rank,
            passages=tuple(Span(passage.first + down, passage.last + down) for passage in passages),
            citation_state=anchor.state,
        )


def _heading_of(node: Node, tree: StoredTree) -> str:
    """The outermost heading above a node; its file where that has one such heading at most."""
    outermost, above = node, tree.parent(node.id)
    if above is None:
        return node.id
    while (higher := tree.parent(above.id)) is not None:
        outermost, above = above, higher
    return outermost.id if len(tree.children(above.id)) > 1 else above.id


def _passages(view: View, answer: Answer) -> dict[str, tuple[Span, ...]]:
    """The lines of the hits' chunks by node id: the chunk that matched, then the others, the nearest to it first."""
    texts: dict[str, list[tuple[Span, str]]] = {hit.node_id: [] for hit in answer.hits}
    for chunk in reading.chunks_of_nodes(view.connection, texts):
        texts[chunk.node_id].append((chunk.span, chunk.text))
    return {hit.node_id: _nearest_first(hit, texts[hit.node_id], answer.matched_words) for hit in answer.hits}


def _nearest_first(hit: Hit, chunks: Sequence[tuple[Span, str]], words: Sequence[str]) -> tuple[Span, ...]:
    if not chunks:
        return ()
    matched = _matched(hit, chunks, words)
    order = sorted(range(len(chunks)), key=lambda place: (abs(place - matched), -place))
    return tuple(dict.fromkeys(chunks[place][0] for place in order))


def _matched(hit: Hit, chunks: Sequence[tuple[Span, str]], words: Sequence[str]) -> int:
    """The place of the chunk that the dense arm found, if it did; else of the one with most of the question's words."""
    lines = {item.origin for item in hit.evidence if item.arm == "dense"}
    found = [place for place, (span, _) in enumerate(chunks) if str(span) in lines]
    wanted = set(words)
    return max(found or range(len(chunks)), key=lambda place: len(wanted & set(tokenize(chunks[place][1]))))
