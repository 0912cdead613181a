"""An index that a team shares in PostgreSQL: its tables, and the queue of its workers; for rights see `store.rights`.

Questions, and everything else that a folder's index has too, are in `retriever.api`.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retriever.api import note_choice
from retriever.errors import UsageError
from retriever.indexes import index_request
from retriever.indexing.derived_tables import make_graph
from retriever.indexing.request import INDEX_VARIABLE, WAIT_FOR_WRITER_S
from retriever.indexing.workers import enqueue, work
from retriever.protocols import Progress
from retriever.settings.layers import DEFAULT_PROFILE
from retriever.store.store import Store, open_store
from retriever.store.tables import distribute_tables, make_tables, make_tsvector
from retriever.store.url import FORM
from retriever.trace import NoProgress

if TYPE_CHECKING:
    from retriever.indexing.workers import WorkedUnit


def make_postgres_tables(
    index: str | Path | None = None,
    writers: Sequence[str] = (),
    readers: Sequence[str] = (),
    *,
    hnsw: bool = False,
    tsvector: str = "",
    citus: bool = False,
) -> bool:
    """Make the tables of an index in PostgreSQL where there are none, and grant rights; by the role that owns them.

    Args:
        index: `postgresql://USER@HOST/DATABASE`, with `?schema=NAME`; None for HYBRID_RETRIEVE_INDEX.
        writers: roles that may index from now on.
        readers: roles that may ask from now on, and see all folders; `rights.grant_folders` gives some.
        hnsw: also make the index of near vectors that `vector_search: hnsw` asks, of what is indexed by now.
        tsvector: also keep the words that `keyword: tsvector` asks, cut by this text search configuration (`english`).
        citus: also spread the tables over the nodes of a Citus cluster.

    Returns:
        Whether tables were made.

    Raises:
        UsageError: the index is a folder; the extra `postgres` is not installed.
        IndexUnusableError: the server cannot be reached, is too old, has no pgvector, or this role may not do that.
    """
    store = open_database(index)
    made = make_tables(store.url, writers, readers)
    if citus:
        distribute_tables(store.url)
    if tsvector:
        make_tsvector(store.url, tsvector)
    if hnsw:
        with store.write(WAIT_FOR_WRITER_S) as (connection, _):
            make_graph(connection)
    return made


def open_database(index: str | Path | None) -> Store:
    """Return the store of `postgresql://...`, or of HYBRID_RETRIEVE_INDEX; UsageError where none is named."""
    named = index or os.environ.get(INDEX_VARIABLE)
    if not named:
        raise UsageError(f"name a database: --index {FORM}")
    return open_store(named)


def enqueue_folders(
    docs: Sequence[str | Path],
    index: str | Path | None = None,
    profile: str = DEFAULT_PROFILE,
    settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    *,
    everything: bool = False,
) -> int:
    """Put what changed in folders into the queue of an index in PostgreSQL; with the arguments of `index_folders`.

    Returns:
        How many documents are new, changed or gone. What failed before is tried again.

    Raises:
        UsageError: the index is a folder, or has other settings, which are changed by `index_folders` alone.
        RetrieverError: as `index_folders`.
    """
    request = note_choice(index_request(docs, index, profile, settings, None, everything=everything))
    return enqueue(request, progress or NoProgress())


def work_queue(index: str | Path | None = None, *, once: bool = False) -> "Iterator[WorkedUnit | None]":
    """Index queued documents, beside any number of others who do, until the caller asks for no more.

    Args:
        index: as in `make_postgres_tables`.
        once: end when nothing is left to do.

    Yields:
        Each document that was tried, with the reason if it failed; None, every second, where there is nothing to do
        or the database is away.

    Raises:
        UsageError: the index is a folder, or this machine has another embedding model than it was made with.
        IndexUnusableError: the database cannot be used; once it has answered, not before it failed for five minutes.
    """
    return work(lambda: index_request((), index, DEFAULT_PROFILE, None), once=once)
