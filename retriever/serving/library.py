"""The retrievers over one index, shared by everything that a process serves."""

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from retriever.closing import Closing
from retriever.errors import NotReadyError, UsageError
from retriever.serving.memory import SpareMemory
from retriever.settings.layers import DEFAULT_PROFILE, profile_names
from retriever.settings.profile import merged

if TYPE_CHECKING:
    from retriever.retrieving import Retriever

OPENING_SECONDS = 40.0
"""How long a caller waits for documents that are indexed for the first time; clients give up after 60."""
MOST_OPEN = 8
"""A profile may take three: to search, to search below a path, to read. Each keeps an index open, some 16 MB."""


@dataclass(slots=True)
class _Kept:
    """A retriever that is open, or will be."""

    future: "Future[Retriever]"
    users: int = 0
    """How many use it, or wait for it."""

    @property
    def has_failed(self) -> bool:
        """Whether it could not be opened."""
        return self.future.done() and self.future.exception() is not None

    @property
    def is_idle(self) -> bool:
        """Whether it is open and nobody uses it."""
        return self.future.done() and not self.users

    def close(self) -> None:
        """Closes it, if it is open."""
        if self.future.done() and not self.has_failed:
            self.future.result().close()


class Library(Closing):
    """Opens a retriever when it is first asked for, one for each profile and settings; safe to share between threads.

    The one that was asked for longest ago is closed when there are more than MOST_OPEN and nobody uses it.

    Args:
        docs: folders to index first, only what changed; empty for those of the index.
        index: its folder; as in `open_retriever`.
        profile: the one that is meant when none is named: a name or a file.
        settings: over those of every profile, nested as in a profile file.
        wait_s: how long `retriever` waits for one that is being opened, in seconds.
    """

    def __init__(
        self,
        docs: tuple[str, ...] = (),
        index: str | None = None,
        profile: str = DEFAULT_PROFILE,
        settings: Mapping[str, Any] | None = None,
        wait_s: float = OPENING_SECONDS,
    ) -> None:
        self.profile = profile
        self._docs = docs
        self._index = index
        self._settings = dict(settings or {})
        self._wait_s = wait_s
        self._progress = _LastWord()
        self._spare_memory = SpareMemory()
        self._kept: OrderedDict[str, _Kept] = OrderedDict()  # the one used last at the end
        self._lock = threading.Lock()
        self._opening = threading.Lock()

    @contextmanager
    def retriever(self, profile: str = "", settings: Mapping[str, Any] | None = None) -> "Iterator[Retriever]":
        """The retriever of a profile, open for the block; the first one loads what it needs, and indexes `docs`.

        Args:
            profile: a profile's name, never a file: it comes from a client. Empty for the library's own.
            settings: over the library's.

        Raises:
            UsageError: there is no such profile.
            NotReadyError: the documents are still being indexed; that goes on.
            RetrieverError: the kinds of `open_retriever`; the next call tries again.
        """
        if profile and profile != self.profile and profile not in profile_names():
            raise UsageError(f"there is no profile {profile!r}; there are: {', '.join(profile_names())}")
        self._spare_memory.give_back()
        kept = self._taken(profile or self.profile, settings or {})
        try:
            yield self._opened_in_time(kept.future)
        finally:
            self._put_back(kept)

    def _taken(self, profile: str, settings: Mapping[str, Any]) -> _Kept:
        """One that stays open until it is put back; begins to open it where there is none."""
        key = repr((profile, settings))
        with self._lock:
            kept = self._kept.pop(key, None)
            if kept is None or kept.has_failed:
                kept = _Kept(self._begin(profile, settings))
            self._kept[key] = kept
            kept.users += 1
            return kept

    def _put_back(self, kept: _Kept) -> None:
        with self._lock:
            kept.users -= 1
            idle = [key for key, other in self._kept.items() if other.is_idle]
            surplus = [self._kept.pop(key) for key in idle[: max(0, len(self._kept) - MOST_OPEN)]]
        for other in surplus:
            other.close()

    def _opened_in_time(self, future: "Future[Retriever]") -> "Retriever":
        try:
            return future.result(self._wait_s)
        except TimeoutError:
            if future.done():
                raise
            raise NotReadyError(f"the documents are being indexed{self._progress}; ask again in a minute") from None

    def _begin(self, profile: str, settings: Mapping[str, Any]) -> "Future[Retriever]":
        future: Future[Retriever] = Future()
        # A thread that need not end before the process does, as one of a ThreadPoolExecutor would.
        threading.Thread(target=self._fulfil, args=(future, profile, settings), daemon=True).start()
        return future

    def _fulfil(self, future: "Future[Retriever]", profile: str, settings: Mapping[str, Any]) -> None:
        try:
            with self._opening:
                future.set_result(self._opened(profile, settings))
        except Exception as error:  # whoever waits for the retriever raises it
            future.set_exception(error)

    def _opened(self, profile: str, settings: Mapping[str, Any]) -> "Retriever":
        from retriever.indexing.locations import absolute, find_index
        from retriever.library import open_retriever

        place = find_index([absolute(folder) for folder in self._docs], self._index)
        opened = open_retriever(self._docs, self._index, profile, merged(self._settings, settings), self._progress)
        # From now on each question looks for what changed, in the same place even if another index is used elsewhere.
        self._docs, self._index = (), str(place)
        return opened

    def close(self) -> None:
        """Closes every retriever that is open."""
        with self._lock:
            for kept in self._kept.values():
                kept.close()
            self._kept.clear()


class _LastWord:
    """A Progress that remembers how far indexing has come."""

    def __init__(self) -> None:
        self._stage, self._total, self._unit, self._done = "", 0, "", 0

    def start(self, stage: str, total: int, unit: str) -> None:
        """A stage begins."""
        self._stage, self._total, self._unit, self._done = stage, total, unit, 0

    def advance(self, stage: str, done: int) -> None:
        """So much of it is done."""
        self._done = done

    def finish(self, stage: str) -> None:
        """It is over."""
        self._done = self._total

    def __str__(self) -> str:
        """` (embedding 1,200 of 3,400 texts)`; empty before the first stage."""
        return f" ({self._stage} {self._done:,} of {self._total:,} {self._unit})" if self._stage else ""
