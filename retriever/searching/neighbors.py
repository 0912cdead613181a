"""The tree around the hits: parents, children, siblings and linked sections, each with a decayed score."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from retriever.searching.fusion import best_of_each, first_of_each, reciprocal_rank_fusion, sort_ranked
from retriever.searching.view import StoredTree, View
from retriever.settings.schema import Profile
from retriever.store.reading import OutlineNode
from retriever.types import Ranked, Ranking, Relation, RelationKind, Source

NEIGHBOR_WEIGHT = 0.1  # of their ranking in the fusion
NEIGHBOR_SHARE = 0.2  # of the candidates: more of them took places of direct hits that answer (docs/guide/profiles.md)
LINK_DECAY = 0.5  # of a score, over a link: it says less of what stands at its end than the tree does


def add_neighbors(view: View, rankings: Sequence[Ranking], profile: Profile) -> list[Ranking]:
    """Return the rankings with what the tree adds to them: a list of its own, or more of each semantic list.

    Args:
        view: the index.
        rankings: what was found directly.
        profile: how far to look, and how the rankings become one: neighbors have decayed scores of the fusion.
    """
    if not profile.neighbor_depth and not profile.candidate_file_roots:
        return list(rankings)

    def look_around(hits: Sequence[Ranked]) -> tuple[Ranked, ...]:
        view.tree.load_links(hit.node_id for hit in hits)
        roots = find_file_roots(hits, view.tree, profile.candidate_file_roots, profile.parent_decay)
        found = best_of_each([*find_neighbors(hits, view.tree, profile), *roots])
        shown = (replace(item, node_id=view.tree.holder(item.node_id)) for item in found)
        taken = {hit.node_id for hit in hits}
        return view.keep_allowed([item for item in first_of_each(shown) if item.node_id not in taken])

    if profile.ranking == "classic":
        return [
            replace(item, items=best_of_each([*item.items, *look_around(item.items)]))
            if item.source is Source.SEMANTIC
            else item
            for item in rankings
        ]
    fused = reciprocal_rank_fusion(rankings, profile.rrf_k, profile.candidate_cap)
    best = [Ranked(candidate.node_id, candidate.score) for candidate in fused]
    known = {item.node_id for ranking in rankings for item in ranking.items}
    # Each has the evidence of this list alone, so that none behind as many others can become a candidate; a section
    # may have ten thousand children.
    limit = int(max(profile.candidate_cap, profile.top_k) * NEIGHBOR_SHARE)
    # Where words alone found little, what stands around the first hit is no better than the second.
    evidence = max((item.evidence for ranking in rankings for item in ranking.items), default=0.0)
    items = tuple(replace(item, evidence=evidence) for item in look_around(best) if item.node_id not in known)[:limit]
    return [*rankings, Ranking(Source.NEIGHBORS, "decayed rrf", NEIGHBOR_WEIGHT, items)]


def find_neighbors(hits: Sequence[Ranked], tree: StoredTree, profile: Profile) -> tuple[Ranked, ...]:
    """Return the nodes around the hits, without the hits themselves; best first, ties by node id. Pure.

    A node that several hits bring in has the largest of the scores that they give it. Only nodes with lines of their
    own are neighbors, but the way to one may lead over others.
    """
    best = {hit.node_id: hit for hit in hits}
    frontier = list(hits)
    for _ in range(profile.neighbor_depth):
        reached: list[Ranked] = []
        for hit in frontier:
            parent = tree.parent(hit.node_id)
            steps: tuple[tuple[RelationKind, float, Sequence[OutlineNode]], ...] = (
                (RelationKind.PARENT, profile.parent_decay, [parent] if parent else []),
                (RelationKind.CHILD, profile.child_decay, tree.children(hit.node_id)),
                (
                    RelationKind.SIBLING,
                    profile.sibling_decay,
                    tree.siblings(hit.node_id, profile.siblings_per_node),
                ),
                (RelationKind.LINK, LINK_DECAY, tree.links(hit.node_id)[: profile.links_per_node]),
            )
            reached += [
                Ranked(node.id, hit.score * decay, via=Relation(kind, hit.node_id))
                for kind, decay, nodes in steps
                for node in nodes
            ]
        frontier = [
            item for item in best_of_each(reached) if item.node_id not in best or item.score > best[item.node_id].score
        ]
        best.update((item.node_id, item) for item in frontier)
    direct = {hit.node_id for hit in hits}
    return sort_ranked(item for item in best.values() if item.node_id not in direct and tree.node(item.node_id).span)


def find_file_roots(hits: Iterable[Ranked], tree: StoredTree, count: int, decay: float) -> tuple[Ranked, ...]:
    """Return the top section of each of the `count` best files, with its best hit's decayed score; hits best first."""
    best: dict[str, Ranked] = {}
    for hit in hits:
        if len(best) == count:
            break
        # The file itself, or its first heading where it has no lines of its own.
        top = tree.sections(tree.document_key(hit.node_id))[0]
        best.setdefault(top.id, Ranked(top.id, hit.score * decay, via=Relation(RelationKind.FILE, hit.node_id)))
    return sort_ranked(best.values())
