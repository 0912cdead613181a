"""The tree around the hits: parents, children, siblings and the top of a file, each with a decayed score."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from retriever.places.view import StoredTree, View
from retriever.searching.fusion import best_of_each, reciprocal_rank_fusion, sort_ranked
from retriever.settings import Profile
from retriever.types import Ranked, Ranking, Relation, RelationKind, Source

NEIGHBOR_WEIGHT = 0.1  # of their ranking in the fusion
NEIGHBOR_SHARE = 0.2  # of the candidates: more took places of direct hits that answer (docs/internals/ranking.md)


def add_neighbors(view: View, rankings: Sequence[Ranking], profile: Profile) -> list[Ranking]:
    """Return the rankings with what the tree adds to them: a list of its own, or of `classic` more of the semantic one.

    Args:
        view: the index.
        rankings: what was found directly.
        profile: how far to look, and how the rankings become one: neighbors have decayed scores of the fusion.
    """
    if not profile.neighbor_depth and not profile.candidate_file_roots:
        return list(rankings)
    if profile.ranking == "classic":
        return [
            replace(own, items=sort_ranked([*own.items, *look_around(view, own.items, own.items, profile)]))
            if own.source is Source.SEMANTIC
            else own
            for own in rankings
        ]
    fused = reciprocal_rank_fusion(rankings, profile.rrf_k)[: profile.candidate_cap]
    hits = [Ranked(candidate.node_id, candidate.score) for candidate in fused]
    known = [item for ranking in rankings for item in ranking.items]
    # A section may have ten thousand children: each counts by this list alone, and no more of them than become
    # candidates. Where words alone found little, what stands around the first hit is no better than the second.
    around = look_around(view, hits, known, profile)[: int(profile.candidate_cap * NEIGHBOR_SHARE)]
    evidence = max((item.evidence for item in known), default=0.0)
    items = tuple(item._replace(evidence=evidence) for item in around)
    return [*rankings, Ranking(Source.NEIGHBORS, "decayed rrf", NEIGHBOR_WEIGHT, items)]


def look_around(view: View, hits: Sequence[Ranked], known: Iterable[Ranked], profile: Profile) -> tuple[Ranked, ...]:
    """Return what is shown for the nodes around the hits, best first, without those that are known or not allowed."""
    view.tree.load_nodes(hit.node_id for hit in hits)
    found = [*find_neighbors(hits, view.tree, profile), *find_file_roots(hits, view.tree, profile)]
    shown = best_of_each(item._replace(node_id=view.tree.holder(item.node_id)) for item in found)
    ids = {item.node_id for item in known}
    return view.keep_allowed([item for item in shown if item.node_id not in ids])


def find_neighbors(hits: Sequence[Ranked], tree: StoredTree, profile: Profile) -> tuple[Ranked, ...]:
    """Return the nodes around the hits, without the hits themselves; best first, ties by node id. Pure.

    A node that several hits bring in has the largest of the scores that they give it. Only nodes with lines of their
    own are neighbors, but the way to one may lead over others.
    """
    reached: list[Ranked] = []
    frontier: Sequence[Ranked] = hits
    for _ in range(profile.neighbor_depth):
        found = list[Ranked]()
        for hit in frontier:
            parent = tree.parent(hit.node_id)
            for kind, decay, nodes in (
                (RelationKind.PARENT, profile.parent_decay, [parent] if parent else []),
                (RelationKind.CHILD, profile.child_decay, tree.children(hit.node_id)),
                (RelationKind.SIBLING, profile.sibling_decay, tree.siblings(hit.node_id, profile.siblings_per_node)),
            ):
                found += [Ranked(node.id, hit.score * decay, via=Relation(kind, hit.node_id)) for node in nodes]
        frontier = best_of_each(found)
        reached += frontier
    direct = {hit.node_id for hit in hits}
    return tuple(item for item in best_of_each(reached) if item.node_id not in direct and tree.node(item.node_id).span)


def find_file_roots(hits: Iterable[Ranked], tree: StoredTree, profile: Profile) -> tuple[Ranked, ...]:
    """Return the top section of each of the best files, with its best hit's decayed score; hits best first."""
    best: dict[str, Ranked] = {}
    for hit in hits:
        if len(best) == profile.candidate_file_roots:
            break
        # The file itself, or its first heading where it has no lines of its own.
        top = tree.sections(tree.document_key(hit.node_id))[0]
        found = Ranked(top.id, hit.score * profile.parent_decay, via=Relation(RelationKind.FILE, hit.node_id))
        best.setdefault(top.id, found)
    return tuple(best.values())
