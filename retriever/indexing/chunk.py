"""A node's own text as chunks that fit the encoder."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

from pageindex.blocks import Block, BlockKind, line_starts
from pageindex.node import Node, NodeKind, Span
from pageindex.text import cut_text
from retriever.types import Chunk

SLACK = 64  # one token in so many is left free: of some tokenizers the parts do not quite add up
# As `Encoder.count_tokens`: the lengths of texts in tokens, special ones included.
CountTokens = Callable[[Sequence[str]], list[int]]


@dataclass(frozen=True, slots=True)
class TokenCounter:
    count: CountTokens
    limit: int  # how many tokens a chunk may have, special ones included
    special: int  # the special tokens: what `count` says of an empty text

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text; of a text too long to count, one more than the limit."""
        longest = self.limit * 16  # no prose has more characters a token, so that no count is of more than a page
        counts = iter(self.count([text for text in texts if len(text) <= longest]))
        return [next(counts) - self.special if len(text) <= longest else self.limit + 1 for text in texts]


@dataclass(slots=True)  # not frozen, which takes three times as long to make: a list may have a million
class ChunkPiece:
    """A Markdown block with the blank lines after it, or a part of one."""

    start: int  # its first character, counted from 0 in the node's body
    end: int  # behind its last character
    kind: BlockKind
    block: Block | None = None  # None for a part
    tokens: int = 0
    # Where the header of the table stands that this is a later part of: a chunk that begins here repeats it.
    header: tuple[int, int] | None = None
    header_tokens: int = 0


@dataclass(frozen=True, slots=True)
class ChunkPlan:
    node: Node
    body: str
    titles: str  # breadcrumb and title, as every chunk of the node begins with them
    pieces: Sequence[ChunkPiece]  # what is to be packed, in order
    room: int  # how many tokens of a chunk are left beside the titles


@dataclass(frozen=True, slots=True)
class ChunkLengths:
    """How long a chunk is."""

    target_tokens: int = 100  # paragraphs, lists and the like are put together up to so many, the breadcrumb aside
    max_tokens: int = 256  # the breadcrumb included; what has more by itself is cut


def chunk_nodes(nodes: Sequence[Node], count: CountTokens, lengths: ChunkLengths) -> list[tuple[Chunk, ...]]:
    """Cut each node into chunks; no two have one id.

    A node's chunks together hold every character of its body that is not blank, but for the definitions of its links
    (`[label]: target`). The `embedded_text` of none has more than `lengths.max_tokens` tokens by the counter; the
    heading's own line is not repeated in it, the title says it. A heading alone is one chunk; a node whose body is
    blank has none.
    """
    tokens = TokenCounter(count, lengths.max_tokens, count([""])[0])
    plans = plan_chunks([node for node in nodes if node.searched_body.strip()], tokens)
    made = {plan.node.id: tuple(build_chunks(plan, pack(plan, tokens, lengths.target_tokens))) for plan in plans}
    return [made.get(node.id, ()) for node in nodes]


