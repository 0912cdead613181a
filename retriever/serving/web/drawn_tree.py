"""The tree of documents as nested lists: open above what is lit, short where there is much."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from pageindex.node import Node, NodeKind, folder_id
from pageindex.tree import MAX_SHOWN_TITLE, DocumentTree
from retriever.store import reading
from retriever.store.connection import Connection
from retriever.store.reading import outline_tree

NO_TITLE = "(no title)"
SMALL_FAMILY = 16  # children that are always shown: a screen holds them
FIRST_SHOWN = 6  # of a larger family, besides those that are lit or open and those beside them
MAX_SHOWN_CHILDREN = 200  # of one family at once; the rest is a click away
MAX_DEPTH = 30  # levels that are open in one page: browsers do not nest without end


@dataclass(frozen=True, slots=True)
class Outline:
    """The tree of an index without its texts, as people read it."""

    tree: DocumentTree
    folder_names: Mapping[str, str]  # node ids of the indexed folders -> their own names

    def find(self, node_id: str) -> Node | None:
        return self.tree.node(node_id) if node_id in self.tree else None

    def label(self, node_id: str) -> str:
        """A node's title, else its file's name, at most MAX_SHOWN_TITLE characters; the id of an unknown node."""
        node = self.find(node_id)
        if node is None:
            return node_id
        file_name = PurePath(node.path).name if node.kind is NodeKind.FILE else NO_TITLE
        label = self.folder_names.get(node_id) or node.title.strip() or file_name
        return label if len(label) <= MAX_SHOWN_TITLE else f"{label[: MAX_SHOWN_TITLE - 1]}…"

    def path_to(self, node_id: str) -> list[Node]:
        path = [self.tree.node(node_id)]
        while parent := self.tree.parent(path[-1].id):
            path.append(parent)
        return path[::-1]

    def family(self, node_id: str) -> Sequence[Node]:
        """The node and its siblings, in document order."""
        parent = self.tree.parent(node_id)
        return self.tree.children(parent.id) if parent else self.roots()

    def roots(self) -> list[Node]:
        return list(self.tree.walk(depth=0))


@dataclass(frozen=True, slots=True)
class Gap:
    parent_id: str
    first: int  # the place of the first of them, from 0
    count: int


@dataclass(frozen=True, slots=True)
class Branch:
    """A node as it is drawn; a file that is one section of its name is drawn as that section."""

    node: Node
    kind: NodeKind  # the file's, where a section is drawn in its place
    label: str
    has_children: bool
    is_open: bool
    rank: int | None  # of the hit that it is
    is_here: bool  # whether it is what is being read
    below: "tuple[Branch | Gap, ...]"  # empty unless it is open


def read_outline(connection: Connection) -> Outline:
    """The outline of an index, in a snapshot of it."""
    names = {folder_id(item.prefix, ""): PurePath(item.path).name or "/" for item in reading.folders(connection)}
    return Outline(outline_tree(connection), names)


def draw_tree(outline: Outline, hits: Mapping[str, int] | None = None, here: str = "") -> list[Branch | Gap]:
    """The roots, open down to the hits (node ids to ranks) and to the node `here`; without these the roots alone."""
    ranks = hits or {}
    lit = [node_id for node_id in (*ranks, here) if node_id in outline.tree]
    opened = {node.id for node_id in lit for node in outline.path_to(node_id)[:-1]} | ({here} & set(lit))
    roots = outline.roots()
    drawing = _Drawing(outline, ranks, here, frozenset(opened or (root.id for root in roots)))
    return drawing.family(roots, "", 0)


def draw_branch(outline: Outline, parent_id: str, first: int, count: int) -> list[Branch | Gap]:
    """Children of a node from one place on, `count` at most, none of them open; a gap for those that do not fit."""
    children = outline.tree.children(parent_id)
    last = min(len(children), first + count)
    shown = min(last, first + MAX_SHOWN_CHILDREN)
    rest = [Gap(parent_id, shown, last - shown)] if last > shown else []
    return _Drawing(outline, {}, "", frozenset()).items([*children[first:shown], *rest], 0)


def join_only_section(outline: Outline, file: Node) -> Node:
    """The section that is all of a file and has its title, for the two are shown as one; else the node itself."""
    if file.kind is NodeKind.FILE and file.span is None:
        children = outline.tree.children(file.id)
        if len(children) == 1 and outline.label(children[0].id) == outline.label(file.id):
            return children[0]
    return file


def shorten(children: Sequence[Node], wanted: Iterable[int], parent_id: str) -> list[Node | Gap]:
    """A family without what is far from the wanted places; each run of what is left out is a gap."""
    if len(children) <= SMALL_FAMILY:
        return list(children)
    shown = set(range(FIRST_SHOWN))
    for place in wanted:
        shown |= {place - 1, place, place + 1}
    result: list[Node | Gap] = []
    for place, child in enumerate(children):
        if place in shown:
            result.append(child)
        elif result and isinstance(result[-1], Gap):
            result[-1] = Gap(parent_id, result[-1].first, result[-1].count + 1)
        else:
            result.append(Gap(parent_id, place, 1))
    return result


@dataclass(frozen=True, slots=True)
class _Drawing:
    outline: Outline
    ranks: Mapping[str, int]
    here: str
    opened: frozenset[str]

    def family(self, children: Sequence[Node], parent_id: str, depth: int) -> list[Branch | Gap]:
        """The branches of what a node contains, shortened."""
        wanted = [
            place
            for place, child in enumerate(children)
            if child.id in self.opened or child.id in self.ranks or child.id == self.here
        ]
        return self.items(shorten(children, wanted[:MAX_SHOWN_CHILDREN], parent_id), depth)

    def items(self, family: Sequence[Node | Gap], depth: int) -> list[Branch | Gap]:
        """A branch for each node."""
        return [member if isinstance(member, Gap) else self._branch(member, depth) for member in family]

    def _branch(self, file: Node, depth: int) -> Branch:
        node = join_only_section(self.outline, file)
        children = self.outline.tree.children(node.id)
        is_open = bool({node.id, file.id} & self.opened) and bool(children) and depth < MAX_DEPTH
        return Branch(
            node=node,
            kind=file.kind,
            label=self.outline.label(node.id) + ("/" if node.kind is NodeKind.FOLDER else ""),
            has_children=bool(children),
            is_open=is_open,
            rank=self.ranks.get(node.id),
            is_here=self.here in {node.id, file.id},
            below=tuple(self.family(children, node.id, depth + 1)) if is_open else (),
        )
