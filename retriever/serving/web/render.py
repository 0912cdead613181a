"""A document's Markdown as HTML that can do nothing: no raw HTML, and no address but those that are checked.

What is HTML in a document is shown as the text that it is. A link leads to this page's own view of a section, to
http, https or mail, or nowhere; a picture is one below an indexed folder, or is named. Everything else is CommonMark
with tables, as markdown-it reads it, and what `notation` adds.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_block import StateBlock, blockquote, list_block
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markupsafe import Markup

from pageindex.links import LinkKind
from pageindex.markdown import ATTRIBUTES, drop_icons, split_attributes
from pageindex.node import Span
from retriever.display.phrases import find_highlights
from retriever.display.sanitize import sanitize
from retriever.serving.web.notation import add_notation, write_formula

if TYPE_CHECKING:
    from markdown_it.parser_block import RuleFuncBlockType

MAX_INLINE_CHARS = 10_000  # a longer paragraph is shown as written: markdown-it's time on hostile text is quadratic
MAX_NESTING = 20  # lists and quotes in one another; deeper ones are read as paragraphs: markdown-it would drop them
SAFE_SCHEMES = ("http:", "https:", "mailto:")
# How a task is shown, by the mark in its brackets.
TASKS = {" ": ("☐", "to do"), "x": ("☑", "done"), "/": ("◪", "begun"), "-": ("☒", "dropped")}
LONG_CODE_LINE = 60  # characters; longer lines may have to be scrolled, so the keyboard must reach them

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_WIKILINK = re.compile(r"\[\[([^\[\]\n|]{1,999}+)(?:\|([^\[\]\n]{0,999}+))?\]\]")
_TAG_NAME = re.compile(r"</?[A-Za-z][A-Za-z0-9-]*")
_ALIGNED = {"text-align:left": "left", "text-align:center": "center", "text-align:right": "right"}

# (kind, path, anchor) as a document writes a link -> the address of what it leads to; None when it leads nowhere.
Resolver = Callable[[LinkKind, str, str], str | None]


# (a picture as a document writes it, whether it is embedded by its name) -> its address here; None: it is not shown.
PictureResolver = Callable[[str, bool], str | None]


def show_no_picture(source: str, by_name: bool) -> None:
    """A PictureResolver for a text whose folder is not looked at."""


def resolve_nothing(kind: LinkKind, path: str, anchor: str) -> None:
    """A Resolver for a text that is in no index."""


@dataclass(slots=True)
class RenderOptions:
    """How one text is rendered; belongs to one call of `render_markdown`."""

    resolve: Resolver = resolve_nothing
    picture: PictureResolver = show_no_picture
    words: frozenset[str] = frozenset()  # stems of the question's words, which are marked
    title: str = ""  # what stands above the text already: a first heading that says the same is left out
    top_level: int = 2  # the level that the text's highest heading gets
    passage: Span | None = None  # lines that are marked; None marks none
    passage_id: str = ""  # the id of the first block in them; empty for none
    first_line: int = 1  # the line of its file that the text begins with
    shift: int = 0
    open_links: list[str] = field(default_factory=list)  # the names of the elements of links that are not closed yet


def render_markdown(markdown: str, options: RenderOptions) -> Markup:
    """The text (LF line ends, without front matter) as HTML."""
    parser = _parser()
    env = {"options": options}
    tokens = parser.parse(markdown, env)
    for before, token in pairwise(tokens):
        if token.type == "inline" and token.children:
            drop_notation(token.children, in_heading=before.type == "heading_open")
    # A first heading that repeats the title is left out: the page shows the title above the text.
    if [token.type for token in tokens[:3]] == ["heading_open", "inline", "heading_close"]:
        texts = [child.content for child in tokens[1].children or () if child.type in ("text", "code_inline")]
        if "".join(texts).split() == options.title.split():
            tokens = tokens[3:]
    if options.passage is not None:
        first = options.passage.first - options.first_line
        mark_passage(tokens, markdown.split("\n"), first, first + len(options.passage), options.passage_id)
    # The highest heading of the text comes just below what stands above it.
    levels = [int(token.tag[1]) for token in tokens if token.type == "heading_open"]
    options.shift = options.top_level - min(levels, default=options.top_level)
    return Markup(parser.renderer.render(tokens, parser.options, env))  # its texts are escaped below


def drop_notation(children: Sequence[Token], *, in_heading: bool) -> None:
    """Takes icons of MkDocs off, and attributes: of a heading at its end, else behind a picture or a link."""
    for before, child in pairwise((None, *children)):
        if child is not None and child.type == "text":
            child.content = drop_icons(child.content)
            if before is not None and before.type in ("image", "link_close"):
                child.content = _ATTRIBUTES.sub("", child.content)
    last = children[-1]
    if in_heading and last.type == "text":
        last.content = split_attributes(last.content)[0]


_ATTRIBUTES = re.compile(f"^{ATTRIBUTES}")


def mark_passage(tokens: Sequence[Token], lines: Sequence[str], first: int, end: int, passage_id: str) -> None:
    """Gives the blocks that lie in lines of the text a class, and the first of them an id; else the one around them.

    Args:
        tokens: of the text.
        lines: the text.
        first: the first of the lines, from 0.
        end: behind the last.
        passage_id: the id; empty for none.
    """
    marked: list[Token] = []
    done, item, around = -1, None, None
    for token in tokens:
        if not token.map or token.nesting < 0 or token.type == "inline" or token.map[0] < done:
            continue
        start, after = token.map
        while after > start + 1 and not lines[after - 1].strip():
            after -= 1
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


def highlight(value: str, words: frozenset[str]) -> Markup:
    """The text, sanitized and escaped, with the question's words (stems) marked."""
    pieces: list[str] = []
    position = 0
    for start, end in find_highlights(value, words) if words else ():
        if start >= position:
            pieces.append(f"{_text(value[position:start])}<mark>{_text(value[start:end])}</mark>")
            position = end
    return Markup("".join(pieces) + _text(value[position:]))  # all of it is escaped above


