"""A node's own text as chunks that fit the encoder."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise

from pageindex.blocks import Block, BlockKind, line_starts
from pageindex.node import Node, NodeKind, Span
from retriever.errors import EncoderError
from retriever.types import Chunk

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

    Raises EncoderError when a single character is too long, or the breadcrumb cannot be made short enough.
    """
    tokens = TokenCounter(count, lengths.max_tokens, count([""])[0])
    plans = plan_chunks([node for node in nodes if node.searched_body.strip()], tokens)
    made: dict[str, tuple[Chunk, ...]] = {}
    while plans:
        chunks: list[tuple[Chunk, ...]] = []
        near: list[tuple[int, str]] = []  # (place of the plan, text) of chunks that come near the limit
        for place, plan in enumerate(plans):
            runs = pack(plan, tokens, lengths.target_tokens)
            chunks.append(tuple(build_chunks(plan, runs)))
            for run, chunk in zip(runs, chunks[place], strict=True):
                added_up = sum(piece.tokens for piece in run) + (run[0].header_tokens if run else 0)
                if tokens.limit - plan.room + added_up > tokens.limit // 2:
                    near.append((place, chunk.embedded_text))
        # Tokens do not quite add up with every tokenizer: what comes near the limit is counted again, as it will be
        # embedded, and a node with a chunk that is too long is packed again with less room.
        excess = [0] * len(plans)
        for (place, _), length in zip(near, count([text for _, text in near]), strict=True):
            excess[place] = max(excess[place], length - tokens.limit)
        for plan, too_many in zip(plans, excess, strict=True):
            if too_many >= plan.room:
                raise EncoderError(f"{plan.node.id}: no chunk of {tokens.limit} tokens can be made: make chunks longer")
        made |= {plan.node.id: chunks[place] for place, plan in enumerate(plans) if not excess[place]}
        plans = [replace(plan, room=plan.room - excess[place]) for place, plan in enumerate(plans) if excess[place]]
    return [made.get(node.id, ()) for node in nodes]


def plan_chunks(nodes: Sequence[Node], tokens: TokenCounter) -> list[ChunkPlan]:
    """Return the titles and the blocks of each node, measured; all texts are counted in a few calls."""
    titles = [" > ".join(filter(None, (*node.breadcrumb, "" if node.is_part else node.title))) for node in nodes]
    title_tokens = tokens.lengths(titles)
    plans: list[ChunkPlan] = []
    for node, text, length in zip(nodes, titles, title_tokens, strict=True):
        is_whole = length <= (tokens.limit - tokens.special) // 2
        if not is_whole:
            text, length = shorten_titles((*node.breadcrumb, node.title), tokens)
        body = node.searched_body
        pieces = cut_pieces(node, body, with_heading=not is_whole)
        room = tokens.limit - tokens.special - length
        plans.append(ChunkPlan(node, body, text, pieces, room))
    lengths = iter(tokens.lengths([plan.body[piece.start : piece.end] for plan in plans for piece in plan.pieces]))
    for piece in chain.from_iterable(plan.pieces for plan in plans):
        piece.tokens = next(lengths)
    return plans


def cut_pieces(node: Node, body: str, *, with_heading: bool) -> list[ChunkPiece]:
    """Return the blocks of a node that are embedded; the title says its heading, unless that had to be cut."""
    starts, first = line_starts(body), body_line(node)
    blocks = [block for block in flatten(node.blocks) if block.kind is not BlockKind.HIDDEN]  # whose lines are blank
    ends = [starts[block.first - first] for block in blocks[1:]] + [len(body)]
    return [
        ChunkPiece(starts[block.first - first], end, block.kind)
        for block, end in zip(blocks, ends, strict=False)
        # Forty names of links in a row resemble any question that holds one of them. BM25 reads those.
        if block.kind is not BlockKind.DEFINITIONS
        and (with_heading or block.kind is not BlockKind.HEADING or node.kind is not NodeKind.SECTION)
    ]


