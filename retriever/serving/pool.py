"""Open retrievers, shared by everything that a process serves; safe to share between threads."""

import ctypes
import logging
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from retriever.display.phrases import STAGES
from retriever.display.sanitize import code
from retriever.errors import IndexLockedError, IndexUnusableError, NotReadyError, RetrieverError, UsageError
from retriever.files import Closing
from retriever.indexes import find_index, index_request
from retriever.indexing.consent import read_named_folders
from retriever.indexing.request import IndexRequest, absolute, remember
from retriever.indexing.update import update_index
from retriever.looking.overview import read_overview, write_overview
from retriever.retriever import Retriever
from retriever.settings.layers import DEFAULT_PROFILE, profile_names
from retriever.settings.schema import merge
from retriever.several import SeveralRetrievers
from retriever.store.database import read_transaction
from retriever.store.store import Store

log = logging.getLogger(__name__)

# How long a caller waits for documents that are indexed for the first time; clients give up after 60.
OPENING_SECONDS = 40.0
# For the texts that are being embedded when a server ends.
STOP_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class IndexingProgress:
    """How far indexing has come, if it goes on."""

    is_indexing: bool
    last: "LastProgress"


class ServedIndex(Closing):
    """One index under every profile that clients may name, each opened when it is first asked for; or several indexes.

    Of several, a question goes to all or to the one that it names, everything else to the one that it names.

    Args:
        docs: folders to index when the index is first opened.
        index: where it is; None as everywhere.
        profile: for clients that name none.
        settings: for all of them.
        wait_s: how long a client waits for documents that are indexed for the first time.
        about: what the user says of the documents, in a line, for `describe`.
        several: indexes by name, in place of `docs` and `index`.
    """

    def __init__(
        self,
        docs: Sequence[str] = (),
        index: "str | Store | None" = None,
        profile: str = DEFAULT_PROFILE,
        settings: Mapping[str, Any] | None = None,
        wait_s: float = OPENING_SECONDS,
        about: str = "",
        several: "Mapping[str, str | Store] | None" = None,
    ) -> None:
        self.profile = profile
        self._parts = {
            name: ServedIndex((), place, profile, settings, wait_s) for name, place in (several or {}).items()
        }
        self.names = tuple(self._parts)
        self._about = about
        self._docs = docs
        self._index = index
        self._settings = dict(settings or {})
        self._wait_s = wait_s
        # By profile and settings; those are few, so each stays open, with some 16 MB.
        self._opened: dict[str, Future[Retriever]] = {}
        self._lock, self._opening = threading.Lock(), threading.Lock()
        self._last_progress = LastProgress()  # what indexes documents reports here; who waits is told of it
        share_one_arena()
        self._indexing: IndexingThread | None = None
        self._beginning: threading.Thread | None = None
        # Why no question can be answered, as far as is known without looking.
        self._trouble: RetrieverError | None = NotReadyError("the index is being opened; ask again in a moment")

    def choose(self, name: str = "") -> "ServedIndex":
        """Return the index of this name, the only one without; UsageError where there is none, or none is named."""
        if not self._parts and name:
            raise UsageError("one index is served here: leave out index")
        if self._parts and name not in self._parts:
            wrong = f"there is no index {name[:100]!r}" if name else "several indexes are served, so index is needed"
            raise UsageError(f"{wrong}; there are: {', '.join(self.names)}")
        return self._parts[name] if name else self

    @contextmanager
    def retriever(
        self, profile: str = "", settings: Mapping[str, Any] | None = None, wait_s: float | None = None
    ) -> "Iterator[Retriever]":
        """Lend the retriever of a profile (a name, never a file; empty: the index's own), or raise NotReadyError."""
        if profile and profile != self.profile and profile not in profile_names():
            raise UsageError(f"there is no profile {profile!r}; there are: {', '.join(profile_names())}")
        name, given = profile or self.profile, settings or {}
        key = repr((name, given))
        with self._lock:
            opened = self._opened.get(key)
            if opened is None or (opened.done() and opened.exception() is not None):
                opened = self._opened[key] = Future()
                # A thread that need not end before the process does, as one of a ThreadPoolExecutor would.
                threading.Thread(target=self._open_into, args=(opened, name, given), daemon=True).start()
        try:
            retriever = opened.result(self._wait_s if wait_s is None else wait_s)
        except TimeoutError:
            if opened.done():
                raise
            raise NotReadyError(f"the documents are being read{self._last_progress}; ask again in a moment") from None
        yield retriever

    def _open_into(self, opened: "Future[Retriever]", profile: str, settings: Mapping[str, Any]) -> None:
        try:
            with self._opening:
                opened.set_result(self._open(profile, settings))
        except Exception as error:  # whoever waits for the retriever raises it
            opened.set_exception(error)

    @contextmanager
    def searcher(
        self, name: str = "", profile: str = "", settings: Mapping[str, Any] | None = None
    ) -> "Iterator[Retriever | SeveralRetrievers]":
        """Lend what answers a question: the retriever of one index, or without a name those of all."""
        if name or not self._parts:
            with self.choose(name).retriever(profile, settings) as retriever:
                yield retriever
            return
        with ExitStack() as stack:
            retrievers, failed = {}, {}
            for one, index in self._parts.items():
                try:
                    retrievers[one] = stack.enter_context(index.retriever(profile, settings))
                except IndexUnusableError as error:
                    failed[one] = error
            yield SeveralRetrievers(retrievers, failed)

    def begin(self) -> None:
        """Open the index in the background, before the first question; that question raises any error."""
        for part in self._parts.values():
            part.begin()
        if not self._parts and (self._beginning is None or not self._beginning.is_alive()):
            self._beginning = threading.Thread(target=self._warm_up, daemon=True)
            self._beginning.start()

    def _warm_up(self) -> None:
        try:
            with self.retriever() as retriever:
                retriever.warm_up()
            self._trouble = None
        except RetrieverError as error:
            self._trouble = error

    def check_ready(self) -> None:
        """Check that a question can be answered now: the index and its model are open, and its database answers.

        Raises:
            RetrieverError: why not; an index that could not be opened is tried again.
        """
        for part in self._parts.values():
            part.check_ready()
        if self._parts:
            return
        if self._trouble is not None:
            self.begin()
            raise self._trouble
        with self.retriever(wait_s=0) as retriever:
            retriever.check_database()

    @property
    def progress(self) -> "IndexingProgress":
        """Return how far indexing has come, if it goes on."""
        return IndexingProgress(self._indexing is not None and self._indexing.is_alive(), self._last_progress)

    def _open(self, profile: str, settings: Mapping[str, Any]) -> "Retriever":
        given = merge(self._settings, settings)
        if self._docs:
            request = index_request(self._docs, self._index, profile, given)
            self._indexing = IndexingThread(request, self._last_progress)
            self._indexing.start()
            self._indexing.wait_for_words()
            # From now on each question looks for what changed, in the same place even if another index is used
            # elsewhere.
            self._docs, self._index = (), request.store
        request = index_request((), self._index, profile, given)
        retriever = Retriever(request, profile)
        self._index = request.store
        with retriever.view() as view:
            # The texts that wait in a database are for workers, or for who indexes: there are other servers beside us.
            is_partial = view.embedded_share < 1 and not view.store.is_shared
        if is_partial and (self._indexing is None or not self._indexing.is_alive()):
            self._indexing = IndexingThread(request, self._last_progress)
            self._indexing.start()
        return retriever

    def _place(self) -> "Store":
        return find_index([absolute(folder) for folder in self._docs], self._index).index

    def describe(self) -> str:
        """Describe what is indexed, in a few lines for an agent; open and index nothing but index.sqlite."""
        if self._parts:
            lines = [f"Index {code(name)}: {index.describe()}" for name, index in self._parts.items()]
            return "\n".join([*lines, *([f"About them: {self._about}"] if self._about else [])])
        try:
            place = self._place()
            with place.read() as connection, read_transaction(connection):
                overview = read_overview(connection, read_named_folders(place).folders)
        except RetrieverError:  # there is none yet, or none that can be used: the first call says what to do
            overview = None
        if overview is not None and overview.documents:
            return write_overview(overview, self._about)
        names = ", ".join(code(PurePath(folder).name) for folder in self._docs)
        waiting = f"The first call indexes {names}." if names else ""
        return "\n".join(filter(None, [waiting, f"About them: {self._about}" if self._about else ""]))

    def close(self) -> None:
        for part in self._parts.values():
            part.close()
        if self._indexing is not None:
            self._indexing.stop()
        with self._lock:
            for opened in self._opened.values():
                if opened.done() and opened.exception() is None:
                    opened.result().close()
            self._opened.clear()


