"""The status of an index: its contents, whether its folders changed since, and what a question does about that."""

import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import PurePath

from retriever.display import code, pluralize
from retriever.embedding import find_bundled
from retriever.embedding.encoder import choose_bundled, measure_foreign
from retriever.errors import RetrieverError, UsageError, suggest
from retriever.indexing.changes import find_changes
from retriever.indexing.request import IndexRequest, matches_config, read_named_folders
from retriever.places.view import OpenIndex, View
from retriever.settings import EncoderSettings
from retriever.store import reading
from retriever.store.database import Connection
from retriever.text import cut
from retriever.types import Degradation, IndexState, StageName

BETWEEN_LOOKS_S = 1.0  # of a retriever that stays open, at the folders


@dataclass(frozen=True)
class Freshness:
    """The result of a look at the folders."""

    refreshed: int = 0  # files that were indexed anew because of it
    stale: int = 0  # files that changed and were not
    unseen: int = 0  # folders that could not be looked at
    degraded: tuple[Degradation, ...] = ()  # what could not be done, and why


class Watch:
    """Looks at the folders of one index now and then; used by one thread at a time."""

    def __init__(self, request: IndexRequest) -> None:
        self._request = request
        self._looked = float("-inf")
        self._freshness = Freshness()

    def refresh(self, index: OpenIndex) -> Freshness:
        """Look at the folders, unless the last look is recent, and index what changed when that is little."""
        if not index.store.embeds_itself or time.monotonic() - self._looked < BETWEEN_LOOKS_S:
            return replace(self._freshness, refreshed=0)
        self._freshness = self._look(index)
        self._looked = time.monotonic()
        return self._freshness

    def _look(self, index: OpenIndex) -> Freshness:
        with index.view() as view:
            changes = find_changes(view.connection, self._request)
            can_index = matches_config(view.connection, self._request)
        changed = sum(map(len, changes))
        reasons = tuple(Degradation(StageName.REFRESH, item.problem) for item in changes if item.problem)
        found = Freshness(0, changed, len(reasons), reasons)
        # Many changed files would keep the question waiting: then the answer says how many are stale.
        if changed > self._request.profile.refresh_max_files or not any(len(item) or item.touched for item in changes):
            return found
        from retriever.indexing.update import update_index  # what indexes is loaded where a file has changed

        try:
            if not can_index:  # a question does not make an index anew because it was asked with other settings
                reason = "the index was made with other settings, or by another version"
                raise UsageError(f"{reason}; index the documents again")
            report = update_index(self._request)
        except RetrieverError as error:  # what was found is what is known
            trouble = Degradation(StageName.REFRESH, str(error))
            return replace(found, degraded=(*reasons, trouble)) if changed else found
        return replace(found, refreshed=report.added + report.changed + report.removed, stale=0)


def describe_state(view: View, freshness: Freshness) -> IndexState:
    """Describe what is searched, and how fresh it is."""
    counts, folders, named = view.counts, view.state.folders, read_named_folders(view.store)
    return IndexState(
        path=str(view.store),
        folders=folders,
        snapshot=view.state.snapshot,
        documents=counts.documents,
        sections=counts.sections,
        chunks=counts.chunks,
        refreshed_files=freshness.refreshed,
        stale_files=freshness.stale,
        skipped_files=len(reading.skipped(view.connection)),
        unchecked_folders=max(freshness.unseen, sum(folder not in named for folder in folders)),
        embedded_share=view.state.embedded_share,
    )


TAKEN_BACK = "forgotten, and kept out; `forget --undo` takes it back"


@dataclass(frozen=True)
class Status:
    """The contents of an index, and how it stands to its folders."""

    index: IndexState
    encoder: str  # the embedding model's kind and name
    size_bytes: int  # of the index's folder
    changed_files: tuple[str, ...]  # files that are new, different or gone since they were indexed
    skipped: tuple[tuple[str, str], ...]  # what looks like a document and is not read, and why
    broken_links: tuple[tuple[str, int, str, str], ...]  # (file, line, target as written, why it leads nowhere)
    remarks: tuple[tuple[str, str], ...]  # files that are read, and what in them is not as it should be
    forgotten: tuple[tuple[str, str], ...]  # what `forget` keeps out, each with how to take it back
    dialects: tuple[str, ...]  # of Markdown, in which the folders of `index` were read
    mix: str  # which other bundled model is for the languages of the text, and why; else empty


