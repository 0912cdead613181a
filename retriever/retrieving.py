"""An open retriever: looks whether the folders changed, asks, and answers with what it knows of itself."""

import contextlib
import threading
import time
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self

from pageindex.node import Node
from retriever.browsing import Passage, find_node, read_passage, whole_tree
from retriever.confidence import judge
from retriever.embedding import open_encoder
from retriever.errors import GenerationError, NoIndexError, QuestionError, RetrieverError
from retriever.expand_query import Expansion, Query, weighted_queries
from retriever.freshness import Freshness, Watch
from retriever.generation import condemn
from retriever.indexing import update_index
from retriever.open_index import OpenIndex, View
from retriever.pipeline import search
from retriever.progress import NoProgress
from retriever.recipe import IndexRequest, is_made_as
from retriever.store import by_text, reading
from retriever.trace import Recorder
from retriever.types import Answer, Encoder, IndexState

MAX_QUESTION_CHARS = 8_000
"""A longer question is cut, and the answer says so: no arm reads more."""


ATTEMPTS = 3
"""How often the generation in force is opened before index.sqlite answers alone: writers may remove it meanwhile."""
RETRY_S = 60.0
"""A generation that could be neither opened nor rebuilt is tried again after so many seconds."""


@dataclass(frozen=True, slots=True)
class Unusable:
    """A generation that can be neither opened nor rebuilt: index.sqlite answers in its place."""

    number: int
    reason: str
    noticed: float
    """By time.monotonic()."""


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


class Retriever:
    """Answers questions from one index; safe to share between threads, which then take turns."""

    def __init__(self, request: IndexRequest, profile_name: str) -> None:
        self.profile = request.profile
        self.profile_name = profile_name
        self._request = replace(request, docs=(), wait_s=0.0)
        self._index = OpenIndex(request.index)
        self._watch = Watch(self._request)
        self._unusable: Unusable | None = None
        self._lock = threading.RLock()

    def search(self, question: str, expansion: Expansion | None = None) -> Answer:
        """The sections that answer the question, best first.

        Args:
            question: in any words.
            expansion: other wordings of it to search with as well.

        Raises:
            QuestionError: the question is empty.
            NoIndexError: nothing has been indexed here.
            IndexUnusableError: or one of its other kinds.
        """
        recorder = Recorder()
        queries = weighted_queries(_readable(question, recorder), expansion, self.profile)
        with self._lock:
            with recorder.stage("refresh") as note:
                fresh = self._watch.refresh(self._index)
                note.text = f"{fresh.refreshed} files indexed, {fresh.stale} stale"
            recorder.degraded.extend(fresh.degraded)
            return self._answered(queries, fresh, recorder)

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
        """The text of a node id, a path, `path:first-last` or `path:line`, as it was indexed.

        Raises:
            UsageError: there is no such node, path or line.
        """
        with self._lock, self._index.view() as view:
            return read_passage(view.connection, reference)

    def status(self) -> Status:
        """What is indexed, and which files changed since."""
        with self._lock, self._index.view() as view:
            suspects, problems = self._watch.changed(view)
            chunks = view.counts.chunks
            vectors = by_text.vector_count(view.connection, view.fingerprint)
            return Status(
                index=self._state(view, Freshness(stale=sum(map(len, suspects)))),
                encoder=" ".join(filter(None, (self.profile.encoder.kind, self.profile.encoder.model))),
                size_bytes=_size(self._index.path),
                changed_files=tuple(path for item in suspects for path in item.paths),
                skipped=(*reading.skipped(view.connection), *reading.warnings(view.connection), *problems),
                broken_links=view.counts.broken_links,
                coverage=vectors / chunks if chunks else 1.0,
            )

    def close(self) -> None:
        """Closes the index."""
        with self._lock:
            self._index.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _answered(self, queries: Sequence[Query], fresh: Freshness, recorder: Recorder) -> Answer:
        """From the generation in force; where it cannot be used, from a new one, or from index.sqlite alone."""
        rebuilt = False
        for _ in range(ATTEMPTS):
            number = self._index.number()
            if self._is_given_up(number):
                break
            try:
                return self._answer(queries, fresh, recorder.copy(), substitute=False)
            except GenerationError as error:
                if self._index.number() != number:
                    continue  # a writer removed it while it was being opened: another one is in force
                if rebuilt or not self._rebuild(number):
                    self._unusable = Unusable(number, str(error), time.monotonic())
                    break
                rebuilt = True
                recorder.degraded.append(f"index: {error}; it was rebuilt")
        if self._unusable is not None:
            recorder.degraded.append(f"index: {self._unusable.reason}; answered without it, slower")
        return self._answer(queries, fresh, recorder, substitute=True)

    def _answer(self, queries: Sequence[Query], fresh: Freshness, recorder: Recorder, *, substitute: bool) -> Answer:
        with self._index.view(substitute=substitute) as view:
            if not view.number:
                raise NoIndexError(
                    f"the index {self._index.path} is not finished; run: hybrid_retrieve.py index FOLDER"
                )
            hits, words = search(view, self._encoder, queries, self.profile, recorder)
            state = self._state(view, fresh)
        judgement = judge(recorder.signals)
        return Answer(
            question=queries[0].text,
            profile=self.profile_name,
            hits=hits,
            verdict=judgement.verdict,
            confidence=judgement.confidence,
            matched_words=words,
            index=state,
            degraded=tuple(recorder.degraded),
            trace=recorder.trace(),
        )

    @cached_property
    def _encoder(self) -> Encoder | None:
        return self._request.encoder or open_encoder(self.profile.encoder)

    def _is_given_up(self, number: int) -> bool:
        known = self._unusable
        return known is not None and known.number == number and time.monotonic() - known.noticed < RETRY_S

    def _rebuild(self, number: int) -> bool:
        """Makes a new generation, for which nothing is embedded; whether that was possible."""
        with self._index.view() as view:
            if not is_made_as(view.connection, self._request):
                return False
        condemn(self._index.path, number)
        try:
            update_index(self._request, NoProgress())
        except RetrieverError:
            return False
        return True

    def _state(self, view: View, freshness: Freshness) -> IndexState:
        counts = view.counts
        return IndexState(
            path=str(self._index.path),
            folders=tuple(folder.path for folder in reading.folders(view.connection)),
            generation=view.number,
            documents=counts.documents,
            sections=counts.sections,
            chunks=counts.chunks,
            refreshed_files=freshness.refreshed,
            stale_files=freshness.stale,
            skipped_files=reading.skipped_count(view.connection),
        )


def _size(folder: Path) -> int:
    """Bytes of all files; those that a writer removes meanwhile count for nothing."""
    size = 0
    for file in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            size += file.stat().st_size if file.is_file() else 0
    return size


def _readable(question: str, recorder: Recorder) -> str:
    """The question without what is no text; what is cut is noted."""
    text = "".join(" " if unicodedata.category(sign) in {"Cc", "Cs"} else sign for sign in question).strip()
    if not text:
        raise QuestionError("the question is empty; ask something, such as: how do I configure logging?")
    if len(text) > MAX_QUESTION_CHARS:
        recorder.degraded.append(f"question: only its first {MAX_QUESTION_CHARS:,} characters were read")
    return text[:MAX_QUESTION_CHARS]
