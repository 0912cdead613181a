"""Plain items of a list are passed over in one step; whatever is among and after them, the blocks are the parser's."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it.rules_block import StateBlock, list_block

from pageindex import markdown
from pageindex.markdown import Block, BlockKind, parse_markdown, read_blocks

ITEMS = ["- a\n", "- b c\n", "* a\n", "+ a\n", "- [a](b.md)\n", "- `x`\n", "- 1\n", "1. a\n", "-\n", "  b\n", "lazy\n"]
OTHERS = ["\n", "# h\n", "---\n", "- - a\n", "> - a\n", "```\n", "|-|-|\n", "- a | b\n", "===\n", " - a\n", "    - a\n"]
PAGES = st.lists(st.sampled_from(ITEMS * 3 + OTHERS), max_size=12).map("".join)
NOWHERE = re.compile(r"(?!)")


def read(text: str) -> tuple[object, ...]:
    found = parse_markdown(text)
    return found.headings, found.texts, found.blocks, read_blocks(text)


@given(PAGES)
@example("- a\n- b\nlazy\n- c\n\ntext\n")
@example("- a\n- b\n  # no heading of the page\n- c\n# heading\n")
@example("- a\n- b | c\n-|-\n")
@example("- a\n- b\n===\n")
def test_the_blocks_are_those_of_each_item_read_by_itself(text: str) -> None:
    found = read(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(markdown, "_PLAIN_ITEMS", NOWHERE)
        assert read(text) == found


def test_a_list_is_one_block_with_all_its_items() -> None:
    assert read_blocks("text\n\n- a\n- b\n- c\nlazy\n\nafter\n") == (
        Block(BlockKind.PARAGRAPH, 1),
        Block(BlockKind.LIST, 3),
        Block(BlockKind.PARAGRAPH, 8),
    )


def test_another_sign_begins_another_list() -> None:
    assert [block.line for block in read_blocks("- a\n- b\n* c\n* d\n")] == [1, 3]


def test_the_rule_of_lists_looks_at_the_last_plain_item_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []

    def rule(state: StateBlock, first: int, end: int, silent: bool) -> bool:
        looked_at.append(first)
        return list_block(state, first, end, silent)

    monkeypatch.setattr(markdown, "list_block", rule)
    assert read_blocks("- a\n" * 5) == (Block(BlockKind.LIST, 1),)
    assert looked_at == [4]
