"""Links between documents: found in their text, and resolved to the nodes that they lead to.

Inline links, uses of reference definitions and wikilinks count; images, addresses with a scheme, and everything in
code do not. One pass from left to right, and every step is bounded, so the time is linear in the text.
What a link leads to is asked again after each change of the index.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from html import unescape
from urllib.parse import unquote

from pageindex.formats import READERS, drop_ending
from pageindex.markdown import WIKILINK, InlineText, References
from pageindex.outline import github_slug

MAX_LABEL_CHARS = 999  # CommonMark's limit for the label of a reference; a wikilink's target is held to it too


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
_CODE_MARKS = re.compile(r"`+")
_NOT_LINE_END = re.compile(r"[^\n]")
_BRACKET = re.compile(r"\\.|!?\[|\]", re.DOTALL)
# Possessive (`*+`): what was read is never read again. Parentheses in a bare destination may be nested once.
_DESTINATION = re.compile(
    r"\([ \t\n]*+(?:<((?:[^<>\n\\]|\\.)*+)>|((?:[^\s()<\\]|\\.|\((?:[^\s()\\]|\\.)*+\))*+))"
    r"""(?:[ \t\n]++(?:"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+'|\((?:[^()\\]|\\.)*+\))?+)?+[ \t\n]*+\)""",
    re.DOTALL,
)
_LABEL = re.compile(r"\[((?:[^\[\]\\]|\\.){0,999}+)\]", re.DOTALL)
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")


@dataclass(slots=True)
class _Open:
    """A `[` whose `]` has not come yet."""

    start: int
    """Position after the bracket."""
    is_image: bool
    holds_bracket: bool = False
    """Whether another pair stood inside: then it is no label."""


def find_links(texts: Iterable[InlineText], references: References) -> tuple[Link, ...]:
    """Return the links to other documents and to headings of this one, in the order of `texts`."""
    links = []
    for text in texts:
        line, counted = text.line, 0
        for position, kind, target in _find_targets(text.text, references):
            line += text.text.count("\n", counted, position)
            counted = position
            if kind is LinkKind.WIKILINK:
                # `note`, `note#heading`, `note#heading#deeper` (the deepest counts); a table writes `note\|label`.
                name, _, anchors = target.removesuffix("\\").partition("#")
                path, anchor = name.strip(), anchors.rpartition("#")[2].strip()
            else:
                if _EXTERNAL.match(target) or not target:
                    continue
                path, _, anchor = target.partition("#")
                path, anchor = unquote(path.partition("?")[0]), unquote(anchor)
            if path or anchor or kind is LinkKind.RELATIVE:
                links.append(Link(line, path, anchor, kind))
    return tuple(links)


def _find_targets(text: str, references: References) -> Iterator[tuple[int, LinkKind, str]]:
    """Yield (position, kind, target as written) of each link in one text, by position of the closing bracket."""
    visible = blank_code(text)
    opened: list[_Open] = []
    position = 0
    while found := _BRACKET.search(visible, position):
        position = found.end()
        if found[0].startswith("\\"):
            continue
        if found[0].endswith("["):
            wikilink = WIKILINK.match(visible, found.start())
            if wikilink is None or not _names_a_note(wikilink):
                opened.append(_Open(position, is_image=found[0].startswith("!")))
            else:
                position = wikilink.end()
                yield found.start(), LinkKind.WIKILINK, wikilink[1]
        elif found[0] == "]" and opened:
            bracket = opened.pop()
            target, position = _read_target(text, bracket, found.start(), references)
            if target is None or bracket.is_image:
                for outer in opened[-1:]:
                    outer.holds_bracket = True
            else:
                opened.clear()  # a link holds no link: what is still open is text
                yield bracket.start, LinkKind.RELATIVE, target


def _names_a_note(wikilink: re.Match[str]) -> bool:
    """Whether note and label are on one line, neither empty nor too long, and no `(` or `[` makes a link of them."""
    note, label = wikilink.groups("")
    fits = 0 < len(note) <= MAX_LABEL_CHARS and len(label) <= MAX_LABEL_CHARS and "\n" not in wikilink[0]
    return fits and not wikilink.string.startswith(("(", "["), wikilink.end())


def _read_target(text: str, bracket: _Open, close: int, references: References) -> tuple[str | None, int]:
    """Return what a bracket pair that closes at `close` links to, None if nothing; and where to read on."""
    if inline := _DESTINATION.match(text, close + 1):
        destination = inline[1] if inline[1] is not None else inline[2]
        return unescape(_ESCAPE.sub(r"\1", destination)), inline.end()
    label = _LABEL.match(text, close + 1)
    if label and label[1].strip():
        target = references.target(label[1])
        return target, close + 1 if target is None else label.end()
    if bracket.holds_bracket or close - bracket.start > MAX_LABEL_CHARS:
        return None, close + 1
    return references.target(text[bracket.start : close]), label.end() if label else close + 1


def blank_code(text: str) -> str:
    """Return the text with every code span blanked, its length and line ends kept."""
    runs = list(_CODE_MARKS.finditer(text))
    places: dict[int, list[int]] = {}
    for index, run in enumerate(runs):
        places.setdefault(len(run[0]), []).append(index)
    pieces, position, index = [], 0, 0
    while index < len(runs):
        start = runs[index].start() + _is_escaped(text, runs[index].start())  # `\`` is text, what follows it may open
        same_length = places.get(runs[index].end() - start, [])
        closing = bisect_right(same_length, index)
        if closing < len(same_length):
            index = same_length[closing]
            pieces += [text[position:start], _NOT_LINE_END.sub(" ", text[start : runs[index].end()])]
            position = runs[index].end()
        index += 1
    return "".join((*pieces, text[position:]))


def _is_escaped(text: str, position: int) -> bool:
    first = position
    while first and text[first - 1] == "\\":
        first -= 1
    return (position - first) % 2 == 1


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