def _attributes(token: Token, own_class: str) -> str:
    """The class that an element has by itself, and what `mark_passage` gave it."""
    marked, name = token.attrGet("class"), token.attrGet("id")
    return f' class="{own_class}{f" {marked}" if marked else ""}"' + (f' id="{name}"' if name else "")


def _text(value: str) -> str:
    return escape(sanitize(value))


@cache
def _parser() -> MarkdownIt:
    # HTML is recognised, so that it can be shown as what it is; the renderer below never sends any.
    parser = MarkdownIt("commonmark", {"html": True}, renderer_cls=_Renderer).enable(["table", "strikethrough"])
    parser.options["maxNesting"] = MAX_NESTING + 2
    parser.block.ruler.at("list", _limit_nesting(list_block), {"alt": ["paragraph", "reference", "blockquote"]})
    parser.block.ruler.at(
        "blockquote", _limit_nesting(blockquote), {"alt": ["paragraph", "reference", "blockquote", "list"]}
    )
    parser.core.ruler.at("inline", _parse_inline)
    parser.inline.ruler.before("link", "wikilink", _parse_wikilink)
    add_notation(parser)
    return parser


def _limit_nesting(rule: "RuleFuncBlockType") -> "RuleFuncBlockType":

    def limited(state: StateBlock, first: int, end: int, silent: bool) -> bool:
        return (silent or state.level < MAX_NESTING) and rule(state, first, end, silent)

    return limited


def _parse_inline(state: StateCore) -> None:
    """As markdown-it's rule, but paragraphs that are too long stay text."""
    for token in state.tokens:
        if token.type == "inline":
            token.children = token.children or []
            if len(token.content) <= MAX_INLINE_CHARS:
                state.md.inline.parse(token.content, state.md, state.env, token.children)
            else:
                token.children.append(Token("text", "", 0, content=token.content))


def _parse_wikilink(state: StateInline, silent: bool) -> bool:
    found = _WIKILINK.match(state.src, state.pos)
    if found is None:
        return False
    if not silent:
        token = state.push("wikilink", "", 0)
        token.content, token.meta = found[2] or found[1], {"target": found[1]}
    state.pos = found.end()
    return True


