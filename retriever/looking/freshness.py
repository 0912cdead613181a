"""Whether the folders are still what the index knows, the little that is done about it before an answer; `status`."""

import time
from dataclasses import dataclass, replace

from retriever.embedding import BUNDLED_MODEL
from retriever.embedding.encoder import describe_prefixes
from retriever.errors import DocumentsError, RetrieverError, UsageError
from retriever.indexing.changes import FolderChanges, detect_changes, list_known_folder
from retriever.indexing.request import IndexRequest, explain_refusal, matches_config, read_named_folders
from retriever.searching.open_index import OpenIndex, View
from retriever.settings.schema import DocumentSettings, Profile
from retriever.store import listing, reading
from retriever.trace import NoProgress
from retriever.types import Degradation, IndexState, StageName


@dataclass(frozen=True, slots=True)
class Freshness:
    """What a look at the folders found."""

    refreshed: int = 0  # files that were indexed anew because of it
    stale: int = 0  # files that changed and were not
    unseen: int = 0  # folders that could not be looked at
    degraded: tuple[Degradation, ...] = ()  # what stood in the way


class Watch:
    """Looks at the folders of one index now and then; used by one thread at a time."""

    def __init__(self, request: IndexRequest) -> None:
        self._request = request
        self._profile = request.profile
        self._looked = float("-inf")
        self._freshness = Freshness()

    def refresh(self, index: OpenIndex) -> Freshness:
        """Looks, if the last look is not too young, and indexes what changed when that is little."""
        if index.store.is_shared:
            return self._freshness
        if time.monotonic() - self._looked < self._profile.refresh_seconds:
            self._freshness = replace(self._freshness, refreshed=0)
        else:
            self._freshness = self._look(index)
            self._looked = time.monotonic()
        return self._freshness

    def _look(self, index: OpenIndex) -> Freshness:
        with index.view() as view:
            diffs, problems = look_at_folders(view, self._profile.documents)
            can_index = matches_config(view.connection, self._request)
        changed = sum(map(len, diffs))
        reasons = tuple(Degradation(StageName.REFRESH, problem) for _, problem in problems)
        found = Freshness(0, changed, len(problems), reasons)
        # Many changed files would keep the question waiting: then the answer says how many are stale.
        if changed > self._profile.refresh_max_files or not any(len(diff) or diff.touched for diff in diffs):
            return found
        from retriever.indexing.update import update_index  # what indexes is loaded where a file has changed

        try:
            if not can_index:  # a question does not make an index anew because it was asked with other settings
                reason = "the index was made with other settings, or by another version"
                raise UsageError(f"{reason}; index the documents again")
            report = update_index(self._request, NoProgress())
        except RetrieverError as error:  # what was found is what is known
            trouble = Degradation(StageName.REFRESH, str(error))
            return replace(found, degraded=(*found.degraded, trouble)) if changed else found
        refreshed = report.added + report.changed + report.removed
        return replace(found, refreshed=refreshed, stale=0)


def look_at_folders(view: View, settings: DocumentSettings) -> tuple[list[FolderChanges], list[tuple[str, str]]]:
    """Return what changed in each folder; and the folders that cannot be looked at, each with the reason."""
    named = read_named_folders(view.store)
    diffs, problems = list[FolderChanges](), list[tuple[str, str]]()
    for folder in reading.folders(view.connection):
        # An index from elsewhere may name any folder here: only those that this user named are looked at.
        if folder.path not in named:
            problems.append((folder.path, explain_refusal(folder.path)))
            continue
        known = reading.documents(view.connection, folder.key) | reading.unreadable(view.connection, folder.key)
        try:
            listing = list_known_folder(folder, known, settings)
        except DocumentsError as error:
            problems.append((folder.path, str(error)))
        else:
            diffs.append(detect_changes(folder, known, listing, settings.max_file_bytes))
    return diffs, problems


def describe_state(view: View, freshness: Freshness) -> IndexState:
    """What is searched, and how fresh it is."""
    counts, named, folders = view.counts, read_named_folders(view.store), view.state.folders
    return IndexState(
        path=str(view.store),
        folders=folders,
        snapshot=view.number,
        documents=counts.documents,
        sections=counts.sections,
        chunks=counts.chunks,
        refreshed_files=freshness.refreshed,
        stale_files=freshness.stale,
        skipped_files=view.state.skipped,
        unchecked_folders=max(freshness.unseen, sum(folder not in named for folder in folders)),
        embedded_share=view.embedded_share,
    )


@dataclass(frozen=True, slots=True)
class Status:
    """What an index holds, and how it stands to its folders."""

    index: IndexState
    encoder: str  # the embedding model's kind and name
    size_bytes: int  # of the index's folder
    changed_files: tuple[str, ...]  # files that are new, different or gone since they were indexed
    skipped: tuple[tuple[str, str], ...]  # what looks like a document and is not read, and why
    broken_links: tuple[tuple[str, int, str, str], ...]  # (file, line, target as written, why it leads nowhere)
    remarks: tuple[tuple[str, str], ...]  # files that are read, and what in them is not as it should be
    forgotten: tuple[tuple[str, str], ...]  # what `forget` keeps out, each with how to take it back
    prefixes: str  # what a served embedding model is given before each text; empty for other kinds


def read_status(view: View, profile: Profile) -> Status:
    """Return the status of an open index; the folders are looked at now, and not with the last question."""
    from retriever.indexing.forget import list_forgotten  # a question reads the state alone

    model = profile.encoder.model or (BUNDLED_MODEL.name if profile.encoder.kind == "onnx" else "")
    diffs, problems = look_at_folders(view, profile.documents)
    return Status(
        index=describe_state(view, Freshness(0, sum(map(len, diffs)), len(problems))),
        encoder=" ".join(filter(None, (profile.encoder.kind, model))),
        size_bytes=view.store.size_bytes(),
        changed_files=tuple(diff.folder.prefix + path for diff in diffs for path in diff.paths),
        skipped=(*listing.skipped(view.connection), *problems),
        broken_links=listing.broken_links(view.connection),
        remarks=listing.warnings(view.connection),
        forgotten=tuple(list_forgotten(view.connection)),
        prefixes=describe_prefixes(profile.encoder),
    )
