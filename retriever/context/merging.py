"""Which sections belong into a context: families completed where most children were found, no text twice. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol

from pageindex.node import Node
from retriever.context.sections import Section

LEAST_FOUND = 2
"""A parent with one child says little more than the child: it takes so many found children, and more than half."""


class Outline(Protocol):
    """The part of a DocumentTree that families are found with."""

    def node(self, node_id: str) -> Node:
        """A node."""

    def parent(self, node_id: str) -> Node | None:
        """The node that contains it."""

    def children(self, node_id: str) -> Sequence[Node]:
        """The nodes that it contains, in document order."""


def completing(found: Sequence[str], outline: Outline) -> tuple[str, ...]:
    """What completes the families of which most children were found: the parents, and the children not found.

    So a parent takes the place of its children: its own text and theirs follow one another and are quoted as one. A
    completed family counts as found for the family above it.

    Args:
        found: node ids, best first.
        outline: their documents.

    Returns:
        Node ids with lines of their own that are not among the found; those of the best hits first, in document order.
    """
    known = dict.fromkeys(found)
    level = list(found)
    while level:
        parents = [parent.id for parent in map(outline.parent, level) if parent is not None]
        level = [parent for parent in dict.fromkeys(parents) if _is_mostly_found(parent, known, outline)]
        level = [parent for parent in level if not _is_whole(parent, known, outline)]
        for parent in level:
            known |= dict.fromkeys([parent, *(child.id for child in outline.children(parent))])
    return tuple(node_id for node_id in known if node_id not in set(found) and outline.node(node_id).span)


def _is_mostly_found(parent: str, known: Iterable[str], outline: Outline) -> bool:
    counts = Counter(child.id in known for child in outline.children(parent))
    return counts[True] >= LEAST_FOUND and counts[True] > counts[False]


def _is_whole(parent: str, known: Iterable[str], outline: Outline) -> bool:
    return parent in known and all(child.id in known for child in outline.children(parent))


def without_repeats(sections: Sequence[Section]) -> tuple[list[Section], dict[str, Section]]:
    """The sections, each text once; and for those that go, by node id, the first one with their text."""
    first: dict[str, Section] = {}
    repeats = {}
    for section in sections:
        kept = first.setdefault(section.text.strip(), section)
        if kept is not section:
            repeats[section.node_id] = kept
    return [section for section in sections if section.node_id not in repeats], repeats
