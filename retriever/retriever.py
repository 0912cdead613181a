"""An open retriever: looks whether the folders changed, asks, and answers with what it knows of itself."""

import contextlib
import math
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from pageindex.node import Node
from retriever import history
from retriever.browse import Passage, find_node, read_excerpt, whole_tree
from retriever.context.gather import AnswerInContext, ask_for_context
from retriever.deadline import Deadline, StageTimes
from retriever.errors import NoIndexError, RetrieverError, SnapshotError
from retriever.expansion.cache import CacheFile, ExpansionCache, ExpansionMetrics
from retriever.expansion.expand import ExpandedQuery, Expander, SearchRequest
from retriever.files import Closing
from retriever.freshness import Freshness, Watch
from retriever.indexing.consent import FolderAccess, named_folders
from retriever.indexing.forget import forgotten_files
from retriever.indexing.request import IndexRequest, matches_config
from retriever.indexing.snapshot import mark_unusable
from retriever.indexing.update import update_index
from retriever.llm import open_generator
from retriever.query import Expansion
from retriever.rerank.stage import Reranker, RerankRequest, open_reranker
from retriever.search import search
from retriever.searching.confidence import judge
from retriever.searching.encode import OpenModels, named
from retriever.searching.open_index import OpenIndex, View
from retriever.searching.question import readable
from retriever.settings.duration import parse_duration
from retriever.settings.schema import ExpansionSettings, Profile, RerankStageSettings
from retriever.store import reading, text_vectors
from retriever.trace import NoProgress, Recorder
from retriever.types import Answer, IndexState

if TYPE_CHECKING:
    from retriever.llm.ollama import OllamaGenerator


# What an index holds, and how it stands to its folders.


@dataclass(frozen=True, slots=True)
class Status:
    """What an index holds, and how it stands to its folders."""

    index: IndexState
    encoder: str
    """The embedding model's kind and name."""
    size_bytes: int
    """Of the index's folder."""
    changed_files: tuple[str, ...]
    """Files that are new, different or gone since they were indexed."""
    skipped: tuple[tuple[str, str], ...]
    """Files that could not be read, or not all of them, and why."""
    broken_links: int
    coverage: float
    """The share of the chunks that have a vector, 0 to 1."""


def status_of(view: View, watch: Watch, profile: Profile) -> Status:
    """The status of an open index; the folders are looked at now."""
    diffs, problems = watch.find_changes(view)
    chunks = view.counts.chunks
    vectors = text_vectors.vector_count(view.connection, view.fingerprint)
    return Status(
        index=state_of(view, Freshness(stale=sum(map(len, diffs)))),
        encoder=named(profile.encoder),
        size_bytes=_size(view.index),
        changed_files=tuple(path for diff in diffs for path in diff.paths),
        skipped=(
            *reading.skipped(view.connection),
            *reading.warnings(view.connection),
            *problems,
            *forgotten_files(view.connection),
        ),
        broken_links=view.counts.broken_links,
        coverage=vectors / chunks if chunks else 1.0,
    )


def state_of(view: View, freshness: Freshness) -> IndexState:
    """What is searched, and how fresh it is."""
    counts, named = view.counts, named_folders(view.index).folders
    folders = tuple(folder.path for folder in reading.folders(view.connection))
    return IndexState(
        path=str(view.index),
        folders=folders,
        snapshot=view.number,
        documents=counts.documents,
        sections=counts.sections,
        chunks=counts.chunks,
        refreshed_files=freshness.refreshed,
        stale_files=freshness.stale,
        skipped_files=reading.skipped_count(view.connection),
        unchecked_folders=sum(folder not in named for folder in folders),
    )


def _size(folder: Path) -> int:
    """Bytes of all files; those that a writer removes meanwhile count for nothing."""
    size = 0
    for file in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            size += file.stat().st_size if file.is_file() else 0
    return size


ATTEMPTS = 3
"""How often the snapshot in force is opened before index.sqlite answers alone: writers may remove it meanwhile."""
RETRY_S = 60.0
"""A snapshot that could be neither opened nor rebuilt is tried again after so many seconds."""


@dataclass(frozen=True, slots=True)
class Unusable:
    """A snapshot that can be neither opened nor rebuilt: index.sqlite answers in its place."""

    number: int
    reason: str
    noticed: float
    """By time.monotonic()."""


