"""Rankings: chunks become sections, several rankings one, and several copies of a text one candidate.

All but `read_priors` takes values and returns values.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import log2

from retriever.places.view import View
from retriever.settings import Profile
from retriever.store import reading
from retriever.types import Candidate, Evidence, Ranked, Ranking, Source

NO_PRIORS: Mapping[str, float] = {}
SECOND_SHARE = 0.3  # of a section's score, what its second chunk says; nDCG@10 with 0, .3 and .5: .688, .701, .693
NO_SECOND = 0.7  # of the best chunk's cosine: what counts for a second one that was not found


def read_priors(view: View, rankings: Sequence[Ranking], profile: Profile) -> tuple[dict[str, float], dict[str, bytes]]:
    """Return the priors of the sections in some rankings, 0 to 1, and the hashes of their texts, by their ids.

    A prior says how likely a section is an answer to any question. Another property of sections that should count is
    another factor here, and nowhere else.
    """
    ids = {item.node_id for ranking in rankings for item in ranking.items}
    rows = reading.traits(view.connection, ids)
    priors = {node_id: 1 - profile.page_prior * share for node_id, share, _ in rows}
    return priors, {node_id: body_hash for node_id, _, body_hash in rows if body_hash}


def reciprocal_rank_fusion(
    rankings: Sequence[Ranking], k: float, priors: Mapping[str, float] = NO_PRIORS
) -> tuple[Candidate, ...]:
    """Add, over the rankings that hold a node, weight * evidence * prior / (k + rank), with ranks from 1.

    Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and individual rank learning methods",
    SIGIR 2009, with a weight for each ranking, evidence for each node in it, and a prior for each node: a rank says
    nothing of how much was found, and the first of a list that found little is no better than the tenth of one that
    found much. With all of them 1 it is the paper's. `k` damps the lead of the first ranks; it is no cut-off.

    Args:
        rankings: each best first, each node once; a ranking of weight 0 gives no evidence.
        k: above 0; 60 in the paper.
        priors: how likely a node is an answer to any question, 0 to 1, by its id; 1 where nothing is said.

    Returns:
        The nodes of the rankings, best first, ties by node id.
    """
    by_node: dict[str, list[Evidence]] = {}
    for ranking in rankings:
        for rank, item in enumerate(ranking.items if ranking.weight else (), start=1):
            share = ranking.weight * item.evidence * priors.get(item.node_id, 1.0) / (k + rank)
            own = Evidence(ranking.source, rank, item.score, ranking.scale, share, item.matched, item.via, item.note)
            by_node.setdefault(item.node_id, []).append(own)
    for found in by_node.values():
        found.sort(key=lambda own: -own.share)  # equal shares stay in the order of the rankings
    scores = {node_id: sum(own.share for own in found) for node_id, found in by_node.items()}
    best = sorted(scores, key=lambda node_id: (-scores[node_id], node_id))
    return tuple(Candidate(node_id, scores[node_id], tuple(by_node[node_id])) for node_id in best)


def rank_by_two_chunks(hits: Iterable[Ranked]) -> tuple[Ranked, ...]:
    """Do as `best_of_each` for chunk hits, with a share of the score for a node's second chunk.

    Two chunks near the question are better evidence than one, which may be near by chance.
    """
    by_node: defaultdict[str, list[Ranked]] = defaultdict(list)
    for hit in sort_ranked(hits):
        by_node[hit.node_id].append(hit)
    items = []
    for best, *others in by_node.values():
        second = others[0].score if others else NO_SECOND * best.score
        score = (1 - SECOND_SHARE) * best.score + SECOND_SHARE * second
        items.append(Ranked(best.node_id, score, matched=best.matched))
    return sort_ranked(items)


def rank_by_distance_and_rank(hits: Iterable[Ranked]) -> tuple[Ranked, ...]:
    """Do as `best_of_each` for chunk hits, with a chunk's cosine weighed by its rank: cosine / log2(1 + rank).

    The discount is the one of DCG (Järvelin and Kekäläinen, TOIS 2002).
    """
    ranks = enumerate(sort_ranked(hits), start=1)
    return best_of_each(Ranked(hit.node_id, hit.score / log2(1 + rank), matched=hit.matched) for rank, hit in ranks)


def best_of_each(items: Iterable[Ranked]) -> tuple[Ranked, ...]:
    """Return each node's item with the highest score, the first of several; best first, ties by node id."""
    return tuple(first_of_each(sort_ranked(items)))


def sort_ranked(items: Iterable[Ranked]) -> tuple[Ranked, ...]:
    """Sort the items: best first, ties by node id."""
    return tuple(sorted(items, key=lambda item: (-item.score, item.node_id)))


def first_of_each(items: Iterable[Ranked]) -> list[Ranked]:
    """Return the first item of each node, in the order of the items."""
    best: dict[str, Ranked] = {}
    for item in items:
        best.setdefault(item.node_id, item)
    return list(best.values())


def join_copies(fused: Sequence[Candidate], hashes: Mapping[str, bytes]) -> tuple[Candidate, ...]:
    """Return the candidates without those that have the text of another one, which names them as its copies.

    Copies are versions of a page, backups, and what a program that syncs left behind.
    Of several the one stands for all that words find best: its path says more of the question, or is shorter. Of equal
    ones that without a number in its path, as versions and copies have them, or of the highest, the newest.

    Args:
        fused: best first.
        hashes: of their texts, by their ids; those without text are left out.
    """
    groups: dict[bytes | str, list[Candidate]] = {}
    for item in fused:
        groups.setdefault(hashes.get(item.node_id, item.node_id), []).append(item)
    return tuple(map(choose_copy, groups.values()))


def choose_copy(group: Sequence[Candidate]) -> Candidate:
    """Return the one of the copies of a text that is shown, at the rank of the first.

    >>> found = [Evidence(Source.KEYWORD, 1, score, "bm25", 0.1) for score in (7.0, 8.0)]
    >>> def choose(**scores: float) -> str:
    ...     return choose_copy([Candidate(f"{path}.md#a", 0.1, (found[key],)) for path, key in scores.items()]).node_id
    >>> choose(old=0, new=1), choose(page_2=0, page=0), choose(v9=0, v10=0), choose(longer=0, long=0), choose(b=0, a=0)
    ('new.md#a', 'page.md#a', 'v10.md#a', 'long.md#a', 'a.md#a')
    """
    first, best = group[0], min(group, key=rank_copy)
    # What matched is where its own text has it.
    matched = {item.source: item.matched for item in best.evidence}
    evidence = tuple(item._replace(matched=matched.get(item.source)) for item in first.evidence)
    copies = tuple(sorted({item.node_id for item in group} - {best.node_id}))
    return first._replace(node_id=best.node_id, evidence=evidence, copies=copies)


def rank_copy(item: Candidate) -> tuple[float, list[int], int, str]:
    """Return what is less for the one of several copies that is shown."""
    path = item.node_id.partition("#")[0]
    numbers = "".join(sign if sign.isdecimal() else " " for sign in path).split()
    score = sum(own.score for own in item.evidence if own.source is Source.KEYWORD)
    return -score, [-int(number) for number in numbers], len(path), item.node_id
