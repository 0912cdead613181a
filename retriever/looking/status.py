"""The status of an index: its contents, whether its folders changed since, and what a question does about that."""

import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import NamedTuple

from retriever.display import code, pluralize
from retriever.embedding import find_bundled
from retriever.embedding.encoder import FOREIGN_FROM, measure_foreign
from retriever.errors import DocumentsError, RetrieverError, UsageError
from retriever.indexing.changes import FolderChanges, choose_dialect, detect_changes, list_known, list_known_folder
from retriever.indexing.request import IndexRequest, explain_refusal, matches_config, read_named_folders
from retriever.places import Store
from retriever.places.view import OpenIndex, View
from retriever.settings import DocumentSettings, Profile
from retriever.store import reading
from retriever.store.database import Connection
from retriever.store.reading import StoredFolder
from retriever.text import cut
from retriever.trace import NoProgress
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
        self._profile = request.profile
        self._looked = float("-inf")
        self._freshness = Freshness()

    def refresh(self, index: OpenIndex) -> Freshness:
        """Look at the folders, unless the last look is recent, and index what changed when that is little."""
        if not index.store.embeds_itself:
            return self._freshness
        if time.monotonic() - self._looked < BETWEEN_LOOKS_S:
            self._freshness = replace(self._freshness, refreshed=0)
        else:
            self._freshness = self._look(index)
            self._looked = time.monotonic()
        return self._freshness

    def _look(self, index: OpenIndex) -> Freshness:
        with index.view() as view:
            diffs, problems = look_at_folders(index.store, view.connection, self._profile.documents)
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


def look_at_folders(
    store: Store, connection: Connection, settings: DocumentSettings
) -> tuple[list[FolderChanges], list[tuple[str, str]]]:
    """Return what changed in each folder; and the folders that cannot be looked at, each with the reason."""
    named = read_named_folders(store)
    diffs, problems = list[FolderChanges](), list[tuple[str, str]]()
    for folder in reading.folders(connection):
        # An index from elsewhere may name any folder here: only those that this user named are looked at.
        if folder.path not in named:
            problems.append((folder.path, explain_refusal(folder.path)))
            continue
        is_other = choose_dialect(folder, settings) != folder.dialect
        known = list_known(connection, folder, is_anew=is_other)
        try:
            listing = list_known_folder(folder, known, settings)
        except DocumentsError as error:
            problems.append((folder.path, str(error)))
        else:
            diffs.append(detect_changes(folder, known, listing))
    return diffs, problems


def describe_state(store: Store, view: View, freshness: Freshness, named: Collection[str]) -> IndexState:
    """Describe what is searched, and how fresh it is; `named` are the folders that may be looked at."""
    counts, folders = view.counts, view.state.folders
    return IndexState(
        path=str(store),
        folders=folders,
        snapshot=view.state.snapshot,
        documents=counts.documents,
        sections=counts.sections,
        chunks=counts.chunks,
        refreshed_files=freshness.refreshed,
        stale_files=freshness.stale,
        skipped_files=view.state.skipped,
        unchecked_folders=max(freshness.unseen, sum(folder not in named for folder in folders)),
        embedded_share=view.state.embedded_share,
    )


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
    foreign_share: float  # of the text, that the English model does not know; 0 for less than a tenth


def read_status(store: Store, view: View, profile: Profile) -> Status:
    """Return the status of an open index; the folders are looked at now, and not with the last question."""
    from retriever.indexing.forget import list_forgotten  # a question reads the state alone

    model, foreign = profile.encoder.model, 0.0
    if profile.encoder.kind == "onnx" and (bundled := find_bundled(profile.encoder, view.state.fingerprint)):
        model = bundled.name
        foreign = measure_foreign(reading.sample_texts(view.connection)) if bundled.bundled_as == "english" else 0.0
    diffs, problems = look_at_folders(store, view.connection, profile.documents)
    return Status(
        index=describe_state(store, view, Freshness(0, sum(map(len, diffs)), len(problems)), read_named_folders(store)),
        encoder=" ".join(filter(None, (profile.encoder.kind, model))),
        size_bytes=store.size_bytes(),
        changed_files=tuple(diff.folder.prefix + path for diff in diffs for path in diff.paths),
        skipped=(*reading.skipped(view.connection), *problems),
        broken_links=reading.broken_links(view.connection),
        remarks=reading.warnings(view.connection),
        forgotten=tuple(list_forgotten(view.connection)),
        dialects=tuple(folder.dialect for folder in reading.folders(view.connection)),
        foreign_share=foreign if foreign >= FOREIGN_FROM else 0.0,
    )


# What an index is about, in a few lines: its folders, what their index pages say of them, and its best known titles.
#
# Agents get this before they ask, and a person sees it on the page without a question. It is read from the rows
# alone, so that nothing else has to be opened for it. Titles and lines come from documents: they are quoted, cut and
# sanitized, and shown only of folders that this user has named for the index.

# The page that stands for its folder, by its name in lower case; the likeliest first.
INDEX_PAGES = ("index", "readme", "_index", "home", "about")
MAX_BELOW = 8  # folders that are named in an indexed folder
MAX_TITLES = 12
LINE_CHARS = 140
TITLE_CHARS = 60
MAX_CHARS = 2000
MAX_BOILERPLATE = 0.5  # of a document whose title says something: more is a list of links, or a log


