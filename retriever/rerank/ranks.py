"""Orders and what their ranks are worth. Pure."""

from collections.abc import Iterable, Sequence
from math import log2


def worth(rank: int) -> float:
    """What a rank (from 1) is worth: 1 / log2(1 + rank), so 1, .63, .5 ... .2 at 30.

    The discount of DCG (Järvelin and Kekäläinen, TOIS 2002): a step counts for most among the first ranks.
    """
    return 1.0 / log2(1 + rank)


def completed(named: Iterable[int], items: Sequence[int]) -> list[int]:
    """A permutation of the items, whatever was named.

    What is no item is left out, a repeated one counts where it first stands, those not named follow in their own order.
    """
    known = set(items)
    return list(dict.fromkeys([*(item for item in named if item in known), *items]))


def merged(orders: Sequence[Sequence[int]]) -> list[int]:
    """One order of several of the same items, by the sum of their ranks (Borda); ties in the order of the items."""
    ranks = dict.fromkeys(orders[0], 0)
    for order in orders:
        for rank, item in enumerate(order):
            ranks[item] += rank
    return sorted(ranks, key=lambda item: (ranks[item], item))
