"""A document's Markdown as HTML that can do nothing: no raw HTML, no address but those that are checked, no pictures.

What is HTML in a document is shown as the text that it is. A link leads to this page's own view of a section, to
http, https or mail, or nowhere. Everything else is CommonMark with tables, as markdown-it reads it.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_block import StateBlock, blockquote, list_block
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from pageindex.links import LinkKind
from pageindex.markdown import split_attributes
from retriever.display.phrases import find_highlights
from retriever.serving.web.elements import Html, element, markup, text

if TYPE_CHECKING:
    from markdown_it.parser_block import RuleFuncBlockType

MAX_INLINE_CHARS = 10_000
"""A longer paragraph is shown as it is written: markdown-it's time on hostile text grows with the square of it."""
MAX_NESTING = 20
"""Lists and quotes in one another; what is deeper is read as paragraphs, where markdown-it would drop it."""
SAFE_SCHEMES = ("http:", "https:", "mailto:")
LONG_CODE_LINE = 60
"""Characters: longer lines may have to be scrolled, so that the keyboard must reach them."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_WIKILINK = re.compile(r"\[\[([^\[\]\n|]{1,999}+)(?:\|([^\[\]\n]{0,999}+))?\]\]")
_TAG_NAME = re.compile(r"</?[A-Za-z][A-Za-z0-9-]*")
_ALIGNED = {"text-align:left": "left", "text-align:center": "center", "text-align:right": "right"}

Resolver = Callable[[LinkKind, str, str], str | None]
"""(kind, path, anchor) as a document writes a link -> the address of what it leads to; None when it leads nowhere."""


def nowhere(kind: LinkKind, path: str, anchor: str) -> None:
    """Resolves no link."""


@dataclass(slots=True)
class Surroundings:
    """What a text is rendered with."""

    resolve: Resolver = nowhere
    words: frozenset[str] = frozenset()
    """Stems of the question's words, which are marked."""
    title: str = ""
    """What stands above the text already: a first heading that says the same is left out."""
    top_level: int = 2
    """The level that the text's highest heading gets."""
    shift: int = 0
    open_links: list[str] = field(default_factory=list)
    """The elements of links that are not closed yet."""


def rendered(markdown: str, around: Surroundings) -> Html:
    """The text as elements.

    Args:
        markdown: LF line ends, without front matter; any text.
        around: belongs to this call.
    """
    parser = _parser()
    env = {"around": around}
    tokens = _without_title(parser.parse(markdown, env), around.title)
    levels = [int(token.tag[1]) for token in tokens if token.type == "heading_open"]
    around.shift = around.top_level - min(levels, default=around.top_level)
    return Html(parser.renderer.render(tokens, parser.options, env))


def marked(value: str, words: frozenset[str]) -> Html:
    """The text with the question's words marked."""
    pieces: list[Html] = []
    position = 0
    for start, end in find_highlights(value, words) if words else ():
        if start >= position:
            pieces += [text(value[position:start]), element("mark", value[start:end])]
            position = end
    return markup(pieces, text(value[position:]))


def _without_title(tokens: Sequence[Token], title: str) -> list[Token]:
    """The tokens without a first heading that repeats the title; attributes of headings are taken off."""
    for place, token in enumerate(tokens):
        if token.type == "inline" and tokens[place - 1].type == "heading_open" and token.children:
            last = token.children[-1]
            last.content = split_attributes(last.content)[0] if last.type == "text" else last.content
    first = [token.type for token in tokens[:3]] == ["heading_open", "inline", "heading_close"]
    repeats = first and "".join(_texts(tokens[1])).split() == title.split()
    return list(tokens[3:] if repeats else tokens)


def _texts(inline: Token) -> list[str]:
    return [child.content for child in inline.children or () if child.type in ("text", "code_inline")]


@cache
def _parser() -> MarkdownIt:
    # HTML is recognised, so that it can be shown as what it is; the renderer below never sends any.
    parser = MarkdownIt("commonmark", {"html": True}, renderer_cls=_Renderer).enable(["table", "strikethrough"])
    parser.options["maxNesting"] = MAX_NESTING + 2
    parser.block.ruler.at("list", _bounded(list_block), {"alt": ["paragraph", "reference", "blockquote"]})
    parser.block.ruler.at("blockquote", _bounded(blockquote), {"alt": ["paragraph", "reference", "blockquote", "list"]})
    parser.core.ruler.at("inline", _inline)
    parser.inline.ruler.before("link", "wikilink", _wikilink)
    return parser