class _Renderer(RendererHTML):
    """Every rule that markdown-it has for something which could reach outside, or holds text, is replaced here."""

    def text(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401 - as declared
        # Plain `str`: markdown-it adds it to other text, and `Markup` would escape what it is added to.
        return str(highlight(tokens[place].content, env["options"].words))

    def code_inline(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        return f"<code>{highlight(tokens[place].content, env['options'].words)}</code>"

    def fence(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        language = (tokens[place].info.split() or [""])[0].strip("{}.")
        if language == "math":
            return self.math_block(tokens, place, options, env)
        label = f'<span class="language">{_text(language)}</span>' if language.replace("-", "").isalnum() else ""
        code = self._code(tokens[place].content, env["options"].words)
        return f"<div{_attributes(tokens[place], 'code')}>{label}{code}</div>"

    def code_block(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        return (
            f"<div{_attributes(tokens[place], 'code')}>{self._code(tokens[place].content, env['options'].words)}</div>"
        )

    def _code(self, content: str, words: frozenset[str]) -> str:
        is_wide = any(len(line) > LONG_CODE_LINE for line in content.split("\n"))
        focus = ' tabindex="0" role="group" aria-label="Code"' if is_wide else ""
        shown = content.removesuffix("\n")
        return f"<pre{focus}><code>{highlight(shown, words)}</code></pre>"

    def html_block(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        content = tokens[place].content.strip("\n")
        return f"<pre{_attributes(tokens[place], 'raw')}><code>{highlight(content, env['options'].words)}</code></pre>"

    def html_inline(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        content = tokens[place].content
        name = _TAG_NAME.match(content)
        shown = f"{name[0]}>" if name else content
        title = f' title="{_text(content)}"' if shown != content else ""
        return f'<span class="tag"{title}>{_text(shown)}</span>'

    def image(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401 - as declared
        described = self.renderInlineAsText(tokens[place].children, options, env)
        return self._picture(str(tokens[place].attrGet("src") or ""), described, env["options"], by_name=False)

    def embed(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        return self._picture(tokens[place].content, "", env["options"], by_name=True)

    def _picture(self, source: str, described: str, options: RenderOptions, *, by_name: bool) -> str:
        path = source if by_name else unquote(source.partition("#")[0].partition("?")[0])
        name = path.rstrip("/").rpartition("/")[2][:80]
        if not _SCHEME.match(source) and not source.startswith("//") and (address := options.picture(path, by_name)):
            alt = _text(described or name)
            return f'<img src="{_text(address)}" alt="{alt}" title="{alt}" loading="lazy" decoding="async">'
        return f'<span class="picture" title="{_text(source[:300])}"><b>Picture</b> {_text(described or name)}</span>'

    def blockquote_open(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        meta = tokens[place].meta
        if not meta:
            return "<blockquote>\n"
        if meta["fold"]:
            return f'<details class="callout {meta["callout"]}"{" open" if meta["fold"] == "+" else ""}>\n'
        return f'<div class="callout {meta["callout"]}" role="note">\n'

    def blockquote_close(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        meta = tokens[place].meta
        return "</blockquote>\n" if not meta else "</details>\n" if meta["fold"] else "</div>\n"

    def callout_title_open(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        return "<summary>" if tokens[place].meta["fold"] else '<p class="title">'

    def callout_title_close(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        return "</summary>\n" if tokens[place].meta["fold"] else "</p>\n"

    def task(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        sign, said = TASKS[tokens[place].content]
        return f'<span class="task" role="img" aria-label="{said}">{sign}</span> '

    def footnote_reference(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        meta = tokens[place].meta
        # Inside a footnote there is no number: its references are not numbered again.
        shown = _text(str(meta.get("number", "*")))
        return f'<sup class="footnote" title="{_text(meta["text"][:300])}">{shown}</sup>'

    def footnotes_open(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        return '<ol class="footnotes">\n'

    def footnotes_close(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        return "</ol>\n"

    def footnote_open(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        return "<li>"

    def footnote_close(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        return "</li>\n"

    def math(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        return f'<span class="math"{self._formula(tokens[place].content)}</span>'

    def math_block(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        return f'<div class="math block"{self._formula(tokens[place].content)}</div>\n'

    def _formula(self, latex: str) -> str:
        """The rest of the element: what was written as its title, and it as text, or in code where that fails."""
        shown = write_formula(sanitize(latex))
        return f' title="{_text(latex)}">{shown}' if shown else f"><code>{_text(latex)}</code>"

    def link_open(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        href, given = str(tokens[place].attrGet("href") or ""), env["options"]
        address, attributes = None, ""
        if href.lower().startswith(SAFE_SCHEMES) or href.startswith("//"):
            address = f"https:{href}" if href.startswith("//") else href
            attributes = ' rel="noreferrer noopener" class="outside"'
        elif href and not _SCHEME.match(href):
            path, _, anchor = href.partition("#")
            address = given.resolve(LinkKind.RELATIVE, unquote(path.partition("?")[0]), unquote(anchor))
        given.open_links.append("a" if address else "span")
        if address:
            return f'<a href="{_text(address)}"{attributes}>'
        return f'<span class="nowhere" title="{_text(unquote(href)[:300])}">'

    def link_close(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        return f"</{env['options'].open_links.pop()}>"

    def wikilink(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        path, _, anchors = tokens[place].meta["target"].removesuffix("\\").partition("#")
        address = env["options"].resolve(LinkKind.WIKILINK, path.strip(), anchors.rpartition("#")[2].strip())
        shown = highlight(tokens[place].content, env["options"].words)
        return f'<a href="{_text(address)}">{shown}</a>' if address else f'<span class="nowhere">{shown}</span>'

    def heading_open(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        return f"<h{self._level(tokens[place], env['options'])}>"

    def heading_close(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        return f"</h{self._level(tokens[place], env['options'])}>\n"

    def _level(self, heading: Token, options: RenderOptions) -> int:
        return min(6, max(2, int(heading.tag[1]) + options.shift))

    def table_open(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        return f'<div{_attributes(tokens[place], "scroll")} tabindex="0" role="group" aria-label="Table"><table>\n'

    def table_close(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        return "</table></div>\n"

    def th_open(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        return f'<th{self._alignment(tokens[place])} scope="col">'

    def td_open(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        return f"<td{self._alignment(tokens[place])}>"

    def _alignment(self, cell: Token) -> str:
        """A cell's alignment as a class: the page allows no style attributes."""
        aligned = _ALIGNED.get(str(cell.attrGet("style") or ""))
        return f' class="{aligned}"' if aligned else ""
