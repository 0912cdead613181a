"""A document's Markdown as the tokens that a page shows: CommonMark and what notes add to it.

markdown-it and its plugins read tables, task lists, footnotes, definitions, formulas, admonitions and containers;
wikilinks and embedded pictures are read as the index reads them. The rules here add `==marks==`, make callouts of every
notation, and leave out lines that belong to another page.
"""

import re
from collections.abc import Sequence
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import EnvType
from mdit_py_plugins.admon import admon_plugin
from mdit_py_plugins.container import container_plugin
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.footnote import footnote_plugin

from pageindex.markdown import (
    ATTRIBUTES,
    MAX_NESTING,
    TAB,
    drop_icons,
    drop_notation,
    fence_after,
    parse_wikilink,
    split_attributes,
)

WHOLE_LINES = 40  # of a block of code that is longer, an excerpt shows its own lines alone
MAX_INLINE_CHARS = 10_000  # a longer paragraph is shown as written: markdown-it's time on hostile text is quadratic

# Types of callouts -> the style in which they are drawn; all others are drawn as notes.
_STYLES = {
    **dict.fromkeys(("tip", "hint", "success", "check", "done"), "tip"),
    **dict.fromkeys(("question", "help", "faq"), "question"),
    **dict.fromkeys(("important", "warning", "caution", "attention"), "warning"),
    **dict.fromkeys(("failure", "fail", "missing", "danger", "error", "bug"), "danger"),
    **dict.fromkeys(("quote", "cite", "example"), "quote"),
    "tab": "tab",
}
_CALLOUT = re.compile(r"\[!([A-Za-z][A-Za-z0-9_ -]{0,30})\]([+-]?)(?:[ \t]+(.*))?$")
# `tip`, `tip Title` and `tip[Title]` behind `:::`; `tip | Title` behind `///`.
_CONTAINER = re.compile(r"\s*\{?([A-Za-z][\w-]{0,30})\}?\s*[|\[]?\s*([^\]\n]*)")
_MARK = re.compile(r"==(?![\s=])[^=\n]{1,1000}(?<!\s)==")
_ATTRIBUTES = re.compile(f"^{ATTRIBUTES}")


def parse_text(markdown: str, first: int = 0, end: int | None = None, definitions: str = "") -> list[Token]:
    """Return the tokens of a text (LF line ends, without front matter), whose `map` counts its lines from 0.

    Args:
        markdown: the text.
        first: the line that is shown first, from 0. Those above are read, so that the rows of a table come with their
            header and code is code; code that begins above it is shown whole, but for more than WHOLE_LINES.
        end: the line behind the last that is shown; a block that begins above it is shown whole, but for such code.
            None: all lines.
        definitions: lines `[label]: target` from elsewhere in the file.
    """
    references: EnvType = {"lines": (0, None)}
    markdown = name_tabs(markdown)
    open_parser().parse(definitions, references)
    known = references.get("references", {})
    tokens = open_parser().parse(markdown, {"lines": (first, end), "references": known})
    for place, token in enumerate(tokens):
        if token.type == "inline" and token.children:
            _drop_notation(token.children, in_heading=tokens[place - 1].type == "heading_open")
    return tokens


def name_tabs(markdown: str) -> str:
    """Return a text whose `=== "Tab"` and tags of MDX are written as notes of the kind `tab`: one rule reads all."""
    lines, fence = [], ""
    markdown = drop_notation(markdown)
    for line in markdown.split("\n") if "===" in markdown else ():
        before, fence = fence, fence_after(fence, line)
        lines.append(line if before or fence else TAB.sub(r"\1!!! tab ", line))
    return "\n".join(lines) or markdown


def find_end(token: Token, lines: Sequence[str]) -> int:
    """Return the line behind a block's last line that is not blank, from 0."""
    first, end = token.map or (0, 0)
    while end > first + 1 and not lines[end - 1].strip():
        end -= 1
    return end


@cache
def open_parser() -> MarkdownIt:
    """Return the parser, made once."""
    # HTML is recognized so that it can be shown as what it is; the renderer never sends any.
    parser = MarkdownIt("commonmark", {"html": True, "tasklists": True, "xhtmlOut": False}).enable(
        ["table", "strikethrough"]
    )
    # The notes stay where they are written: their lines may be cited, and nothing may refer to them.
    parser.use(footnote_plugin, inline=False, move_to_end=False).use(deflist_plugin).use(admon_plugin)
    for name, marker in (("colons", ":"), ("slashes", "/")):
        parser.use(container_plugin, name, marker, lambda title, _: _CONTAINER.match(title) is not None)
    parser.use(
        dollarmath_plugin,
        allow_labels=False, allow_space=False, allow_digits=False, allow_blank_lines=False, double_inline=True,
    )  # fmt: skip
    parser.options["maxNesting"] = MAX_NESTING
    parser.core.ruler.before("inline", "callouts", _mark_callouts)
    parser.core.ruler.before("inline", "keep", _keep_lines)
    parser.core.ruler.at("inline", _parse_inline)
    parser.inline.ruler.before("link", "wikilink", parse_wikilink)
    parser.inline.ruler.before("link", "mark", _parse_mark)
    return parser


