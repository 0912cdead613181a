"""A node of the PageIndex, its lines, and how its id is made."""

import re
from dataclasses import dataclass
from enum import StrEnum

PART_LEVEL = 7  # below every heading: a part contains none


class NodeKind(StrEnum):
    """What a node stands for."""

    FOLDER = "folder"
    FILE = "file"
    SECTION = "section"


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A run of lines of one file, 1-based and inclusive, counted in the file on disk."""

    first: int
    """The first line, at least 1."""
    last: int
    """The last line, at least `first`."""

    def __post_init__(self) -> None:
        if not 1 <= self.first <= self.last:
            raise ValueError(f"not a span of lines: {self.first}-{self.last}")

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __str__(self) -> str:
        """Return `first-last`; of one line, its number."""
        return f"{self.first}-{self.last}" if self.last > self.first else str(self.first)

    def shift(self, lines: int) -> "Span":
        """Return as many lines further down."""
        return Span(self.first + lines, self.last + lines)

    def overlap(self, other: "Span") -> int:
        """Return the number of lines that both spans hold; 0 when they are apart."""
        return max(0, min(self.last, other.last) - max(self.first, other.first) + 1)


@dataclass(frozen=True, slots=True)
class Node:
    """A folder, a file, or a section of a file.

    The tree (parent, children) is kept in `DocumentTree` alone.
    """

    id: str
    """`path#slug/slug`: the file's path and the slugs of the headings down to this one, `~2` for a repeated heading
    among siblings. A file's id is its path, a folder's its path with a closing `/` (the indexed folder itself: `/`)."""
    kind: NodeKind
    path: str
    """The file (for a folder: the folder), relative to the indexed folder, with `/` on every system."""
    title: str
    """The heading's text without markup; for a file: its front matter title, else its first level-1 heading, else the
    heading that opens it if that holds more than half of it, else its file name without the ending; for a folder: its
    name."""
    level: int
    """The heading level, 1 to 6; 7 for a part of a text too long for one section; 0 for a file or a folder."""
    breadcrumb: tuple[str, ...]
    """Titles of the file and the headings above this node, outermost first. No title of `(*breadcrumb, title)` repeats
    the one before it: a first heading equal to the file's title has an empty breadcrumb. Empty for files, folders."""
    span: Span | None
    """The lines of `text`. The spans of a file's nodes partition its lines. None when the node has no line of its own:
    a folder, an empty file, a file that opens with a heading."""
    text: str
    """The lines of `span` as Markdown (line ends as LF), of a Markdown file exactly; the heading's line is among them,
    child sections are not.
    A file node's text begins with its front matter, if it has one."""
    front_matter_lines: int = 0
    """How many lines at the beginning of `text` are front matter (its fences counted); 0 for sections."""
    anchor: str = ""
    """What a link's `#fragment` names this node by: the heading's `{#id}`, else its slug as GitHub makes it, unique in
    its file (`-1`, `-2` ... appended to repeats). Empty for files and folders."""
    summary: str = ""
    """A short extractive summary; see `summary.py`."""

    @property
    def is_part(self) -> bool:
        """Return whether it has no heading of its own, and its first words for a title; see `outline.divide`."""
        return self.level == PART_LEVEL

    @property
    def body(self) -> str:
        """Return the text without the front matter."""
        pieces = self.text.split("\n", self.front_matter_lines)  # not splitlines(): U+2028 and the like end no line
        return pieces[-1] if len(pieces) > self.front_matter_lines else ""

    @property
    def titled_body(self) -> str:
        """Return the body below all titles above it and its own: a section is read below its headings."""
        return "\n".join((*self.breadcrumb, self.title, self.body))

    @property
    def body_span(self) -> Span | None:
        """Return the lines of `body`; those of `text` where that is front matter alone."""
        if self.span is None or not self.front_matter_lines or not self.body:
            return self.span
        return Span(self.span.first + self.front_matter_lines, self.span.last)

    @property
    def has_text(self) -> bool:
        """Return whether it says anything beside its heading: comments, rules and the targets of links say nothing."""
        body = self.body
        if self.kind is NodeKind.SECTION:
            heading = _HEADING.match(body)
            body = body[heading.end() :] if heading else body
        return bool(_SILENT.sub("", body).strip())

    @property
    def id_prefix(self) -> str:
        """What stands before the path in the id: it tells the folders of one index apart, and ends with a colon."""
        rest = self.id.removeprefix(self.path)
        return "" if len(rest) < len(self.id) and rest[:1] in ("", "#", "/") else f"{self.id.partition(':')[0]}:"

    @property
    def citation(self) -> str:
        """`path:first-last`, or `path:line`; the path alone without a line of its own. Not escaped for a terminal."""
        return f"{self.path}:{self.span}" if self.span else self.path


# The heading that opens a section: `## Title`, or lines of text above a line of = or -.
_HEADING = re.compile(r"\s*(?:#{1,6}(?:[ \t][^\n]*)?(?:\n|$)|[^\n]+(?:\n[^\n]+)*?\n {0,3}(?:=+|-+)[ \t]*(?:\n|$))")
_SILENT = re.compile(
    r"<!--.*?-->|\{/\*.*?\*/\}|^ {0,3}\[[^\]\n]+\]:[^\n]*$|^[ \t]*(?:[-*_][ \t]*){3,}$", re.DOTALL | re.MULTILINE
)


def folder_id(prefix: str, path: str) -> str:
    """Return the id of the folder at `path`, with its closing `/`; the indexed folder itself is the empty path."""
    return f"{prefix}{path}/"
