"""Plain items of a list are passed over in one step; whatever is among and after them, the blocks are the parser's."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pageindex import blocks as rules
from pageindex.document import Placed, parse_document
from retriever.indexing.cutting import Block, BlockKind, blocks

ITEMS = ["- a\n", "- b c\n", "* a\n", "+ a\n", "- [a](b.md)\n", "- `x`\n", "- 1\n", "1. a\n", "-\n", "  b\n", "lazy\n"]
OTHERS = ["\n", "# h\n", "---\n", "- - a\n", "> - a\n", "```\n", "|-|-|\n", "- a | b\n", "===\n", " - a\n", "    - a\n"]
PAGES = st.lists(st.sampled_from(ITEMS * 3 + OTHERS), max_size=12).map("".join)
NOWHERE = re.compile(r"(?!)")


def read(text: str) -> tuple[list[Block], tuple[Placed, ...]]:
    return blocks(text), parse_document("page.md", text).nodes


@given(PAGES)
@example("- a\n- b\nlazy\n- c\n\ntext\n")
@example("- a\n- b\n  # no heading of the page\n- c\n# heading\n")
@example("- a\n- b | c\n-|-\n")
@example("- a\n- b\n===\n")
def test_the_blocks_are_those_of_each_item_read_by_itself(text: str) -> None:
    found = read(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rules, "_PLAIN_ITEMS", NOWHERE)
        assert read(text) == found


def test_a_list_is_one_block_with_all_its_items() -> None:
    assert blocks("text\n\n- a\n- b\n- c\nlazy\n\nafter\n") == [
        Block(0, 6, BlockKind.PARAGRAPH),
        Block(6, 24, BlockKind.LIST),
        Block(24, 30, BlockKind.PARAGRAPH),
    ]


def test_another_sign_begins_another_list() -> None:
    assert [block.start for block in blocks("- a\n- b\n* c\n* d\n")] == [0, 8]


def test_the_rule_of_lists_looks_at_the_last_plain_item_alone() -> None:
    looked_at: list[int] = []

    def rule(state: object, first: int, end: int, silent: bool) -> bool:
        looked_at.append(first)
        return True

    class State:
        src, level, bMarks, line = "- a\n" * 5, 0, (0,), 5
        tokens: tuple[object, ...] = ()

    assert rules.plain_items_at_once(rule)(State(), 0, 5, False)  # type: ignore[arg-type]  # all that is used of one
    assert looked_at == [4]
