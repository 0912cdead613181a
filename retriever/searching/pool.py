"""Which of the fused candidates are kept. Pure."""

from collections.abc import Iterator, Sequence

from retriever.types import Candidate


def pooled(candidates: Sequence[Candidate], cap: int, neighbor_share: float) -> tuple[Candidate, ...]:
    """The first `cap` candidates, of which those that only the tree brought in take at most their share.

    More of them come in where there is nothing else: a place that would stay empty costs no direct hit.

    Args:
        candidates: best first.
        cap: how many to keep.
        neighbor_share: of the cap, 0 to 1.
    """
    if len(candidates) <= cap:
        return tuple(candidates)
    kept = set(_within_share(candidates, int(cap * neighbor_share)))
    rest = [place for place in range(len(candidates)) if place not in kept]
    chosen = sorted([*sorted(kept)[:cap], *rest[: max(0, cap - len(kept))]])
    return tuple(candidates[place] for place in chosen)


def _within_share(candidates: Sequence[Candidate], most: int) -> Iterator[int]:
    """The places of the direct hits and of the first `most` others."""
    for place, candidate in enumerate(candidates):
        is_direct = any(item.arm != "neighbors" and item.arm != "late" for item in candidate.evidence)
        most -= not is_direct
        if is_direct or most >= 0:
            yield place