def _keep_lines(state: StateCore) -> None:
    """Leave out the blocks outside of the lines that are shown, and what of the next block is above them."""
    first, last = state.env["lines"]
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


def _mark_callouts(state: StateCore) -> None:
    """Make callouts of quotes that begin `[!note] Title`, of `:::note`, `/// note | Title` and `!!! note "Title"`."""
    kept: list[Token] = []
    opened: list[Token] = []
    following = iter(enumerate(state.tokens))
    for place, token in following:
        kept.append(token)
        if token.type in _OPENINGS:
            opened.append(token)
            if found := _read_callout(token, state.tokens[place + 1 : place + 3]):
                kind, title, fold, left_out = found
                kept += _make_callout(token, kind, title, fold)
                for _ in range(left_out):
                    next(following)
        elif token.type in _CLOSINGS:
            token.tag = opened.pop().tag
    state.tokens = kept


def _read_callout(token: Token, begins: list[Token]) -> tuple[str, str, str, int] | None:
    """Return its kind, its title, how it folds, and how many tokens its title takes; None for a quote that is none."""
    if token.type == "admonition_open":
        fold = "" if token.markup == "!!!" else token.markup.removeprefix("???") or "-"
        return token.meta["tag"], token.content, fold, 3 if token.content else 0
    if token.type != "blockquote_open":
        found = _CONTAINER.match(token.info)
        assert found is not None, "the parser has checked it"
        return found[1], found[2], "-" if found[1] == "details" else "", 0
    if [item.type for item in begins] != ["paragraph_open", "inline"]:
        return None
    first, _, rest = begins[1].content.partition("\n")
    found = _CALLOUT.match(first)
    if found is None:
        return None
    begins[1].content = rest
    return found[1].strip(), found[3] or "", found[2], 0 if rest.strip() else 3  # the paragraph held the title alone


_OPENINGS = frozenset({"blockquote_open", "container_colons_open", "container_slashes_open", "admonition_open"})
_CLOSINGS = frozenset(name.replace("_open", "_close") for name in _OPENINGS)


def _make_callout(token: Token, kind: str, title: str, fold: str) -> list[Token]:
    """Make a callout of a block, and return the tokens of its title; with `+` and `-` it is one that folds."""
    token.tag = "details" if fold else "div"
    token.attrs = {"class": f"callout {_STYLES.get(kind.lower(), 'note')}"}
    token.attrs |= {"open": ""} if fold == "+" else {} if fold else {"role": "note"}
    shown, tag, level = title.strip() or kind.capitalize(), "summary" if fold else "p", token.level + 1
    return [
        Token("paragraph_open", tag, 1, attrs={"class": "title"}, block=True, level=level),
        Token("inline", "", 0, content=shown, children=[], block=True, level=level + 1),
        Token("paragraph_close", tag, -1, block=True, level=level),
    ]


def _parse_inline(state: StateCore) -> None:
    """Do what markdown-it's rule does, but let paragraphs that are too long stay text."""
    for token in state.tokens:
        if token.type == "inline":
            token.children = token.children or []
            if len(token.content) <= MAX_INLINE_CHARS:
                state.md.inline.parse(token.content, state.md, state.env, token.children)
            else:
                token.children.append(Token("text", "", 0, content=token.content))


def _parse_mark(state: StateInline, silent: bool) -> bool:
    """Read `==text==` as marked text."""
    found = _MARK.match(state.src, state.pos, state.posMax)
    if found is None:
        return False
    if not silent:
        end, state.pos, state.posMax = state.posMax, found.start() + 2, found.end() - 2
        state.push("mark_open", "mark", 1).attrs = {"class": "written"}
        state.md.inline.tokenize(state)
        state.push("mark_close", "mark", -1)
        state.posMax = end
    state.pos = found.end()
    return True


def _drop_notation(children: Sequence[Token], *, in_heading: bool) -> None:
    """Remove icons of MkDocs, and attributes: of a heading at its end, else behind a picture or a link."""
    for before, child in zip((None, *children), children, strict=False):
        if child.type == "text":
            child.content = drop_icons(child.content)
            if before is not None and before.type in ("image", "link_close"):
                child.content = _ATTRIBUTES.sub("", child.content)
    last = children[-1]
    if in_heading and last.type == "text":
        last.content = split_attributes(last.content)[0]


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
