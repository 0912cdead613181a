"""Ways to an index for others: agents over MCP, a browser, a process that stays open.

All of them ask one served index, which is here, and read the arguments of a call in one way.
"""

import contextlib
import logging
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import PurePath
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from pageindex.node import Span
from retriever.display import code
from retriever.errors import (
    IndexLockedError,
    LanguageModelError,
    NotReadyError,
    ParametersError,
    RetrieverError,
    UsageError,
)
from retriever.indexing.request import IndexRequest, read_named_folders
from retriever.indexing.update import update_index
from retriever.looking.browse import Excerpt
from retriever.looking.indexes import find_index, index_request
from retriever.looking.status import describe_topics
from retriever.places import Store
from retriever.retriever import Retriever
from retriever.served.generator import Generator
from retriever.settings import DEFAULT_PROFILE, load_profile, merge, profile_names
from retriever.store.database import transaction
from retriever.store.files import Closing, absolute
from retriever.trace import NoProgress
from retriever.upkeep import probe_once

log = logging.getLogger(__name__)

# How long a caller waits for documents that are indexed for the first time; clients give up after 60.
OPENING_SECONDS = 40.0
# For the texts that are being embedded when a server ends.
STOP_SECONDS = 3.0


@dataclass(eq=False)
class ServedIndex(Closing):
    """One index under every profile that clients may name, each opened when it is first asked for."""

    docs: Sequence[str] = ()  # folders to index when the index is first opened
    index: "str | Store | None" = None  # where it is; None as everywhere
    profile: str = DEFAULT_PROFILE  # for clients that name none
    settings: Mapping[str, Any] = field(default_factory=dict)  # for all of them

    def __post_init__(self) -> None:
        # By profile and settings; those are few, so each stays open, with some 16 MB.
        self._opened: dict[str, Retriever] = {}
        self._lock = threading.Lock()
        # Done when questions can be answered, or with what prevented that; None: nothing had to be indexed yet.
        self._readable: Future[None] | None = None
        self._indexing: threading.Thread | None = None
        self.progress = LastProgress()

    def open(
        self, profile: str = "", settings: Mapping[str, Any] | None = None, wait_s: float = OPENING_SECONDS
    ) -> Retriever:
        """Return the retriever of a profile (a name, never a file; empty: the index's own), shared by all callers.

        Raises:
            NotReadyError: the documents are still being read after `wait_s` seconds.
            RetrieverError: the index cannot be opened; the next call tries again.
        """
        if profile and profile != self.profile and profile not in profile_names():
            raise UsageError(f"there is no profile {profile!r}; there are: {', '.join(profile_names())}")
        with self._lock:
            if self.docs and self._readable is None:
                request = index_request(self.docs, self.index, self.profile, self.settings)
                # From now on it is the same place, even if another index is used elsewhere.
                self.index = request.store
                self._start_indexing(request)
            readable = self._readable
        if readable is not None:
            try:
                readable.result(wait_s)
            except Exception:
                if not readable.done():
                    raise NotReadyError(f"the documents are being read{self.progress}; ask again in a moment") from None
                self._readable = None
                raise
        with self._lock:
            key = repr((profile or self.profile, settings))
            if key not in self._opened:
                self._opened[key] = self._open(profile or self.profile, settings or {})
            return self._opened[key]

    def _open(self, profile: str, settings: Mapping[str, Any]) -> Retriever:
        request = index_request((), self.index, profile, merge(self.settings, settings))
        self.index = request.store
        retriever = Retriever(request, profile)
        with retriever.view() as view:
            # The texts that wait in a database are for workers, or for `index`: there may be other servers.
            is_partial = view.state.embedded_share < 1 and request.store.embeds_itself
        if is_partial and self._readable is None:
            self._start_indexing(request)
        if retriever.profile.use_llm:  # when the question of now is answered, the model shows what it can do
            probing = threading.Timer(retriever.profile.llm.seconds, probe_once, [retriever.profile])
            probing.daemon = True
            probing.start()
        return retriever

    def _start_indexing(self, request: IndexRequest) -> None:
        """Index while questions are answered: once the words are there by words, then the rest.

        The thread need not end before the process does: what it has committed is kept.
        """
        self._readable = Future()
        if not request.docs:  # what is there answers
            self._readable.set_result(None)
        self._indexing = threading.Thread(target=self._index, args=(request, self._readable), daemon=True)
        self._indexing.start()

    def _index(self, request: IndexRequest, readable: "Future[None]") -> None:
        def let_in() -> None:
            if not readable.done():
                readable.set_result(None)

        try:
            update_index(request, self.progress, let_in)
        except _StoppedError:
            pass
        except Exception as error:  # a waiting caller raises it; later it is said in the log
            if readable.done():
                log.log(logging.INFO if isinstance(error, IndexLockedError) else logging.ERROR, "%s", error)
            else:
                readable.set_exception(error)
        let_in()

    def has_llm(self) -> bool:
        """Return whether the language model of its profile runs, and may be asked."""
        profile = load_profile(self.profile, self.settings)
        with contextlib.suppress(LanguageModelError):
            if profile.answer.kind != "extractive":
                Generator(profile).look_up()
                return True
        return False

    def begin(self) -> None:
        """Open the index in the background, before the first question; that question raises any error."""
        threading.Thread(target=self._open_early, daemon=True).start()

    def _open_early(self) -> None:
        try:
            self.open()
        except RetrieverError as error:
            log.info("not opened yet: %s", error)

    def check_ready(self) -> None:
        """Check that a question can be answered now: the index is open, and its database answers.

        Raises:
            RetrieverError: why not.
        """
        self.open(wait_s=0).store.open().close()

    def describe(self) -> str:
        """Describe what is indexed, in a few lines for an agent; open and index nothing but index.sqlite."""
        try:
            place = find_index(self.index, tuple(map(absolute, self.docs)))
            with place.read() as connection, transaction(connection, "DEFERRED"):
                return describe_topics(connection, read_named_folders(place))
        except RetrieverError:  # there is none yet, or none that can be used: the first call says what to do
            names = ", ".join(code(PurePath(folder).name) for folder in self.docs)
            return f"The first call indexes {names}." if names else ""

    def close(self) -> None:
        """Close everything that was opened."""
        self.progress.is_stopped = True
        if self._indexing is not None:  # it ends after what is being embedded now, or is left behind
            self._indexing.join(STOP_SECONDS)
        with self._lock:
            for retriever in self._opened.values():
                retriever.close()
            self._opened.clear()


