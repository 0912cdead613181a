"""The text of a page that is read: chunks hold all of it, and nothing else has to be in one."""

import re

from retriever.indexing.cutting import BlockKind, blocks


def without_definitions(page: str) -> str:
    """The page with blanks where the definitions of its links are."""
    found = blocks(page)
    pieces = [page[block.start : block.end] for block in found]
    return page[: found[0].start if found else len(page)] + "".join(
        re.sub(r"[^\n]", " ", piece) if block.kind is BlockKind.DEFINITIONS else piece
        for block, piece in zip(found, pieces, strict=True)
    )
