"""What nobody but the user decides: that everything of theirs is indexed, and that another machine reads it."""

from collections.abc import Sequence
from pathlib import Path

from retriever.errors import UsageError
from retriever.indexing.locations import is_own
from retriever.settings.layers import GivenSettings

_SERVERS = frozenset({"ollama", "openai"})
"""Kinds of encoders that send texts away."""


def check_folders(folders: Sequence[Path]) -> None:
    """Refuse the user's home folder, and those that hold it: they are hardly ever meant.

    Raises:
        UsageError: one of the folders (absolute) is such a folder.
    """
    home = _user_home()
    for folder in folders:
        if home is not None and (folder == home or folder in home.parents):
            raise UsageError(
                f"{folder} holds everything that is yours: name the folder of documents, or, if all of it is meant,"
                f" run: hybrid_retrieve.py index --yes {folder}"
            )


def check_server(index: Path, given: GivenSettings) -> None:
    """Refuse a server on another machine that the index alone names, unless the index is in the user's data folder.

    An index may have come with somebody's documents, and the server that it names would read the questions, and what
    changes in the documents.

    Raises:
        UsageError: it names one, and neither the profile nor a variable nor the caller does.
    """
    encoder = given.profile().encoder
    if encoder.kind not in _SERVERS or not encoder.url or is_own(index):
        return
    from retriever.llm.client import is_this_machine  # httpx: not where no server is asked

    others = [layer.get("encoder", {}) for place, layer in given.layers if place != "index"]
    if not is_this_machine(encoder.url) and not any("url" in layer for layer in others):
        raise UsageError(
            f"the index {index} names the server {encoder.url}, which would read questions and documents:"
            f" if that is meant, give it as well: --encoder-url {encoder.url}"
        )


def _user_home() -> Path | None:
    try:
        return Path.home().resolve()
    except (RuntimeError, OSError):
        return None
