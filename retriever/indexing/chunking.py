"""A node's own text as chunks that fit the encoder."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from annotated_types import Ge

from pageindex.node import Node, NodeKind, Span
from retriever.errors import EncoderError
from retriever.indexing.cutting import Block, BlockKind, blocks, cut, line_starts
from retriever.settings.setting import setting
from retriever.types import Chunk

Counter = Callable[[Sequence[str]], list[int]]
"""As `Encoder.count_tokens`: the lengths of texts in tokens, special ones included."""

_SEPARATOR = " > "
_CHARACTERS_PER_TOKEN = 16
"""No prose has more: text that does is cut before it is counted, so that no count is of more than a page."""


@dataclass(frozen=True, slots=True)
class ChunkSettings:
    """How long a chunk is."""

    target_tokens: Annotated[int, Ge(1)] = setting(
        100, "Paragraphs, lists and the like are put together up to so many tokens, the breadcrumb aside."
    )
    max_tokens: Annotated[int, Ge(16)] = setting(
        256, "No chunk has more tokens, the breadcrumb included; what has more by itself is cut."
    )


def chunk_node(node: Node, counter: Counter, settings: ChunkSettings) -> tuple[Chunk, ...]:
    """The chunks of one node, in the order of its text; see `chunk_nodes`."""
    return chunk_nodes([node], counter, settings)[0]


def chunk_nodes(nodes: Sequence[Node], counter: Counter, settings: ChunkSettings) -> list[tuple[Chunk, ...]]:
    """The chunks of each node.

    A node's chunks together hold every character of its body that is not blank, but for the definitions of its links
    (`[label]: target`): forty names in a row resemble any question that holds one of them. BM25 reads those. The
    `embedded_text` of none has more than `settings.max_tokens` tokens by the counter; the heading's own line is not
    repeated in it, the title says it. A heading alone is one chunk; a node whose body is blank has none.

    Args:
        nodes: of any kind, no two with one id.
        counter: the encoder's; called a few times, with many texts.
        settings: their `max_tokens` must not be more than the encoder's.

    Raises:
        EncoderError: by the counter a single character is too long, or the breadcrumb cannot be made short enough.
    """
    ruler = _Ruler(counter, settings.max_tokens, counter([""])[0])
    drafts = _drafts([node for node in nodes if node.body.strip()], ruler)
    made: dict[str, tuple[Chunk, ...]] = {}
    while drafts:
        packed = [list(_packed(draft, ruler, settings.target_tokens)) for draft in drafts]
        excesses = _excesses(drafts, packed, ruler)
        made.update(
            (draft.node.id, tuple(chunk for _, chunk in chunks))
            for draft, chunks, excess in zip(drafts, packed, excesses, strict=True)
            if not excess
        )
        # Tokens do not quite add up with every tokenizer: what came out too long is made again with less.
        drafts = [
            replace(draft, budget=draft.budget - excess)
            for draft, excess in zip(drafts, excesses, strict=True)
            if excess
        ]
    return [made.get(node.id, ()) for node in nodes]


@dataclass(frozen=True, slots=True)
class _Ruler:
    """Measures texts."""

    counter: Counter
    limit: int
    """How many tokens a chunk may have."""
    empty: int
    """The special tokens: what the counter says of an empty text."""

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """Tokens without the special ones; of a text too long to count, one more than the limit."""
        longest = self.limit * _CHARACTERS_PER_TOKEN
        counts = iter(self.counter([text for text in texts if len(text) <= longest]))
        return [next(counts) - self.empty if len(text) <= longest else self.limit + 1 for text in texts]


@dataclass(frozen=True, slots=True)
class _Part:
    """A block, or a part of one, and its length."""

    block: Block
    tokens: int
    header_tokens: int = 0
    """Of the table's header, which is said again when a chunk begins with this part."""


