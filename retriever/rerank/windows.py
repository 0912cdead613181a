"""More candidates than can be compared at once: they meet in windows, and the winners meet again. Pure."""

from collections.abc import Callable, Sequence

Fits = Callable[[Sequence[int]], bool]
"""Whether these items can be compared at once; any two can."""
Compare = Callable[[Sequence[int]], Sequence[int]]
"""Items in an order -> the same items, best first."""


def dealt(items: Sequence[int], fits: Fits) -> list[Sequence[int]]:
    """As few windows as fit, dealt out like cards.

    Each gets items from the whole of the order, so that the best of it do not meet before the last round.
    """
    for count in range(1, len(items) + 1):
        windows = [items[place::count] for place in range(count)]
        if all(fits(window) for window in windows):
            return windows
    raise ValueError("a single item does not fit")


def tournament(items: Sequence[int], fits: Fits, compare: Compare) -> list[int]:
    """The items, best first: the better half of each window meets again until one window holds them.

    Those who are out stand behind those who are in, by their places in their windows.

    Args:
        items: best first, as far as is known: rising numbers. That order decides where the windows do not.
        fits: what a window can hold.
        compare: ranks one window.
    """
    windows = dealt(items, fits)
    ranked = [list(compare(window)) for window in windows]
    if len(ranked) == 1:
        return ranked[0]
    placed = sorted((place, item) for window in ranked for place, item in enumerate(window))
    half = {item for window in ranked for item in window[: -(-len(window) // 2)]}
    winners = [item for _, item in placed if item in half]
    return [*tournament(winners, fits, compare), *(item for _, item in placed if item not in half)]
