"""The worth of a text before a question is asked: its first sentences, and whether it is likely to answer anything.

Lists of links and logs rarely do. Link density tells navigation from content (Kohlschütter, Fankhauser and Nejdl,
"Boilerplate detection using shallow text features", WSDM 2010). Titles that come back over and over in one file
("Fixes", "Features") are those of a log. Both are read from the structure, so that a changelog counts as one under any
name.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from math import log2

from pageindex.node import JOINT, Node, Unit, pick_pieces, show_units
from pageindex.text import cut_text

MAX_SUMMARY_CHARS = 420
# A title as often in one file as this is of no use at all; once is normal; between, by the logarithm.
REPEATS_OF_A_LOG = 256


def summarize(units: Iterable[Unit]) -> str:
    """Return the first words of a text, at most `MAX_SUMMARY_CHARS` characters: whole sentences where possible."""
    text = "".join(f"{shown}{JOINT if shown[-1].isalnum() else ' '}" for shown in show_units(units))
    start, end = next(cut_text(text, MAX_SUMMARY_CHARS), (0, 0))
    return text[start:end].rstrip(JOINT)


def boilerplate(nodes: Sequence[Node]) -> float:
    """Return the mean over a file's nodes with lines of link density and title repetition, each 0 to 1; at most 1."""
    rankable = [node for node in nodes if node.span]
    if not rankable:
        return 0.0
    times = Counter(node.title for node in rankable)
    repetition = sum(log2(times[node.title]) / log2(REPEATS_OF_A_LOG) for node in rankable)
    density = sum(link_density(node.units) for node in rankable)
    return min(1.0, (repetition + density) / len(rankable))


def link_density(units: Iterable[Unit]) -> float:
    """Return the share of the texts of links in what a page shows, 0 to 1."""
    pieces = pick_pieces(units)
    length = sum(len(unit.text) for unit in pieces)
    return sum(unit.linked for unit in pieces) / length if length else 0.0