class IndexingThread(threading.Thread):
    """Indexes while questions are answered: once the words are there by words, then the rest.

    A thread that need not end before the process does: what it has committed is kept.
    """

    def __init__(self, request: "IndexRequest", progress: "LastProgress") -> None:
        super().__init__(daemon=True, name="indexing")
        self._request = request
        self._progress = progress
        self._can_answer = threading.Event()
        self._error: Exception | None = None
        self._is_stopped = False

    def run(self) -> None:
        try:
            request = replace(self._request, with_chroma=False)
            update_index(request, self._progress, self._can_answer.set, self._check_stopped)
            remember(request.store)
        except _StoppedError:
            pass
        except Exception as error:  # whoever waits raises it; later it is said in the log
            self._error = error
            if self._can_answer.is_set() or not self._request.docs:
                log.log(logging.INFO if isinstance(error, IndexLockedError) else logging.ERROR, "%s", error)
        finally:
            self._can_answer.set()

    def wait_for_words(self) -> None:
        """Wait until questions can be answered; raise what ended the indexing before."""
        self._can_answer.wait()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """End it after what is being embedded now, or leave it behind."""
        self._is_stopped = True
        if self.is_alive():  # not yet, where the server ends while the first caller is starting it
            self.join(STOP_SECONDS)

    def _check_stopped(self) -> tuple[str, ...]:
        """Raise where the server ends; asked between two batches, with no section to embed first."""
        if self._is_stopped:
            raise _StoppedError
        return ()


class _StoppedError(Exception):
    """The server ends."""


class LastProgress:
    """A Progress that remembers how far indexing has come."""

    def __init__(self) -> None:
        self.stage, self.total, self.unit, self.done = "", 0, "", 0

    def start(self, stage: str, total: int, unit: str) -> None:
        self.stage, self.total, self.unit, self.done = stage, total, unit, 0

    def advance(self, stage: str, done: int) -> None:
        self.done = done

    def finish(self, stage: str) -> None:
        self.done = self.total

    def __str__(self) -> str:
        """` (embedding 1,200 of 3,400 texts)`; empty before the first stage."""
        name = STAGES.get(self.stage, self.stage)
        return f" ({name}: {self.done:,} of {self.total:,} {self.unit})" if self.stage else ""


def share_one_arena() -> None:
    """Let all threads share one arena of glibc's; other C libraries need no telling."""
    # It gives each thread an arena of its own and keeps what is freed in it: a server whose threads take turns came to
    # hold twice what it uses (docs/guide/agents.md).
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    if libc is not None and hasattr(libc, "gnu_get_libc_version"):
        libc.mallopt(-8, 1)  # M_ARENA_MAX of malloc.h
