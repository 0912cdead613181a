"""A document's Markdown as HTML that can do nothing: what nh3 lets through, and no address but those that are checked.

markdown-it and its plugins read tables, task lists, footnotes, definitions, formulas, admonitions and containers;
wikilinks and embedded pictures are read as the index reads them. A rule here makes containers of callouts in quotes.

markdown-it's renderer writes the HTML, with rules here for what it does not know, and nh3 makes it safe, whatever a
document or a rule wrote. An element of HTML that a document may have is shown as one; any other, as `<script>`, as it
is written. A link leads to this page's own view of a section, to http, https or mail, or nowhere; a picture is one
below an indexed folder, or is named.
"""

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from html import escape, unescape
from pathlib import PurePosixPath
from textwrap import dedent
from urllib.parse import unquote
from xml.etree import ElementTree

import nh3
import pygments
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markdown_it.utils import EnvType
from markupsafe import Markup
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.token import STANDARD_TYPES

from pageindex.blocks import read_callout, show_role, split_attributes
from pageindex.corpus import UnreadableDocumentError, find_document, read_file
from pageindex.dialects import COMMONMARK, MAX_NESTING, Dialect, add_rules
from pageindex.links import LinkKind, join_path
from pageindex.node import Span, Unit, UnitKind
from pageindex.rules import COMPONENT, PICTURE_TYPES, show_component, split_words
from pageindex.text import sanitize
from retriever.display import find_highlights
from retriever.errors import UsageError
from retriever.indexing.request import FolderAccess
from retriever.searching.hits import find_opening
from retriever.searching.passage import join
from retriever.types import Marked

# Parsing: the lines and the tokens that a page shows.

WHOLE = (UnitKind.PARAGRAPH, UnitKind.QUOTE)  # units that are not cut

MAX_INLINE_CHARS = 10_000  # a longer paragraph is shown as written: markdown-it's time on hostile text is quadratic


def widen(span: Span, units: Sequence[Unit]) -> Span:
    """Return some lines of a section with the rest of the paragraphs and quotes that they cut."""
    for unit in (*reversed(units), *units):
        if unit.kind in WHOLE and unit.span.overlap(span):
            span = join([span, unit.span])
    return span


def cut_lines(body: Sequence[str], first: int, end: int, code: Sequence[str] = ()) -> str:
    """Return lines of a text as Markdown that can be read alone: below what opens their block.

    Args:
        body: the lines of the text.
        first: the first of them, from 0.
        end: the line behind the last.
        code: the lines that are known to be code, which may have no fences.
    """
    first = min(first, len(body) - 1)  # the text may be shorter than it was
    filled = [row for row in body[first:end] if row.strip()]
    opening = find_opening(body, first) or ["```"] * (filled == list(code[: len(filled)]))
    return "\n".join(dedent("\n".join(rows)) for rows in (opening, body[first:end]) if rows)


@cache
def open_page_parser(dialect: Dialect) -> MarkdownIt:
    """Return the parser of a dialect's pages, made once."""
    # HTML is recognized so that it can be shown as what it is; the renderer never sends any.
    parser = MarkdownIt("commonmark", {"html": True, "tasklists": True, "xhtmlOut": False, "maxNesting": MAX_NESTING})
    add_rules(parser, dialect)
    parser.core.ruler.before("inline", "prepare", _prepare_inline)
    return parser