def _bounded(rule: "RuleFuncBlockType") -> "RuleFuncBlockType":
    """The rule, but not deeper than MAX_NESTING."""

    def bounded(state: StateBlock, first: int, end: int, silent: bool) -> bool:
        return (silent or state.level < MAX_NESTING) and rule(state, first, end, silent)

    return bounded


def _inline(state: StateCore) -> None:
    """As markdown-it's rule, but paragraphs that are too long stay text."""
    for token in state.tokens:
        if token.type == "inline":
            token.children = token.children or []
            if len(token.content) <= MAX_INLINE_CHARS:
                state.md.inline.parse(token.content, state.md, state.env, token.children)
            else:
                token.children.append(Token("text", "", 0, content=token.content))


def _wikilink(state: StateInline, silent: bool) -> bool:
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
        return marked(tokens[place].content, env["around"].words)

    def code_inline(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        return element("code", marked(tokens[place].content, env["around"].words))

    def fence(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        language = (tokens[place].info.split() or [""])[0].strip("{}.")
        label = element("span", language, class_="language") if language.replace("-", "").isalnum() else None
        return element("div", label, _code(tokens[place].content, env["around"].words), class_="code")

    def code_block(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        return element("div", _code(tokens[place].content, env["around"].words), class_="code")

    def html_block(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        content = tokens[place].content.strip("\n")
        return element("pre", element("code", marked(content, env["around"].words)), class_="raw")

    def html_inline(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        content = tokens[place].content
        name = _TAG_NAME.match(content)
        shown = f"{name[0]}>" if name else content
        return element("span", shown, class_="tag", title=content if shown != content else None)

    def image(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        described = self.renderInlineAsText(tokens[place].children, options, env)
        source = str(tokens[place].attrGet("src") or "")
        name = unquote(source.partition("?")[0].rstrip("/").rpartition("/")[2])[:80]
        return element("span", element("b", "Picture"), " ", described or name, class_="picture", title=source[:300])

    def link_open(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        around: Surroundings = env["around"]
        opening, name = _opened_link(str(tokens[place].attrGet("href") or ""), around.resolve)
        around.open_links.append(name)
        return opening

    def link_close(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        return f"</{env['around'].open_links.pop()}>"

    def wikilink(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        path, _, anchors = tokens[place].meta["target"].removesuffix("\\").partition("#")
        address = env["around"].resolve(LinkKind.WIKILINK, path.strip(), anchors.rpartition("#")[2].strip())
        shown = marked(tokens[place].content, env["around"].words)
        return element("a", shown, href=address) if address else element("span", shown, class_="nowhere")

    def heading_open(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        return f"<h{_level(tokens[place], env)}>"

    def heading_close(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        return f"</h{_level(tokens[place], env)}>\n"

    def table_open(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        return '<div class="scroll" tabindex="0" role="group" aria-label="Table"><table>\n'

    def table_close(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        return "</table></div>\n"

    def th_open(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        return _cell("th", tokens[place])

    def td_open(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:  # noqa: ANN401
        return _cell("td", tokens[place])


def _cell(name: str, token: Token) -> str:
    """Its alignment is a class: the page allows no style attributes."""
    aligned = _ALIGNED.get(str(token.attrGet("style") or ""))
    return element(name, class_=aligned, scope="col" if name == "th" else None).removesuffix(f"</{name}>")


def _level(token: Token, env: Any) -> int:  # noqa: ANN401 - markdown-it's
    around: Surroundings = env["around"]
    return min(6, max(2, int(token.tag[1]) + around.shift))


def _code(content: str, words: frozenset[str]) -> Html:
    wide = any(len(line) > LONG_CODE_LINE for line in content.split("\n"))
    focus: dict[str, str] = {"tabindex": "0", "role": "group", "aria_label": "Code"} if wide else {}
    return element("pre", element("code", marked(content.removesuffix("\n"), words)), **focus)


def _opened_link(href: str, resolve: Resolver) -> tuple[str, str]:
    """The opening tag of a link, and the name of its element."""
    if href.lower().startswith(SAFE_SCHEMES) or href.startswith("//"):
        address = f"https:{href}" if href.startswith("//") else href
        return f'<a href="{text(address)}" rel="noreferrer noopener" class="outside">', "a"
    path, _, anchor = href.partition("#")
    found = None
    if href and not _SCHEME.match(href):
        found = resolve(LinkKind.RELATIVE, unquote(path.partition("?")[0]), unquote(anchor))
    if found:
        return f'<a href="{text(found)}">', "a"
    return f'<span class="nowhere" title="{text(unquote(href)[:300])}">', "span"