class Retriever(Closing):
    """Answers questions from one index; safe to share between threads, which then take turns."""

    def __init__(self, request: IndexRequest, profile_name: str) -> None:
        self.profile = request.profile
        self.profile_name = profile_name
        self._request = replace(request, docs=(), wait_s=0.0, with_chroma=False)
        self._index = OpenIndex(request.index)
        self._watch = Watch(self._request)
        self._models = OpenModels(self._request)
        self._unusable: Unusable | None = None
        self._stage_times = StageTimes()
        self._lock = threading.RLock()
        self.is_impaired = False
        """Whether something stood in the way of an answer; what this retriever remembers of it may be over by now."""
        self.clock = time.monotonic
        """What the budget of a question is measured by."""

    def search(
        self,
        question: str,
        expansion: Expansion | None = None,
        *,
        recent_context: str = "",
        focus: Sequence[str] = (),
    ) -> Answer:
        """The sections that answer the question, best first.

        Args:
            question: in any words.
            expansion: other wordings of it, in place of those that a language model would write.
            recent_context: the conversation so far, for the language model to understand the question by.
            focus: kinds of things for it to write about.

        Raises:
            QuestionError: the question is empty.
            NoIndexError: nothing has been indexed here.
            IndexUnusableError: or one of its other kinds.
        """
        total_s = parse_duration(self.profile.budget) if self.profile.budget else math.inf
        recorder = Recorder(deadline=Deadline(total_s, self._stage_times, self.clock, self.clock()))
        request = SearchRequest(readable(question, recorder), expansion, recent_context, tuple(focus))
        with self._lock:
            with recorder.stage("refresh") as note:
                fresh = self._watch.refresh(self._index)
                note.text = f"{fresh.refreshed} files indexed, {fresh.stale} stale"
            recorder.degraded.extend(fresh.degraded)
        expanded = self._expander.expand(request, self.view, recorder)
        with self._lock:
            answer = self._answered(expanded, fresh, recorder)
            self._stage_times.record(answer.trace.stages)
            self.is_impaired = self.is_impaired or bool(answer.degraded)
            if answer.expansion is not None and expansion is None:
                self._cache_file.add_event(self._index.path, answer.expansion)
            return history.kept(self._index.path, answer) if self.profile.record else answer

    def context(
        self,
        question: str,
        max_tokens: int | None = None,
        expansion: Expansion | None = None,
        *,
        recent_context: str = "",
        focus: Sequence[str] = (),
    ) -> AnswerInContext:
        """The sections that answer the question as context for a prompt, within `max_tokens` (the profile's if None).

        Raises:
            UsageError: so few tokens hold nothing.
            RetrieverError: as `search`.
        """
        most = self.profile.context_tokens if max_tokens is None else max_tokens
        ask = partial(self.search, question, expansion, recent_context=recent_context, focus=focus)
        return ask_for_context(ask, self.view, most, self.access)

    def look_again(self) -> None:
        """The next question looks at the folders, however young the last look is."""
        self._watch.look_again()

    def tree(self, reference: str = "", depth: int | None = None) -> str:
        """The drawn outline of all documents, or below a folder, file or section.

        Raises:
            UsageError: there is no such node.
        """
        with self._lock, self._index.view() as view:
            tree = whole_tree(view.connection)
            return tree.pretty(find_node(view.connection, tree, reference) if reference else None, depth)

    def nodes(self, reference: str = "", depth: int | None = None) -> tuple[Node, ...]:
        """As `tree`, as values: parents before their children, in document order."""
        with self._lock, self._index.view() as view:
            tree = whole_tree(view.connection)
            return tuple(tree.walk(find_node(view.connection, tree, reference) if reference else None, depth))

    def read(self, reference: str) -> Passage:
        """The text of a node id as it was indexed; of a path, `path:first-last` or `path:line` as it is on the disk.

        Raises:
            UsageError: there is no such node, path or line.
        """
        with self._lock, self._index.view() as view:
            passage = read_excerpt(view.connection, reference, self.access)
        if self.profile.record:
            history.note_opened(self._index.path, passage.node_id)
        return passage

    def status(self) -> Status:
        """What is indexed, and which files changed since."""
        with self._lock, self._index.view() as view:
            return status_of(view, self._watch, self.profile)

    @property
    def access(self) -> FolderAccess:
        """Which folders this user has named for the index, and which of their files are documents."""
        return FolderAccess.of(self._index.path, self.profile.documents)

    def metrics(self) -> ExpansionMetrics:
        """How the expansion of this user's questions fared with this index."""
        return self._cache_file.metrics(self._index.path)

    def note_gain(self, questions: str, plain: float, expanded: float) -> None:
        """Keeps what expansions were measured to be worth, by mean nDCG@10 on a set of questions, for `metrics`."""
        self._cache_file.put_gain(self._index.path, questions, plain, expanded)

    @contextlib.contextmanager
    def view(self) -> Iterator[View]:
        """The index in one state, for as long as the block lasts; other threads wait meanwhile."""
        with self._lock, self._index.view() as view:
            yield view

    @property
    def llm_calls(self) -> int:
        """How many answers of the language model were used since this was opened."""
        return self._generator.answers if "_generator" in self.__dict__ else 0

    def close(self) -> None:
        """Closes the index."""
        with self._lock:
            self._index.close()

    def _answered(self, expanded: ExpandedQuery, fresh: Freshness, recorder: Recorder) -> Answer:
        """From the snapshot in force; where it cannot be used, from a new one, or from index.sqlite alone."""
        rebuilt = False
        for _ in range(ATTEMPTS):
            number = self._index.number()
            if self._is_given_up(number):
                break
            try:
                return self._answer(expanded, fresh, recorder.copy(), substitute=False)
            except SnapshotError as error:
                if self._index.number() != number:
                    continue  # a writer removed it while it was being opened: another one is in force
                if rebuilt or not self._rebuild(number):
                    self._unusable = Unusable(number, str(error), time.monotonic())
                    break
                rebuilt = True
                recorder.degraded.append(f"index: {error}; it was rebuilt")
        if self._unusable is not None:
            recorder.degraded.append(f"index: {self._unusable.reason}; answered without it, slower")
        return self._answer(expanded, fresh, recorder, substitute=True)

    def _answer(self, expanded: ExpandedQuery, fresh: Freshness, recorder: Recorder, *, substitute: bool) -> Answer:
        with self._index.view(substitute=substitute) as view:
            if not view.number:
                share = f"{text_vectors.embedded_share(view.connection):.0%} of its texts are embedded"
                raise NoIndexError(
                    f"the index {self._index.path} is not finished ({share}); run: hybrid_retrieve.py index FOLDER"
                )
            reranking = RerankRequest(expanded.question, self._reranker, expanded.expansion.entities)
            hits, words = search(view, self._models.of(view), expanded, self.profile, reranking, recorder)
            state = state_of(view, fresh)
        judgement = judge(recorder.signals)
        return Answer(
            question=expanded.question,
            profile=self.profile_name,
            hits=hits,
            verdict=judgement.verdict,
            confidence=judgement.confidence,
            matched_words=words,
            index=state,
            degraded=tuple(recorder.degraded),
            trace=recorder.trace(),
            expansion=recorder.expansion,
        )

    @cached_property
    def _generator(self) -> "OllamaGenerator":
        return open_generator(self.profile.llm)

    @cached_property
    def _expander(self) -> Expander:
        cache = ExpansionCache(self._cache_file, self.profile.hyde.cache_entries)
        return Expander(self.profile.part(ExpansionSettings), lambda: self._generator, cache)

    @cached_property
    def _cache_file(self) -> CacheFile:
        return CacheFile.of_user() if self.profile.hyde.cache_entries else CacheFile(None)

    @cached_property
    def _reranker(self) -> Reranker | None:
        return open_reranker(self.profile.part(RerankStageSettings), lambda: self._generator)

    def _is_given_up(self, number: int) -> bool:
        known = self._unusable
        return known is not None and known.number == number and time.monotonic() - known.noticed < RETRY_S

    def _rebuild(self, number: int) -> bool:
        """Makes a new snapshot, for which nothing is embedded; whether that was possible."""
        with self._index.view() as view:
            if not matches_config(view.connection, self._request):
                return False
        mark_unusable(self._index.path, number)
        try:
            update_index(self._request, NoProgress())
        except RetrieverError:
            return False
        return True
