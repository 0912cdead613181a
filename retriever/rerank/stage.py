"""The stage: the candidates of a search in a reranker's order, or as they were when that fails."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from math import log2
from typing import Protocol

from pageindex.node import Node
from retriever.display.phrases import pluralize
from retriever.errors import EncoderError, LanguageModelError, RerankerError, UnfitModelError
from retriever.expansion.screening import find_entities
from retriever.lexical.tokens import tokenize
from retriever.places.view import View
from retriever.searching.hits import find_matched_chunk, read_chunks
from retriever.settings.schema import Profile
from retriever.store.reading import StoredChunk
from retriever.text import cut, cut_around
from retriever.trace import Note, Recorder
from retriever.types import Candidate, Evidence, Source, StageName

SCALE = "reranked"
# What the order before the reranking weighs beside it: it keeps the first hits where a reranker fails, and costs a
# perfect one .006 of nDCG@10 (benchmarks/rerank.py).
BLEND = 0.3
LLM_PASSAGE_CHARS = 600  # that a language model reads of a candidate: thirty of them fill half of a small window


@dataclass(frozen=True)
class RerankInput:
    """A candidate as a reranker reads it: words of the documents alone, none that a model made up."""

    titles: str  # the breadcrumb and its own title, outermost first, with ` > ` between
    text: str  # the passage that matched with the text around it, a limited number of characters of the section

    @property
    def joined(self) -> str:
        """The titles first, because the text may be cut at its end."""
        return f"{self.titles}\n{self.text}"


@dataclass(frozen=True)
class RerankOutput:
    scores: tuple[float, ...]  # 0 to 1, one for each input, in their order; higher is better
    note: str  # what that took, in a few words
    scale: str = "0 to 1"  # what the scores are


class Reranker(Protocol):
    """A question and candidates in, scores out."""

    def score(self, question: str, candidates: Sequence[RerankInput]) -> RerankOutput:
        """Score each candidate, which come best first."""


def rank_value(rank: int) -> float:
    """Return 1 / log2(1 + rank), from rank 1: the discount of DCG (Järvelin and Kekäläinen, TOIS 2002); .2 at 30."""
    return 1.0 / log2(1 + rank)


def rerank(
    view: View,
    reranker: Reranker | None,
    question: str,
    words: Collection[str],
    candidates: tuple[Candidate, ...],
    profile: Profile,
    recorder: Recorder,
    note: Note,
) -> tuple[Candidate, ...]:
    """Rerank the candidates and return them, best first.

    The first `candidate_cap` are reranked; the others follow as they come. Without a reranker, and when it fails (the
    recorder has why), the candidates are exactly those that came. `words` are the question's, as BM25 reads them.
    """
    pool = candidates[: profile.candidate_cap]
    if reranker is None:
        recorder.degrade(StageName.RERANK, "the language model is switched off: add --use-llm")
        note.skip()
        return candidates
    if len(pool) < 2:
        note.skip(pluralize(len(pool), "candidate"))
        return candidates
    try:
        inputs = build_inputs(view, pool, words, profile)
        output = reranker.score(question, inputs)
    except UnfitModelError as error:
        recorder.notes.append(str(error))
        note.skip()
        return candidates
    except (EncoderError, LanguageModelError, RerankerError) as error:
        recorder.degrade(StageName.RERANK, error)
        note.text = "failed"
        return candidates

    scores = []
    entities = find_entities(question) if profile.entity_boost else ()
    nodes = view.tree.read([candidate.node_id for candidate in pool]) if entities else {}
    for candidate, score in zip(pool, output.scores, strict=True):
        boost, remark = 0.0, ""
        if node := nodes.get(candidate.node_id):
            named = count_named(entities, node.titled_body)
            boost = named * profile.entity_boost
            remark = f"{named} of {len(entities)} entities" if named else ""
        scores.append(RerankScore(candidate, score, boost, remark))
    note.text = output.note
    return blend_orders(scores, BLEND, output.scale, candidates[len(pool) :])


# What a reranker reads


def build_inputs(
    view: View, candidates: Sequence[Candidate], words: Collection[str], profile: Profile
) -> list[RerankInput]:
    """Return each candidate as the reranker reads it."""
    ids = [candidate.node_id for candidate in candidates]
    view.tree.load_nodes(ids)
    nodes = view.tree.read(ids)
    chunks = read_chunks(view.connection, ids)
    inputs = []
    for candidate in candidates:
        node = nodes[candidate.node_id]
        matched = find_matched_chunk(candidate, chunks[node.id], words)
        is_language_model = profile.rerank.kind in {"auto", "llm"}
        max_chars = LLM_PASSAGE_CHARS if is_language_model else profile.final_text_chars
        text = cut_passage(node, matched, max_chars)
        titles = " > ".join(filter(None, (*node.breadcrumb, node.title)))
        inputs.append(RerankInput(titles, text))
    return inputs


def cut_passage(node: Node, chunk: StoredChunk | None, max_chars: int) -> str:
    """Cut `max_chars` of the section, with the chunk in the middle as far as there is text on both sides."""
    # A model reads what matched, and not the beginning of a long section, where it may not stand.
    text, span = node.body, node.body_span
    if chunk is None or span is None:
        return cut(text, max_chars)
    start = text.find(chunk.text)
    if start < 0:  # a table's later chunks begin with its header, which is not there
        start = sum(len(line) + 1 for line in text.split("\n")[: chunk.span.first - span.first])
    return cut_around(text, start, start + len(chunk.text), max_chars)


# One order of two


@dataclass(frozen=True)
class RerankScore:
    candidate: Candidate
    score: float  # 0 to 1
    boost: float = 0.0  # what it gains for entities of the question, at least 0
    note: str = ""  # what the boost is for


def blend_orders(
    scores: Sequence[RerankScore], blend: float, scale: str, unread: Sequence[Candidate] = ()
) -> tuple[Candidate, ...]:
    """Return the candidates by (1 - blend) * (score + boost) + blend * rank_value(fused rank), best first.

    Those that no reranker read follow, with the score of their fused rank alone.
    """
    # Ties are in fused order. The fused order has the scale of a reranker's: `rank_value` falls from 1, most among the
    # first ranks, so that the blend protects the fusion's first hits far more than its last. Unlike weights that differ
    # from rank to rank (qmd's .75, .60, .40), it never puts one of two candidates with the same score above the one
    # that was before it.
    in_order = sorted(range(len(scores)), key=lambda place: (-scores[place].score, place))
    rank_of = {place: rank for rank, place in enumerate(in_order, start=1)}
    reranked = []
    for place, item in enumerate(scores):
        share = (1.0 - blend) * (item.score + item.boost)
        evidence = Evidence(Source.RERANK, rank_of[place], item.score, scale, share, note=item.note)
        reranked.append(_rescale(item.candidate, blend * rank_value(place + 1), evidence))
    behind = (_rescale(item, blend * rank_value(rank)) for rank, item in enumerate(unread, start=len(scores) + 1))
    return (*sorted(reranked, key=lambda candidate: -candidate.score), *behind)


def _rescale(candidate: Candidate, fused_value: float, evidence: Evidence | None = None) -> Candidate:
    """Return the candidate with the reranker's evidence; the value of its fused rank is shared as its score was."""
    total = sum(item.share for item in candidate.evidence)
    items = [item._replace(share=fused_value * item.share / total if total else 0.0) for item in candidate.evidence]
    if evidence is not None:
        items.append(evidence)
    score = fused_value + (evidence.share if evidence else 0.0)
    ordered = tuple(sorted(items, key=lambda item: -item.share))
    return candidate._replace(score=score, evidence=ordered, scale=SCALE)


def count_named(entities: Iterable[str], text: str) -> int:
    """Return how many of the entities a text names: those whose words all follow one another in it."""
    # Both are read as BM25 reads them, whatever case, endings and punctuation; two spellings of one count once.
    words = f" {' '.join(tokenize(text))} "
    named = {" ".join(tokenize(entity)) for entity in entities}
    return sum(f" {entity} " in words for entity in named if entity)
