"""Candidates as a reranker is shown them: titles, summary, and the passage that matched with what stands around it."""

from collections.abc import Collection, Iterator, Sequence
from itertools import islice

from pageindex.markdown import References
from pageindex.node import Node
from pageindex.summary import prose_sentences
from retriever.lexical.tokens import tokenize
from retriever.rerank.reranker import Shown
from retriever.searching.open_index import View
from retriever.searching.passages import cut, cut_around, matched_chunk
from retriever.settings.profile import Profile
from retriever.store import reading
from retriever.store.reading import StoredChunk
from retriever.types import Candidate


def shown(view: View, candidates: Sequence[Candidate], words: Collection[str], profile: Profile) -> list[Shown]:
    """Each candidate as the reranker of the profile is to read it.

    Args:
        view: the index.
        candidates: sections.
        words: the question's, as BM25 reads them.
        profile: how long the pieces are; a cross-encoder reads sentences around short sections too.
    """
    ids = [candidate.node_id for candidate in candidates]
    view.tree.load_nodes(ids)
    chunks: dict[str, list[StoredChunk]] = {node_id: [] for node_id in ids}
    for chunk in reading.chunks_of_nodes(view.connection, ids):
        chunks[chunk.node_id].append(chunk)
    return [_shown(view, candidate, chunks[candidate.node_id], words, profile) for candidate in candidates]


def _shown(
    view: View, candidate: Candidate, chunks: Sequence[StoredChunk], words: Collection[str], profile: Profile
) -> Shown:
    node = view.tree.node(candidate.node_id)
    text = passage(node, matched_chunk(candidate, chunks, words, tokenize), profile.final_text_chars)
    if profile.rerank.kind == "cross-encoder" and len(node.body) < profile.rerank.short_chars:
        sections = view.tree.sections(view.tree.document_key(node.id))
        text = in_context(text, sections, sections.index(node), profile.rerank.context_sentences)
    titles = " > ".join(filter(None, (*node.breadcrumb, node.title)))
    return Shown(titles, cut(node.summary, profile.final_summary_chars), text)


def passage(node: Node, chunk: StoredChunk | None, max_chars: int) -> str:
    """At most so many characters of the section, the chunk in their middle as far as there is text on both sides."""
    if chunk is None or node.span is None:
        return cut(node.text, max_chars)
    lines = node.text.split("\n")
    before = chunk.span.first - node.span.first
    line_start = sum(len(line) + 1 for line in lines[:before])
    # One line may hold many chunks; a table's later chunks begin with its header, which does not stand there.
    found = node.text.find(chunk.text, line_start)
    start = found if found >= 0 else line_start
    inside = sum(len(line) + 1 for line in lines[before : before + len(chunk.span)])
    end = start + (len(chunk.text) if found >= 0 else inside)
    return cut_around(node.text, start, end, max_chars)


def in_context(text: str, sections: Sequence[Node], place: int, count: int) -> str:
    """The text between the `count` sentences before and after its section in the document."""
    back = (reversed(list(_sentences(section))) for section in reversed(sections[:place]))
    before = list(islice((sentence for found in back for sentence in found), count))[::-1]
    after = islice((sentence for section in sections[place + 1 :] for sentence in _sentences(section)), count)
    return "\n".join(filter(None, (" ".join(before), text, " ".join(after))))


def _sentences(section: Node) -> Iterator[str]:
    return prose_sentences(section.body, References())
