"""The text of a page that is read: chunks hold all of it, and nothing else has to be in one."""

import re
from itertools import pairwise

from pageindex.markdown import BlockKind, read_blocks
from retriever.indexing.chunk import Piece


def pieces(page: str) -> list[Piece]:
    """The blocks of a page from character to character, each with the blank lines after it."""
    blocks = read_blocks(page)
    lines = page.split("\n")
    starts = [len("\n".join([*lines[: block.line - 1], ""])) for block in blocks]
    ends = pairwise([*starts, len(page)])
    return [Piece(start, end, block.kind) for (start, end), block in zip(ends, blocks, strict=True)]


def without_definitions(page: str) -> str:
    """The page with blanks where the definitions of its links are."""
    found = pieces(page)
    texts = [page[piece.start : piece.end] for piece in found]
    return page[: found[0].start if found else len(page)] + "".join(
        re.sub(r"[^\n]", " ", text) if piece.kind is BlockKind.DEFINITIONS else text
        for piece, text in zip(found, texts, strict=True)
    )
