"""A node's units as chunks that fit the encoder."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from pageindex.dialects import DIALECTS
from pageindex.node import Node, NodeKind, Span, Unit, pick_pieces
from pageindex.text import cut_text
from retriever.types import Chunk

TARGET_TOKENS = 100  # most tokens of units that are put together, without the breadcrumb
MAX_TOKENS = 256  # the breadcrumb included; what has more by itself is cut
SLACK = 64  # one token in this number is left free: some tokenizers count the whole as more than its parts
# As `Encoder.count_tokens`: the lengths of texts in tokens, special ones included.
CountTokens = Callable[[Sequence[str]], list[int]]
# What begins a text that no page shows, in any dialect.
HIDING = ("<!--", "[//]:", *{opening for dialect in DIALECTS for opening, _ in dialect.hides})


def chunk_nodes(
    nodes: Sequence[Node], count: CountTokens, max_tokens: int = MAX_TOKENS, target_tokens: int = TARGET_TOKENS
) -> list[tuple[Chunk, ...]]:
    r"""Return the chunks of each node; no two have one id.

    A node's chunks together hold all of its units, each below what it is read below. The text of none has
    more than `max_tokens` tokens by the counter. A heading alone is one chunk.

    >>> from pageindex.document import parse_document
    >>> page = "# Tea\n\nBoil water. Steep the leaves.\n\n## Green\n"
    >>> def count(texts):
    ...     return [len(text.split()) for text in texts]
    >>> def chunk(max_tokens):
    ...     nodes = [placed.node for placed in parse_document("tea.md", page).nodes]
    ...     return [chunk.text for own in chunk_nodes(nodes, count, max_tokens) for chunk in own]
    >>> chunk(99)
    ['Tea\nBoil water. Steep the leaves.', 'Tea > Green']
    >>> chunk(5), chunk(1)[-1]
    (['Tea\nBoil water.', 'Tea\nSteep the', 'Tea\nleaves.', '…Green'], '…')
    """
    (special,) = count([""])

    def measure(texts: Sequence[str]) -> list[int]:
        return [length - special for length in count(texts)]

    titles = [" > ".join(filter(None, (*node.breadcrumb, "" if node.is_part else node.title))) for node in nodes]
    room = max_tokens - max_tokens // SLACK - special
    units = [[*read_written(node)] for node in nodes]
    texts = list({text: None for unit in chain.from_iterable(units) for text in (unit.text, unit.lead)})
    sizes = dict(zip(texts, measure(texts), strict=True))
    made = []
    for node, own, text, length in zip(nodes, units, titles, measure(titles), strict=True):
        while length > room // 2 and len(text) > 1:  # the outer ones go
            text = "…" + text[len(text) // 2 + 1 :]
            (length,) = measure([text])
        found = [*pack(own, sizes, measure, room - length - 1, target_tokens)]  # one for the line end
        if not found and node.span and node.kind is NodeKind.SECTION:
            found = [(node.span, "")]
        made.append(tuple(Chunk(node.id, span, f"{text}\n{part}".strip()) for span, part in found))
    return made


def read_written(node: Node) -> Iterator[Unit]:
    """Yield the units of a node as they are written; as a page shows them where they share lines or hide something."""
    if not node.span:
        return
    units = pick_pieces(node.units)
    held = Counter(line for unit in units for line in range(unit.span.first, unit.span.last + 1))
    lines, first = node.text.split("\n"), node.span.first
    for unit in units:
        own = range(unit.span.first, unit.span.last + 1)
        written = "\n".join(lines[line - first] for line in own)
        is_shown = any(held[line] > 1 for line in own) or any(opening in written for opening in HIDING)
        yield unit if is_shown else unit._replace(text=written)


def pack(
    units: Sequence[Unit], sizes: dict[str, int], measure: CountTokens, room: int, target: int
) -> Iterator[tuple[Span, str]]:
    """Put neighboring units together, up to `target` tokens; only the first says what it is read below."""
    target = min(target, room)
    span, text, length = None, "", 0
    for unit in units:
        length += sizes[unit.text]
        if span and length <= target:
            span = Span(min(span.first, unit.span.first), max(span.last, unit.span.last))
            text += f"\n{unit.text}"
            continue
        if span:
            yield span, text
        span, text, length = unit.span, f"{unit.lead}\n{unit.text}".strip(), sizes[unit.lead] + sizes[unit.text]
        if length > room:
            *parts, text = fit(text, measure, room)
            yield from ((span, part) for part in parts)
            (length,) = measure([text])
    if span:
        yield span, text


def fit(text: str, measure: CountTokens, room: int) -> Iterator[str]:
    """Yield a text in parts of at most `room` tokens: whole sentences where possible.

    >>> def count(texts):
    ...     return [len(text.split()) for text in texts]
    >>> list(fit("Boil water. Steep the tea.", count, 3)), list(fit("Tea", count, 0))
    (['Boil water.', 'Steep the tea.'], ['T', 'e', 'a'])
    """
    (length,) = measure([text])
    if length <= room or len(text) < 2:
        yield text
        return
    for start, end in cut_text(text, max(1, len(text) * room // length)):
        yield from fit(text[start:end].strip(), measure, room)
