"""Links between documents: found in their text, and resolved to the nodes that they lead to.

Inline links, uses of reference definitions and wikilinks count; images, addresses with a scheme, and everything in
code do not. What a link leads to is asked again after each change of the index.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from posixpath import normpath
from urllib.parse import unquote

from pageindex.formats import READERS, drop_ending
from pageindex.rules import find_name
from pageindex.text import fold_heading, github_slug


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
    """The part behind `#`, percent-decoded, or empty. A wikilink may name headings above: `Install#Linux`."""
    kind: LinkKind
    """How `target_path` is to be understood."""


_EXTERNAL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
MAX_TAG_CHARS = 100


def read_link(line: int, target: str) -> Iterator[Link]:
    """Yield the link to an address that stands in that line, if it leads to a document or to a heading of this one.

    >>> [(link.target_path, link.anchor) for link in read_link(1, "a%20b.md?raw=1#Of%20c#d")]
    [('a b.md', 'Of c#d')]
    >>> [*read_link(1, "https://example.org"), *read_link(1, "//example.org"), *read_link(1, "")]
    []
    """
    if target and not _EXTERNAL.match(target):
        path, _, anchor = target.partition("#")
        yield Link(line, unquote(path.partition("?")[0]), unquote(anchor), LinkKind.RELATIVE)


def read_wikilink(line: int, target: str) -> Iterator[Link]:
    r"""Yield the link of `note`, `note#heading`, `note#heading#deeper`, if it names anything.

    >>> [(link.target_path, link.anchor) for link in (*read_wikilink(1, "a # b#c\\"), *read_wikilink(1, "#d"))]
    [('a', 'b#c'), ('', 'd')]
    >>> [*read_wikilink(1, " # ")]
    []
    """
    note, _, anchor = target.removesuffix("\\").partition("#")  # a table writes `note\|label`
    if note.strip() or anchor.strip():
        yield Link(line, note.strip(), anchor.strip(), LinkKind.WIKILINK)


def read_tags(words: Iterable[str]) -> Iterator[str]:
    """Yield the tags among words, as Obsidian does: `#` and letters, digits, `_`, `-`, `/` of any script, no number.

    >>> [*read_tags(["#home/garden_2,", "#1984", "#y1984/", "C#", "#", "#庭"])]
    ['home/garden_2', 'y1984', '庭']
    >>> [len(tag) for tag in read_tags(["#" + 100 * "x", "#" + 101 * "x"])]
    [100]
    """
    for word in words:
        tag = find_name(word[1:], "_-/").strip("/")
        if word.startswith("#") and len(tag) <= MAX_TAG_CHARS and any(map(str.isalpha, tag)):
            yield tag


@dataclass(frozen=True)
class LinkTargets:
    """All that a link in one indexed folder can lead to."""

    anchors: Mapping[str, Mapping[str, str]]
    """Document path -> anchor -> node id. The empty anchor is the file's own node."""
    notes: Mapping[str, str]
    """Note name -> document path, as `note_names` makes it."""
    read_places: Callable[[str], Mapping[str, str]]
    """Of a document path, as `name_places` makes them; for an anchor that is none of those above."""
    exists: Callable[[str], bool]
    """Whether the folder has anything at a path, in the index or not."""


def note_names(documents: Iterable[tuple[str, Sequence[str]]]) -> dict[str, str]:
    """Return the names that wikilinks use, case folded, for documents given as (path, aliases)."""
    # Paths and their ends, without the ending of the file, come before aliases; of several with one name the shortest
    # path gets it, then the first.
    ordered = sorted(documents, key=lambda document: (len(document[0]), document[0]))
    names: dict[str, str] = {}
    for path, _ in ordered:
        parts = drop_ending(path).casefold().split("/")
        for start in range(len(parts)):
            names.setdefault("/".join(parts[start:]), path)
    for path, aliases in ordered:
        for alias in aliases:
            names.setdefault(alias.casefold(), path)
    return names


# `<a name="x">`, `<span id='x'>`, `{#x}`, `{: #x }`, and `(x)=` of MyST.
_NAMED = re.compile(r"""(?:(?:id|name)=["']?|\{:?\s?#|^\((?=[^()\n]+\)=))([^\s"'<>{}()]+)""", re.MULTILINE)


