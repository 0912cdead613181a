"""An open retriever: looks whether the folders changed, asks, and answers with what it knows of itself."""

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
from retriever.changes import Suspects, find_suspects, list_documents
from retriever.embedding import open_encoder
from retriever.errors import (
    DocumentsError,
    EncoderError,
    GenerationError,
    IndexUnusableError,
    NoIndexError,
    QuestionError,
)
from retriever.expand_query import Expansion, Query, weighted_queries
from retriever.generation import condemn
from retriever.indexing import IndexRequest, update_index
from retriever.open_index import OpenIndex, View
from retriever.pipeline import search
from retriever.progress import NoProgress
from retriever.store import reading
from retriever.trace import Recorder
from retriever.types import Answer, Encoder, IndexState

MAX_QUESTION_CHARS = 8_000
"""A longer question is cut, and the answer says so: no arm reads more."""


@dataclass(frozen=True, slots=True)
class Freshness:
    """What a look at the folders found."""

    refreshed: int = 0
    """Files that were indexed anew because of it."""
    stale: int = 0
    """Files that may have changed and were not."""
    degraded: tuple[str, ...] = ()


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
        self._lock = threading.RLock()
        self._looked = float("-inf")
        self._freshness = Freshness()

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
                self._refresh()
                note.text = f"{self._freshness.refreshed} files indexed, {self._freshness.stale} stale"
            recorder.degraded.extend(self._freshness.degraded)
            try:
                return self._answer(queries, recorder, substitute=False)
            except GenerationError as error:
                rebuilt = self._rebuild()
                way = "was rebuilt" if rebuilt else "cannot be rebuilt now; answered without it, slower"
                recorder.degraded.append(f"index: {error}; it {way}")
                return self._answer(queries, recorder, substitute=not rebuilt)

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
            suspects, problems = self._look(view)
            chunks = view.counts.chunks
            vectors = reading.vector_count(view.connection, view.fingerprint)
            size = sum(file.stat().st_size for file in self._index.path.rglob("*") if file.is_file())
            return Status(
                index=self._state(view, Freshness(stale=sum(map(len, suspects)))),
                encoder=" ".join(filter(None, (self.profile.encoder.kind, self.profile.encoder.model))),
                size_bytes=size,
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

    def _answer(self, queries: Sequence[Query], recorder: Recorder, *, substitute: bool) -> Answer:
        with self._index.view(substitute=substitute) as view:
            if not view.number:
                raise NoIndexError(
                    f"the index {self._index.path} is not finished; run: hybrid_retrieve.py index FOLDER"
                )
            hits, words = search(view, self._encoder, queries, self.profile, recorder)
            state = self._state(view, self._freshness)
        degraded = tuple(recorder.degraded)
        return Answer(queries[0].text, self.profile_name, hits, words, state, degraded, recorder.trace())

    @cached_property
    def _encoder(self) -> Encoder | None:
        return self._request.encoder or open_encoder(self.profile.encoder)

    def _refresh(self) -> None:
        """Looks at the folders, and indexes what changed when that is little."""
        if time.monotonic() - self._looked < self.profile.refresh_seconds:
            self._freshness = replace(self._freshness, refreshed=0)
            return
        with self._index.view() as view:
            suspects, problems = self._look(view)
        stale = sum(map(len, suspects))
        notes = tuple(f"refresh: {problem}" for _, problem in problems)
        self._freshness = Freshness(0, stale, notes)
        if 0 < stale <= self.profile.refresh_max_files and not problems:
            self._freshness = self._indexed(stale)
        self._looked = time.monotonic()

    def _look(self, view: View) -> tuple[list[Suspects], list[tuple[str, str]]]:
        """What sizes and times say of each folder; and the folders that cannot be listed, with the reason."""
        suspects, problems = [], []
        for folder in reading.folders(view.connection):
            known = reading.documents(view.connection, folder.key) | reading.unreadable(view.connection, folder.key)
            try:
                listing = list_documents(Path(folder.path), self.profile.documents)
            except DocumentsError as error:
                problems.append((folder.path, str(error)))
            else:
                suspects.append(find_suspects(folder, known, listing))
        return suspects, problems

    def _indexed(self, stale: int) -> Freshness:
        try:
            report = update_index(self._request, NoProgress())
        except (IndexUnusableError, DocumentsError, EncoderError) as error:
            return Freshness(0, stale, (f"refresh: {error}",))
        return Freshness(report.added + report.changed + report.removed - report.moved)

    def _rebuild(self) -> bool:
        """Makes a new generation in place of one that cannot be used; whether that was possible."""
        with self._index.view(substitute=True) as view:
            condemn(self._index.path, view.number)
        try:
            update_index(self._request, NoProgress())
        except (IndexUnusableError, DocumentsError, EncoderError):
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
            skipped_files=counts.skipped,
        )


def _readable(question: str, recorder: Recorder) -> str:
    """The question without what is no text; what is cut is noted."""
    text = "".join(" " if unicodedata.category(sign) in {"Cc", "Cs"} else sign for sign in question).strip()
    if not text:
        raise QuestionError("the question is empty; ask something, such as: how do I configure logging?")
    if len(text) > MAX_QUESTION_CHARS:
        recorder.degraded.append(f"question: only its first {MAX_QUESTION_CHARS:,} characters were read")
    return text[:MAX_QUESTION_CHARS]
