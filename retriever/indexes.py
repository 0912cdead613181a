"""All indexes of this user: what each holds, and how one is deleted."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from retriever.errors import Command, UsageError
from retriever.files import is_folder, measure_folder, writing_to
from retriever.indexing.consent import forget_named
from retriever.indexing.places import list_known, resolve_name
from retriever.indexing.request import LAST_NAME, absolute, home_folder, is_own
from retriever.store.locks import writer_lock
from retriever.store.own_files import remove_files, require_own
from retriever.store.store import Store


@dataclass(frozen=True, slots=True)
class ListedIndex:
    """An index of this user."""

    name: str
    """For people, and for --index; no two have the same."""
    path: str
    """The index's folder."""
    folders: tuple[str, ...]
    """The indexed folders, absolute."""
    missing: tuple[str, ...]
    """Those of them that are not there: moved, deleted, or on a disk that is away."""
    documents: int
    size_bytes: int
    """0 for a database, which is not asked."""
    updated: float
    """When it was last brought up to date, in seconds since 1970; 0 for a database."""
    trouble: str = ""
    """Why it cannot be read; empty when it can."""


def list_indexes() -> tuple[ListedIndex, ...]:
    """All indexes of this user, by name: those in the data folder, and those elsewhere whose folders were named."""
    return tuple(
        ListedIndex(
            name=known.name,
            path=str(known.store),
            folders=known.folders,
            missing=tuple(folder for folder in known.folders if not is_folder(folder)),
            documents=known.documents,
            size_bytes=measure_folder(known.store.folder) if known.store.keeps_snapshots else 0,
            updated=known.store.updated(),
            trouble=known.trouble,
        )
        for known in list_known()
    )


def drop_index(name: str) -> Path:
    """See `retriever.api.drop_index`."""
    store = find_named(name)
    place = store.folder  # a database is dropped where it is
    require_own(place)
    with writer_lock(place, 0.0), writing_to(place):
        forget_named(store)
        remove_files(place)
    with suppress(OSError, UsageError):
        last = home_folder() / LAST_NAME
        if last.read_text(encoding="utf-8").strip() == place.name and is_own(store):
            last.unlink()
    return place


def find_named(name: str) -> Store:
    """The folder of the index of that name, or of just that folder of documents; UsageError when there is none."""
    of_folder = [known.store for known in list_known() if known.folders == (str(absolute(name)),)]
    store = of_folder[0] if len(of_folder) == 1 else resolve_name(name, is_asked=False)
    if not store.exists():
        raise UsageError(f"there is no index {name!r}", hint=Command("indexes", "to see what there is, run"))
    return store