@dataclass(frozen=True, slots=True)
class _Head:
    """Breadcrumb and title, as every chunk of a node begins with them."""

    text: str
    tokens: int
    """Without the special ones; at most half of what a chunk may have."""
    is_whole: bool = True
    """False when titles had to be left out or cut: "…" stands in their place."""


@dataclass(frozen=True, slots=True)
class _Draft:
    """A node on its way to chunks."""

    node: Node
    body: str
    head: _Head
    parts: tuple[_Part, ...]
    """What is to be packed: the body's blocks, but for a heading that the head says whole."""
    budget: int
    """How many tokens of a chunk are left beside the head."""


def _drafts(nodes: Sequence[Node], ruler: _Ruler) -> list[_Draft]:
    heads = _heads([(*node.breadcrumb, node.title) for node in nodes], ruler)
    bodies = [node.body for node in nodes]
    found = [_to_pack(node, head) for node, head in zip(nodes, heads, strict=True)]
    texts = [body[block.start : block.end] for body, inside in zip(bodies, found, strict=True) for block in inside]
    lengths = iter(ruler.lengths(texts))
    return [
        _Draft(
            node,
            body,
            head,
            parts=tuple(_Part(block, next(lengths)) for block in inside),
            budget=ruler.limit - ruler.empty - head.tokens,
        )
        for node, body, head, inside in zip(nodes, bodies, heads, found, strict=True)
    ]


def _to_pack(node: Node, head: _Head) -> list[Block]:
    """The blocks of the node's body that are read, without a heading that the head says."""
    found = blocks(node.body)
    says_heading = node.kind is NodeKind.SECTION and found[0].kind is BlockKind.HEADING and head.is_whole
    return [block for block in found[says_heading:] if block.kind is not BlockKind.DEFINITIONS]


def _heads(titles: Sequence[tuple[str, ...]], ruler: _Ruler) -> list[_Head]:
    texts = [_SEPARATOR.join(filter(None, path)) for path in titles]
    most = (ruler.limit - ruler.empty) // 2
    return [
        _Head(text, tokens) if tokens <= most else _shortened(path, most, ruler)
        for path, text, tokens in zip(titles, texts, ruler.lengths(texts), strict=True)
    ]


def _shortened(titles: Sequence[str], most: int, ruler: _Ruler) -> _Head:
    """The titles without the outermost ones, in the end the beginning of the innermost alone, in `most` tokens."""
    shorter = [_SEPARATOR.join(["…", *titles[first:]]) for first in range(1, len(titles))]
    length = min(len(titles[-1]), ruler.limit * _CHARACTERS_PER_TOKEN)
    while length:
        length //= 2
        shorter.append(titles[-1][:length].rstrip() + "…")
    for text, tokens in zip(shorter, ruler.lengths(shorter), strict=True):
        if tokens <= most:
            return _Head(text, tokens, is_whole=False)
    raise EncoderError(f"no title fits into half of a chunk of {ruler.limit} tokens: make chunks longer")


def _packed(draft: _Draft, ruler: _Ruler, target: int) -> Iterator[tuple[int, Chunk]]:
    """The draft's chunks, each after the length that it should have, in tokens."""
    lines = line_starts(draft.body)
    runs = _runs(_fitting(draft, ruler), min(target, draft.budget)) or [[]]
    for number, run in enumerate(runs):
        yield ruler.limit - draft.budget + _tokens(run), _chunk(draft, lines, run, is_first=number == 0)


def _runs(parts: Iterator[_Part], target: int) -> list[list[_Part]]:
    """What stands side by side put together, up to `target` tokens; a part that has more stands alone.

    A later part of a table follows its first, or one with the same header: so only a run's start needs the header.
    """
    runs: list[list[_Part]] = []
    tokens = 0
    for part in parts:
        tokens += part.tokens
        if runs and tokens <= target and runs[-1][-1].block.end == part.block.start:
            runs[-1].append(part)
        else:
            runs.append([part])
            tokens = _tokens([part])
    return runs


def _tokens(run: Sequence[_Part]) -> int:
    return (run[0].header_tokens if run else 0) + sum(part.tokens for part in run)


