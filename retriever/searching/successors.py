"""Pages that say that another one holds in their place: `superseded_by: 0007-queue.md` in the front matter.

Such a page ranks below the other one. Both are read by the same words, and the newer one may have fewer of them.
"""

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from retriever.lexical.names import spell_name
from retriever.lexical.properties import SUCCESSOR_KEYS
from retriever.searching.open_index import View
from retriever.store import reading
from retriever.types import Candidate

MOST_NAMED = 5  # sections of the name of a successor


def rank_below_successors(
    view: View,
    candidates: Sequence[Candidate],
    documents: Mapping[str, int],
    fields: Mapping[int, Sequence[tuple[str, str]]],
) -> list[Candidate]:
    """Return the candidates, those of a superseded document below the first one of its successor; else in their order.

    Args:
        view: the index.
        candidates: best first.
        documents: the key of the document of each node.
        fields: the front matter of each document.
    """
    paths = [find_path(candidate.node_id) for candidate in candidates]
    below: dict[str, int] = {}  # the path of a superseded document -> the place of the first section of its successor
    for path, candidate in zip(paths, candidates, strict=True):
        for key, value in fields.get(documents[candidate.node_id], ()) if path not in below else ():
            places = [paths.index(other) for other in find_successors(view, key, value) if other in paths]
            if places:
                below[path] = min(places)
    order = sorted(enumerate(paths), key=lambda item: max(item[0], below.get(item[1], -1) + 0.5))
    return [candidates[place] for place, _ in order]


def find_successors(view: View, key: str, value: str) -> set[str]:
    """Return the documents that a property names as successor, by file name, path, title or link."""
    if key not in SUCCESSOR_KEYS:
        return set()
    name = value.strip("[]\"' ").partition("|")[0].partition("#")[0]
    stem = PurePosixPath(name).stem if "/" in name or name.endswith((".md", ".mdx")) else name
    return {find_path(node_id) for node_id, _ in reading.nodes_named(view.connection, spell_name(stem), MOST_NAMED)}


def find_path(node_id: str) -> str:
    """Return the document that a node is of, as its id has it."""
    return node_id.partition("#")[0]