class _StoppedError(Exception):
    """The server ends."""


class LastProgress(NoProgress):
    """A Progress that says how far indexing has come, and ends it where the server ends."""

    is_stopped = False

    def advance(self, stage: str, done: int) -> None:
        super().advance(stage, done)
        if self.is_stopped:
            raise _StoppedError

    def __str__(self) -> str:
        """Return the stage and how far it is; empty before the first.

        >>> progress = LastProgress()
        >>> progress.start("embedding", 3_400, "texts")
        >>> str(progress)
        ' (embedding: 0 of 3,400 texts)'
        """
        return f" ({self.stage}: {self.done:,} of {self.total:,} {self.unit})" if self.stage else ""


class Arguments(BaseModel):
    """The arguments that a call may be given, and no others."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Model = TypeVar("Model", bound=Arguments)


def read_arguments(model: type[Model], given: Mapping[str, object]) -> Model:
    """Return the arguments; ParametersError names every mistake, and what there is."""
    try:
        return model.model_validate(given)
    except ValidationError as error:
        mistakes = "; ".join(f"{str(item['loc'][0])[:100]}: {item['msg']}" for item in error.errors())
        known = ", ".join(field.alias or name for name, field in model.model_fields.items()) or "none"
        raise ParametersError(f"{mistakes}; there are: {known}") from None


def count_fitting(lines: Sequence[str], most: int) -> int:
    """Return how many of the lines fit into `most` bytes, but at least one.

    >>> [count_fitting(["ab", "cd", "ef"], most) for most in (2, 5, 6, 8, 9, 99)]
    [1, 1, 2, 2, 3, 3]
    """
    return max(1, sum(size <= most for size in accumulate(len(line.encode()) + 1 for line in lines)))


def cut_excerpt(excerpt: Excerpt, most: int, first: int = 0) -> tuple[Excerpt, str]:
    r"""Return the lines of an excerpt that fit, at least one, and the citation of those behind them, if any.

    >>> place = {"node_id": "a.md", "folder": "/docs", "file": "a.md", "title": "A", "breadcrumb": ()}
    >>> excerpt = Excerpt(**place, span=Span(11, 13), text="one\ntwo\nten\n")
    >>> def cut_at(most, first=0):
    ...     shown, following = cut_excerpt(excerpt, most, first)
    ...     return str(shown.span), shown.text, following
    >>> cut_at(12)
    ('11-13', 'one\ntwo\nten\n', '')
    >>> cut_at(8)
    ('11-12', 'one\ntwo\n', 'a.md:13')
    >>> cut_at(4, 12)
    ('12', 'two\n', 'a.md:13')
    >>> cut_at(4, 13)
    ('13', 'ten\n', '')
    >>> cut_at(4, 14), cut_at(4, 10)
    (('11', 'one\n', 'a.md:12-13'), ('11', 'one\n', 'a.md:12-13'))

    Args:
        excerpt: is cut between lines: what begins or ends inside one would cite what it does not show.
        most: bytes.
        first: the line to begin with where not all fits.
    """
    if len(excerpt.text.encode()) <= most:
        return excerpt, ""
    begin = first if excerpt.span.first <= first <= excerpt.span.last else excerpt.span.first
    rows = excerpt.text.split("\n")[begin - excerpt.span.first : -1]
    end = begin + count_fitting(rows, most)
    shown = replace(excerpt, span=Span(begin, end - 1), text="\n".join([*rows[: end - begin], ""]))
    following = replace(excerpt, span=Span(end, excerpt.span.last)).citation if end <= excerpt.span.last else ""
    return shown, following
