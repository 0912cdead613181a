"""A document's Markdown as the tokens that a page shows: CommonMark and what notes add to it.

markdown-it and its plugins read tables, task lists, footnotes, definitions and formulas. The rules here add wikilinks,
embedded pictures and callouts, and leave out lines that belong to another page.
"""

import re
from collections.abc import Sequence
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import EnvType
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.footnote import footnote_plugin

from pageindex.markdown import ATTRIBUTES, MAX_NESTING, WIKILINK, drop_icons, split_attributes, up_to_nesting
from retriever.serving.web.pictures import PICTURE_SUFFIXES

MAX_INLINE_CHARS = 10_000  # a longer paragraph is shown as written: markdown-it's time on hostile text is quadratic

# The styles of callouts, with the types that are drawn so; all others are drawn as notes.
CALLOUT_STYLES = {
    "tip": "tip hint success check done",
    "doubt": "question help faq important warning caution attention",
    "danger": "failure fail missing danger error bug",
}

_STYLES = {kind: style for style, kinds in CALLOUT_STYLES.items() for kind in kinds.split()}
_CALLOUT = re.compile(r"\[!([A-Za-z][A-Za-z0-9_ -]{0,30})\]([+-]?)(?:[ \t]+(.*))?$")
_ATTRIBUTES = re.compile(f"^{ATTRIBUTES}")


def parse_text(markdown: str, skipped_lines: int = 0, definitions: str = "") -> list[Token]:
    """Return the tokens of a text (LF line ends, without front matter), whose `map` counts its lines from 0.

    Args:
        markdown: the text.
        skipped_lines: how many lines at its beginning are read, but not returned. What they begin is returned from the
            next line on: the rows of a table with their header, code as code.
        definitions: lines `[label]: target` from elsewhere in the file.
    """
    references: EnvType = {"skipped_lines": 0}
    open_parser().parse(definitions, references)
    known = references.get("references", {})
    tokens = open_parser().parse(markdown, {"skipped_lines": skipped_lines, "references": known})
    for place, token in enumerate(tokens):
        if token.type == "inline" and token.children:
            _drop_notation(token.children, in_heading=tokens[place - 1].type == "heading_open")
    return tokens


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
    parser.use(footnote_plugin, inline=False, move_to_end=False).use(deflist_plugin)
    parser.use(
        dollarmath_plugin,
        allow_labels=False, allow_space=False, allow_digits=False, allow_blank_lines=False, double_inline=True,
    )  # fmt: skip
    parser.options["maxNesting"] = MAX_NESTING + 2
    for rule in parser.block.ruler.__rules__:
        if rule.name in ("list", "blockquote", "footnote_def", "deflist"):
            rule.fn = up_to_nesting(rule.fn)
    parser.core.ruler.before("inline", "callouts", _mark_callouts)
    parser.core.ruler.before("inline", "skip", _skip_lines)
    parser.core.ruler.at("inline", _parse_inline)
    parser.inline.ruler.before("link", "wikilink", _parse_wikilink)
    return parser


def _skip_lines(state: StateCore) -> None:
    """Leave out the blocks of the lines that are skipped, and what of the next block is in them."""
    first = state.env["skipped_lines"]
    if not first:
        return
    lines = state.src.split("\n")
    kept: list[Token] = []
    left_level: int | None = None  # of the block whose closing token is awaited, for it is left out
    lists: list[Token] = []
    for token in state.tokens:
        if left_level is not None:
            left_level = None if token.nesting < 0 and token.level == left_level else left_level
            continue
        is_header = "thead_open" in (token.type, kept[-1].type if kept else "")
        if token.map and token.nesting >= 0 and token.type != "inline" and not is_header:
            begin, end = token.map[0], find_end(token, lines)
            if end <= first:
                left_level = token.level if token.nesting else None
                continue
            if begin < first and token.type in ("fence", "code_block", "html_block"):
                opening = token.type == "fence"
                token.content = "\n".join(token.content.split("\n")[first - begin - opening :])
                token.map = [first - opening, token.map[1]]
        kept.append(token)
        if token.type == "ordered_list_open":
            lists.append(token)
        elif token.type == "list_item_open" and token.info and kept[-2] is lists[-1]:
            lists[-1].attrSet("start", token.info)  # the item that is now the first
        elif token.type == "ordered_list_close":
            lists.pop()
    state.tokens = kept


