"""What an index is about, in a few lines: its folders, what their index pages say of them, and its best known titles.

Agents are told this before they ask, and a person sees it on the page without a question. It is read from index.sqlite
alone, so that nothing else has to be opened for it. Titles and lines come from documents: they are quoted, cut and
sanitized, and shown only of folders that this user has named for the index.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import PurePath

from retriever.display.phrases import pluralize
from retriever.display.sanitize import code
from retriever.store import reading
from retriever.store.database import Connection
from retriever.text import cut

# The page that stands for its folder, by its name in lower case; the likeliest first.
INDEX_PAGES = ("index", "readme", "_index", "home", "about")
MAX_BELOW = 8  # folders that are named in an indexed folder
MAX_TITLES = 12
LINE_CHARS = 140
TITLE_CHARS = 60
MAX_CHARS = 2000
MAX_BOILERPLATE = 0.5  # of a document whose title says something: more is a list of links, or a log


@dataclass(frozen=True, slots=True)
class FolderOverview:
    """A folder with documents."""

    node_id: str
    name: str
    """Of an indexed folder its own name, else its path in that, with a slash at its end."""
    documents: int
    sections: int
    about: str
    """What its index page says first; empty without one."""
    below: tuple["FolderOverview", ...] = ()
    """The folders in it with the most documents, by name."""


@dataclass(frozen=True, slots=True)
class Overview:
    """What an index is about."""

    documents: int
    sections: int
    folders: tuple[FolderOverview, ...]
    """The indexed folders."""
    titles: tuple[str, ...]
    """Of the documents that most others link to, then of those nearest to the top."""


@dataclass(frozen=True, slots=True)
class _Document:
    key: int
    path: str
    title: str
    boilerplate: float
    sections: int

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]

    @property
    def stem(self) -> str:
        """Its file's name without the ending, in lower case."""
        return PurePath(self.path).stem.casefold()


def read_overview(connection: Connection, named: Collection[str] | None = None) -> Overview:
    """What is in an index.

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
        inside: dict[str, list[_Document]] = {"": documents}
        for document in documents:
            top, sign, _ = document.path.partition("/")
            if sign:
                inside.setdefault(f"{top}/", []).append(document)
        # The largest say what it is about; in order of their names they are found again.
        largest = sorted(inside.keys() - {""}, key=lambda path: (-len(inside[path]), path))[:MAX_BELOW]
        # Two folders of one name are told apart as they are in citations.
        name = folder.prefix or PurePath(folder.path).name or "/"
        whole, *below = (
            FolderOverview(
                f"{folder.prefix}{path or '/'}",
                path or name,
                len(inside[path]),
                sum(document.sections for document in inside[path]),
                _read_about(connection, path, inside[path]) if speaks else "",
            )
            for path in ("", *sorted(largest))
        )
        folders.append(replace(whole, below=tuple(below)))
    counts = reading.counts(connection)
    return Overview(counts.documents, counts.sections, tuple(folders), _find_best_titles(connection, titled))


_DOCUMENTS = (
    "SELECT document_key, path, documents.title, boilerplate, count(first_line) FROM documents"
    " LEFT JOIN nodes USING (document_key) WHERE folder_key = ? GROUP BY document_key ORDER BY path"
)
_LINKED = (
    "SELECT target.document_key, count(DISTINCT source.document_key) FROM links"
    " JOIN nodes AS source ON source.node_key = source_key JOIN nodes AS target ON target.node_id = target_id"
    " WHERE target.document_key <> source.document_key GROUP BY target.document_key"
)
_SUMMARY = "SELECT summary FROM nodes WHERE document_key = ? AND summary NOT IN ('', title) ORDER BY node_key LIMIT 1"


def _read_about(connection: Connection, path: str, documents: list[_Document]) -> str:
    """What the index page of a folder says first."""
    pages = {one.stem: one.key for one in reversed(documents) if one.folder == path.removesuffix("/")}
    key = next((pages[name] for name in INDEX_PAGES if name in pages), None)
    row = connection.execute(_SUMMARY, (key,)).fetchone() if key is not None else None
    return cut(row[0], LINE_CHARS) if row else ""


def _find_best_titles(connection: Connection, documents: list[_Document]) -> tuple[str, ...]:
    linked = dict(connection.execute(_LINKED).fetchall())
    titles: dict[str, str] = {}
    # What others link to is what a reader should know first, then what is nearest to the top.
    for one in sorted(documents, key=lambda one: (-linked.get(one.key, 0), one.path.count("/"), one.path)):
        # A changelog or list of links says nothing, nor does the title of a page that stands for its folder.
        if one.title and one.stem not in INDEX_PAGES and one.boilerplate <= MAX_BOILERPLATE:
            title = " ".join(one.title.split())
            titles.setdefault(title.casefold(), cut(title, TITLE_CHARS))
    return tuple(titles.values())[:MAX_TITLES]


def write_overview(overview: Overview, about: str = "") -> str:
    """The overview as lines of Markdown for a language model; whole lines, at most about `MAX_CHARS` characters.

    Args:
        overview: of an index.
        about: what the user says of it, before everything else.
    """
    held = f"{pluralize(overview.documents, 'file')}, {pluralize(overview.sections, 'section')}"
    lines = [f"Indexed: {held}. What stands in code spans is quoted from the documents."]
    lines += [cut(f"About them: {' '.join(about.split())}", MAX_CHARS // 2)] if about.strip() else []
    for folder in overview.folders:
        lines.append(f"- {_folder_line(folder)}")
        lines += [f"  - {_folder_line(inner)}" for inner in folder.below]
    if overview.titles:
        lines.append(f"Titles: {', '.join(map(code, overview.titles))}")
    kept, length = list[str](), 0
    for line in lines:
        length += len(line) + 1
        if length <= MAX_CHARS or not kept:
            kept.append(line)
    return "\n".join(kept)


def _folder_line(folder: FolderOverview) -> str:
    about = f": {code(folder.about)}" if folder.about else ""
    return f"{code(cut(folder.name, LINE_CHARS))} ({pluralize(folder.documents, 'file')}){about}"
