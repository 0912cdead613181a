"""How likely a page is to answer anything, before a question is asked: lists of links and logs rarely do. Pure.

Link density tells navigation from content (Kohlschütter, Fankhauser and Nejdl, "Boilerplate detection using shallow
text features", WSDM 2010). Titles that come back over and over in one file ("Fixes", "Features") are those of a log.
Both are read from the structure, so that a changelog counts as one under any name.
"""

import re
from collections import Counter
from collections.abc import Sequence
from math import log2

from pageindex.node import Node

# A title as often in one file as this is of no use at all; once is normal; between, by the logarithm.
REPEATS_OF_A_LOG = 256
# Bounded, and without what begins a link inside of one, so that the time is linear in the text whatever it holds.
_LINK = re.compile(r"\[[^\[\]\n]{0,300}\]\([^()\n]{0,500}\)|https?://[^\s<>]{1,500}")
_SPACE = re.compile(r"\s+")


def boilerplate(nodes: Sequence[Node]) -> float:
    """The mean over a file's nodes with lines of link density and title repetition, each 0 to 1; at most 1."""
    rankable = [node for node in nodes if node.span]
    if not rankable:
        return 0.0
    times = Counter(node.title for node in rankable)
    repetition = sum(log2(times[node.title]) / log2(REPEATS_OF_A_LOG) for node in rankable)
    density = sum(link_density(node.body) for node in rankable)
    return min(1.0, (repetition + density) / len(rankable))


def link_density(text: str) -> float:
    """The share of links, with all their markup, in the characters of a Markdown text; spaces and headings aside."""
    body = "\n".join(line for line in text.split("\n") if not line.startswith("#"))
    length = len(_SPACE.sub("", body))
    return sum(len(_SPACE.sub("", link[0])) for link in _LINK.finditer(body)) / length if length else 0.0
