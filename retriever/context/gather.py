"""The sections of an answer with their whole texts from the index, and the context that is made of them."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import compress

from pageindex.node import Span
from retriever.context.budget import Context, ContextSection, build_context, load_token_counter
from retriever.errors import IndexLockedError
from retriever.indexing.consent import FolderAccess
from retriever.searching.citations import Anchors
from retriever.searching.hits import find_matched_chunk, read_chunks
from retriever.searching.neighbors import Tree
from retriever.searching.open_index import View
from retriever.types import Answer


@dataclass(frozen=True, slots=True)
class AnswerInContext:
    answer: Answer
    context: Context


def ask_for_context(
    ask: Callable[[], Answer],
    open_view: Callable[[], AbstractContextManager[View]],
    max_tokens: int,
    access: FolderAccess,
) -> AnswerInContext:
    """Search and build the context of what was found, both from one state of the index."""
    # The index may change between the search and the reading of the texts; then both are done again.
    for _ in range(3):
        answer = ask()
        with open_view() as view:
            if view.number == answer.index.snapshot:
                sections = gather_sections(view, answer, access)
                return AnswerInContext(
                    answer, build_context(sections, answer.verdict, max_tokens, load_token_counter())
                )
    raise IndexLockedError("the index changed again and again while it was read; try again when indexing has finished")


def gather_sections(view: View, answer: Answer, access: FolderAccess) -> tuple[ContextSection, ...]:
    """Return the hits, best first, then the sections that complete their families, with their lines as of now."""
    tree = view.tree
    hits = {hit.node_id: hit for hit in answer.hits}
    tree.load_nodes(hits)
    family = complete_families(list(hits), tree)
    if answer.scope is not None:
        family = tuple(compress(family, view.within(answer.scope.scope).are_allowed(family)))
    ids = [*hits, *family]
    nodes = tree.read(ids)
    anchors = Anchors(view.connection, {tree.document_key(node_id) for node_id in ids}, access)
    chunks = read_chunks(view.connection, hits)

    sections = []
    for node_id in ids:
        node, key, hit = nodes[node_id], tree.document_key(node_id), hits.get(node_id)
        if not node.body and node.front_matter_lines:
            continue  # there is nothing to quote
        assert node.body_span is not None, "only nodes with lines are found, or complete a family"
        anchor = anchors.anchor(key, node.body_span, node.body or node.text)
        down = anchor.span.first - node.body_span.first  # how far the text has moved in its file
        spans: list[Span] = []
        if hit is not None and (matched := find_matched_chunk(hit, chunks[node_id], answer.matched_words)):
            # The chunk that matched, then the others, the nearest to it first.
            start = chunks[node_id].index(matched)
            order = sorted(range(len(chunks[node_id])), key=lambda place: (abs(place - start), -place))
            spans = [chunks[node_id][place].span for place in order]
        sections.append(
            ContextSection(
                node_id=node_id,
                folder=anchors.folders[key],
                file=node.path,
                span=anchor.span,
                titles=(*node.breadcrumb, node.title),
                text=node.body,
                rank=hit.rank if hit else None,
                chunk_spans=tuple(Span(span.first + down, span.last + down) for span in dict.fromkeys(spans)),
                citation_state=anchor.state,
                cited_as=anchors.names[key],
            )
        )
    return tuple(sections)


def complete_families(found: Sequence[str], tree: Tree) -> tuple[str, ...]:
    """Return the parents of which most children were found (best first), and their children that were not. Pure."""

    # A parent takes the place of its children: its own text and theirs are quoted as one. A completed family counts as
    # found for the one above it. Those of the best hits come first, in document order.
    def is_to_complete(parent: str, known: Iterable[str]) -> bool:
        children = [child.id for child in tree.children(parent)]
        counts = Counter(child in known for child in children)
        # A parent with one child says little more than the child: two found children are needed, and more than half.
        is_mostly_found = counts[True] >= 2 and counts[True] > counts[False]
        return is_mostly_found and not (parent in known and counts[False] == 0)

    known = dict.fromkeys(found)
    level = list(found)
    while level:
        parents = dict.fromkeys(parent.id for parent in map(tree.parent, level) if parent is not None)
        level = [parent for parent in parents if is_to_complete(parent, known)]
        for parent in level:
            known |= dict.fromkeys([parent, *(child.id for child in tree.children(parent))])
    return tuple(node_id for node_id in known if node_id not in set(found) and tree.node(node_id).span)
