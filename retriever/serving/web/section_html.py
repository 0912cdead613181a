"""A document's Markdown as HTML that can do nothing: no raw HTML, and no address but those that are checked.

HTML in a document is shown as the text that it is. A link leads to this page's own view of a section, to http, https or
mail, or nowhere. A picture is named, and a formula is shown as it is written.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from urllib.parse import unquote

from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from markupsafe import Markup

from pageindex.links import LinkKind
from pageindex.node import Span
from retriever.display.phrases import find_highlights
from retriever.display.sanitize import sanitize
from retriever.serving.web.parse import mark_passage, open_parser, parse_text

SAFE_SCHEMES = ("http:", "https:", "mailto:")
LONG_CODE_LINE = 60  # characters; longer lines may have to be scrolled, so the keyboard must reach them

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_TAG_NAME = re.compile(r"</?[A-Za-z][A-Za-z0-9-]*")

# (kind, path, anchor) as a document writes a link -> the address of what it leads to; None when it leads nowhere.
Resolver = Callable[[LinkKind, str, str], str | None]


@dataclass(frozen=True, slots=True)
class RenderOptions:
    """How one text is rendered."""

    resolve: Resolver = lambda kind, path, anchor: None
    words: frozenset[str] = frozenset()  # stems of the question's words, which are marked
    title: str = ""  # what stands above the text already: a first heading that says the same is left out
    top_level: int = 2  # the level that the text's highest heading gets
    passage: Span | None = None  # lines that are marked; None marks none
    passage_id: str = ""  # the id of the first block in them; empty for none
    first_line: int = 1  # the line of its file that the text begins with
    definitions: str = ""  # lines `[label]: target` of the file that the text comes from


def render_markdown(markdown: str, options: RenderOptions) -> Markup:
    """Return the text (LF line ends, without front matter) as HTML."""
    tokens = parse_text(markdown, options.definitions)
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
    shift = options.top_level - min(levels, default=options.top_level)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, max(2, int(token.tag[1]) + shift))}"
        elif token.type in ("th_open", "td_open"):
            # The page allows no style attributes: a cell's alignment becomes a class.
            aligned = str(token.attrs.pop("style", "")).removeprefix("text-align:")
            token.attrs |= {"class": aligned} if aligned else {}
        for place, child in enumerate(token.children or ()):
            if child.type == "link_open":
                _resolve_link(child, (token.children or [])[place + 1 :], options)
    return Markup(_Renderer(options).render(tokens, open_parser().options, {}))  # its texts are escaped below


def highlight(value: str, words: frozenset[str]) -> Markup:
    """Return the text, sanitized and escaped, with the question's words (stems) marked."""
    pieces: list[str] = []
    position = 0
    for start, end in find_highlights(value, words) if words else ():
        if start >= position:
            pieces.append(f"{_text(value[position:start])}<mark>{_text(value[start:end])}</mark>")
            position = end
    return Markup("".join(pieces) + _text(value[position:]))  # all of it is escaped above


def _text(value: str) -> str:
    return escape(sanitize(value))


def _resolve_link(link: Token, following: Sequence[Token], options: RenderOptions) -> None:
    """Make the element of a link, up to its end, lead where it may; elsewhere it is a `span`."""
    href, address = str(link.attrGet("href") or ""), None
    attributes: dict[str, str | int | float] = {}
    if target := link.meta.get("wikilink"):
        path, _, anchors = target.partition("#")
        address = options.resolve(LinkKind.WIKILINK, path.strip(), anchors.rpartition("#")[2].strip())
    elif href.lower().startswith(SAFE_SCHEMES) or href.startswith("//"):
        address = f"https:{href}" if href.startswith("//") else href
        attributes = {"rel": "noreferrer noopener", "class": "outside"}
    elif href and not _SCHEME.match(href):
        path, _, anchor = href.partition("#")
        address = options.resolve(LinkKind.RELATIVE, unquote(path.partition("?")[0]), unquote(anchor))
    link.tag = "a" if address else "span"
    if not address:
        attributes = {"class": "nowhere", "title": sanitize(target or unquote(href))[:300]}
    link.attrs = {"href": sanitize(address), **attributes} if address else attributes
    # No link stands in a link, so the first end is its own.
    next(token for token in following if token.type == "link_close").tag = link.tag


class _Renderer(RendererHTML):
    """Render the tokens of one text; every rule that holds text, or could reach outside, is replaced here."""

    def __init__(self, options: RenderOptions) -> None:
        super().__init__()
        self._highlight = partial(highlight, words=options.words)

    def text(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        # Plain `str`: markdown-it adds it to other text, and `Markup` would escape what it is added to.
        return str(self._highlight(tokens[place].content))

    def code_inline(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        return f"<code>{self._highlight(tokens[place].content)}</code>"

    def fence(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        token = tokens[place]
        language = (token.info.split() or [""])[0].strip("{}.")
        label = f'<span class="language">{_text(language)}</span>' if language.replace("-", "").isalnum() else ""
        is_wide = any(len(line) > LONG_CODE_LINE for line in token.content.split("\n"))
        focus = ' tabindex="0" role="group" aria-label="Code"' if is_wide else ""
        code = token.content.removesuffix("\n")
        if not code.strip():  # the rest of the block is cut off
            return ""
        shown = self._highlight(code)
        return f"<div{self._attributes(token, 'code')}>{label}<pre{focus}><code>{shown}</code></pre></div>\n"

    def code_block(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        return self.fence(tokens, place, options, env)

    def html_block(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        shown = self._highlight(tokens[place].content.strip("\n"))
        return f"<pre{self._attributes(tokens[place], 'raw')}><code>{shown}</code></pre>\n"

    def html_inline(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        content = tokens[place].content
        name = _TAG_NAME.match(content)
        shown = f"{name[0]}>" if name else content
        title = f' title="{_text(content)}"' if shown != content else ""
        return f'<span class="tag"{title}>{_text(shown)}</span>'

    def image(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        token = tokens[place]
        embedded = token.meta.get("wikilink", "")
        source = embedded or str(token.attrGet("src") or "")
        path = embedded or unquote(source.partition("#")[0].partition("?")[0])
        alt = _text(self.renderInlineAsText(token.children, options, env) or path.rstrip("/").rpartition("/")[2][:80])
        return f'<span class="picture" title="{_text(source[:300])}"><b>Picture</b> {alt}</span>'

    def table_open(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        attributes = self._attributes(tokens[place], "scroll")
        return f'<div{attributes} tabindex="0" role="group" aria-label="Table"><table>\n'

    def table_close(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        return "</table></div>\n"

    def list_item_open(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        label = "done" if tokens[place].meta.get("checked") else "to do"
        return super().list_item_open(tokens, place, options, env).replace("<input", f'<input aria-label="{label}"')

    def math_inline(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        return f'<code class="math">{self._highlight(tokens[place].content)}</code>'

    math_inline_double = math_inline

    def math_block(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        return self.fence(tokens, place, options, env)

    def footnote_ref(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        return f"<sup>{_text(tokens[place].meta['label'])}</sup>"

    def footnote_reference_open(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        label = _text(tokens[place].meta["label"])
        return f"<div{self._attributes(tokens[place], 'footnote')}><sup>{label}</sup><div>\n"

    def footnote_reference_close(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        return "</div></div>\n"

    def _attributes(self, token: Token, own_class: str) -> str:
        """Return the class that an element has by itself, and what `mark_passage` gave it."""
        token.attrSet("class", " ".join(filter(None, (own_class, str(token.attrGet("class") or "")))))
        return self.renderAttrs(token)