def _fitting(draft: _Draft, ruler: _Ruler) -> Iterator[_Part]:
    """The draft's parts in order, cut until none has more tokens than the budget; blank ones left out."""
    todo = list(reversed(draft.parts))
    while todo:
        part = todo.pop()
        if part.header_tokens + part.tokens > draft.budget:
            todo += reversed(_measured(draft, cut(draft.body, part.block), ruler))
        elif draft.body[part.block.start : part.block.end].strip():
            yield part


def _measured(draft: _Draft, parts: Sequence[Block], ruler: _Ruler) -> list[_Part]:
    """A header that takes more than half of the budget is not said again."""
    headers = [draft.body[slice(*part.header)] if part.header else "" for part in parts]
    distinct = list(dict.fromkeys(headers))
    header_tokens = dict(zip(distinct, ruler.lengths(distinct), strict=True))
    lengths = ruler.lengths([draft.body[part.start : part.end] for part in parts])
    return [
        _Part(part, tokens, header_tokens[header])
        if header_tokens[header] <= draft.budget // 2
        else _Part(replace(part, header=None), tokens)
        for part, header, tokens in zip(parts, headers, lengths, strict=True)
    ]


def _chunk(draft: _Draft, lines: Sequence[int], run: Sequence[_Part], *, is_first: bool) -> Chunk:
    """The chunk of neighbouring parts; a node's first begins with its heading, and is that alone when there is no part.

    Args:
        draft: the node.
        lines: where the lines of its body start.
        run: the parts.
        is_first: whether nothing of the body is in an earlier chunk.
    """
    body, node = draft.body, draft.node
    start = 0 if is_first else run[0].block.start
    end = run[-1].block.end if run else len(body)
    header = body[slice(*run[0].block.header)] if run and run[0].block.header else ""
    piece = _without_blank_lines(body[run[0].block.start : end]) if run else ""
    return Chunk(
        node_id=node.id,
        span=_span(node, lines, *_not_blank(body, start, end)),
        text=header + _without_blank_lines(body[start:end]),
        embedded_text="\n".join(filter(None, (draft.head.text, header + piece))),
    )


def _not_blank(text: str, start: int, end: int) -> tuple[int, int]:
    """The first and the last character between the two that is not blank."""
    inside = text[start:end]
    return start + len(inside) - len(inside.lstrip()), start + len(inside.rstrip()) - 1


def _without_blank_lines(text: str) -> str:
    """The text without blank lines at its ends; the indentation of its first line is kept."""
    first, last = _not_blank(text, 0, len(text))
    return text[text.rfind("\n", 0, first) + 1 : last + 1]


def _span(node: Node, lines: Sequence[int], first: int, last: int) -> Span:
    """The lines of the file that hold these characters of the node's body."""
    if node.span is None:
        raise ValueError(f"a node with text and without lines: {node.id}")
    above = node.span.first + node.front_matter_lines - 1
    return Span(above + bisect_right(lines, first), above + bisect_right(lines, last))


def _excesses(drafts: Sequence[_Draft], packed: Sequence[list[tuple[int, Chunk]]], ruler: _Ruler) -> list[int]:
    """By how many tokens the longest chunk of each draft is too long; 0 when none is.

    Only what comes near the limit is counted again.

    Raises:
        EncoderError: there is no budget left to take it from.
    """
    near = [
        (place, chunk.embedded_text)
        for place, chunks in enumerate(packed)
        for tokens, chunk in chunks
        if tokens > ruler.limit // 2
    ]
    excesses = [0] * len(drafts)
    for (place, _), tokens in zip(near, ruler.counter([text for _, text in near]), strict=True):
        excesses[place] = max(excesses[place], tokens - ruler.limit)
    for draft, excess in zip(drafts, excesses, strict=True):
        if excess >= draft.budget:
            raise EncoderError(f"{draft.node.id}: no chunk of {ruler.limit} tokens can be made: make chunks longer")
    return excesses
