"""A node of the PageIndex, its lines, and how its id is made."""

from dataclasses import dataclass, field
from enum import StrEnum

from pageindex.blocks import Block, BlockKind
from pageindex.span import Span as Span
from pageindex.units import Unit, UnitKind

PART_LEVEL = 7  # below every heading: a part contains none


class NodeKind(StrEnum):
    """The kinds of nodes."""

    FOLDER = "folder"
    FILE = "file"
    SECTION = "section"


_SILENT = (BlockKind.HEADING, BlockKind.HIDDEN, BlockKind.DEFINITIONS, BlockKind.RULE)


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
    """The heading's text without markup; for a file: see `document.name_document`; for a folder: its name."""
    level: int
    """The heading level, 1 to 6; 7 for a part of a text too long for one section; 0 for a file or a folder."""
    breadcrumb: tuple[str, ...]
    """Titles of the file and the headings above this node, outermost first. No title of `(*breadcrumb, title)` repeats
    the one before it: a first heading equal to the file's title has its breadcrumb. Of a file with a title that could
    stand anywhere the file's name; empty for other files, and folders."""
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
    """The `#fragment` of links to this node: the heading's `{#id}`, else its slug as GitHub makes it, unique in
    its file (`-1`, `-2` ... appended to repeats). Empty for files and folders."""
    summary: str = ""
    """A short extractive summary; see `summary.py`."""
    shown_text: str | None = None
    """`text`, line by line, without comments and the like, which are not searched; None where it has none."""
    units: tuple[Unit, ...] = ()
    """The pieces that a person would point at; see `units.py`."""
    blocks: tuple[Block, ...] = field(default=(), compare=False, repr=False)
    """The outermost blocks of `text`, heading included; empty for a node that an index gives."""

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
    def searched_body(self) -> str:
        """Return the body without what no page shows."""
        if self.shown_text is None:
            return self.body
        return self.shown_text.split("\n", self.front_matter_lines)[-1] if self.body else ""

    @property
    def titled_body(self) -> str:
        """Return what a page shows of the body, below all titles above it and its own."""
        return "\n".join((*self.breadcrumb, self.title, *(unit.in_full for unit in self.units)))

    @property
    def body_span(self) -> Span | None:
        """Return the lines of `body`; those of `text` where that is front matter alone."""
        if self.span is None or not self.front_matter_lines or not self.body:
            return self.span
        return Span(self.span.first + self.front_matter_lines, self.span.last)

    @property
    def has_text(self) -> bool:
        """Return whether it says anything beside its heading and front matter."""
        if self.blocks:
            return any(block.kind not in _SILENT for block in self.blocks)
        return any(unit.kind is not UnitKind.FIELD for unit in self.units)

    @property
    def citation(self) -> str:
        """`path:first-last`, or `path:line`; the path alone without a line of its own. Not escaped for a terminal."""
        return f"{self.path}:{self.span}" if self.span else self.path


def folder_id(prefix: str, path: str) -> str:
    """Return the id of the folder at `path`, with its closing `/`; the indexed folder itself is the empty path."""
    return f"{prefix}{path}/"