def name_places(nodes: Iterable[tuple[str, Sequence[str], str]]) -> dict[str, str]:
    r"""Map what links may call the places of a document to node ids, for nodes as (id, titles down to its own, text).

    Headings are folded, with `#` between one and those below it; ids of HTML and the like are as they are written.

    >>> name_places([("a.md", ["Oak Door"], "Blue. {#Paint}"), ("b", ["Oak Door", "Key"], "# Key\n<a id='Lock'>")])
    {'oak door': 'a.md', 'blue paint': 'a.md', 'Paint': 'a.md', 'oak door#key': 'b', 'key': 'b', 'Lock': 'b'}
    """
    places: dict[str, str] = {}
    for node_id, titles, text in nodes:
        names = [fold_heading(title) for title in titles]
        chains = ("#".join(names[start:]) for start in range(len(names)))
        written = fold_heading(text.partition("\n")[0])  # of `[[People/Ann|Ann]] meets`, as Obsidian takes it
        named = _NAMED.findall(text) if "=" in text or "{" in text else ()  # prose has neither
        for name in filter(None, (*chains, written, *named)):
            places.setdefault(name, node_id)
    return places


# The page that stands for its folder, on the web, on GitHub and for Hugo.
_FOLDER_PAGES = ("index", "README", "_index")


def resolve_link(link: Link, source_path: str, targets: LinkTargets) -> tuple[str | None, str | None]:
    """Return the id of the node that a link in the document `source_path` leads to, and why there is none.

    Neither is said of what may be there and is no document: a picture, a program, a folder, a page of a site or of a
    repository whose root is elsewhere.
    """
    path = None if link.target_path else source_path
    if path is None and link.kind is LinkKind.WIKILINK:
        name = link.target_path.casefold()
        path = targets.notes.get(name) or targets.notes.get(drop_ending(name))
    # A leading `/` and wikilinks start at the indexed folder.
    is_from_root = link.kind is LinkKind.WIKILINK or link.target_path.startswith("/")
    relative = join_path([] if is_from_root else source_path.split("/")[:-1], link.target_path)
    if path is None and relative is not None:
        # What the path may mean, likeliest first: sites link to pages without their ending, and to folders.
        page, folder = relative.removesuffix(".html"), f"{relative}/" if relative else ""
        pages = (page + suffix for suffix in READERS)
        indexes = (folder + name + suffix for name in _FOLDER_PAGES for suffix in READERS)
        path = next((name for name in (relative, *pages, *indexes) if name in targets.anchors), None)
    if path is not None:
        found = _find_anchor(link.anchor, path, targets)
        return found, None if found else "no such heading"
    ending = PurePosixPath(link.target_path).suffix.lower()
    # Where the root of a site is, only its generator knows.
    is_elsewhere = relative is None or link.target_path.startswith("/") or ending[1:].isalnum()
    if is_elsewhere and ending not in (*READERS, ".html"):
        return None, None
    if relative is None:
        return None, "its path leaves the indexed folder"
    return None, None if targets.exists(relative) else "no such document"


def _find_anchor(anchor: str, path: str, targets: LinkTargets) -> str | None:
    """Return the id of the node that an anchor of a document names."""
    anchors, anchor = targets.anchors[path], anchor.partition(":~:")[0]  # words that a browser looks for
    slug = github_slug(anchor)
    if found := anchors.get(anchor) or (anchors.get(slug) if slug else None):
        return found
    # The top of a page, a line as GitHub counts them, a block of Obsidian's: the file.
    is_line = anchor.startswith("L") and not anchor.strip("LC-0123456789")
    if is_line or slug == "top" or anchor.startswith("^"):
        return anchors[""]
    places = targets.read_places(path)
    return places.get(anchor) or places.get("#".join(filter(None, map(fold_heading, anchor.split("#")))))


def join_path(folders: Sequence[str], path: str) -> str | None:
    """Return a path as it stands below the indexed folder, without `.` and `..`; None where it leaves that.

    >>> join_path(["a", "b"], "../c.md"), join_path(["a"], "../../c.md"), join_path(["a"], ".."), join_path([], "..c/")
    ('a/c.md', None, '', '..c')
    """
    joined = normpath("/".join([*folders, path.strip("/")]))
    return None if joined.split("/")[0] == ".." else joined if joined != "." else ""
