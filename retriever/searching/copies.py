"""Copies: versions of a page, backups, what a program that syncs left behind. One of them is a hit, for all."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from retriever.searching.view import View
from retriever.store import reading
from retriever.types import Candidate

SHOWN = 3  # files that a hit names as its copies


def join_copies(view: View, fused: Sequence[Candidate], words: Sequence[str]) -> tuple[Candidate, ...]:
    """Return the candidates without those that have the text of another one, which names them as its copies.

    Of several the one stands for all whose path says most of the question; then the one without a number in its path,
    as versions and copies have them; then the one of the shortest path, and of the highest numbers, the newest.

    Args:
        view: the index.
        fused: best first.
        words: the question's, as BM25 reads them.
    """
    headings = {item.node_id: item.node_id.partition("#")[2].rpartition("/")[2].partition("~")[0] for item in fused}
    times = Counter(headings.values())
    alike = [node_id for node_id, heading in headings.items() if times[heading] > 1]  # other texts need not be read
    texts = reading.texts_without_front_matter(view.connection, alike) if alike else {}
    groups: dict[str, list[Candidate]] = {}
    for item in fused:
        groups.setdefault(" ".join(texts.get(item.node_id, "").split()) or item.node_id, []).append(item)
    joined = []
    for group in groups.values():
        if len(group) > 1:
            covered = view.lexical.coverage(words, view.tree.keys([item.node_id for item in group]))
            shares = {item.node_id: round(share, 6) for item, share in zip(group, covered, strict=True)}
            best, *others = sorted(group, key=lambda item: (-shares[item.node_id], *rank_path(item.node_id)))
            copies = tuple(item.node_id for item in others)
            # The place of the group is that of its first; what matched is where its own text has it.
            matched = {item.source: item.matched for item in best.evidence}
            evidence = (replace(item, matched=matched.get(item.source)) for item in group[0].evidence)
            group = [replace(group[0], node_id=best.node_id, evidence=tuple(evidence), copies=copies)]
        joined += group
    return tuple(joined)


def rank_path(node_id: str) -> tuple[bool, int, list[int], int, str]:
    """Return what is less for the path of the original, or the newest, of several copies."""
    path = node_id.partition("#")[0]
    numbers = [int(number) for number in "".join(sign if sign.isdecimal() else " " for sign in path).split()]
    return bool(numbers), path.count("/"), [-number for number in numbers], len(path), node_id


def name_copies(node_id: str, copies: Iterable[str]) -> str:
    """Return `the same in old/page.md, page 2.md and 3 others`; empty without copies in other files."""
    files = list(dict.fromkeys(item.partition("#")[0] for item in (node_id, *copies)))[1:]
    more = f" and {len(files) - SHOWN} others" if len(files) > SHOWN else ""
    return f"the same in {', '.join(files[:SHOWN])}{more}" if files else ""