def _prepare_inline(state: StateCore) -> None:
    """Make containers of quotes that begin `[!note] Title`, and leave attributes and hostile paragraphs unread."""
    for place, token in enumerate(state.tokens):
        if token.type == "blockquote_open" and state.tokens[place + 1].type == "paragraph_open":
            opening, text, closing = state.tokens[place + 1 : place + 4]
            first, _, rest = text.content.partition("\n")
            if found := read_callout(first):
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
    r"""Give the blocks that lie in a passage a class, and the first of them an id; else the block around it.

    Args:
        tokens: of the text.
        lines: the text.
        first: the passage's first line, from 0.
        end: the line behind its last.

    >>> def mark(text: str, first: int, end: int) -> list[str]:
    ...     tokens = open_page_parser(COMMONMARK).parse(text)
    ...     mark_passage(tokens, text.split("\n"), first, end)
    ...     return [f"{token.tag} {token.map} {token.attrs.get('id')}" for token in tokens if "class" in token.attrs]
    >>> page = "One\ntwo.\n\n- three\n- four\n  five\n\nsix\n\n> seven\n>\n> eight\n"
    >>> mark(page, 0, 2), mark(page, 1, 2), mark(page, 4, 6), mark(page, 5, 6)
    (['p [0, 2] passage'], ['p [0, 2] passage'], ['li [4, 7] passage'], ['ul [3, 7] passage'])
    >>> mark(page, 3, 8), mark(page, 11, 12), mark(page, 2, 3)
    (['ul [3, 7] passage', 'p [7, 8] None'], ['p [11, 12] passage'], [])
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
    if found:
        found[0].attrSet("id", "passage")


# Writing: the tokens as HTML.

SAFE_SCHEMES = ("http:", "https:", "mailto:")
MAX_FORMULA_CHARS = 2_000  # a longer one is shown as written

# Of code in one block and in one text: what is beyond is shown in one colour. Lexers take up to the square of it, the
# slowest 2 s for such a block.
MAX_COLORED_CHARS, MAX_ALL_COLORED_CHARS = 5_000, 20_000
# The languages that are coloured, by the names that Pygments knows: of its other lexers nobody has seen the worst time.
COLORED = split_words(
    """bash c cpp csharp css diff dockerfile go html http ini java javascript js json jsx kotlin lua php powershell
    python py r ruby rust scala sh shell sql swift toml ts tsx typescript xml yaml yml"""
)
_COLORS = HtmlFormatter(nowrap=True, classprefix="code-")

# Types of callouts that are drawn in their own way (static/page.css); all others are drawn as notes.
CALLOUTS = split_words(
    """tip hint success check done question help faq important warning caution attention failure fail missing danger
    error bug quote cite example tab"""
)

# What a document's HTML may hold: elements that lay out text.
ELEMENTS = split_words(
    """a abbr b bdi bdo big blockquote br caption center cite code col colgroup dd del details dfn div dl dt em
    figcaption figure font h1 h2 h3 h4 h5 h6 hr i ins kbd li mark ol p picture pre q rp rt ruby s samp section small
    source span strike strong sub summary sup table tbody td tfoot th thead tr u ul var wbr"""
)
_MATHML = split_words(
    """math menclose mfrac mi mn mo mover mroot mrow ms mspace msqrt mstyle msub msubsup msup mtable mtd mtext mtr
    munder munderover"""
)
_CLASSES = {
    *(f"code-{name}" for name in STANDARD_TYPES.values()),
    *CALLOUTS,
    *split_words(
        """callout center code contains-task-list footnote formula language left math note passage picture right
        task-list-item title written"""
    ),
}
_ADDRESSES = {
    "href": ("/read?", *SAFE_SCHEMES),
    "src": ("/picture?",),
    "id": ("passage",),
}
_TAG = re.compile(r"</?([A-Za-z][A-Za-z0-9-]*)[^<>]*>")
_ATTRIBUTE = re.compile(r"\s(src|alt)\s*=\s*[\"']?([^\"'<>]{1,2000})", re.IGNORECASE)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_BEHIND_TAG = re.compile(r"(?:^|(?<=>))[^<]+")  # a text, where nh3 has escaped all signs that are no tags


def _check_attribute(element: str, name: str, value: str) -> str | None:
    """Return the value of an attribute; None for one that could lead elsewhere, or stand for a part of the page."""
    beginnings = _ADDRESSES.get(name, "")
    return sanitize(value) if value.lower().startswith(beginnings) else None


_SANITIZER = nh3.Cleaner(
    tags={*ELEMENTS, *_MATHML, "img", "input"},
    attributes={
        "*": {"id", "title"},
        "a": {"href"},
        "img": {"src", "alt", "loading", "decoding"},
        "input": {"type", "checked", "disabled"},
        "ol": {"start"},
        "td": {"colspan", "rowspan"},
        "th": {"colspan", "rowspan"},
        "details": {"open"},
        # No links, no styles, and no size that could reach over what is beside a formula.
        **dict.fromkeys(
            _MATHML,
            split_words(
                """display displaystyle mathvariant stretchy fence form separator accent accentunder movablelimits
                columnalign rowlines columnlines notation"""
            ),
        ),
    },
    tag_attribute_values={
        "div": {"role": {"note"}},
        "mspace": {"width": {"0.167em", "0.222em", "0.278em", "1em", "2em"}},
        "mfrac": {"linethickness": {"0"}},
    },
    # What is wider than the page is scrolled, and so the keyboard must reach it.
    set_tag_attribute_values={"pre": {"tabindex": "0"}, "table": {"tabindex": "0"}, "input": {"aria-label": "Task"}},
    allowed_classes=dict.fromkeys((*ELEMENTS, "img", "input"), _CLASSES),
    attribute_filter=_check_attribute,
    link_rel="noreferrer noopener",
)


@dataclass(frozen=True)
class RenderOptions:
    """How one text is rendered."""

    # (kind, path, anchor) as a document writes a link -> the address of what it leads to; None when it leads nowhere.
    resolve: Callable[[LinkKind, str, str], str | None] = lambda kind, path, anchor: None
    # The path of a picture as a document writes it -> its address; None: it is not shown.
    picture: Callable[[str], str | None] = lambda source: None
    marked: Marked = ((), ())  # the question's words
    title: str = ""  # shown above the text already: a first heading that says the same is left out
    top_level: int = 2  # the level that the text's highest headings get
    passage: Span | None = None  # lines that are marked, with an id; None marks none
    first_line: int = 1  # the line of its file that the text begins with
    dialect: Dialect = COMMONMARK  # of the file
    definitions: str = ""  # lines `[label]: target` of the file that the text comes from
    unfolded: bool = False  # what folds is open: an answer in it is to be seen


def render_markdown(markdown: str, options: RenderOptions) -> Markup:
    r"""Return the text (LF line ends, without front matter) as HTML.

    >>> render_markdown("# A <b>title</b>\n\nText.", RenderOptions(title="A title"))
    Markup('<p>Text.</p>\n')
    >>> "xxx" in render_markdown("    " + 10_001 * "x", RenderOptions())
    True
    """
    parser = open_page_parser(options.dialect)
    links: EnvType = {}  # by their labels
    parser.parse(options.definitions, links)
    tokens = parser.parse(options.dialect.unfold(markdown), links)
    # A first heading that repeats the title is left out: the page shows the title above the text.
    if [token.type for token in tokens[:3]] == ["heading_open", "inline", "heading_close"]:
        texts = [child.content for child in tokens[1].children or () if child.type in ("text", "code_inline")]
        if "".join(texts).split() == options.title.split():
            tokens = tokens[3:]
    if options.passage is not None:
        first = options.passage.first - options.first_line
        mark_passage(tokens, markdown.split("\n"), first, first + len(options.passage))
    arrange_headings(tokens, options.top_level)
    html = _Writer(options).render(tokens)

    def mark(text: re.Match[str]) -> str:
        return highlight(unescape(text[0]), options.marked)

    return Markup(_BEHIND_TAG.sub(mark, _SANITIZER.clean(html)))  # nh3 has made it safe, and `mark` escapes texts


def arrange_headings(tokens: Sequence[Token], top_level: int) -> None:
    """Put the highest headings at this level, and each other one just below the one that it is in.

    Notes skip levels, and a page whose levels have gaps is hard to follow with a screen reader.
    """
    levels: list[int] = []
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            level = int(token.tag[1])
            levels = [*(above for above in levels if above < level), level]
            token.tag = f"h{min(6, top_level + len(levels) - 1)}"


def highlight(value: str, marked: Marked) -> Markup:
    """Return the text, sanitized and escaped, with the question's words marked."""
    pieces: list[str] = []
    position = 0
    for start, end in find_highlights(value, *marked):
        pieces.append(f"{_text(value[position:start])}<mark>{_text(value[start:end])}</mark>")
        position = end
    return Markup("".join(pieces) + _text(value[position:]))  # all of it is escaped above


