"""What programs use: open a retriever over folders of Markdown, ask it, read what it cites.

from retriever.library import open_retriever

with open_retriever(["docs"]) as retriever:
    for hit in retriever.search("how are the two rankings fused?").hits:
        print(hit.citation, hit.title, hit.snippet)
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retriever.indexing import update_index
from retriever.locations import absolute, find_index, remember
from retriever.profile_layers import DEFAULT_PROFILE, given_settings
from retriever.progress import NoProgress
from retriever.recipe import IndexRequest
from retriever.store import reading
from retriever.store.database import foreign_errors, is_index, open_database
from retriever.types import Encoder, IndexReport, Progress

if TYPE_CHECKING:
    from retriever.retrieving import Retriever


def open_retriever(
    docs: Sequence[str | Path] = (),
    index: str | Path | None = None,
    profile: str = DEFAULT_PROFILE,
    settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    encoder: Encoder | None = None,
) -> "Retriever":
    """A retriever over an index; a context manager.

    Args:
        docs: folders of Markdown: they are indexed first, only what changed. Empty for those of an index.
        index: the index's folder; None for HYBRID_RETRIEVE_INDEX, else the one that belongs to `docs` in the user's
            data folder, else the one used last.
        profile: a name in configs/ or the path of a YAML file.
        settings: settings over those of the profile, nested as in a profile file.
        progress: told how far indexing has come.
        encoder: the caller's own embedding model, in place of the profile's.

    Raises:
        RetrieverError: the kinds in errors.py; the message says what to do.
    """
    from retriever.retrieving import Retriever  # 100 ms that `index` does not spend

    request = _request(docs, index, profile, settings, encoder)
    if request.docs:
        update_index(request, progress or NoProgress())
        remember(request.index)
    return Retriever(request, profile)


def index_folders(
    docs: Sequence[str | Path],
    index: str | Path | None = None,
    profile: str = DEFAULT_PROFILE,
    settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> IndexReport:
    """Indexes folders, only what changed; the arguments are those of `open_retriever`."""
    request = _request(docs, index, profile, settings, None)
    report = update_index(request, progress or NoProgress())
    remember(request.index)
    return report


def _request(
    docs: Sequence[str | Path],
    index: str | Path | None,
    profile: str,
    settings: Mapping[str, Any] | None,
    encoder: Encoder | None,
) -> IndexRequest:
    folders = tuple(dict.fromkeys(absolute(folder) for folder in docs))
    place = find_index(folders, index)
    given = given_settings(profile, settings, _remembered(place))
    return IndexRequest(place, folders, given.profile(), given.for_index(), encoder)


def _remembered(index: Path) -> dict[str, object]:
    """The settings that the index was made with; none when there is no index yet."""
    if not is_index(index):
        return {}
    with foreign_errors(index), closing(open_database(index)) as connection:
        return reading.index_settings(connection)
