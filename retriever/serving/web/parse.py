"""A document's Markdown as the tokens that a page shows: CommonMark and what notes add to it.

markdown-it and its plugins read tables, task lists, footnotes, definitions, formulas, admonitions and containers;
wikilinks and embedded pictures are read as the index reads them. The rules here make containers of callouts in quotes,
and leave out lines that belong to another page.
"""

from collections.abc import Sequence
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markdown_it.utils import EnvType

from pageindex.blocks import read_callout, split_attributes
from pageindex.dialects import COMMONMARK, MAX_NESTING, Dialect, add_rules

WHOLE_LINES = 40  # of a block of code that is longer, an excerpt shows its own lines alone
MAX_INLINE_CHARS = 10_000  # a longer paragraph is shown as written: markdown-it's time on hostile text is quadratic


def parse_text(
    markdown: str, first: int = 0, end: int | None = None, definitions: str = "", dialect: Dialect = COMMONMARK
) -> list[Token]:
    """Return the tokens of a text (LF line ends, without front matter), whose `map` counts its lines from 0.

    Args:
        markdown: the text.
        first: the line that is shown first, from 0. Those above are read, so that the rows of a table come with their
            header and code is code; code that begins above it is shown whole, but for more than WHOLE_LINES.
        end: the line behind the last that is shown; a block that begins above it is shown whole, but for such code.
            None: all lines.
        definitions: lines `[label]: target` from elsewhere in the file.
        dialect: of the file.
    """
    references: EnvType = {"lines": (0, None)}
    parser = open_page_parser(dialect)
    parser.parse(definitions, references)
    known = references.get("references", {})
    return parser.parse(markdown, {"lines": (first, end), "references": known, "dialect": dialect})


def find_end(token: Token, lines: Sequence[str]) -> int:
    """Return the line behind a block's last line that is not blank, from 0."""
    first, end = token.map or (0, 0)
    while end > first + 1 and not lines[end - 1].strip():
        end -= 1
    return end


@cache
def open_page_parser(dialect: Dialect) -> MarkdownIt:
    """Return the parser of a dialect's pages, made once."""
    # HTML is recognized so that it can be shown as what it is; the renderer never sends any.
    parser = MarkdownIt("commonmark", {"html": True, "tasklists": True, "xhtmlOut": False, "maxNesting": MAX_NESTING})
    add_rules(parser, dialect)
    parser.core.ruler.before("inline", "prepare", _prepare_inline)
    parser.core.ruler.before("inline", "keep", _keep_lines)
    return parser


def _keep_lines(state: StateCore) -> None:
    """Leave out the blocks outside of the lines that are shown, and what of the next block is above them."""
    first, last = state.env.get("lines", (0, None))
    if not first and last is None:
        return
    lines = state.src.split("\n")
    kept: list[Token] = []
    left_level: int | None = None  # of the block whose closing token is awaited, for it is left out
    for token in state.tokens:
        if left_level is not None:
            left_level = None if token.nesting < 0 and token.level == left_level else left_level
            continue
        is_header = "thead_open" in (token.type, kept[-1].type if kept else "")
        if token.map and token.nesting >= 0 and token.type != "inline" and not is_header:
            begin, end = token.map[0], find_end(token, lines)
            if end <= first or (last is not None and begin >= last):
                left_level = token.level if token.nesting else None
                continue
            if token.type in ("fence", "code_block", "html_block") and end - begin > WHOLE_LINES:
                above = begin + (token.type == "fence")  # its content's first line
                shown = slice(max(0, first - above), None if last is None else last - above)
                token.content = "\n".join(token.content.split("\n")[shown])
                token.map = [max(begin, first - above + begin), min(token.map[1], last or token.map[1])]
        kept.append(token)
        if token.type == "list_item_open" and token.info and kept[-2].type == "ordered_list_open":
            kept[-2].attrSet("start", token.info)  # the items before it may be left out
    state.tokens = kept


def _prepare_inline(state: StateCore) -> None:
    """Make containers of quotes that begin `[!note] Title`, and leave attributes and hostile paragraphs unread."""
    for place, token in enumerate(state.tokens):
        if token.type == "blockquote_open" and state.tokens[place + 1].type == "paragraph_open":
            opening, text, closing = state.tokens[place + 1 : place + 4]
            first, _, rest = text.content.partition("\n")
            if found := read_callout(first, state.env["dialect"]):
                text.content = rest
                opening.hidden = closing.hidden = not rest.strip()  # it held the title alone
                token.type, token.meta = "container_open", dict(zip(("kind", "title", "fold"), found, strict=True))
                following = state.tokens[place:]
                end = next(item for item in following if item.type == "blockquote_close" and item.level == token.level)
                end.type = "container_close"
        elif token.type == "heading_open":
            title = state.tokens[place + 1]
            title.content = split_attributes(title.content)[0]
        elif token.type == "inline" and len(token.content) > MAX_INLINE_CHARS:
            token.children, token.content = [Token("text", "", 0, content=token.content)], ""


def mark_passage(tokens: Sequence[Token], lines: Sequence[str], first: int, end: int) -> None:
    """Give the blocks that lie in a passage a class, and the first of them an id; else the block around it.

    Args:
        tokens: of the text.
        lines: the text.
        first: the passage's first line, from 0.
        end: the line behind its last.
    """
    marked: list[Token] = []
    done, item, around = -1, None, None
    for token in tokens:
        if not token.map or token.nesting < 0 or token.type == "inline" or token.map[0] < done:
            continue
        start, after = token.map[0], find_end(token, lines)
        item = token if token.type == "list_item_open" else item
        around = token if token.level == 0 and start <= first < after else around
        if first <= start and after <= end:
            # A paragraph of a tight list has no element of its own.
            marked.append(item if token.hidden and item else token)
            done = after
    found = marked or ([around] if around else [])
    for token in found:
        token.attrJoin("class", "passage")
    if found:
        found[0].attrSet("id", "passage")