def write_formula(latex: str, *, block: bool = False) -> str:
    r"""Return a formula as MathML, which browsers show without a script; as code where it cannot be read.

    >>> write_formula(r"<\frac")
    '<code class="math">&lt;\\frac</code>'
    >>> write_formula(2000 * "x")[:5], write_formula(2001 * "x")[:5]
    ('<span', '<code')
    """
    from latex2mathml.converter import Converter  # 0.1 s: it reads a table of symbols, for the first formula alone

    try:
        if len(latex) > MAX_FORMULA_CHARS:
            raise ValueError(f"a formula of {len(latex):,} characters")
        math = Converter(display="block" if block else "inline").convert_to_element(latex)
    # The converter's errors have no class in common, and RecursionError and IndexError are among them.
    except Exception:
        return f'<code class="math">{escape(latex)}</code>'
    for element in math.iter():
        element.text = sanitize(unescape(element.text or ""))
    return f'<span class="math" title="{escape(latex)}">{ElementTree.tostring(math, encoding="unicode")}</span>'


def _text(value: str) -> str:
    return escape(sanitize(value))


class _Writer:
    """Writes what markdown-it's renderer does not know, or could lead elsewhere, as HTML in the tokens of one text."""

    def __init__(self, options: RenderOptions) -> None:
        self._options = options
        self._parser = open_page_parser(options.dialect)
        self._uncolored = MAX_ALL_COLORED_CHARS
        self._opened: list[str] = []  # elements of callouts

    def render(self, tokens: Sequence[Token]) -> str:
        self._write(tokens)
        html: str = self._parser.renderer.render(tokens, self._parser.options, {})
        return html

    def _write(self, tokens: Sequence[Token]) -> None:
        for place, token in enumerate(tokens):
            if token.type in ("th_open", "td_open"):
                # The page allows no style attributes: a cell's alignment becomes a class.
                if style := str(token.attrs.get("style", "")):
                    token.attrSet("class", style.removeprefix("text-align:"))
                if not tokens[place + 1].content:  # the header of nothing
                    token.tag = tokens[place + 2].tag = "td"
            html = self._write_block(token)
            if html is not None:
                token.type, token.content = "html_block", html
            self._write(token.children or [])

    def _write_block(self, token: Token) -> str | None:
        match token.type:
            case "fence" | "code_block" | "include" | "math_block":
                return self._write_code(token)
            case "html_block":
                return self._write_html(token.content)
            case "container_open":
                return self._open_callout(token)
            case "container_close":
                return f"</{self._opened.pop()}>\n"
            case "component":
                return f'<p class="title">{escape(token.meta["title"])}</p>\n' if token.meta["title"] else ""
            case "footnote_reference_open":
                token.attrJoin("class", "footnote")
                return f"<div{RendererHTML.renderAttrs(token)}><sup>{escape(token.meta['label'])}</sup><div>\n"
            case "footnote_reference_close":
                return "</div></div>\n"
            case "hidden" | "hidden_block" | "myst_line_comment" | "myst_target" | "myst_block_break":
                return ""
        return self._write_inline(token)

    def _write_inline(self, token: Token) -> str | None:
        match token.type:
            case "math_inline" | "math_inline_double":
                return write_formula(token.content)
            case "html_inline":
                return self._write_html(token.content)
            case "link_open":
                href = str(token.attrs.get("href", ""))
                address = self._find_address(href)
                token.attrs = {"href": address} if address else {"title": unquote(href)[:300]}
            case "wikilink":
                return self._write_wikilink(token)
            case "image":
                alt = "".join(child.content for child in token.children or ())
                return self._show_picture(str(token.attrs.get("src", "")), alt)
            case "footnote_ref":
                return f"<sup>{escape(token.meta['label'])}</sup>"
            case "myst_role":
                return f"<code>{escape(show_role(token.content))}</code>"
        return None

    def _open_callout(self, token: Token) -> str:
        kind, title, fold = token.meta["kind"], token.meta["title"].strip(), token.meta["fold"]
        folds = bool(fold) or kind == "details"
        element, title_element = ("details", "summary") if folds else ("div", "p")
        self._opened.append(element)
        token.attrJoin("class", f"callout {kind.lower() if kind.lower() in CALLOUTS else 'note'}")
        state = ' role="note"' if not folds else " open" if fold == "+" or self._options.unfolded else ""
        shown = self.render(self._parser.parseInline(title or kind.capitalize()))
        opening = f"<{element}{RendererHTML.renderAttrs(token)}{state}>"
        return f'{opening}\n<{title_element} class="title">{shown}</{title_element}>\n'

    def _write_code(self, token: Token) -> str:
        language = (token.info.split() or [""])[0].strip("{}.")
        if language == "math" or token.type == "math_block":
            return self._wrap(token, "formula", write_formula(token.content, block=True))
        code = token.content.removesuffix("\n")
        if not code.strip():
            return ""
        label = f'<span class="language">{language}</span>' if language.replace("-", "").isalnum() else ""
        self._uncolored -= len(code)
        shown = escape(code)
        if language.lower() in COLORED and len(code) <= MAX_COLORED_CHARS and self._uncolored > 0:
            lexer = get_lexer_by_name(language.lower(), stripnl=False, ensurenl=False)
            shown = pygments.highlight(code, lexer, _COLORS).removesuffix("\n")
        return self._wrap(token, "code", f"{label}<pre><code>{shown}</code></pre>")

    def _wrap(self, token: Token, own_class: str, html: str) -> str:
        """Return an element of a class that has, too, what `mark_passage` gave to the token."""
        token.attrJoin("class", own_class)
        return f"<div{RendererHTML.renderAttrs(token)}>{html}</div>\n"

    def _write_html(self, written: str) -> str:
        """Return HTML whose pictures are those of the page; an element that no document may have is text."""
        if self._options.dialect.components and COMPONENT.fullmatch(written):
            title = show_component(written)
            return f"<strong>{escape(title)}</strong> " if title else ""

        def show(tag: re.Match[str]) -> str:
            if tag[1].lower() == "img":
                known = dict(_ATTRIBUTE.findall(tag[0]))
                return self._show_picture(known.get("src", ""), known.get("alt", ""))
            if tag[0].lower().startswith("<details") and self._options.unfolded:
                return "<details open>"
            return tag[0] if tag[1].lower() in ELEMENTS else escape(tag[0])

        return _TAG.sub(show, written)

    def _find_address(self, href: str) -> str:
        """Return where a link of a document leads; empty where it leads nowhere."""
        if href.startswith("//"):
            return f"https:{href}"
        if not href or _SCHEME.match(href):
            return href if href.lower().startswith(SAFE_SCHEMES) else ""
        path, _, anchor = href.partition("#")
        return self._options.resolve(LinkKind.RELATIVE, unquote(path.partition("?")[0]), unquote(anchor)) or ""

    def _write_wikilink(self, token: Token) -> str:
        target = token.meta["note"].strip().removesuffix("\\")
        if not token.content:
            return self._show_picture(target, "", embedded=True)
        path, _, anchor = target.partition("#")
        address = self._options.resolve(LinkKind.WIKILINK, path.strip(), anchor.strip())
        leads = f'href="{escape(address)}"' if address else f'title="{escape(target[:300])}"'
        return f"<a {leads}>{escape(token.content)}</a>"

    def _show_picture(self, source: str, alt: str, *, embedded: bool = False) -> str:
        """Return a picture below an indexed folder; of another place its name alone."""
        path = source if embedded else unquote(source.partition("#")[0].partition("?")[0])
        label = escape(alt or path.rstrip("/").rpartition("/")[2][:80])
        is_here = not _SCHEME.match(source) and not source.startswith("//")
        if is_here and (address := self._options.picture(path)):
            return f'<img src="{escape(address)}" alt="{label}" title="{label}" loading="lazy" decoding="async">'
        return f'<span class="picture" title="{escape(source[:300])}"><b>Picture</b> {label}</span>'


