"""What a link leads to: a node, or nothing and why. Pure: the index is asked again after each change."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from pageindex.corpus import DOCUMENT_SUFFIXES
from pageindex.links import Link, LinkKind
from pageindex.outline import github_slug

_FOLDER_PAGES = ("index", "README", "_index")
"""The page that stands for its folder, on the web, on GitHub and for Hugo."""


class Broken(Enum):
    """Why a link leads to no node."""

    ESCAPES = "its path leaves the indexed folder"
    NO_DOCUMENT = "no such document"
    NOT_A_DOCUMENT = "a file of another kind"
    """Its name has an ending that is no document's: a picture, a program."""
    NO_ANCHOR = "no such heading"


@dataclass(frozen=True, slots=True)
class LinkTargets:
    """All that a link in one indexed folder can lead to."""

    anchors: Mapping[str, Mapping[str, str]]
    """Document path -> anchor -> node id. The empty anchor is the file's own node."""
    notes: Mapping[str, str]
    """Note name -> document path, as `note_names` makes it."""


def note_names(documents: Iterable[tuple[str, Sequence[str]]]) -> dict[str, str]:
    """The names that wikilinks use, case folded, for documents given as (path, aliases).

    File names without their ending come first, then aliases; of several documents with one name the one with the
    shortest path gets it, the alphabetically first of those.
    """
    ordered = sorted(documents, key=lambda document: (len(document[0]), document[0]))
    names: dict[str, str] = {}
    for path, _ in ordered:
        names.setdefault(_stem(path).casefold(), path)
    for path, aliases in ordered:
        for alias in aliases:
            names.setdefault(alias.casefold(), path)
    return names


def resolve_link(link: Link, source_path: str, targets: LinkTargets) -> str | Broken:
    """The id of the node that a link in the document `source_path` leads to, or why there is none."""
    path = _note_path(link, source_path, targets) if link.kind is LinkKind.WIKILINK else None
    if path is None:
        relative = _inside(source_path, link)
        if relative is None:
            return Broken.ESCAPES
        path = next((name for name in _candidates(relative) if name in targets.anchors), None)
        if path is None:
            return Broken.NO_DOCUMENT if _may_be_document(relative) else Broken.NOT_A_DOCUMENT
    return _node_at(targets.anchors[path], link.anchor)


def _note_path(link: Link, source_path: str, targets: LinkTargets) -> str | None:
    """The document that a wikilink names; None if no note has that name."""
    if not link.target_path:
        return source_path
    name = link.target_path.casefold()
    path = targets.notes.get(name) or targets.notes.get(_stem(name)) if "/" not in name else None
    return path if path in targets.anchors else None


def _inside(source_path: str, link: Link) -> str | None:
    """The link's path from the indexed folder, empty for that folder; None if it leaves it.

    A wikilink's path and one that begins with `/` start at the indexed folder.
    """
    if not link.target_path:
        return source_path
    from_root = link.kind is LinkKind.WIKILINK or link.target_path.startswith("/")
    parts = [] if from_root else source_path.split("/")[:-1]
    for part in link.target_path.split("/"):
        if part == ".." and not parts:
            return None
        if part == "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def _candidates(path: str) -> Iterator[str]:
    """The documents that a link's path may mean, likeliest first: sites link to pages without their ending."""
    yield path
    page = path.removesuffix(".html")
    yield from (page + suffix for suffix in DOCUMENT_SUFFIXES)
    folder = f"{path}/" if path else ""
    yield from (folder + name + suffix for name in _FOLDER_PAGES for suffix in DOCUMENT_SUFFIXES)


def _may_be_document(path: str) -> bool:
    ending = path.rpartition("/")[2].rpartition(".")[2] if "." in path.rpartition("/")[2] else ""
    return not ending.isalnum() or f".{ending.lower()}" in (*DOCUMENT_SUFFIXES, ".html")


def _node_at(anchors: Mapping[str, str], anchor: str) -> str | Broken:
    """The node with that anchor; wikilinks write the heading itself, `^` begins a block of Obsidian's: the file."""
    if anchor == "" or anchor.startswith("^"):
        return anchors[""]
    slug = github_slug(anchor)
    return anchors.get(anchor) or (anchors.get(slug) if slug else None) or Broken.NO_ANCHOR


def _stem(path: str) -> str:
    """The file name without a document's ending."""
    name = path.rpartition("/")[2]
    return next((name[: -len(ending)] for ending in DOCUMENT_SUFFIXES if name.lower().endswith(ending)), name)
