"""One document as nodes: its file node, its sections in the order of lines, and its links."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import chain, pairwise
from pathlib import PurePosixPath

from pageindex.blocks import Block, BlockKind, read_blocks
from pageindex.dialects import COMMONMARK, get_dialect
from pageindex.front_matter import FrontMatter, read_front_matter, read_page_properties
from pageindex.links import Link
from pageindex.node import Node, NodeKind, Span, Unit
from pageindex.outline import Heading, cut_blocks, divide, find_headings, name_anchors
from pageindex.summary import summarize
from pageindex.text import fold_words, github_slug
from pageindex.units import read_properties, read_units

MAX_SLUG_CHARS = 100  # of one heading in an id; anchors are not cut
MAX_VALUE_CHARS = 300  # of a property; what is longer is a text, and nobody asks for it by its whole wording


@dataclass(frozen=True, slots=True)
class Placed:
    """A node and its place."""

    node: Node
    """The node."""
    parent_id: str | None
    """The node that contains it; None for the file's own node, which belongs to a folder."""


@dataclass(frozen=True)
class Document:
    """A parsed document."""

    path: str
    """Relative to the indexed folder."""
    title: str
    """The file node's title."""
    front_matter: FrontMatter
    """Empty without one."""
    nodes: tuple[Placed, ...]
    """The file's node, then its sections in the order of lines; parents come before their children."""
    links: tuple[tuple[str, Link], ...]
    """(id of the node whose lines hold it, link), in the order of lines."""
    warnings: tuple[str, ...]
    """Parts that were not understood, as clauses."""
    tags: tuple[str, ...] = ()
    """Of the front matter, then of the text, without `#`, each once, whatever its case."""

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """Return (key, value) of the front matter; each other name as `aliases`, each tag of the document as `tags`."""
        named = ("aliases", "alias", "tags", "tag")
        fields = self.front_matter.fields
        others = ((key, value[:MAX_VALUE_CHARS]) for key, value in fields if key not in named)
        aliases = (("aliases", alias) for alias in self.front_matter.aliases)
        return (*others, *aliases, *(("tags", tag) for tag in self.tags))


def parse_document(path: str, text: str, id_prefix: str = "", dialect: str = COMMONMARK.name) -> Document:
    """Parse `text` (LF line ends, no NUL) into the nodes and links of the document at `path` (relative, with `/`).

    Args:
        path: of the file, below the indexed folder.
        text: of the file.
        id_prefix: what the ids begin with before the path.
        dialect: the name of that of its folder.
    """
    is_page = dialect == "logseq"  # whose name has its folders: `Bread___Rye.md`
    matter = read_page_properties(text, PurePosixPath(path).stem) if is_page else read_front_matter(text)
    lines = [*StringIO(text)]
    blocks = read_blocks("".join(lines[matter.lines :]), matter.lines + 1, get_dialect(dialect, path))
    placed = tuple(_place_nodes(id_prefix + path, path, matter, lines, blocks))
    texts = [text for block in blocks for inner in block.walk() for text in inner.texts]
    own = [(item.node.span.first, item.node.id) for item in placed if item.node.span]
    links = tuple((own[bisect_right(own, (link.line + 1,)) - 1][1], link) for text in texts for link in text.links)
    warnings = (matter.warning,) if matter.warning else ()
    tags: dict[str, str] = {}
    for tag in chain(matter.tags, *(text.tags for text in texts)):
        tags.setdefault(tag.casefold(), tag)
    return Document(path, placed[0].node.title, matter, placed, links, warnings, tuple(tags.values()))


def _place_nodes(
    file_id: str, path: str, matter: FrontMatter, lines: Sequence[str], blocks: Sequence[Block]
) -> Iterator[Placed]:
    """Yield the file's node, then its sections in the order of lines."""
    own_headings = find_headings(blocks)
    title, file_breadcrumb = name_document(path, matter.title, own_headings)
    firsts = [matter.lines + 1, *(heading.line for heading in own_headings), len(lines) + 1]
    parts = (
        part
        for own, (first, end) in zip(cut_blocks(blocks, firsts), pairwise(firsts), strict=True)
        for part in divide(own, lines[first - 1 : end - 1], first)
    )
    headings = sorted((*own_headings, *parts), key=lambda heading: heading.line)
    firsts = [1, *(heading.line for heading in headings), len(lines) + 1]
    cut = cut_blocks(blocks, firsts)
    anchors = name_anchors(headings)
    above: list[Node] = []  # the nodes around the next one, the file's first
    seen: Counter[str] = Counter()
    for heading, (first, end), own in zip([Heading(0, title, "", 1), *headings], pairwise(firsts), cut, strict=True):
        while above and above[-1].level >= heading.level:
            above.pop()
        parent = above[-1] if above else None
        node_id, breadcrumb = file_id, file_breadcrumb
        properties: Iterable[Unit] = ()
        if parent is None:
            properties = read_properties(matter, lines[: matter.lines])
        else:
            slug = github_slug(heading.title)[:MAX_SLUG_CHARS] or "section"
            node_id = f"{parent.id}{'/' if parent.level else '#'}{slug}"
            seen[node_id] += 1
            if seen[node_id] > 1:  # `~` is in no slug otherwise
                node_id += f"~{seen[node_id]}"
            # A parent that the title only repeats, such as the file of a top heading, is not named twice.
            is_repeated = parent.title == heading.title
            breadcrumb = parent.breadcrumb if is_repeated else parent.titles
        units = tuple(read_units([block for block in own if block.kind is not BlockKind.HEADING]))
        node = Node(
            id=node_id,
            kind=NodeKind.SECTION if parent else NodeKind.FILE,
            path=path,
            title=heading.title,
            level=heading.level,
            breadcrumb=breadcrumb,
            span=Span(first, end - 1) if end > first else None,
            text="".join(lines[first - 1 : end - 1]),
            front_matter_lines=0 if parent or matter.warning else matter.lines,
            anchor=anchors[first] if parent else "",
            summary=summarize(units),
            blocks=tuple(own),
            units=(*properties, *units),
        )
        above.append(node)
        yield Placed(node, parent.id if parent else None)