# The pictures of documents: files below the folders that this user has named. One is shown only where `index` would
# list it, were it a document: no part of its path is hidden or ignored, and no link is on the way. It is sent as the
# type that its name says and no other, with a policy under which nothing in it runs or loads.

MAX_PICTURE_BYTES = 3_500_000
# Where notes keep what is embedded by its name alone, beside the note or in a folder above it.
EMBED_FOLDERS = ("", "attachments", "assets", "images", "img", "media", "files", "_attachments", "Attachments")


def read_picture(folder: str, path: str, access: FolderAccess) -> tuple[bytes, str]:
    """Return the picture at a path below an indexed folder, and its media type.

    Raises:
        UsageError: there is no such file, or it may not be shown.
    """
    media_type = PICTURE_TYPES.get(PurePosixPath(path).suffix.lower())
    if media_type is not None and folder in access.folders:
        with suppress(UnreadableDocumentError, OSError, ValueError):
            picture = find_document(folder, path, access.ignore, PICTURE_TYPES)
            return read_file(picture.absolute, MAX_PICTURE_BYTES), media_type
    raise UsageError("there is no such picture below the indexed folders")


def locate_picture(folder: str, document: str, source: str) -> str:
    """Return the path, relative to its folder, of the picture that a document shows; empty where there is none.

    Args:
        folder: the indexed folder, absolute; one that may be looked at.
        document: the document's path in it.
        source: as the document writes it, percent signs decoded.
    """
    if not source.lower().endswith(tuple(PICTURE_TYPES)) or "\0" in source or "\\" in source:
        return ""
    above = document.split("/")[:-1]
    places = [([] if source.startswith("/") else above, source)]
    # As Obsidian finds one by its name: in the folder for attachments nearest to the note.
    places += [(above[:depth], f"{name}/{source}") for depth in range(len(above), -1, -1) for name in EMBED_FOLDERS]
    paths = (join_path(folders, name) for folders, name in places)
    found = (path for path in paths if path and os.path.isfile(f"{folder}/{path}"))  # noqa: PTH113 - up to thirty times
    return next(found, "")
