"""What an index holds, and how it stands to its folders."""

import contextlib
from dataclasses import dataclass

from retriever.freshness import Freshness, Watch
from retriever.indexing.consent import read_named_folders
from retriever.searching.open_index import View
from retriever.settings.schema import Profile
from retriever.store import reading, text_vectors
from retriever.types import IndexState


@dataclass(frozen=True, slots=True)
class Status:
    """What an index holds, and how it stands to its folders."""

    index: IndexState
    encoder: str  # the embedding model's kind and name
    size_bytes: int  # of the index's folder
    changed_files: tuple[str, ...]  # files that are new, different or gone since they were indexed
    skipped: tuple[tuple[str, str], ...]  # files that could not be read, or not all of them, and why
    broken_links: int
    coverage: float  # the share of the chunks that have a vector, 0 to 1


def read_status(view: View, watch: Watch, profile: Profile) -> Status:
    """The status of an open index; the folders are looked at now."""
    from retriever.indexing.forget import list_forgotten  # a question reads the state alone

    diffs, problems = watch.find_changes(view)
    chunks = view.counts.chunks
    vectors = text_vectors.vector_count(view.connection, view.fingerprint)
    size = 0
    for file in view.index.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # a writer may remove one meanwhile
            size += file.stat().st_size if file.is_file() else 0
    return Status(
        index=read_state(view, Freshness(stale=sum(map(len, diffs)))),
        encoder=" ".join(filter(None, (profile.encoder.kind, profile.encoder.model))),
        size_bytes=size,
        changed_files=tuple(path for diff in diffs for path in diff.paths),
        skipped=(
            *reading.skipped(view.connection),
            *reading.warnings(view.connection),
            *problems,
            *list_forgotten(view.connection),
        ),
        broken_links=view.counts.broken_links,
        coverage=vectors / chunks if chunks else 1.0,
    )


def read_state(view: View, freshness: Freshness) -> IndexState:
    """What is searched, and how fresh it is."""
    counts, named = view.counts, read_named_folders(view.index).folders
    folders = tuple(folder.path for folder in reading.folders(view.connection))
    return IndexState(
        path=str(view.index),
        folders=folders,
        snapshot=view.number,
        documents=counts.documents,
        sections=counts.sections,
        chunks=counts.chunks,
        refreshed_files=freshness.refreshed,
        stale_files=freshness.stale,
        skipped_files=reading.skipped_count(view.connection),
        unchecked_folders=sum(folder not in named for folder in folders),
    )
