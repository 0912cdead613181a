"""The tree of documents as nested lists: open above what is lit, of each family its first members."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from pageindex.node import Node, NodeKind, folder_id
from pageindex.tree import MAX_SHOWN_TITLE, DocumentTree
from retriever.store import reading
from retriever.store.connection import Connection
from retriever.store.reading import outline_tree

NO_TITLE = "(no title)"
MAX_FAMILY = 50  # children that are shown beside those that are lit or open; a link leads to the list of all
MAX_LISTED = 2_000  # in that list
MAX_DEPTH = 30  # levels that are open in one page: browsers do not nest without end


@dataclass(frozen=True, slots=True)
class Outline:
    """The tree of an index without its texts, as people read it."""

    tree: DocumentTree
    folder_names: Mapping[str, str]  # node ids of the indexed folders -> their own names

    def find(self, node_id: str) -> Node | None:
        return self.tree.node(node_id) if node_id in self.tree else None

    def label(self, node_id: str) -> str:
        """Return a node's title, else its file's name, at most MAX_SHOWN_TITLE characters; an unknown node's id."""
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
        """Return the node and its siblings, in document order."""
        parent = self.tree.parent(node_id)
        return self.tree.children(parent.id) if parent else self.roots()

    def roots(self) -> list[Node]:
        return list(self.tree.walk(depth=0))


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
    below: "tuple[Branch, ...]"  # empty unless it is open
    hidden: int  # how many of its children are not in `below` though it is open


def read_outline(connection: Connection) -> Outline:
    """Return the outline of an index, in a snapshot of it."""
    names = {folder_id(item.prefix, ""): PurePath(item.path).name or "/" for item in reading.folders(connection)}
    return Outline(outline_tree(connection), names)


def draw_tree(outline: Outline, hits: Mapping[str, int] | None = None, here: str = "") -> list[Branch]:
    """Return the roots, open down to the hits (node ids to ranks) and to the node `here`; else the roots alone."""
    ranks = hits or {}
    lit = [node_id for node_id in (*ranks, here) if node_id in outline.tree]
    opened = {node.id for node_id in lit for node in outline.path_to(node_id)[:-1]} | ({here} & set(lit))
    opened = opened or {root.id for root in outline.roots()}
    return [_draw(outline, root, ranks, here, opened, 0) for root in outline.roots()]


def draw_branch(outline: Outline, parent_id: str) -> Branch:
    """Return a node with its children, as many as one list holds, none of them open."""
    return _draw(outline, outline.tree.node(parent_id), {}, "", {parent_id}, 0, MAX_LISTED)


def join_only_section(outline: Outline, file: Node) -> Node:
    """Return the section that is all of a file and has its title, for the two are shown as one; else the node."""
    if file.kind is NodeKind.FILE and file.span is None:
        children = outline.tree.children(file.id)
        if len(children) == 1 and outline.label(children[0].id) == outline.label(file.id):
            return children[0]
    return file


def _draw(
    outline: Outline,
    file: Node,
    ranks: Mapping[str, int],
    here: str,
    opened: set[str],
    depth: int,
    most: int = MAX_FAMILY,
) -> Branch:
    node = join_only_section(outline, file)
    children = outline.tree.children(node.id)
    is_open = bool({node.id, file.id} & opened) and bool(children) and depth < MAX_DEPTH
    wanted = {*opened, *ranks, here}
    shown = [child for place, child in enumerate(children) if place < most or child.id in wanted] if is_open else []
    return Branch(
        node=node,
        kind=file.kind,
        label=outline.label(node.id) + ("/" if node.kind is NodeKind.FOLDER else ""),
        has_children=bool(children),
        is_open=is_open,
        rank=ranks.get(node.id),
        is_here=here in {node.id, file.id},
        below=tuple(_draw(outline, child, ranks, here, opened, depth + 1) for child in shown),
        hidden=len(children) - len(shown) if is_open else 0,
    )
