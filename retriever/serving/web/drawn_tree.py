"""The tree of documents as nested lists: the way to what is lit, and what stands beside it where that is not much."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from pageindex.node import Node, NodeKind, folder_id
from pageindex.tree import MAX_SHOWN_TITLE, DocumentTree
from retriever.store import reading
from retriever.store.database import Connection
from retriever.store.reading import outline_tree

NO_TITLE = "(no title)"
SMALL_FAMILY = 16  # children that are all shown; of a larger family those that are lit or lead to what is
MAX_LIT = 200  # children of one family that are shown at once
MAX_DEPTH = 30  # levels that are open in one page: browsers do not nest without end


@dataclass(frozen=True, slots=True)
class Outline:
    """The tree of an index without its texts, as people read it."""

    tree: DocumentTree
    folder_names: Mapping[str, str]  # node ids of the indexed folders -> their own names

    def find(self, node_id: str) -> Node | None:
        return self.tree.node(node_id) if node_id in self.tree else None

    def label(self, node_id: str) -> str:
        """Return its title, else its file's name, at most MAX_SHOWN_TITLE characters; the id of an unknown node."""
        node = self.find(node_id)
        if node is None:
            return node_id
        file_name = PurePath(node.path).name if node.kind is NodeKind.FILE else NO_TITLE
        label = self.folder_names.get(node_id) or node.title.strip() or file_name
        label = label if len(label) <= MAX_SHOWN_TITLE else f"{label[: MAX_SHOWN_TITLE - 1]}…"
        return f"{label}/" if node.kind is NodeKind.FOLDER else label

    def path_to(self, node_id: str) -> list[Node]:
        path = [self.tree.node(node_id)]
        while parent := self.tree.parent(path[-1].id):
            path.append(parent)
        return path[::-1]


@dataclass(frozen=True, slots=True)
class Branch:
    """A node as it is drawn; a file that is one section of its name is drawn as that section."""

    node: Node
    kind: NodeKind  # the file's, where a section is drawn in its place
    label: str
    rank: int | None  # of the hit that it is
    is_here: bool  # whether it is what is being read
    below: "tuple[Branch, ...]"
    more: int  # children that are not drawn, of a node that is open


def read_outline(connection: Connection) -> Outline:
    """Read the outline of an index, in a snapshot of it."""
    names = {folder_id(item.prefix, ""): PurePath(item.path).name or "/" for item in reading.folders(connection)}
    return Outline(outline_tree(connection), names)


def draw_tree(outline: Outline, hits: Mapping[str, int] | None = None, here: str = "") -> list[Branch]:
    """Return the roots, open down to the hits (node ids to ranks) and to the node `here`."""
    ranks = hits or {}
    lit = {node_id for node_id in (*ranks, here) if node_id in outline.tree}
    opened = {node.id for node_id in lit for node in outline.path_to(node_id)[:-1]} | ({here} & lit)

    def draw(file: Node, depth: int) -> Branch:
        node = join_only_section(outline, file)
        children = outline.tree.children(node.id) if {node.id, file.id} & opened and depth < MAX_DEPTH else ()
        shown = [child for child in children if child.id in opened | lit]
        if len(children) <= SMALL_FAMILY:
            shown = list(children)
        return Branch(
            node=node,
            kind=file.kind,
            label=outline.label(node.id),
            rank=ranks.get(node.id),
            is_here=here in {node.id, file.id},
            below=tuple(draw(child, depth + 1) for child in shown[:MAX_LIT]),
            more=len(children) - len(shown[:MAX_LIT]),
        )

    return [draw(root, 0) for root in outline.tree.walk(depth=0)]


def join_only_section(outline: Outline, file: Node) -> Node:
    """Return the section that is all of a file and has its title, shown as one; else the node itself."""
    if file.kind is NodeKind.FILE and file.span is None:
        children = outline.tree.children(file.id)
        if len(children) == 1 and outline.label(children[0].id) == outline.label(file.id):
            return children[0]
    return file
