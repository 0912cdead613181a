"""What nobody but the user decides: which folders an index may look at, and that another machine reads them.

An index may have come from somebody else, as a file or as a folder beside documents. The folders that it names are
looked at only when this user has named them for it, which a file in the user's data folder remembers.
"""

import contextlib
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pageindex.corpus import MAX_FILE_BYTES, CorpusOptions, read_file
from pageindex.formats import READERS
from retriever.errors import CommandHint, UsageError
from retriever.files import make_private_folder, write_file, writing_to
from retriever.indexing.request import home_folder, is_own, named_file
from retriever.settings.layers import GivenSettings
from retriever.settings.schema import DocumentSettings
from retriever.store.store import Store, open_store

_SERVERS = frozenset({"ollama", "openai"})  # kinds of encoders that send texts away
MAX_NAMED_BYTES = 10_000_000


@dataclass(frozen=True, slots=True)
class NamedFolders:
    folders: tuple[str, ...] = ()  # those that it may look at, absolute
    # The settings that say which files are documents, as they were when folders were named last; None before.
    documents: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class FolderAccess:
    folders: frozenset[str]  # the folders that this user has named for it, absolute
    options: CorpusOptions  # which of their files are documents

    @classmethod
    def of(cls, store: Store, settings: DocumentSettings) -> "FolderAccess":
        """As it is now; another process may name a folder meanwhile."""
        options = CorpusOptions(settings.suffixes, settings.ignore, settings.max_file_bytes)
        return cls(frozenset(read_named_folders(store).folders), options)


def explain_refusal(folders: Sequence[str]) -> str:
    """What is said of folders that nobody named, in a sentence."""
    shown = ", ".join(folders[:3]) + (f" and {len(folders) - 3:,} more" if len(folders) > 3 else "")
    is_one = len(folders) == 1
    return f"{shown} {'is' if is_one else 'are'} not looked at until you name {'it' if is_one else 'them'} with --docs"


# Of indexes of which nothing can be remembered, for the time of this process: there is no home, or it is read-only.
_unwritten: dict[Store, NamedFolders] = {}


def read_named_folders(store: Store) -> NamedFolders:
    try:
        content = json.loads(read_file(named_file(store), MAX_NAMED_BYTES))
        return NamedFolders(tuple(content["folders"]), content["documents"])
    except (OSError, UsageError, ValueError, LookupError, TypeError):
        return _unwritten.get(store, NamedFolders())


def list_named() -> dict[Store, tuple[str, ...]]:
    """Return the indexes that may be there, and the folders that this user has named for each."""
    named: dict[Store, tuple[str, ...]] = {}
    with contextlib.suppress(UsageError):  # no home
        for file in sorted(home_folder().with_name("folders").glob("*.json")):
            with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
                content = json.loads(read_file(file, MAX_NAMED_BYTES))
                store = open_store(content["index"])
                if named_file(store) == file:
                    named[store] = tuple(map(str, content["folders"]))
    return named


def name_folders(store: Store, folders: Sequence[Path], documents: Mapping[str, Any]) -> None:
    """Remembers folders that this user has named for an index, and the `documents` settings then in force."""
    known = read_named_folders(store)
    plain = json.loads(json.dumps(dict(documents)))
    named = NamedFolders(tuple(dict.fromkeys([*known.folders, *map(str, folders)])), plain)
    if named == known:
        return
    try:
        file = named_file(store)
        make_private_folder(file.parent)
        content = {"index": str(store), "folders": named.folders, "documents": named.documents}
        write_file(file, json.dumps(content))
    except (OSError, UsageError):
        _unwritten[store] = named


def forget_named(store: Store) -> None:
    """Forgets which folders were named for an index, as another one takes its place."""
    _unwritten.pop(store, None)
    with contextlib.suppress(UsageError):
        file = named_file(store)
        with writing_to(file):
            file.unlink(missing_ok=True)


def drop_widening_settings(store: Store, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that an index remembers, without those on its documents that would open other files to it."""
    documents = settings.get("documents")
    if not isinstance(documents, dict):
        return dict(settings)
    # What this user said when naming folders holds; before that, only what opens less than the defaults.
    known = read_named_folders(store).documents
    if known is None:
        known = {key: value for key, value in documents.items() if key not in _widening(documents)}
    return {**settings, "documents": dict(known)}


def check_documents(store: Store, settings: Mapping[str, Any], given: GivenSettings, *, anew: bool = False) -> None:
    """UsageError where an index alone (a new one: `anew`) opens other files than usual; `given` is in force."""
    documents = settings.get("documents")
    if not isinstance(documents, dict) or (not anew and read_named_folders(store).documents is not None):
        return
    said = {key for place, layer in given.layers if place != "index" for key in layer.get("documents", {})}
    for key in _widening(documents):
        if key not in said:
            values = documents[key] if isinstance(documents[key], list) else [documents[key]]
            shown = ", ".join(map(str, values))
            raise UsageError(
                f"the index {store} alone names documents.{key}, by which more files of the folder are read: {shown};"
                f" if that is meant, give it as well, by flags or as HYBRID_RETRIEVE_DOCUMENTS_{key.upper()}"
            )


def _widening(documents: Mapping[str, Any]) -> list[str]:
    """The settings by which other files are read than by default."""

    def texts(key: str) -> list[str]:
        value = documents.get(key, ())
        return [str(item) for item in value] if isinstance(value, list | tuple) else [str(value)]

    found = []
    if not set(texts("suffixes")) <= READERS.keys():
        found.append("suffixes")
    if any(pattern.lstrip().startswith("!") for pattern in texts("ignore")):
        found.append("ignore")  # a pattern that lets in what a .gitignore leaves out
    limit = documents.get("max_file_bytes", 0)
    if not isinstance(limit, int) or limit > MAX_FILE_BYTES:
        found.append("max_file_bytes")
    return found


def check_folders(folders: Sequence[Path]) -> None:
    """Refuses the user's home folder, and those that hold it: they are hardly ever meant."""
    for folder in folders:
        if holds_home(folder):
            raise UsageError(
                f"{folder} holds everything that is yours: name the folder of documents",
                hint=CommandHint(f"index --yes {shlex.quote(str(folder))}", "if all of it is meant, run"),
            )


def holds_home(folder: Path) -> bool:
    """Whether it is the user's home folder, or one that holds it."""
    try:
        home = Path.home().resolve()
    except (RuntimeError, OSError):
        return False
    return folder == home or folder in home.parents


def check_server(store: Store, given: GivenSettings, *, anew: bool = False) -> None:
    """Refuses a server on another machine that the index alone names, unless it was made here (not `anew`)."""
    # An index may have come with somebody's documents, and the server that it names would read the questions, and what
    # changes in the documents.
    encoder = given.profile().encoder
    if encoder.kind not in _SERVERS or not encoder.url or (is_own(store) and not anew):
        return
    from retriever.served.address import is_this_machine

    others = [layer.get("encoder", {}) for place, layer in given.layers if place != "index"]
    if not is_this_machine(encoder.url) and not any("url" in layer for layer in others):
        raise UsageError(
            f"the index {store} names the server {encoder.url}, which would read questions and documents:"
            f" if that is meant, give it as well: --encoder-url {encoder.url}"
        )
