"""Copies: versions of a page, backups, what a program that syncs left behind. One of them is a hit, for all."""

from collections.abc import Iterable, Mapping, Sequence

from retriever.types import Candidate, Source

SHOWN = 3  # files that a hit names as its copies


def join_copies(fused: Sequence[Candidate], hashes: Mapping[str, bytes]) -> tuple[Candidate, ...]:
    """Return the candidates without those that have the text of another one, which names them as its copies.

    Of several the one stands for all that words find best: its path says more of the question, or is shorter. Of equal
    ones that without a number in its path, as versions and copies have them, or of the highest, the newest.

    Args:
        fused: best first.
        hashes: of their texts, by their ids; those without text are left out.
    """
    groups: dict[bytes | str, list[Candidate]] = {}
    for item in fused:
        groups.setdefault(hashes.get(item.node_id, item.node_id), []).append(item)
    return tuple(choose_copy(group) if len(group) > 1 else group[0] for group in groups.values())


def choose_copy(group: Sequence[Candidate]) -> Candidate:
    """Return the one of several copies that is shown, in the place of the first."""
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


def name_copies(node_id: str, copies: Iterable[str]) -> str:
    """Return `the same in old/page.md, page 2.md and 3 others`; empty without copies in other files."""
    files = list(dict.fromkeys(item.partition("#")[0] for item in (node_id, *copies)))[1:]
    more = f" and {len(files) - SHOWN} others" if len(files) > SHOWN else ""
    return f"the same in {', '.join(files[:SHOWN])}{more}" if files else ""
