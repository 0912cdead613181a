"""Links between documents: found in their text, and resolved to the nodes that they lead to.

Inline links, uses of reference definitions and wikilinks count; images, addresses with a scheme, and everything in
code do not. What a link leads to is asked again after each change of the index.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from urllib.parse import unquote

from pageindex.blocks import Inline
from pageindex.formats import READERS, drop_ending
from pageindex.outline import github_slug


class LinkKind(StrEnum):
    """How a link names its target."""

    RELATIVE = "relative"
    """By a path from the document's own folder."""
    WIKILINK = "wikilink"
    """By a note's name, wherever the note is."""


@dataclass(frozen=True, slots=True)
class Link:
    """A link as a document writes it."""

    line: int
    """Where it begins, 1-based, counted in the file."""
    target_path: str
    """The path or note name, percent-decoded; empty for the document itself. A leading `/` is the indexed folder."""
    anchor: str
    """What follows `#`, percent-decoded; empty without one."""
    kind: LinkKind
    """How `target_path` is to be understood."""


_EXTERNAL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
MAX_TAG_CHARS = 100


def find_links(texts: Iterable[Inline]) -> tuple[tuple[Link, ...], tuple[str, ...]]:
    """Return the links to other documents and to headings of this one, and the tags, in the order of `texts`.

    Tags are read as Obsidian does, and returned without `#`; code, links, attributes and blocks of HTML have none.
    """
    links: list[Link] = []
    tags: list[str] = []
    for text in texts:
        for found in text.links:
            if found.is_wikilink:
                # `note`, `note#heading`, `note#heading#deeper` (the deepest counts); a table writes `note\\|label`.
                name, _, anchors = found.target.removesuffix("\\").partition("#")
                note, anchor = name.strip(), anchors.rpartition("#")[2].strip()
                if note or anchor:
                    links.append(Link(found.line, note, anchor, LinkKind.WIKILINK))
            elif found.target and not _EXTERNAL.match(found.target):
                path, _, anchor = found.target.partition("#")
                links.append(Link(found.line, unquote(path.partition("?")[0]), unquote(anchor), LinkKind.RELATIVE))
        tags += filter(None, map(_read_tag, text.tags))
    return tuple(links), tuple(tags)


def _read_tag(word: str) -> str:
    """Return the tag that a word behind `#` begins with: letters, digits, `_`, `-` and `/` of any script, no number."""
    length = next((place for place, sign in enumerate(word) if not (sign.isalnum() or sign in "_-/")), len(word))
    tag = word[:length].strip("/")
    return tag if len(tag) <= MAX_TAG_CHARS and any(map(str.isalpha, tag)) else ""


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
    """Return the names that wikilinks use, case folded, for documents given as (path, aliases)."""
    # File names without their ending come before aliases; of several with one name the shortest path gets it, then the
    # first.
    ordered = sorted(documents, key=lambda document: (len(document[0]), document[0]))
    names: dict[str, str] = {}
    for path, _ in ordered:
        names.setdefault(drop_ending(path.rpartition("/")[2]).casefold(), path)
    for path, aliases in ordered:
        for alias in aliases:
            names.setdefault(alias.casefold(), path)
    return names


# The page that stands for its folder, on the web, on GitHub and for Hugo.
_FOLDER_PAGES = ("index", "README", "_index")


def resolve_link(link: Link, source_path: str, targets: LinkTargets) -> str | Broken:
    """Return the id of the node that a link in the document `source_path` leads to, or why there is none."""
    path = None
    if link.kind is LinkKind.WIKILINK and "/" not in link.target_path:
        name = link.target_path.casefold()
        path = source_path if not name else targets.notes.get(name) or targets.notes.get(drop_ending(name))
    if path is None or path not in targets.anchors:
        relative = _resolve_path(link, source_path)
        if relative is None:
            return Broken.ESCAPES
        # What the path may mean, likeliest first: sites link to pages without their ending, and to folders.
        page, folder = relative.removesuffix(".html"), f"{relative}/" if relative else ""
        pages = (page + suffix for suffix in READERS)
        indexes = (folder + name + suffix for name in _FOLDER_PAGES for suffix in READERS)
        path = next((name for name in (relative, *pages, *indexes) if name in targets.anchors), None)
        if path is None:
            ending = "." + relative.rpartition("/")[2].rpartition(".")[2].lower()
            has_ending = "." in relative.rpartition("/")[2] and ending[1:].isalnum()
            is_other = has_ending and ending not in (*READERS, ".html")
            return Broken.NOT_A_DOCUMENT if is_other else Broken.NO_DOCUMENT
    anchors = targets.anchors[path]
    if link.anchor == "" or link.anchor.startswith("^"):  # `^` begins a block of Obsidian's: its file
        return anchors[""]
    slug = github_slug(link.anchor)  # wikilinks write the heading itself
    return anchors.get(link.anchor) or (anchors.get(slug) if slug else None) or Broken.NO_ANCHOR


def _resolve_path(link: Link, source_path: str) -> str | None:
    """Return the path from the indexed folder; None if it leaves it. A leading `/` and wikilinks start there."""
    if not link.target_path:
        return source_path
    from_root = link.kind is LinkKind.WIKILINK or link.target_path.startswith("/")
    return join_path([] if from_root else source_path.split("/")[:-1], link.target_path)


def join_path(folders: Sequence[str], path: str) -> str | None:
    """Return a path as it stands below the indexed folder, without `.` and `..`; None where it leaves that."""
    parts = list(folders)
    for part in path.split("/"):
        if part == ".." and not parts:
            return None
        if part == "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)
