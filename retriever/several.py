"""One question to several indexes, and what they find as one list."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, NoReturn

from pageindex.node import Span
from retriever.errors import IndexUnusableError, RetrieverError, UsageError
from retriever.query import AskRequest, Correction
from retriever.store.files import Closing
from retriever.types import Answer, Degradation, Hit, IndexState, StageName

if TYPE_CHECKING:
    from retriever.retriever import Retriever

# Of the ranks in a list: the lists have no section in common, so it only says how soon the next index has its turn.
# From 0 to 10 it is the same, with 60 an index that is a little surer keeps the others out.
RANK_CONSTANT = 10
VERDICT_ORDER = ("answered", "weak", "none")


class SeveralRetrievers(Closing):
    """Asks several indexes; `search` is as that of a `Retriever`.

    Args:
        retrievers: open, by the names of their indexes; closed with this object.
        failed: indexes that could not be opened, and why.
    """

    def __init__(self, retrievers: "Mapping[str, Retriever]", failed: Mapping[str, RetrieverError]) -> None:
        if not retrievers:
            raise next(iter(failed.values()), UsageError("there is no index to ask"))
        self._retrievers = dict(retrievers)
        self._failed = dict(failed)

    def search(self, question: AskRequest | str) -> Answer:
        """Return the sections of all indexes that answer the question, best first; name the indexes that cannot.

        Raises:
            QuestionError: the question is empty.
            UsageError: no index has what the scope names.
            IndexUnusableError: none of the indexes can be used.
        """
        answers: dict[str, Answer] = {}
        failed: dict[str, RetrieverError] = dict(self._failed)
        for name, retriever in self._retrievers.items():
            try:
                answers[name] = retriever.search(question)
            except (IndexUnusableError, UsageError) as error:  # of a scope, another index may have the folder
                failed[name] = error
        if not answers:
            raise next(iter(failed.values()))
        trouble = tuple(Degradation(StageName.INDEX, f"{name}: not asked: {error}") for name, error in failed.items())
        top_k = max(retriever.profile.top_k for retriever in self._retrievers.values())
        return fuse_answers(answers, top_k, trouble)

    def context(self, question: AskRequest | str) -> NoReturn:
        """Refuse: a context is of one index."""
        raise UsageError("--context is of one index: name it with --index")

    def close(self) -> None:
        """Close all retrievers."""
        with ExitStack() as stack:
            for retriever in self._retrievers.values():
                stack.callback(retriever.close)


def fuse_answers(answers: Mapping[str, Answer], top_k: int, trouble: tuple[Degradation, ...] = ()) -> Answer:
    """Fuse the answers of several indexes to one question into one answer, by reciprocal rank. Pure.

    An index weighs as much as it is sure of its answer: where all weigh the same, each second hit comes from an index
    that knows nothing of the question. Scores are not compared, as they depend on the index's words and model.

    Args:
        answers: by the names of their indexes; at least one.
        top_k: how many hits the answer has.
        trouble: of indexes that could not be asked.

    Returns:
        The hits of all, each with the name of its index; the best verdict of them, and the confidence and the trace of
        that.
    """
    # A word that one of them holds is no typo, and an index that lacks it knows less of the question.
    typos = set[Correction].intersection(*(set(answer.corrections) for answer in answers.values()))
    answers = {
        name: answer if typos >= set(answer.corrections) else replace(answer, confidence=answer.confidence / 2)
        for name, answer in answers.items()
    }
    best = min(answers.values(), key=lambda answer: (VERDICT_ORDER.index(answer.verdict), -answer.confidence))
    states = tuple(answer.index for answer in answers.values())
    scopes = [answer.scope for answer in answers.values() if answer.scope is not None]
    return replace(
        best,
        hits=fuse_hits(answers, top_k),
        matched_words=tuple(dict.fromkeys(chain.from_iterable(answer.matched_words for answer in answers.values()))),
        corrections=tuple(item for item in best.corrections if item in typos),
        index=sum_states(states),
        scope=replace(
            scopes[0],
            sections=sum(scope.sections for scope in scopes),
            documents=sum(scope.documents for scope in scopes),
        )
        if scopes
        else None,
        notes=tuple(dict.fromkeys(chain.from_iterable(answer.notes for answer in answers.values()))),
        indexes=states,
        degraded=tuple(
            replace(item, reason=f"{name}: {item.reason}")
            for name, answer in answers.items()
            for item in answer.degraded
        )
        + trouble,
    )


def fuse_hits(answers: Mapping[str, Answer], top_k: int) -> tuple[Hit, ...]:
    """Return the hits of all answers by rank, each weighed by how sure its index is, with the name of its index."""
    # Scores of two indexes do not compare; ranks do, weighed by how sure each index is that it has an answer.
    found = [
        (answer.confidence / (RANK_CONSTANT + hit.rank), name, hit)
        for name, answer in answers.items()
        for hit in answer.hits
    ]
    found.sort(key=lambda item: (-item[0], item[1], item[2].rank))
    once: dict[tuple[str, Span], tuple[float, str, Hit]] = {}
    for item in found:  # one index may hold a folder inside the folder of another
        once.setdefault((f"{item[2].folder}/{item[2].file}", item[2].span), item)
    return tuple(
        prefix_references(replace(hit, rank=rank, score=score, scale="several"), name)
        for rank, (score, name, hit) in enumerate(list(once.values())[:top_k], start=1)
    )


def prefix_references(hit: Hit, index: str) -> Hit:
    """Return the hit of an index with that name before each reference: `notes::guide.md#install`."""
    evidence = tuple(
        replace(item, via=item.via and replace(item.via, node_id=f"{index}::{item.via.node_id}"))
        for item in hit.evidence
    )
    cited_as = f"{index}::{hit.cited_as or hit.file}"
    return replace(hit, node_id=f"{index}::{hit.node_id}", cited_as=cited_as, evidence=evidence, index=index)


def sum_states(states: Sequence[IndexState]) -> IndexState:
    """Sum what was searched in all, without a path or a snapshot of its own."""
    return IndexState(
        path="",
        folders=tuple(dict.fromkeys(chain.from_iterable(state.folders for state in states))),
        snapshot=0,
        documents=sum(state.documents for state in states),
        sections=sum(state.sections for state in states),
        chunks=sum(state.chunks for state in states),
        refreshed_files=sum(state.refreshed_files for state in states),
        stale_files=sum(state.stale_files for state in states),
        skipped_files=sum(state.skipped_files for state in states),
        unchecked_folders=sum(state.unchecked_folders for state in states),
        embedded_share=min(state.embedded_share for state in states),
    )