def plan_chunks(nodes: Sequence[Node], tokens: TokenCounter) -> list[ChunkPlan]:
    """Return the titles and the blocks of each node, measured; all texts are counted in a few calls."""
    titles = [" > ".join(filter(None, (*node.breadcrumb, "" if node.is_part else node.title))) for node in nodes]
    room = tokens.limit - tokens.limit // SLACK - tokens.special
    plans: list[ChunkPlan] = []
    for node, text, length in zip(nodes, titles, tokens.lengths(titles), strict=True):
        while length > room // 2 and len(text) > 1:  # the outer ones go
            text = "…" + text[len(text) // 2 + 1 :]
            (length,) = tokens.lengths([text])
        body = node.searched_body
        plans.append(ChunkPlan(node, body, text, cut_pieces(node, body), room - length - 1))  # one for the line end
    lengths = iter(tokens.lengths([plan.body[piece.start : piece.end] for plan in plans for piece in plan.pieces]))
    for piece in chain.from_iterable(plan.pieces for plan in plans):
        piece.tokens = next(lengths)
    return plans


def cut_pieces(node: Node, body: str) -> list[ChunkPiece]:
    """Return the blocks of a node that are embedded; the title says its heading."""
    starts, first = line_starts(body), body_line(node)
    blocks = [block for block in flatten(node.blocks) if block.kind is not BlockKind.HIDDEN]  # whose lines are blank
    ends = [starts[block.first - first] for block in blocks[1:]] + [len(body)]
    return [
        ChunkPiece(starts[block.first - first], end, block.kind, block)
        for block, end in zip(blocks, ends, strict=False)
        # Forty names of links in a row resemble any question that holds one of them. BM25 reads those.
        if block.kind is not BlockKind.DEFINITIONS
        and (block.kind is not BlockKind.HEADING or node.kind is not NodeKind.SECTION)
    ]


def flatten(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield blocks, those in a note or a tab by themselves, in the order of lines; of several in a line the first."""
    for block in blocks:
        yield block
        if block.kind is BlockKind.CONTAINER:
            yield from (inner for inner in flatten(block.blocks) if inner.first > block.first)


def pack(plan: ChunkPlan, tokens: TokenCounter, target: int) -> list[list[ChunkPiece]]:
    """Put neighboring pieces into chunks of up to `target` tokens; without pieces, one chunk, of the heading."""
    target = min(target, plan.room)
    runs: list[list[ChunkPiece]] = []
    length = 0
    for piece in fit(plan, tokens):
        length += piece.tokens
        # A later part of a table follows its first, or one with the same header: only a run's start needs the header.
        if runs and length <= target and runs[-1][-1].end == piece.start:
            runs[-1].append(piece)
        else:
            runs.append([piece])
            length = piece.header_tokens + piece.tokens
    return runs or [[]]


def fit(plan: ChunkPlan, tokens: TokenCounter) -> Iterator[ChunkPiece]:
    """Yield the pieces in order, split until each has room in a chunk; blank ones are left out."""
    todo = list(reversed(plan.pieces))
    while todo:
        piece = todo.pop()
        if piece.header_tokens + piece.tokens <= plan.room or piece.end - piece.start < 2:
            if plan.body[piece.start : piece.end].strip():
                yield piece
            continue
        parts = split(plan.body, piece, plan.room)
        lengths = tokens.lengths([plan.body[part.start : part.end] for part in parts])
        header = plan.body[slice(*parts[-1].header)] if parts[-1].header else ""  # all but the first have the same
        (header_tokens,) = tokens.lengths([header])
        if header_tokens > plan.room // 2:  # it is not repeated
            parts = [ChunkPiece(part.start, part.end, part.kind) for part in parts]
            header_tokens = 0
        while parts:  # taken from the end, so that a list of a million items is not there twice
            part = parts.pop()
            part.tokens, part.header_tokens = lengths.pop(), header_tokens if part.header else 0
            todo.append(part)


def build_chunks(plan: ChunkPlan, runs: Iterable[Sequence[ChunkPiece]]) -> Iterator[Chunk]:
    """Yield a chunk for each run of pieces; the first begins with the node's heading, or is that alone."""
    body = plan.body
    starts = line_starts(body)
    above = body_line(plan.node) - 1
    for number, run in enumerate(runs):
        start = run[0].start if number else 0
        end = run[-1].end if run else len(body)
        header = body[slice(*run[0].header)] if run and run[0].header else ""
        embedded = header + strip_blank_lines(body[run[0].start : end]) if run else ""
        text = body[start:end]
        first, last = end - len(text.lstrip()), start + len(text.rstrip()) - 1  # what of it is not blank
        yield Chunk(
            node_id=plan.node.id,
            span=Span(above + bisect_right(starts, first), above + bisect_right(starts, last)),
            text=header + strip_blank_lines(text),
            embedded_text="\n".join(filter(None, (plan.titles, embedded))),
        )


def body_line(node: Node) -> int:
    if node.span is None:
        raise ValueError(f"a node with text and without lines: {node.id}")
    return node.span.first + node.front_matter_lines


def strip_blank_lines(text: str) -> str:
    """Return the text without blank lines at its ends; the indentation of its first line is kept."""
    first = len(text) - len(text.lstrip())
    return text[text.rfind("\n", 0, first) + 1 :].rstrip()


def split(text: str, piece: ChunkPiece, room: int) -> list[ChunkPiece]:
    """Return two parts or more of a piece that is too long for a chunk, not yet measured.

    A list is cut at its outermost items, a table at its rows, code at blank lines; what has no such place at its lines,
    a paragraph at its sentences; in the end between words or inside of one.
    """
    inside, header = text[piece.start : piece.end], piece.header
    starts = line_starts(inside)
    places: Sequence[int] = []
    if piece.block and piece.kind in (BlockKind.LIST, BlockKind.TABLE):
        places = [starts[inner.first - piece.block.first] for inner in piece.block.blocks[1:]]
    if piece.kind is BlockKind.TABLE and len(places) > 1:  # the first row stays with the header and its dashes
        header, places = (piece.start, piece.start + places[0]), places[1:]
    if not places and piece.kind is not BlockKind.PARAGRAPH:
        lines = [start for start in starts[1:] if start < len(inside)]
        places = [start for start in lines if inside[start - 2 : start] == "\n\n"] or lines
    if not places:
        ends = (end for _, end in cut_text(inside, max(1, len(inside) * room // (2 * piece.tokens))))
        behind = (end + inside.startswith((" ", "\n"), end) for end in ends)
        places = [place for place in behind if place < len(inside)] or [len(inside) // 2]
    bounds = [piece.start, *(piece.start + place for place in places), piece.end]
    parts = [ChunkPiece(start, end, piece.kind, header=header) for start, end in pairwise(bounds)]
    parts[0].header = piece.header
    return parts
