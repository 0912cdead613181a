"""An open retriever: looks whether the folders changed, asks, and answers with what it knows of itself."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

from pageindex.node import Node
from retriever.answering.context import AnswerInContext, Piece, build_context, gather_sections
from retriever.errors import ClosedError, IndexLockedError
from retriever.indexing.request import FolderAccess, IndexRequest, read_named_folders
from retriever.looking.browse import (
    Excerpt,
    cite_nodes,
    find_section,
    load_tree_at,
    read_excerpt,
    read_nodes,
    score_similar,
)
from retriever.looking.status import Status, Watch, describe_state, read_status
from retriever.models import OpenModels
from retriever.places.view import OpenIndex, View
from retriever.query import AskRequest
from retriever.search import search
from retriever.searching.confidence import assess
from retriever.searching.hits import ANSWERED_FROM
from retriever.searching.queries import read_question
from retriever.settings import RerankSettings
from retriever.store.files import Closing
from retriever.text import BYTES_PER_TOKEN
from retriever.trace import Recorder
from retriever.types import Answer, ShortAnswer, SimilarSections, StageName

ANSWER_SHARE = 2 / 3  # of llm.seconds, that the sentences of a short answer may take: the search goes before
ATTEMPTS = 3  # at a context of the state that was searched


class Retriever(Closing):
    """Answers questions from one index; safe to share between threads, which then take turns.

    Every method may raise a RetrieverError: ClosedError after `close`, IndexUnusableError where the index cannot be
    used; each says what else.
    """

    def __init__(self, request: IndexRequest, profile_name: str) -> None:
        self.profile = request.profile
        self.profile_name = profile_name
        self.store = request.store
        self._request = replace(request, docs=(), wait_s=0.0, embeds="changed")
        self._index = OpenIndex(request.store)
        self._is_closed = False
        self._watch = Watch(self._request)
        self._models = OpenModels(self._request)
        self._lock = threading.RLock()

    def search(self, question: AskRequest | str, count: int | None = None) -> Answer:
        """Return the sections that answer the question, best first.

        Args:
            question: its text, or a request that holds more than that.
            count: how many sections at most; None for the profile's `top_k`.

        Raises:
            QuestionError: the question is empty, or has filters alone; a filter names what is not there (ScopeError).
            NoIndexError: nothing has been indexed here.
            IndexUnusableError: or one of its other kinds.
        """
        request, recorder = AskRequest.of(question), Recorder()
        profile = self.profile
        if request.is_typing:  # what takes a model's time has no place between two keys
            profile = replace(profile, use_llm=False, rerank=RerankSettings(), read_passages=0)
        with self._use() as index, recorder.stage(StageName.REFRESH) as note:
            fresh = self._watch.refresh(index)
            note.text = f"{fresh.refreshed} files indexed, {fresh.stale} stale"
            recorder.degraded.extend(fresh.degraded)
        expands = request.expansion is not None or profile.use_llm or profile.hyde == "always"
        with self.view() as view:
            asked = read_question(request, view, recorder, exact=profile.exact)
            if request.conversation:
                from retriever.searching.follow_up import follow

                asked = follow(asked, request.conversation, view, recorder)
        # What writes other words is not even imported for a question that has none: pydantic alone takes 50 ms.
        if expands:
            from retriever.expansion import expand

            # Other threads ask while the model writes.
            asked = expand(asked, request.expansion, self.view, profile, self._models.generator, recorder)
        with self.view() as view:
            found = search(view, self._models, asked, profile, recorder, self.access)
            assessment = assess(recorder.signals)
            return Answer(
                question=asked.asked,
                profile=self.profile_name,
                hits=found.hits[: self.profile.top_k if count is None else count],
                verdict=assessment.verdict if found.hits else "none",
                confidence=assessment.confidence if found.hits else 0.0,
                matched_words=found.words,
                languages=view.lexical.languages,
                index=describe_state(view, fresh),
                degraded=tuple(recorder.degraded),
                trace=recorder.trace(),
                follow_up=asked.follow_up,
                expansion=recorder.expansion,
                scope=found.searched,
                notes=tuple(recorder.notes),
                corrections=asked.corrected.corrections,
            )

    def context(self, question: AskRequest | str, max_tokens: int | None = None, *, least: int = 0) -> AnswerInContext:
        """Return the sections that answer the question as context for a prompt.

        Args:
            question: as in `search`.
            max_tokens: how long the context may be; None for the profile's `context_tokens`.
            least: how many sections at least, whatever `top_k` is.

        Raises:
            UsageError: `max_tokens` has no room for any section.
            RetrieverError: as `search`.
        """
        most = self.profile.context_tokens if max_tokens is None else max_tokens
        for _ in range(ATTEMPTS):
            answer = self.search(question, max(self.profile.top_k, least))
            with self.view() as view:
                if view.state.snapshot == answer.index.snapshot:  # else the index has changed since the search
                    sections = gather_sections(view, answer)
                    return AnswerInContext(answer, build_context(sections, answer.verdict, most))
        raise IndexLockedError("the index changed again and again while it was read; ask when indexing has finished")

    def answer(
        self,
        question: AskRequest | str,
        *,
        on_quoted: Callable[[ShortAnswer], None] = lambda short: None,
        quoted: bool = False,
    ) -> ShortAnswer:
        """Return sentences that answer the question, each checked against the lines that it cites, and the sections.

        The language model writes them where it runs (`answer.kind`); otherwise they are the documents' own.

        Args:
            question: as in `search`.
            on_quoted: given the sections and what they say, before a model is asked.
            quoted: whether no language model writes them.

        Raises:
            RetrieverError: as `search`.
        """
        from retriever.answering.write import AnswerWriter

        is_quoted = quoted or self.profile.answer.kind == "extractive"
        generator = None if is_quoted else self._models.generator
        seconds = self.profile.llm.seconds * ANSWER_SHARE
        writer = AnswerWriter(generator, seconds, Recorder(), is_asked_for=self.profile.use_llm)
        plan = writer.prepare(AskRequest.of(question).question)
        pieces: tuple[Piece, ...] = ()
        if plan is None:
            answer = self.search(question, max(self.profile.top_k, ANSWERED_FROM))
        else:
            most = min(self.profile.context_tokens, plan.readable // BYTES_PER_TOKEN)
            found = self.context(question, most, least=ANSWERED_FROM)
            answer, pieces = found.answer, found.context.pieces
        with self.view() as view:
            languages = view.lexical.languages
        shown = replace(answer, hits=answer.hits[: self.profile.top_k])
        return writer.write(shown, answer.hits[:ANSWERED_FROM], plan, pieces, languages, on_quoted)

    def tree(self, reference: str = "", depth: int | None = None) -> str:
        """Draw the outline of all documents, or below a folder, file or section.

        Args:
            reference: a node id or a path; empty for everything.
            depth: how many levels below it are shown; None for all.

        Raises:
            UnknownReferenceError: there is no such node.
        """
        with self.view() as view:
            tree, top = load_tree_at(view.connection, reference)
            return tree.pretty(top, depth)

    def nodes(self, reference: str = "", depth: int | None = None) -> tuple[Node, ...]:
        """Return what `tree` draws, as values: parents before their children, in document order."""
        with self.view() as view:
            return read_nodes(view.connection, reference, depth)

    def read(self, reference: str) -> Excerpt:
        """Read the text of a node id as indexed; of a path, `path:first-last` or `path:line` as it is on the disk.

        Raises:
            UsageError: there is no such node, path or line.
        """
        with self.view() as view:
            return read_excerpt(view.connection, reference, self.access)

    def similar(
        self, reference: str, count: int = 10, *, unlinked: bool = False, elsewhere: bool = False
    ) -> SimilarSections:
        """Find the sections that are nearest in meaning to a section, with all below it, or to a file.

        Args:
            reference: a node id or a path.
            count: how many at most.
            unlinked: whether files that it links to, or that link to it, are left out.
            elsewhere: whether files of its own folder are left out.

        Raises:
            UsageError: there is no such section or file, it has no text, or the index has no vectors.
        """
        with self.view() as view:
            node_id = find_section(view.connection, reference)
            scores = score_similar(view, node_id, count, unlinked=unlinked, elsewhere=elsewhere)
            cited = cite_nodes(view, [node_id, *scores], self.access)
            sections = tuple(
                replace(cited[near], rank=rank, similarity=similarity)
                for rank, (near, similarity) in enumerate(scores.items(), start=1)
            )
            return SimilarSections(node_id, cited[node_id].file, cited[node_id].title, sections)

    def status(self) -> Status:
        """Return what is indexed, which files changed since, and what is not as it should be."""
        with self.view() as view:
            return read_status(view, self._request)

    @property
    def access(self) -> FolderAccess:
        """Which folders this user has named for the index, and which of their files are documents."""
        return FolderAccess(frozenset(read_named_folders(self.store)), self.profile.documents.ignore)

    @contextlib.contextmanager
    def view(self) -> Iterator[View]:
        """Yield the index in one state, for as long as the block lasts; other threads wait meanwhile."""
        with self._use() as index, index.view() as view:
            yield view

    def close(self) -> None:
        """Close the index; any later use raises ClosedError."""
        with self._lock:
            self._is_closed = True
            self._index.close()

    @contextlib.contextmanager
    def _use(self) -> Iterator[OpenIndex]:
        """Yield the open index, to one thread at a time."""
        with self._lock:
            if self._is_closed:
                raise ClosedError(f"the retriever of {self.store} is closed; open another one")
            yield self._index
