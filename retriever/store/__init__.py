"""An index in its place, which is a folder or a PostgreSQL database. `open_store` decides that, once.

An open store travels; what differs between the two engines is a method or an attribute of it. In a folder
index.sqlite is the one place of truth: everything else there is derived from it.
"""

from pathlib import Path

from retriever.store.files import absolute
from retriever.store.place import DatabaseUrl, FolderStore, Store, read_url

__all__ = ["DatabaseUrl", "FolderStore", "Store", "open_store"]


def open_store(place: str | Path | Store) -> Store:
    """Return the store at a place, which need not hold an index yet.

    Args:
        place: a folder, or `postgresql://USER@HOST/DATABASE`; a store is given back as it is.

    Raises:
        UsageError: it is neither.
    """
    if isinstance(place, Store):
        return place
    if (url := read_url(str(place))) is not None:
        from retriever.store.postgres import DatabaseStore

        return DatabaseStore(url)
    return FolderStore(absolute(place))