def flatten(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield blocks, those in a note or a tab by themselves, in the order of lines; of several in a line the first."""
    for block in blocks:
        yield block
        if block.kind is BlockKind.CONTAINER:
            yield from (inner for inner in flatten(block.blocks) if inner.first > block.first)


def shorten_titles(titles: Sequence[str], tokens: TokenCounter) -> tuple[str, int]:
    """Return the titles in half of a chunk, with "…" for the outermost ones that are left out, and their tokens."""
    shorter = [" > ".join(["…", *titles[first:]]) for first in range(1, len(titles))]
    length = min(len(titles[-1]), tokens.limit * 16)
    while length:
        length //= 2
        shorter.append(titles[-1][:length].rstrip() + "…")
    for text, count in zip(shorter, tokens.lengths(shorter), strict=True):
        if count <= (tokens.limit - tokens.special) // 2:
            return text, count
    raise EncoderError(f"no title fits into half of a chunk of {tokens.limit} tokens: make chunks longer")


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
        if piece.header_tokens + piece.tokens <= plan.room:
            if plan.body[piece.start : piece.end].strip():
                yield piece
            continue
        parts = split(plan.body, piece)
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


# Where a block that is too long is cut: at the first of these places that it has, in the end between two words.
_LINE_END = re.compile(r"\n")
_BLANK_LINES = re.compile(r"\n(?:[ \t]*\n)+")
_SENTENCE_END = re.compile(r"[.!?][\"')\]*_]*\s+|[\u3002\uff01\uff1f]\s*")  # the last three are CJK
_ITEM = re.compile(r"^([ \t]*)(?:[-*+]|\d{1,9}[.)])(?=[ \t]|$)", re.MULTILINE)
_PLACES = {
    BlockKind.HEADING: (),
    BlockKind.PARAGRAPH: (_SENTENCE_END,),
    BlockKind.CODE: (_BLANK_LINES, _LINE_END),
    BlockKind.TABLE: (_SENTENCE_END,),
}
_OTHER_PLACES = (_BLANK_LINES, _LINE_END, _SENTENCE_END)


def split(text: str, piece: ChunkPiece) -> list[ChunkPiece]:
    """Split a piece into two parts or more, not yet measured, at the coarsest places that its kind allows."""
    # A list is cut at its outermost items, code at blank lines, a table at its rows, a paragraph at its sentences; what
    # has no such place, at a finer one, in the end between two words or inside one.
    inside = text[piece.start : piece.end]
    if len(inside) < 2:
        raise EncoderError(f"a single character cannot be cut: {inside!r}; make chunks longer")
    header = piece.header
    places: list[int] = []
    if piece.kind is BlockKind.TABLE and not header and (rows := _matches_end(_LINE_END, inside)[1:]):
        header = (piece.start, piece.start + rows[0])  # the first row stays with the header and its dashes
        places = rows[1:] or rows
    elif piece.kind is BlockKind.LIST:
        items: dict[int, list[int]] = {}  # by indentation; not that at the very beginning
        for match in _ITEM.finditer(inside):
            if match.start():
                items.setdefault(len(match[1].expandtabs(4)), []).append(match.start())
        places = items[min(items)] if items else []
    for pattern in _PLACES.get(piece.kind, _OTHER_PLACES):
        places = places or _matches_end(pattern, inside)
    if not places:  # behind the space that is nearest to the middle; the middle itself where there is no space
        middle = len(inside) // 2
        before = max(inside.rfind(" ", 0, middle), inside.rfind("\n", 0, middle))
        after = min((at for space in " \n" if (at := inside.find(space, middle)) >= 0), default=len(inside))
        nearest = min(before, after, key=lambda at: abs(at - middle))
        places = [nearest + 1] if 0 < nearest < len(inside) - 1 else [middle]
    bounds = [piece.start, *(piece.start + place for place in places), piece.end]
    parts = [ChunkPiece(start, end, piece.kind, header=header) for start, end in pairwise(bounds)]
    parts[0] = ChunkPiece(piece.start, bounds[1], piece.kind, header=piece.header)
    return parts


def _matches_end(pattern: re.Pattern[str], text: str) -> list[int]:
    return [match.end() for match in pattern.finditer(text) if match.end() < len(text)]