def find_holders(nodes: Sequence[Placed]) -> dict[str, str]:
    r"""Map each node of a document that has no text of its own to the node whose text is shown in its place.

    That is the first one below it that has text; else the nearest one above it, or the first below that. A node is left
    out when there is none: a document of headings alone is shown as it is, the file by its first heading.

    >>> find_holders(parse_document("a.md", "# A\n\n## B\n\n### C\n\nText.\n\n## D\n").nodes)
    {'a.md#a/b': 'a.md#a/b/c', 'a.md#a': 'a.md#a/b/c', 'a.md': 'a.md#a/b/c', 'a.md#a/d': 'a.md#a/b/c'}
    >>> find_holders(parse_document("a.md", "# A\n\n## B\n\n--8<-- 'it.md'\n", dialect="mkdocs").nodes)
    {'a.md#a': 'a.md#a/b', 'a.md': 'a.md#a/b'}
    >>> find_holders(parse_document("a.md", "# A\n\n## B\n").nodes), find_holders(parse_document("a.md", "").nodes)
    ({'a.md': 'a.md#a'}, {})
    """
    shown: dict[str, str] = {}
    for placed in reversed(nodes):  # from the last child to its parent: the first one with text stays
        if placed.node.has_text:
            shown[placed.node.id] = placed.node.id
        if placed.parent_id is not None and placed.node.id in shown:
            shown[placed.parent_id] = shown[placed.node.id]
    for placed in nodes:
        if placed.node.id not in shown and placed.parent_id in shown:
            shown[placed.node.id] = shown[placed.parent_id]
    holders = {node_id: holder for node_id, holder in shown.items() if node_id != holder}
    file, *sections = (placed.node for placed in nodes)
    if file.span is None and sections:  # it has no lines that could be cited
        holders.setdefault(file.id, sections[0].id)
    return holders


# What a document is called: its title, and its file where the title could stand above any other.

OF_ITS_FOLDER = frozenset({"index", "readme"})  # the page of a folder, which is named by it
GENERIC_WORDS = 2  # in a title that may stand above any document, such as `Contact`
COUNTER_DIGITS = 2  # of the number of a chapter
SAME_LETTERS = 4  # at the beginning of two forms of one word
BEYOND_LATIN = "\u0370"  # before it are the letters of Latin, and accents


def name_document(path: str, title: str, headings: Sequence[Heading]) -> tuple[str, tuple[str, ...]]:
    """Return the title of the document at `path`, empty where nothing names it, and the titles above that.

    The title is the given one, of the front matter, else the only heading of level 1, else the first heading if it
    says the file's name, else that name. Above a title that could stand anywhere is the name of the file, or of its
    folder.

    >>> name_document("people/Ada Quill.md", "Contact", ()), name_document("falcon/README.md", "", ())
    (('Contact', ('Ada Quill',)), ('falcon', ()))
    >>> name_document("Patterns.md", "", [Heading(1, "Builder", "", 1), Heading(1, "Factory", "", 9)])
    ('Patterns', ())
    >>> name_document("Größe.md", "Subject", ()), name_document("size.md", "大きさ", ())
    (('Subject', ('Größe',)), ('大きさ', ()))
    """
    *folders, file = (" ".join(part.split()) for part in PurePosixPath(path).with_suffix("").parts)
    name = "".join(folders[-1:]) if file.strip("_").lower() in OF_ITS_FOLDER else file
    name = name if len(name) > 1 else ""
    tops = [heading.title for heading in headings if heading.level == 1 and heading.title]
    if len(tops) == 1 or not name:  # of several each is that of a part
        title = title or next(iter(tops), "")
    if not title:
        first = headings[0].title if headings else ""
        return (first if first and _says(first, name) and _says(name, first) else name or file), ()
    is_one_script = (max(title) < BEYOND_LATIN) == (max(name or title) < BEYOND_LATIN)
    is_generic = is_one_script and len(fold_words(title)) <= GENERIC_WORDS
    return title, (name,) if name and is_generic and not _says(title, name) else ()


def _says(title: str, name: str) -> bool:
    """Return whether a title has the words of a name, in any form, or written as one; a longer title one of them."""
    words, others = fold_words(title), fold_words(name)
    beginnings = {word[:SAME_LETTERS] for word in words}
    telling = (other for other in others if other.isalpha() or (other.isdigit() and len(other) > COUNTER_DIGITS))
    is_said = all if len(words) <= GENERIC_WORDS else any
    return is_said(other[:SAME_LETTERS] in beginnings for other in telling) or "".join(words) == "".join(others)
