"""The worth of a text before a question is asked: its first sentences, and whether it is likely to answer anything.

Lists of links and logs rarely do. Link density tells navigation from content (Kohlschütter, Fankhauser and Nejdl,
"Boilerplate detection using shallow text features", WSDM 2010). Titles that come back over and over in one file
("Fixes", "Features") are those of a log. Both are read from the structure, so that a changelog counts as one under any
name.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import log2

from pageindex.blocks import Block, BlockKind, Inline
from pageindex.node import Node, Unit, UnitKind
from pageindex.text import split_sentences
from pageindex.units import show_block

MAX_SUMMARY_CHARS = 420
MAX_PROSE_CHARS = 2000  # of a paragraph that are looked at
# A title as often in one file as this is of no use at all; once is normal; between, by the logarithm.
REPEATS_OF_A_LOG = 256

_ENDINGS = tuple(".!?…:;,\"'\u201d\u2019\u00bb)\u3002\uff01\uff1f")


def extractive_summary(blocks: Sequence[Block], child_titles: Sequence[str], max_chars: int = MAX_SUMMARY_CHARS) -> str:
    """Return the first sentences of a node's own text, at most `max_chars` characters; never cut inside a word.

    Code, tables, comments, images and the titles of notes are no prose. Without prose the children's titles speak for
    the node; without those it is empty.
    """
    return _join(prose_sentences(blocks), max_chars) or _join(filter(None, child_titles), max_chars)


def prose_sentences(blocks: Iterable[Block]) -> Iterator[str]:
    """Yield the sentences of paragraphs, items and quotes; what is no prose is left out."""
    for block in blocks:
        match block.kind:
            case BlockKind.PARAGRAPH if block.texts:
                yield from split_sentences(_drop_box(block.texts[0]))
            case BlockKind.ITEM:
                texts = (inner.texts[0] for inner in block.blocks if inner.texts)
                yield from split_sentences(" ".join(map(_drop_box, texts)))
                yield from prose_sentences(inner for inner in block.blocks if inner.blocks)
            case BlockKind.CONTAINER | BlockKind.QUOTE | BlockKind.LIST | BlockKind.FOOTNOTE:
                yield from prose_sentences(block.blocks)
            case BlockKind.TERMS | BlockKind.MEANING | BlockKind.TERM | BlockKind.HTML:
                yield from split_sentences(show_block(block)[:MAX_PROSE_CHARS])


def _drop_box(text: Inline) -> str:
    return " ".join(text.text[:MAX_PROSE_CHARS].split()).removeprefix("[ ] ").removeprefix("[x] ")


def _join(parts: Iterable[str], max_chars: int) -> str:
    """Join as many parts as fit, with `; ` after one without an end of its own; shorten the first if it is too long."""
    joined = ""
    for part in parts:
        longer = f"{joined}{' ' if joined.endswith(_ENDINGS) else '; '}{part}" if joined else part
        if len(longer) > max_chars:
            # The words of the first that fit; a script without spaces is cut between characters.
            head = part[:max_chars]
            return joined or (head[: head.rfind(" ")] if " " in head else head[:-1]) + "…"
        joined = longer
    return joined


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
    own = [unit for unit in units if unit.kind not in (UnitKind.LIST, UnitKind.FIELD)]
    length = sum(len(unit.text) for unit in own)
    return sum(unit.linked for unit in own) / length if length else 0.0
