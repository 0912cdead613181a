"""An index that a team shares in PostgreSQL: its tables, who may read what of it, and the queue of its workers.

Questions, and everything else that a folder's index has too, are in `retriever.api`.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retriever.api import index_request, note_choice
from retriever.errors import UsageError
from retriever.indexes import find_index
from retriever.indexing.derived_tables import make_graph
from retriever.indexing.request import INDEX_VARIABLE, WAIT_FOR_WRITER_S
from retriever.indexing.workers import enqueue, work
from retriever.indexing.workers import read_queue as read
from retriever.protocols import Progress
from retriever.settings.layers import DEFAULT_PROFILE
from retriever.store.rights import grant_folders, revoke_folders
from retriever.store.store import Store, open_store
from retriever.store.tables import distribute_tables, make_tables, make_tsvector
from retriever.store.url import FORM
from retriever.trace import NoProgress

if TYPE_CHECKING:
    from retriever.indexing.workers import Queue, WorkedUnit


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
        readers: roles that may ask from now on, and see all folders; `grant_postgres_folders` gives some.
        hnsw: also make the index of near vectors that `vector_search: hnsw` asks, of what is indexed by now.
        tsvector: also keep the words that `keyword: tsvector` asks, cut by this text search configuration (`english`).
        citus: also spread the tables over the nodes of a Citus cluster.

    Returns:
        Whether tables were made.

    Raises:
        UsageError: the index is a folder; the extra `postgres` is not installed.
        IndexUnusableError: the server cannot be reached, is too old, has no pgvector, or this role may not do that.
    """
    store = _name_store(index)
    address = store.url
    made = make_tables(address, writers, readers)
    if citus:
        distribute_tables(address)
    if tsvector:
        make_tsvector(address, tsvector)
    if hnsw:
        with store.write(WAIT_FOR_WRITER_S) as (connection, _):
            make_graph(connection)
    return made


def grant_postgres_folders(index: str | Path | None, role: str, folders: Sequence[str]) -> tuple[str, ...]:
    """Lets a role of PostgreSQL read some folders of an index, and nothing of any other; by the owner of the tables.

    Args:
        index: as in `make_postgres_tables`.
        role: one that is there. Who is a member of it may read the same.
        folders: paths of indexed folders, or the ends of them.

    Returns:
        The folders that the role may read now.

    Raises:
        UsageError: there is no such folder, or the role may read all already; nothing was changed.
        IndexUnusableError: as in `make_postgres_tables`.
    """
    return grant_folders(_name_store(index).url, role, folders)


def revoke_postgres_folders(index: str | Path | None, role: str, folders: Sequence[str] = ()) -> tuple[str, ...]:
    """Takes from a role the right to some folders, or all its rights; otherwise as `grant_postgres_folders`."""
    return revoke_folders(_name_store(index).url, role, folders)


def enqueue_folders(
    docs: Sequence[str | Path],
    index: str | Path | None = None,
    profile: str = DEFAULT_PROFILE,
    settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    *,
    everything: bool = False,
) -> int:
    """Puts what changed in folders into the queue of an index in PostgreSQL, for `work_queue`.

    What failed is tried again.

    Args:
        docs: folders of Markdown.
        index: `postgresql://USER@HOST/DATABASE`; None for HYBRID_RETRIEVE_INDEX.
        profile: a name in configs/ or the path of a YAML file.
        settings: settings over those of the profile, nested as in a profile file; the index remembers them.
        progress: told how far it is.
        everything: allow the user's home folder, or one that holds it.

    Returns:
        How many documents are new, changed or gone.

    Raises:
        UsageError: the index is a folder, or has other settings, which are changed by `index_folders` alone.
        DocumentsError: a folder is missing, or holds no document.
        IndexUnusableError: the database cannot be reached or written.
    """
    request = note_choice(index_request(docs, index, profile, settings, None, everything=everything))
    return enqueue(request, progress or NoProgress())


def work_queue(index: str | Path | None = None, *, once: bool = False) -> "Iterator[WorkedUnit | None]":
    """Indexes queued documents, beside any number of others who do, until the caller asks for no more.

    Args:
        index: `postgresql://USER@HOST/DATABASE`; None for HYBRID_RETRIEVE_INDEX.
        once: end when nothing is left to do.

    Yields:
        Each document that was tried, with the reason if it failed; None, every second, where there is nothing to do
        or the database is away.

    Raises:
        UsageError: the index is a folder, or this machine has another embedding model than it was made with.
        IndexUnusableError: the database cannot be used; once it has answered, not before it failed for five minutes.
    """
    return work(lambda: index_request((), index, DEFAULT_PROFILE, None), once=once)


def read_queue(index: str | Path | None = None) -> "Queue | None":
    """Return how many documents are queued, being worked on and failed.

    Args:
        index: found as in `open_retriever`.

    Returns:
        None for an index in a folder, which has no queue.

    Raises:
        IndexUnusableError: the database cannot be read.
    """
    return read(find_index((), index).index)


def _name_store(index: str | Path | None) -> Store:
    named = index or os.environ.get(INDEX_VARIABLE)
    if not named:
        raise UsageError(f"name a database: --index {FORM}")
    return open_store(named)
