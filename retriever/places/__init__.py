"""An index in its place: a folder, or what another room knows. `open_store` decides that, once, from `ROOMS`.

An open store travels, and gives what differs from one place to another: its connections, what is derived from its rows,
and a view of one state of it.
"""

from importlib import import_module
from pathlib import Path

from retriever.errors import UsageError
from retriever.places.folder import FolderStore
from retriever.places.place import Derived, Difference, Store
from retriever.store.files import absolute

__all__ = ["Derived", "Difference", "FolderStore", "Store", "open_store"]

# Which package opens an address, with its `open_place`, by what stands before the first colon.
ROOMS = {"postgresql": "retriever.postgres", "postgres": "retriever.postgres"}


def open_store(place: str | Path | Store) -> Store:
    """Return the store at a place, which need not hold an index yet.

    Args:
        place: a folder, or an address of one of the `ROOMS`; a store is given back as it is.

    Raises:
        UsageError: it is neither. Nothing of a password is repeated.
    """
    if isinstance(place, Store):
        return place
    scheme, _, rest = str(place).partition(":")
    if room := ROOMS.get(scheme.lower()):
        try:
            store: Store = import_module(room).open_place(str(place))
        except ModuleNotFoundError as error:
            raise UsageError(f"this installation has no {error.name}, which an index at {scheme}: needs") from error
        return store
    is_address = rest.startswith("//") and scheme.replace("+", "").isalnum()  # a folder may be called anything else
    if is_address or "password=" in str(place).replace(" ", ""):
        raise UsageError(f"an index is a folder, or an address that begins with {' or '.join(ROOMS)}")
    return FolderStore(absolute(place))
