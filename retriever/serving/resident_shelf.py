"""The retrievers that the resident process keeps open, so that a question finds index and models loaded.

Each question is resolved from nothing, as in a process of its own: profile file, environment and index settings are
read again, and a retriever is used only if it was opened for just the same.
"""

import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from retriever.errors import IndexLockedError
from retriever.indexing.locations import remember
from retriever.indexing.recipe import IndexRequest
from retriever.indexing.updating import update_index
from retriever.library import index_request
from retriever.retrieving import Retriever

if TYPE_CHECKING:
    from retriever.types import Progress

MOST_OPEN = 4
"""Each holds a model and an index: 100 MB and more."""
VARIABLES = ("HOME", "XDG_", "OLLAMA_", "HF_", "TRANSFORMERS_", "SENTENCE_TRANSFORMERS_", "SSL_", "REQUESTS_CA_")
"""Beginnings of the variables that an open retriever depends on, beside its settings and the key of its encoder."""


class DeclinedError(BaseException):
    """The question is to be asked in a process of its own. No Exception: nothing on the way may handle it."""


class _NoIndexing:
    """A Progress that declines: whoever indexes wants to see how far it is, and to stop it."""

    def start(self, stage: str, total: int, unit: str) -> NoReturn:
        raise DeclinedError(f"{stage} {total:,} {unit}")

    def advance(self, stage: str, done: int) -> None:
        """Never called."""

    def finish(self, stage: str) -> None:
        """Never called."""


class Shelf:
    """Open retrievers, the one used last at the end; for one thread."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, Retriever] = OrderedDict()
        self.uses_model = False
        """Whether the question of now may wait for a language model."""

    @contextmanager
    def open(
        self,
        docs: Sequence[str | Path],
        index: str | Path | None,
        profile: str,
        settings: Mapping[str, Any],
        _: "Progress | None" = None,
    ) -> Iterator[Retriever]:
        """As `open_retriever`, but what is opened stays open, unless something stands in the way of an answer.

        Raises:
            DeclinedError: documents are to be indexed first.
            RetrieverError: as `open_retriever`.
        """
        request = index_request(docs, index, profile, settings)
        self.uses_model = request.profile.use_llm
        if request.docs:
            _check_indexed(request)
        key = _key(request, profile)
        retriever = self._open.pop(key, None) or Retriever(request, profile)
        try:
            retriever.look_again()
            yield retriever
        except BaseException:
            retriever.close()
            raise
        if retriever.is_impaired:  # a process of its own would begin without what this one remembers of the trouble
            retriever.close()
        else:
            self._open[key] = retriever
        while len(self._open) > MOST_OPEN:
            self._open.popitem(last=False)[1].close()

    def close(self) -> None:
        """Closes all of them."""
        while self._open:
            self._open.popitem()[1].close()


def _check_indexed(request: IndexRequest) -> None:
    """Declines when there is anything to index, or another process writes to the index."""
    try:
        update_index(replace(request, wait_s=0.0), _NoIndexing())
    except IndexLockedError as error:
        raise DeclinedError(str(error)) from error
    remember(request.index)


def _key(request: IndexRequest, profile: str) -> str:
    """The same for questions that one retriever can answer."""
    names = (*VARIABLES, request.profile.encoder.api_key_env or VARIABLES[0])
    variables = sorted(item for item in os.environ.items() if item[0].startswith(names))
    return repr((request.index, request.profile, request.settings, request.recipe, profile, variables))
