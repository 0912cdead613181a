"""Whether the folders are still what the index knows, and the little that is done about it before an answer."""

import time
from dataclasses import dataclass, replace
from pathlib import Path

from retriever.errors import DocumentsError, RetrieverError
from retriever.indexing.changes import Digests, Suspects, find_suspects, list_documents, without_doubt
from retriever.indexing.consent import named_folders, refusal
from retriever.indexing.request import IndexRequest, matches_config
from retriever.indexing.update import update_index
from retriever.searching.open_index import OpenIndex, View
from retriever.store import reading
from retriever.trace import NoProgress
from retriever.types import Degradation, StageName


@dataclass(frozen=True, slots=True)
class Freshness:
    """What a look at the folders found."""

    refreshed: int = 0
    """Files that were indexed anew because of it."""
    stale: int = 0
    """Files that changed and were not."""
    degraded: tuple[Degradation, ...] = ()
    """What stood in the way."""


class Watch:
    """Looks at the folders of one index now and then; used by one thread at a time."""

    def __init__(self, request: IndexRequest) -> None:
        self._request = request
        self._profile = request.profile
        self._looked = float("-inf")
        self._freshness = Freshness()
        self._digests: Digests = {}  # an index that cannot be written never learns that the content is the same

    def refresh(self, index: OpenIndex) -> Freshness:
        """Looks, if the last look is not too young, and indexes what changed when that is little."""
        if time.monotonic() - self._looked < self._profile.refresh_seconds:
            self._freshness = replace(self._freshness, refreshed=0)
            return self._freshness
        with index.view() as view:
            suspects, problems = self._suspects(view)
            as_wished = matches_config(view.connection, self._request)
        certain = self._certain(suspects)
        changed = sum(map(len, certain))
        found = Freshness(0, changed, tuple(Degradation(StageName.REFRESH, problem) for _, problem in problems))
        if changed <= self._profile.refresh_max_files and any(item.count for item in certain):
            found = self._indexed(found) if as_wished else _refused(found)
        self._freshness = found
        self._looked = time.monotonic()
        return found

    def look_again(self) -> None:
        """The next refresh looks, however young the last look is."""
        self._looked = float("-inf")

    def changed(self, view: View) -> tuple[list[Suspects], list[tuple[str, str]]]:
        """What changed in each folder; and the folders that cannot be listed, with the reason."""
        suspects, problems = self._suspects(view)
        return self._certain(suspects), problems

    def _suspects(self, view: View) -> tuple[list[Suspects], list[tuple[str, str]]]:
        suspects, problems = [], []
        folders, named = reading.folders(view.connection), named_folders(view.index).folders
        unnamed = [folder.path for folder in folders if folder.path not in named]
        if unnamed:
            problems.append(("folders", refusal(unnamed)))
        for folder in folders:
            if folder.path in unnamed:
                continue
            known = reading.documents(view.connection, folder.key) | reading.unreadable(view.connection, folder.key)
            try:
                listing = list_documents(Path(folder.path), self._profile.documents)
            except DocumentsError as error:
                problems.append((folder.path, str(error)))
            else:
                suspects.append(find_suspects(folder, known, listing))
        return suspects, problems

    def _certain(self, suspects: list[Suspects]) -> list[Suspects]:
        return [without_doubt(item, self._profile.documents.max_file_bytes, self._digests) for item in suspects]

    def _indexed(self, found: Freshness) -> Freshness:
        """After indexing; where that fails, what was found is what is known."""
        try:
            report = update_index(self._request, NoProgress())
        except RetrieverError as error:
            trouble = Degradation(StageName.REFRESH, str(error))
            return replace(found, degraded=(*found.degraded, trouble)) if found.stale else found
        return replace(found, refreshed=report.added + report.changed + report.removed - report.moved, stale=0)


def _refused(found: Freshness) -> Freshness:
    """A question does not make an index anew because it was asked with other settings."""
    reason = "the index was made with other settings, or by another version; index the documents again"
    trouble = Degradation(StageName.REFRESH, reason)
    return replace(found, degraded=(*found.degraded, trouble)) if found.stale else found