def read_status(view: View, request: IndexRequest) -> Status:
    """Return the status of an open index; the folders are looked at now, and not with the last question."""
    encoder, folders = request.profile.encoder, reading.folders(view.connection)
    model = encoder.model
    if encoder.kind == "onnx" and (bundled := find_bundled(encoder, view.state.fingerprint)):
        model = bundled.name
    changes = find_changes(view.connection, request)
    problems = [(item.folder.path, item.problem) for item in changes if item.problem]
    return Status(
        index=describe_state(view, Freshness(0, sum(map(len, changes)), len(problems))),
        encoder=" ".join(filter(None, (encoder.kind, model))),
        size_bytes=view.store.size_bytes(),
        changed_files=tuple(item.folder.prefix + path for item in changes for path in item.paths),
        skipped=(*reading.skipped(view.connection), *problems),
        broken_links=reading.broken_links(view.connection),
        remarks=reading.warnings(view.connection),
        forgotten=tuple((folder.prefix + path, TAKEN_BACK) for folder in folders for path in folder.forgotten),
        dialects=tuple(folder.dialect for folder in folders),
        mix=explain_mix(view.connection),
    )


def explain_mix(connection: Connection) -> str:
    """Return which bundled model is for the languages of an index, and why; empty where none or that one made it."""
    foreign = measure_foreign(reading.sample_texts(connection))
    chosen = choose_bundled(foreign)
    made_by = reading.meta(connection, "fingerprint")
    encoder = find_bundled(EncoderSettings(), made_by)
    if not encoder or encoder.fingerprint != made_by or encoder.bundled_as == chosen:
        return ""
    return f"{foreign:.0%} of the text is not in English; {suggest(f'index FOLDER --encoder-model {chosen}')}"


# What an index is about. Agents get this before they ask, and a person sees it on the page without a question. It is
# read from the rows alone, so that nothing else has to be opened for it.

MAX_LISTED = 12  # titles and folders
TITLE_CHARS = 60

_LINKED = """
SELECT folders.path, title FROM documents JOIN folders USING (folder_key) LEFT JOIN (
    SELECT target.document_key, count(DISTINCT source.document_key) AS number FROM links
    JOIN nodes AS source ON source.node_key = source_key JOIN nodes AS target ON target.node_id = target_id
    WHERE target.document_key <> source.document_key GROUP BY target.document_key
) AS linked USING (document_key) ORDER BY coalesce(number, 0) DESC, length(documents.path), documents.path
"""


def list_titles(connection: Connection, named: Collection[str]) -> list[str]:
    """Return the titles of the documents in those folders that most others link to, then of short paths."""
    rows = connection.execute(_LINKED).fetchall()
    titles = dict.fromkeys(" ".join(title.split()) for folder, title in rows if title and folder in named)
    return [cut(title, TITLE_CHARS) for title in islice(titles, MAX_LISTED)]


def describe_topics(connection: Connection, named: Collection[str]) -> str:
    """Describe an index to a language model in a few lines of Markdown.

    An index from elsewhere says how much it holds; its words reach no agent before its folder is `named`.
    """
    counts = reading.counts(connection)
    # Two folders of one name are distinguished as they are in citations.
    roots = [folder.prefix or PurePath(folder.path).name or "/" for folder in reading.folders(connection)]
    paths = "SELECT prefix, documents.path FROM documents JOIN folders USING (folder_key) ORDER BY 1, 2"
    inner = Counter(f"{prefix}{path.partition('/')[0]}/" for prefix, path in connection.execute(paths) if "/" in path)
    held = f"{pluralize(counts.documents, 'file')}, {pluralize(counts.sections, 'section')}"
    lines = [f"Indexed, {held}: {', '.join(map(code, roots[:MAX_LISTED]))}"]
    if inner:
        folders = (f"{code(cut(name, TITLE_CHARS))} ({number:,})" for name, number in inner.most_common(MAX_LISTED))
        lines.append(f"Folders, with their files: {', '.join(folders)}")
    if titles := list_titles(connection, named):
        lines.append(f"Titles, quoted from the documents: {', '.join(map(code, titles))}")
    return "\n".join(lines)
