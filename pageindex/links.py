"""Links between documents, found in their text.

Inline links, uses of reference definitions and wikilinks count; images, addresses with a scheme, and everything in
code do not. One pass from left to right, and every step is bounded, so the time is linear in the text.
What a link leads to is decided in `resolving.py`.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from html import unescape
from urllib.parse import unquote

from pageindex.inline import References
from pageindex.markdown import InlineText

MAX_LABEL_CHARS = 999
"""CommonMark's limit for the label of a reference; the target of a wikilink is held to it as well."""


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
_WIKILINK = re.compile(r"!?\[\[([^\[\]\n|]{1,999}+)(?:\|[^\[\]\n]{0,999}+)?\]\](?![(\[])")
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
    """The links to other documents and to headings of this one, in the order of `texts`."""
    return tuple(link for text in texts for link in _links_of(text, references))


def _links_of(block: InlineText, references: References) -> Iterator[Link]:
    line, counted = block.line, 0
    for position, kind, target in _targets(block.text, references):
        line += block.text.count("\n", counted, position)
        counted = position
        link = _wikilink(line, target) if kind is LinkKind.WIKILINK else _relative_link(line, target)
        if link is not None:
            yield link


def _relative_link(line: int, target: str) -> Link | None:
    """None for an address outside, and for an empty one."""
    if _EXTERNAL.match(target) or not target:
        return None
    path, _, anchor = target.partition("#")
    return Link(line, unquote(path.partition("?")[0]), unquote(anchor), LinkKind.RELATIVE)


def _wikilink(line: int, target: str) -> Link | None:
    r"""`note`, `note#heading`, `note#heading#deeper` (the deepest counts); a table writes `note\|label`."""
    name, _, anchors = target.removesuffix("\\").partition("#")
    link = Link(line, name.strip(), anchors.rpartition("#")[2].strip(), LinkKind.WIKILINK)
    return link if link.target_path or link.anchor else None


def _targets(text: str, references: References) -> Iterator[tuple[int, LinkKind, str]]:
    """(position, kind, target as written) of each link in one text, by position of the closing bracket."""
    visible = _without_code(text)
    opened: list[_Open] = []
    position = 0
    while found := _BRACKET.search(visible, position):
        position = found.end()
        if found[0].startswith("\\"):
            continue
        if found[0].endswith("["):
            wikilink = _WIKILINK.match(visible, found.start())
            if wikilink is None:
                opened.append(_Open(position, is_image=found[0].startswith("!")))
            else:
                position = wikilink.end()
                yield found.start(), LinkKind.WIKILINK, wikilink[1]
        elif found[0] == "]" and opened:
            bracket = opened.pop()
            target, position = _target_after(text, bracket, found.start(), references)
            if target is None or bracket.is_image:
                for outer in opened[-1:]:
                    outer.holds_bracket = True
            else:
                opened.clear()  # a link holds no link: what is still open is text
                yield bracket.start, LinkKind.RELATIVE, target


def _target_after(text: str, bracket: _Open, close: int, references: References) -> tuple[str | None, int]:
    """What a bracket pair that closes at `close` links to, None if nothing; and where to read on."""
    if inline := _DESTINATION.match(text, close + 1):
        return _unescaped(inline[1] if inline[1] is not None else inline[2]), inline.end()
    label = _LABEL.match(text, close + 1)
    if label and label[1].strip():
        target = references.target(label[1])
        return target, close + 1 if target is None else label.end()
    if bracket.holds_bracket or close - bracket.start > MAX_LABEL_CHARS:
        return None, close + 1
    return references.target(text[bracket.start : close]), label.end() if label else close + 1


def _unescaped(destination: str) -> str:
    return unescape(_ESCAPE.sub(r"\1", destination))


def _without_code(text: str) -> str:
    """The text with every code span blanked, its length and line ends kept."""
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
    """Whether an odd number of backslashes stands before the position."""
    first = position
    while first and text[first - 1] == "\\":
        first -= 1
    return (position - first) % 2 == 1
