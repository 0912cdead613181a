"""The CommonMark blocks of a text that the index wants: headings, and text that may hold links.

markdown-it-py's block rules do the work. Four things are changed around them:

- A rule is tried only where its first character occurs, which doubles the speed.
- The items that a list begins with are read in one step where each is a line of words.
- Tokens are dropped as they are made, except for the few that are wanted: a million list items cost no memory.
- Lists and quotes nested deeper than markdown-it goes are read as paragraphs; it drops them, and with them
  everything up to the end of the file.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.parser_block import RuleFuncBlockType
from markdown_it.ruler import Ruler
from markdown_it.rules_block import (
    StateBlock,
    blockquote,
    code,
    fence,
    heading,
    hr,
    html_block,
    lheading,
    list_block,
    paragraph,
    reference,
)
from markdown_it.token import Token
from markdown_it.utils import EnvType

MAX_NESTING = 20
"""Levels that are opened, as in markdown-it: a quote is one, a list two."""
_RAW_HTML = ("<!", "<?", "<script", "<style", "<pre", "<textarea")
"""How an HTML block begins whose content is no text."""
_PLAIN_ITEMS = re.compile(r"([-*+]) [^\W\d_][^\n\[]*\n(?:\1 [^\W\d_][^\n\[]*\n)++")
"""Two lines or more that are items of one list. What begins with a letter is a paragraph; without `[`, one that nobody
wants."""

Block = tuple[Token | None, Token]
"""The opening token of a heading of the document itself, None for other blocks; and the token with the text."""


def wanted_blocks(text: str, env: EnvType) -> list[Block]:
    """The blocks in the order of lines; definitions of references are put into `env`."""
    parser = _block_parser()
    state = _WantedBlocks(text, parser, env)
    parser.block.tokenize(state, 0, state.lineMax)
    return state.wanted()


class _WantedBlocks(StateBlock):
    """A block parser's state that keeps headings and linkable text, and drops every other token."""

    def __init__(self, text: str, parser: MarkdownIt, env: EnvType) -> None:
        super().__init__(text, parser, env, [])
        self._dropped = Token("", "", 0)
        self._opening: Token | None = None
        self._content: Token | None = None
        self._wanted: list[Block] = []

    def push(self, ttype: str, tag: str, nesting: Literal[-1, 0, 1]) -> Token:
        """Give the rule a token to fill in; one that nobody wants is the same each time."""
        self._settle()
        if nesting < 0:
            self.level -= 1
        token = self._dropped
        if ttype == "heading_open" and self.level == 0:
            token = self._opening = Token(ttype, tag, nesting)
        elif ttype in ("inline", "html_block"):
            token = self._content = Token(ttype, tag, nesting)
        if nesting > 0:
            self.level += 1
        return token

    def wanted(self) -> list[Block]:
        """The blocks that were kept."""
        self._settle()
        return self._wanted

    def _settle(self) -> None:
        """Keep or drop the last text: a rule fills a token in after it was pushed, before it pushes the next."""
        if self._content is None:
            return
        if self._opening is not None or _may_hold_links(self._content):
            self._wanted.append((self._opening, self._content))
        self._opening = self._content = None


def _may_hold_links(token: Token) -> bool:
    """Whether a text is worth looking at; HTML counts (MDX components hold Markdown), but not comments and scripts."""
    if "[" not in token.content:
        return False
    return token.type == "inline" or not token.content.lstrip().lower().startswith(_RAW_HTML)


def _up_to_nesting(rule: RuleFuncBlockType) -> RuleFuncBlockType:
    """The rule, but not deeper than MAX_NESTING; there its line is a paragraph. It still ends other blocks."""

    def bounded(state: StateBlock, first: int, end: int, silent: bool) -> bool:
        return (silent or state.level < MAX_NESTING) and rule(state, first, end, silent)

    return bounded


def plain_items_at_once(rule: RuleFuncBlockType) -> RuleFuncBlockType:
    """The rule of lists, without its look at each of the plain items that a list of the document itself begins with.

    The last of them is left to the rule: what comes after it may belong to it.
    """

    def leaping(state: StateBlock, first: int, end: int, silent: bool) -> bool:
        items = None if silent or state.level else _PLAIN_ITEMS.match(state.src, state.bMarks[first])
        if items is None:
            return rule(state, first, end, silent)
        opened = len(state.tokens)
        rule(state, first + state.src.count("\n", *items.span()) - 1, end, silent)
        for token in state.tokens[opened : opened + 1]:  # that of the list, where tokens are kept
            token.map = [first, state.line]
        return True

    return leaping


_LIST = _up_to_nesting(plain_items_at_once(list_block))
_QUOTE = _up_to_nesting(blockquote)
_RULES: dict[str, tuple[RuleFuncBlockType, ...]] = {
    "`": (fence,),
    "~": (fence,),
    ">": (_QUOTE,),
    "-": (hr, _LIST),
    "*": (hr, _LIST),
    "_": (hr,),
    "+": (_LIST,),
    "<": (html_block,),
    "#": (heading,),
    "[": (reference,),
} | dict.fromkeys("0123456789", (_LIST,))
"""First character of a line -> the rules that it may begin, in markdown-it's order; the rest is text."""
_INTERRUPT_TEXT = {char: rules for char, rules in _RULES.items() if char != "["}
_INTERRUPT_LIST = {"`": (fence,), "~": (fence,), ">": (_QUOTE,), "-": (hr,), "*": (hr,), "_": (hr,)}


def _begin(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """Read the block that begins in a line that is not blank."""
    for rule in _RULES.get(_first_char(state, first), ()):
        if rule(state, first, end, silent):
            return True
    return lheading(state, first, end, silent) or paragraph(state, first, end, silent)


def _interruption(rules: Mapping[str, tuple[RuleFuncBlockType, ...]]) -> RuleFuncBlockType:
    """Whether a block begins in a line that would otherwise continue the one before."""

    def interrupts(state: StateBlock, first: int, end: int, silent: bool) -> bool:
        return any(rule(state, first, end, True) for rule in rules.get(_first_char(state, first), ()))

    return interrupts


def _first_char(state: StateBlock, line: int) -> str:
    """The first character after the indentation; empty at the end of the text."""
    position = state.bMarks[line] + state.tShift[line]
    return state.src[position : position + 1]


@cache
def _block_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"maxNesting": 10 * MAX_NESTING})  # out of reach: what is deeper gets dropped
    ruler: Ruler[RuleFuncBlockType] = Ruler()
    ruler.push("code", code)
    ruler.push("begin", _begin)
    ruler.push("interrupt text", _interruption(_INTERRUPT_TEXT), {"alt": ["paragraph", "reference", "blockquote"]})
    ruler.push("interrupt list", _interruption(_INTERRUPT_LIST), {"alt": ["list"]})
    parser.block.ruler = ruler
    return parser
