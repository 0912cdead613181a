"""Pages that say that another one holds in their place: `superseded_by: 0007-queue.md` in the front matter.

Such a page ranks below the other one. Both are read by the same words, and the newer one may have fewer of them.
"""

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from pageindex.node import Node
from retriever.lexical.names import spell_name
from retriever.lexical.properties import SUCCESSOR_KEYS
from retriever.types import Candidate


def rank_below_successors(
    candidates: Sequence[Candidate], nodes: Mapping[str, Node], fields: Mapping[str, Sequence[tuple[str, str]]]
) -> list[Candidate]:
    """Return the candidates, those of a superseded document below the first one of its successor; else in their order.

    Args:
        candidates: best first.
        nodes: theirs, by id.
        fields: the front matter of the document of each node, by the node's id.
    """
    first: dict[str, int] = {}  # what a document is called -> the place of its first section
    for place, candidate in enumerate(candidates):
        node = nodes[candidate.node_id]
        for name in (PurePosixPath(node.path).stem, (*node.breadcrumb, node.title)[0]):
            first.setdefault(spell_name(name), place)

    def sort_key(item: tuple[int, Candidate]) -> float:
        place, candidate = item
        named = (find_name(value) for key, value in fields[candidate.node_id] if key in SUCCESSOR_KEYS)
        return max([place, *(first[name] + 0.5 for name in named if name in first)])

    return [candidate for _, candidate in sorted(enumerate(candidates), key=sort_key)]


def find_name(successor: str) -> str:
    """Return what a property calls a successor, by file name, path, title or link.

    >>> find_name("[[docs/0007-queue.md|the queue]]") == spell_name("0007 queue")
    True
    """
    name = successor.strip("[]\"' ").partition("|")[0].partition("#")[0]
    return spell_name(PurePosixPath(name).stem if "/" in name or name.endswith((".md", ".mdx")) else name)