def _mark_callouts(state: StateCore) -> None:
    """Make a callout with its title of a quote that begins `[!note] Title`; with `+` and `-` behind one that folds."""
    kept: list[Token] = []
    opened: list[Token] = []
    following = iter(enumerate(state.tokens))
    for place, token in following:
        kept.append(token)
        if token.type == "blockquote_open":
            opened.append(token)
            begins = state.tokens[place + 1 : place + 3]
            if [item.type for item in begins] != ["paragraph_open", "inline"]:
                continue
            first, _, rest = begins[1].content.partition("\n")
            found = _CALLOUT.match(first)
            if found is None:
                continue
            kind, fold = found[1].strip().lower(), found[2]
            token.tag = "details" if fold else "div"
            token.attrSet("class", f"callout {_STYLES.get(kind, 'note')}")
            token.attrs |= {"open": ""} if fold == "+" else {} if fold else {"role": "note"}
            tag, title = "summary" if fold else "p", (found[3] or "").strip() or kind.capitalize()
            kept += [
                Token("paragraph_open", tag, 1, attrs={"class": "title"}, block=True, level=token.level + 1),
                Token("inline", "", 0, content=title, children=[], block=True, level=token.level + 2),
                Token("paragraph_close", tag, -1, block=True, level=token.level + 1),
            ]
            begins[1].content = rest
            if not rest.strip():  # the paragraph held the title alone
                for _ in range(3):
                    next(following)
        elif token.type == "blockquote_close":
            token.tag = opened.pop().tag
    state.tokens = kept


def _parse_inline(state: StateCore) -> None:
    """Do what markdown-it's rule does, but let paragraphs that are too long stay text."""
    for token in state.tokens:
        if token.type == "inline":
            token.children = token.children or []
            if len(token.content) <= MAX_INLINE_CHARS:
                state.md.inline.parse(token.content, state.md, state.env, token.children)
            else:
                token.children.append(Token("text", "", 0, content=token.content))


def _parse_wikilink(state: StateInline, silent: bool) -> bool:
    """Read `[[note#Part|label]]` as a link and `![[picture.png|300]]` as an image, both with a `wikilink` in `meta`."""
    found = WIKILINK.match(state.src, state.pos)
    target = found[1].strip().removesuffix("\\") if found else ""
    if found is None or not target or "\n" in found[0]:
        return False
    is_picture = found[0].startswith("!")
    if is_picture and not target.lower().endswith(PICTURE_SUFFIXES):
        return False
    if not silent:
        opening = state.push("image" if is_picture else "link_open", "", 0 if is_picture else 1)
        opening.meta = {"wikilink": target}
        if not is_picture:
            state.push("text", "", 0).content = found[2] or found[1].removesuffix("\\")
            state.push("link_close", "", -1)
    state.pos = found.end()
    return True


def _drop_notation(children: Sequence[Token], *, in_heading: bool) -> None:
    """Take off icons of MkDocs, and attributes: of a heading at its end, else behind a picture or a link."""
    for before, child in zip((None, *children), children, strict=False):
        if child.type == "text":
            child.content = drop_icons(child.content)
            if before is not None and before.type in ("image", "link_close"):
                child.content = _ATTRIBUTES.sub("", child.content)
    last = children[-1]
    if in_heading and last.type == "text":
        last.content = split_attributes(last.content)[0]


def mark_passage(tokens: Sequence[Token], lines: Sequence[str], first: int, end: int, passage_id: str) -> None:
    """Give the blocks that lie in a passage a class, and the first of them an id; else the block around it.

    Args:
        tokens: of the text.
        lines: the text.
        first: the passage's first line, from 0.
        end: the line behind its last.
        passage_id: the id; empty for none.
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
    if passage_id and found:
        found[0].attrSet("id", passage_id)
