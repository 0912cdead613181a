"""A node's units as chunks that fit the encoder."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from pageindex.node import Node, NodeKind, Span
from pageindex.text import cut_text
from pageindex.units import UnitKind
from retriever.types import Chunk

SLACK = 64  # one token in so many is left free: of some tokenizers the parts do not quite add up
# As `Encoder.count_tokens`: the lengths of texts in tokens, special ones included.
CountTokens = Callable[[Sequence[str]], list[int]]
# Of a list and a table the parts are units as well; properties of front matter are no text.
_LEFT_OUT = (UnitKind.LIST, UnitKind.FIELD)


@dataclass(frozen=True, slots=True)
class ChunkLengths:
    """How long a chunk is."""

    target_tokens: int = 100  # units are put together up to so many, the breadcrumb aside
    max_tokens: int = 256  # the breadcrumb included; what has more by itself is cut


@dataclass(frozen=True, slots=True)
class Piece:
    """A unit as it is written; one that shares its lines with others, as a page shows it."""

    span: Span
    lead: str
    text: str


def chunk_nodes(nodes: Sequence[Node], count: CountTokens, lengths: ChunkLengths) -> list[tuple[Chunk, ...]]:
    """Return the chunks of each node; no two have one id.

    A node's chunks together hold all of its units, each below what it is read below. The `embedded_text` of none has
    more than `lengths.max_tokens` tokens by the counter. A heading alone is one chunk.
    """
    (special,) = count([""])

    def measure(texts: Sequence[str]) -> list[int]:
        return [length - special for length in count(texts)]

    titles = [" > ".join(filter(None, (*node.breadcrumb, "" if node.is_part else node.title))) for node in nodes]
    room = lengths.max_tokens - lengths.max_tokens // SLACK - special
    pieces = [[*read_pieces(node)] for node in nodes]
    texts = list({text: None for piece in chain.from_iterable(pieces) for text in (piece.text, piece.lead)})
    sizes = dict(zip(texts, measure(texts), strict=True))
    made = []
    for node, own, text, length in zip(nodes, pieces, titles, measure(titles), strict=True):
        while length > room // 2 and len(text) > 1:  # the outer ones go
            text = "…" + text[len(text) // 2 + 1 :]
            (length,) = measure([text])
        found = [*pack(own, sizes, measure, room - length - 1, lengths.target_tokens)]  # one for the line end
        if not found and node.span and node.kind is NodeKind.SECTION:
            found = [(node.span, "")]
        made.append(tuple(Chunk(node.id, span, part or text, f"{text}\n{part}".strip()) for span, part in found))
    return made


def read_pieces(node: Node) -> Iterator[Piece]:
    """Yield the units of a node, with their lines as they are written."""
    if not node.span:
        return
    units = [unit for unit in node.units if unit.kind not in _LEFT_OUT]
    held = Counter(line for unit in units for line in range(unit.span.first, unit.span.last + 1))
    lines, first = node.searched_body.split("\n"), node.span.first + node.front_matter_lines
    for unit in units:
        own = range(unit.span.first, unit.span.last + 1)
        text = unit.text if any(held[line] > 1 for line in own) else "\n".join(lines[line - first] for line in own)
        yield Piece(unit.span, unit.lead, text)


def pack(
    pieces: Sequence[Piece], sizes: dict[str, int], measure: CountTokens, room: int, target: int
) -> Iterator[tuple[Span, str]]:
    """Put neighboring pieces together, up to `target` tokens; only the first says what it is read below."""
    target = min(target, room)
    span, text, length = None, "", 0
    for piece in pieces:
        length += sizes[piece.text]
        if span and length <= target:
            span = Span(min(span.first, piece.span.first), max(span.last, piece.span.last))
            text += f"\n{piece.text}"
            continue
        if span:
            yield span, text
        span, text, length = piece.span, f"{piece.lead}\n{piece.text}".strip(), sizes[piece.lead] + sizes[piece.text]
        if length > room:
            *parts, text = fit(text, measure, room)
            yield from ((span, part) for part in parts)
            (length,) = measure([text])
    if span:
        yield span, text


def fit(text: str, measure: CountTokens, room: int) -> Iterator[str]:
    """Yield a text in parts of at most `room` tokens: whole sentences where possible."""
    (length,) = measure([text])
    if length <= room or len(text) < 2:
        yield text
        return
    for start, end in cut_text(text, max(1, len(text) * room // length)):
        yield from fit(text[start:end].strip(), measure, room)
