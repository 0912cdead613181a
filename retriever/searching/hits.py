"""Candidates become hits: their texts, snippets and citations."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from pageindex.node import Node, Span
from retriever.indexing.consent import FolderAccess
from retriever.indexing.snapshot import SEARCHED_FIELDS, find_reader
from retriever.lexical.tokens import TermFinder, tokenize
from retriever.searching.citations import open_anchors
from retriever.searching.open_index import View
from retriever.searching.passage import find_passage
from retriever.searching.reasons import find_question_words, list_reasons
from retriever.settings.schema import ChunkSettings, DocumentSettings, FusionSettings
from retriever.store import reading
from retriever.store.connection import Connection
from retriever.store.reading import StoredChunk
from retriever.text import cut, snippet
from retriever.trace import NoProgress
from retriever.types import Candidate, Hit, Source


@dataclass(frozen=True, slots=True)
class HitSettings:
    """How hits are shown: fields of a profile, by their names there."""

    final_text_chars: int
    final_summary_chars: int
    documents: DocumentSettings
    fusion: FusionSettings


def build_hits(
    view: View, candidates: Sequence[Candidate], question: str, words: Collection[str], settings: HitSettings
) -> tuple[Hit, ...]:
    """The hits of the candidates, in their order.

    Args:
        view: the index.
        candidates: best first.
        question: as it was asked.
        words: the question's, as BM25 reads them.
        settings: how much of a section is shown.
    """
    ids = [candidate.node_id for candidate in candidates]
    # A hit that the tree brought in says from where, by that section's title.
    beside = {item.via.node_id for candidate in candidates for item in candidate.evidence if item.via}
    view.tree.load_nodes([*ids, *beside])
    titles = {node_id: view.tree.node(node_id).title for node_id in beside}
    chunks = read_chunks(view.connection, ids)
    keys = {node_id: view.tree.document_key(node_id) for node_id in ids}
    anchors = open_anchors(view.connection, set(keys.values()), FolderAccess.of(view.index, settings.documents))
    fields = reading.fields(view.connection, set(keys.values()))
    rarity = view.lexical.rarity(list(words))
    languages = view.lexical.read_apart
    terms = TermFinder(words, languages)
    hits = []
    for rank, candidate in enumerate(candidates, start=1):
        node = view.tree.node(candidate.node_id)
        assert node.body_span is not None, "only nodes with lines are ranked"
        # The file may have changed since it was indexed: what is cited is where the text stands now.
        anchor = anchors.anchor(keys[node.id], node.body_span, node.body or node.text)
        chunk = find_matched_chunk(candidate, chunks[node.id], words, languages)
        passage = find_passage(node, chunk, rarity, terms)
        text = cut_to_passage(node, passage.span, settings.final_text_chars)
        # A word that stands in a heading above is said too: a section is read below its headings.
        whole = "\n".join((*node.breadcrumb, node.title, node.body))
        hits.append(
            Hit(
                rank=rank,
                node_id=node.id,
                folder=anchors.folders[keys[node.id]],
                file=node.path,
                span=anchor.span,
                passage=passage.span.shift(anchor.span.first - node.body_span.first),
                title=node.title,
                breadcrumb=node.breadcrumb,
                snippet=snippet(cut_from_passage(node, chunk, passage.span), words, terms.find),
                summary=cut(node.summary, settings.final_summary_chars),
                text=text,
                text_cut=text != node.body,
                score=candidate.score,
                scale=candidate.scale or settings.fusion.method,
                evidence=candidate.evidence,
                matched_fields=find_matched_fields(view, node, fields.get(keys[node.id], ()), words),
                words=find_question_words(question, words, whole, languages),
                reasons=list_reasons(candidate.evidence, titles),
                citation_state=anchor.state,
                sentence=passage.sentence,
            )
        )
    return tuple(hits)


def find_matched_fields(
    view: View, node: Node, fields: Sequence[tuple[str, str]], words: Collection[str]
) -> tuple[tuple[str, str], ...]:
    """What of a document's front matter the scope names, or the question where the section is searched by it."""
    is_named = view.part.names_field if view.part is not None else None
    reader = find_reader(view.tree.sections(view.tree.document_key(node.id))) if fields else None
    terms = TermFinder(words)
    return tuple(
        (key, value)
        for key, value in fields
        if (is_named and is_named(key, value)) or (reader is node and key in SEARCHED_FIELDS and terms.find(value))
    )


def cut_from_passage(node: Node, chunk: StoredChunk | None, passage: Span) -> str:
    """The chunk that matched, from its passage on; a row of a table comes with the table's header."""
    if chunk is None or passage.first <= chunk.span.first or node.span is None:
        return chunk.text if chunk else ""
    # Without its header, a row of a table is a list of values.
    lines = node.text.split("\n")
    begin = top = passage.first - node.span.first
    while top and lines[top].startswith("|") and lines[top - 1].startswith("|"):
        top -= 1
    return "\n".join([*lines[top : min(begin, top + 2)], *lines[begin : chunk.span.last - node.span.first + 1]])


def cut_to_passage(node: Node, passage: Span, max_chars: int) -> str:
    """The section's text within its length: its beginning, or from the passage on where that would not be in it."""
    if len(node.body) <= max_chars or node.span is None:
        return cut(node.body, max_chars)
    # What matched has to be in what is shown, and front matter is no text of the section.
    begin, lines = node.front_matter_lines, node.text.split("\n")
    place = passage.first - node.span.first
    if place <= begin or len("\n".join(lines[begin : passage.last - node.span.first + 1])) < max_chars:
        return cut(node.body, max_chars)
    return cut("\n".join(["…", *lines[place:]]), max_chars)


def read_chunks(connection: Connection, node_ids: Iterable[str]) -> dict[str, list[StoredChunk]]:
    """The chunks of each node, in the order of the text; an empty list for a node that has none."""
    chunks: dict[str, list[StoredChunk]] = {node_id: [] for node_id in node_ids}
    for chunk in reading.chunks_of_nodes(connection, chunks):
        chunks[chunk.node_id].append(chunk)
    if reading.meta(connection, "index_config") is None:  # a first indexing has come to the words, not to the chunks
        from retriever.indexing.embed import cut_chunks

        keys = reading.keys_of_nodes(connection, chunks)
        stored = {item.node.id: item for item in reading.rankable_nodes(connection, keys.values())}
        for made in cut_chunks([item.node for item in stored.values()], None, ChunkSettings(), NoProgress()):
            key = stored[made.node_id].document_key
            chunks[made.node_id].append(StoredChunk(0, made.node_id, key, made.span, made.text))
    return chunks


def find_matched_chunk(
    candidate: Candidate | Hit,
    chunks: Sequence[StoredChunk],
    words: Collection[str],
    languages: tuple[str, ...] = (),
) -> StoredChunk | None:
    """The chunk of a section that the semantic search found, if it did; else the one with most of the words, if any."""
    matched = {item.matched for item in candidate.evidence if item.source is Source.SEMANTIC}
    found = [chunk for chunk in chunks if chunk.span in matched] or list(chunks)
    if len(found) < 2:  # tokenizing costs more than everything else here
        return found[0] if found else None
    return max(found, key=lambda chunk: len(set(words) & set(tokenize(chunk.text, languages))))
