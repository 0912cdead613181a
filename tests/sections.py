"""Nodes for tests of what is made of one."""

from pageindex.blocks import BlockKind, read_blocks
from pageindex.node import Node, NodeKind, Span
from pageindex.units import read_units


def make_node(
    text: str,
    node_id: str = "a.md#a",
    title: str = "A",
    breadcrumb: tuple[str, ...] = (),
    *,
    first: int = 1,
    level: int = 2,
) -> Node:
    """A section of this text, or a file where the level is 0, as parsing gives it."""
    kind = NodeKind.SECTION if level else NodeKind.FILE
    span = Span(first, first + text.rstrip("\n").count("\n"))
    blocks = read_blocks(text, first)
    units = tuple(read_units([block for block in blocks if block.kind is not BlockKind.HEADING]))
    path = node_id.partition("#")[0]
    return Node(node_id, kind, path, title, level, breadcrumb, span, text, units=units, blocks=tuple(blocks))