@dataclass(frozen=True)
class FolderOverview:
    """A folder with documents."""

    node_id: str
    name: str
    """Of an indexed folder its own name, else its path in that, with a slash at its end."""
    documents: int
    sections: int
    about: str
    """The first words of its index page; empty without one."""
    below: tuple["FolderOverview", ...] = ()
    """The folders in it with the most documents, by name."""


@dataclass(frozen=True)
class Overview:
    """The topics of an index."""

    documents: int
    sections: int
    folders: tuple[FolderOverview, ...]
    """The indexed folders."""
    titles: tuple[str, ...]
    """Of the documents that most others link to, then of those nearest to the top."""


class _Document(NamedTuple):
    path: str
    title: str
    boilerplate: float
    sections: int
    about: str  # what it says first
    linked: int  # other documents that lead to it

    @property
    def page(self) -> int:
        """Whether it stands for its folder: its place in INDEX_PAGES, or the number of those."""
        stem = PurePath(self.path).stem.casefold()
        return INDEX_PAGES.index(stem) if stem in INDEX_PAGES else len(INDEX_PAGES)


_DOCUMENTS = """
SELECT path, documents.title, boilerplate, count(first_line), coalesce((
    SELECT summary FROM nodes AS told WHERE told.document_key = documents.document_key
    AND summary NOT IN ('', told.title) ORDER BY node_key LIMIT 1
), ''), coalesce(max(number), 0) FROM documents LEFT JOIN nodes USING (document_key) LEFT JOIN (
    SELECT target.document_key, count(DISTINCT source.document_key) AS number FROM links
    JOIN nodes AS source ON source.node_key = source_key JOIN nodes AS target ON target.node_id = target_id
    WHERE target.document_key <> source.document_key GROUP BY target.document_key
) AS linked USING (document_key) WHERE folder_key = ? GROUP BY documents.document_key ORDER BY path
"""


def read_overview(connection: Connection, named: Collection[str] | None = None) -> Overview:
    """Read what is in an index.

    Args:
        connection: in a snapshot.
        named: the folders, absolute, whose documents may speak for themselves; None for all.
    """
    folders, titled = [], list[_Document]()
    for folder in reading.folders(connection):
        documents = [_Document(*row) for row in connection.execute(_DOCUMENTS, (folder.key,)).fetchall()]
        # An index from elsewhere says how much it holds; its words reach no agent before its folder was named.
        speaks = named is None or folder.path in named
        titled += documents if speaks else []
        # The largest say what it is about; in order of their names they are found again.
        inner = Counter(f"{document.path.partition('/')[0]}/" for document in documents if "/" in document.path)
        whole, *below = (
            _describe_folder(folder, path, documents, speaks=speaks)
            for path in ("", *sorted(path for path, _ in inner.most_common(MAX_BELOW)))
        )
        folders.append(replace(whole, below=tuple(below)))
    titles: dict[str, str] = {}
    # What others link to is what a reader should know first, then what is nearest to the top.
    for one in sorted(titled, key=lambda one: (-one.linked, one.path.count("/"), one.path)):
        # A changelog or list of links says nothing, nor does the title of a page that stands for its folder.
        if one.title and one.page == len(INDEX_PAGES) and one.boilerplate <= MAX_BOILERPLATE:
            title = " ".join(one.title.split())
            titles.setdefault(title.casefold(), cut(title, TITLE_CHARS))
    counts = reading.counts(connection)
    return Overview(counts.documents, counts.sections, tuple(folders), tuple(titles.values())[:MAX_TITLES])


def _describe_folder(folder: StoredFolder, path: str, documents: list[_Document], *, speaks: bool) -> FolderOverview:
    """Describe an indexed folder, or one in it (`path`, with a slash at its end); what its index page says, if any."""
    inside = [document for document in documents if document.path.startswith(path)]
    # Two folders of one name are distinguished as they are in citations.
    name = path or folder.prefix or PurePath(folder.path).name or "/"
    pages = sorted((one for one in inside if "/" not in one.path[len(path) :]), key=lambda one: one.page)
    about = pages[0].about if speaks and pages and pages[0].page < len(INDEX_PAGES) else ""
    sections = sum(document.sections for document in inside)
    return FolderOverview(f"{folder.prefix}{path or '/'}", name, len(inside), sections, cut(about, LINE_CHARS))


def write_overview(overview: Overview) -> str:
    """Return the overview as Markdown for a language model; whole lines, at most about `MAX_CHARS` characters."""
    held = f"{pluralize(overview.documents, 'file')}, {pluralize(overview.sections, 'section')}"
    lines = [f"Indexed: {held}. What stands in code spans is quoted from the documents."]
    for folder in overview.folders:
        lines.append(f"- {_folder_line(folder)}")
        lines += [f"  - {_folder_line(inner)}" for inner in folder.below]
    if overview.titles:
        lines.insert(1, f"Titles: {', '.join(map(code, overview.titles))}")
    while len("\n".join(lines)) > MAX_CHARS:
        lines.pop()
    return "\n".join(lines)


def _folder_line(folder: FolderOverview) -> str:
    about = f": {code(folder.about)}" if folder.about else ""
    return f"{code(cut(folder.name, LINE_CHARS))} ({pluralize(folder.documents, 'file')}){about}"
