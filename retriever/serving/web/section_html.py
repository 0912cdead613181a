"""A document's Markdown as HTML that can do nothing: no raw HTML, and no address but those that are checked.

HTML in a document is shown as text, without the tags that only lay it out; `<details>` folds. A link leads to this
page's own view of a section, to http, https or mail, or nowhere; a picture is one below an indexed folder, or is named.
"""

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from html import escape, unescape
from io import BytesIO
from itertools import groupby
from operator import itemgetter
from pathlib import PurePosixPath
from typing import BinaryIO
from urllib.parse import unquote
from xml.etree import ElementTree

import imagesize
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from markupsafe import Markup
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Generic, Keyword, Name, Number, String

from pageindex.blocks import read_html, show_role
from pageindex.corpus import UnreadableDocumentError, find_document, open_regular
from pageindex.dialects import COMMONMARK, Dialect
from pageindex.links import LinkKind, join_path
from pageindex.node import Span
from pageindex.rules import COMPONENT, PICTURE_TYPES, show_component
from retriever.display.phrases import find_highlights, sanitize
from retriever.errors import UsageError
from retriever.indexing.request import FolderAccess
from retriever.serving.web.parse import mark_passage, open_page_parser, parse_text

SAFE_SCHEMES = ("http:", "https:", "mailto:")
LONG_CODE_LINE = 30  # characters; longer lines may have to be scrolled, so the keyboard must reach them
MAX_FORMULA_CHARS = 2_000  # a longer one is shown as written

# Of code in one block and in one text: what is beyond is shown in one colour. Lexers take up to the square of it, the
# slowest 2 s for such a block.
MAX_COLORED_CHARS, MAX_ALL_COLORED_CHARS = 5_000, 20_000
# The languages that are coloured, by the names that Pygments knows: of its other lexers nobody has seen the worst time.
COLORED = {
    "bash", "c", "cpp", "csharp", "css", "diff", "dockerfile", "go", "html", "http", "ini", "java",
    "javascript", "js", "json", "jsx", "kotlin", "lua", "php", "powershell", "python", "py", "r", "ruby",
    "rust", "scala", "sh", "shell", "sql", "swift", "toml", "ts", "tsx", "typescript", "xml", "yaml", "yml",
}  # fmt: skip
# Pygments' kinds of tokens -> classes `code-...` of page.css; a kind below another has its class.
COLORS = {
    Comment: "comment", Keyword: "keyword", String: "string", Number: "number", Name.Function: "name",
    Name.Class: "name", Name.Tag: "name", Name.Decorator: "name", Generic.Inserted: "string", Generic.Deleted: "number",
    Generic.Output: "comment",
}  # fmt: skip

# What the elements of MathML may have: no links, no styles, and no size that could reach over what is beside a formula.
MATH_ATTRIBUTES = {
    "display", "displaystyle", "mathvariant", "stretchy", "fence", "form", "separator", "accent", "accentunder",
    "movablelimits", "columnalign", "rowlines", "columnlines", "notation", "width", "linethickness",
}  # fmt: skip
_MATH_VALUE = re.compile(r"[a-z -]{1,40}|\d?(?:\.\d{1,5})?(?:em)?")

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_TAG = re.compile(r"</?([A-Za-z][A-Za-z0-9-]*)[^<>]*>|<!--(?:[^-]|-(?!->))*-->")
_DETAILS = re.compile(
    r"\s*<details(?:\s[^<>]*)?>\s*(?:<summary(?:\s[^<>]*)?>((?:[^<]|<(?!/summary>)){0,1000})</summary>\s*)?",
    re.IGNORECASE,
)
_ATTRIBUTE = re.compile(r"\s(src|alt)\s*=\s*[\"']?([^\"'<>]{1,2000})", re.IGNORECASE)
# Elements that lay out text: their tags are not shown. Any other may be what a text is about, as `Vec<T>` is.
LAYOUT = {
    "a", "abbr", "b", "big", "br", "center", "cite", "code", "del", "dfn", "div", "em", "figure", "figcaption", "font",
    "i", "ins", "kbd", "p", "picture", "q", "s", "samp", "section", "small", "source", "span", "strike", "strong",
    "sub", "sup", "table", "tbody", "td", "th", "thead", "tr", "u", "var",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that a page shows."""

    address: str
    size: tuple[int, int] | None  # width and height in pixels, where its file says them


@dataclass(frozen=True, slots=True)
class RenderOptions:
    """How one text is rendered."""

    # (kind, path, anchor) as a document writes a link -> the address of what it leads to; None when it leads nowhere.
    resolve: Callable[[LinkKind, str, str], str | None] = lambda kind, path, anchor: None
    # (a picture as a document writes it, whether it is embedded by its name) -> the picture; None: it is not shown.
    picture: Callable[[str, bool], Picture | None] = lambda source, by_name: None
    words: frozenset[str] = frozenset()  # stems of the question's words, which are marked
    title: str = ""  # shown above the text already: a first heading that says the same is left out
    top_level: int = 2  # the level that the text's highest headings get
    passage: Span | None = None  # lines that are marked, with an id; None marks none
    first_line: int = 1  # the line of its file that the text begins with
    shown: tuple[int, int | None] = (0, None)  # the first line that is shown, and the one behind the last; from 0
    dialect: Dialect = COMMONMARK  # of the file
    definitions: str = ""  # lines `[label]: target` of the file that the text comes from
    unfolded: bool = False  # what folds is open: an answer in it is to be seen
    name: str = ""  # of the text among those of its page, for the ids of its footnotes


def render_markdown(markdown: str, options: RenderOptions) -> Markup:
    """Return the text (LF line ends, without front matter) as HTML."""
    tokens = parse_text(markdown, *options.shown, definitions=options.definitions, dialect=options.dialect)
    # A first heading that repeats the title is left out: the page shows the title above the text.
    if [token.type for token in tokens[:3]] == ["heading_open", "inline", "heading_close"]:
        texts = [child.content for child in tokens[1].children or () if child.type in ("text", "code_inline")]
        if "".join(texts).split() == options.title.split():
            tokens = tokens[3:]
    if options.passage is not None:
        first = options.passage.first - options.first_line
        mark_passage(tokens, markdown.split("\n"), first, first + len(options.passage))
    # The text's highest headings come just below what is shown above it, and each other one just below the one that
    # it is in: notes skip levels, and a page whose levels have gaps is hard to follow with a screen reader.
    levels: list[int] = []
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            level = int(token.tag[1])
            levels = [*(above for above in levels if above < level), level]
            token.tag = f"h{min(6, options.top_level + len(levels) - 1)}"
        elif token.type in ("th_open", "td_open"):
            # The page allows no style attributes: a cell's alignment becomes a class.
            aligned = str(token.attrs.pop("style", "")).removeprefix("text-align:")
            token.attrs |= {"class": aligned} if aligned else {}
        elif token.tag == "details" and token.nesting == 1 and options.unfolded:
            token.attrs["open"] = ""
    parser = open_page_parser(options.dialect)
    return Markup(_Renderer(options, tokens).render(tokens, parser.options, {}))  # its texts are escaped below


def highlight(value: str, words: frozenset[str]) -> Markup:
    """Return the text, sanitized and escaped, with the question's words (stems) marked."""
    pieces: list[str] = []
    position = 0
    for start, end in find_highlights(value, words) if words else ():
        if start >= position:
            pieces.append(f"{_text(value[position:start])}<mark>{_text(value[start:end])}</mark>")
            position = end
    return Markup("".join(pieces) + _text(value[position:]))  # all of it is escaped above


def color_code(code: str, language: str, words: frozenset[str]) -> str:
    """Return code as HTML: its kinds of tokens as classes, the question's words marked."""
    if language.lower() not in COLORED or len(code) > MAX_COLORED_CHARS:
        return highlight(code, words)
    lexer = get_lexer_by_name(language.lower(), stripnl=False, ensurenl=False)
    pieces = []
    colored = [
        (next((COLORS[kind] for kind in reversed(own.split()) if kind in COLORS), ""), text)
        for own, text in lexer.get_tokens(code)
    ]
    for color, tokens in groupby(colored, key=itemgetter(0)):
        shown = highlight("".join(text for _, text in tokens), words)
        pieces.append(f'<span class="code-{color}">{shown}</span>' if color else str(shown))
    return "".join(pieces)


def write_formula(latex: str, *, block: bool = False) -> str:
    """Return a formula as MathML, which browsers show without a script; as code where it cannot be read."""
    from latex2mathml.converter import Converter  # 0.1 s: it reads a table of symbols, for the first formula alone

    try:
        if len(latex) > MAX_FORMULA_CHARS:
            raise ValueError(f"a formula of {len(latex):,} characters")
        math = Converter(display="block" if block else "inline").convert_to_element(latex)
    except (
        Exception
    ):  # the converter's errors have no class in common, and RecursionError and IndexError are among them
        return f'<code class="math">{_text(latex)}</code>'
    for element in math.iter():
        if element.tag == "mpadded":  # may be narrower than its text
            element.tag = "mrow"
        allowed = {name: value for name, value in element.items() if name in MATH_ATTRIBUTES}
        element.attrib = {name: value for name, value in allowed.items() if _MATH_VALUE.fullmatch(value)}
        element.text = sanitize(unescape(element.text or ""))
    return f'<span class="math" title="{_text(latex)}">{ElementTree.tostring(math, encoding="unicode")}</span>'


def _text(value: str) -> str:
    return escape(sanitize(value))


class _Renderer(RendererHTML):
    """Render the tokens of one text; every rule that holds text, or could reach outside, is replaced here."""

    def __init__(self, options: RenderOptions, tokens: Sequence[Token]) -> None:
        super().__init__()
        self._options = options
        self._highlight = partial(highlight, words=options.words)
        self._uncolored = MAX_ALL_COLORED_CHARS
        notes = [token.meta["label"] for token in tokens if token.type == "footnote_reference_open"]
        self._notes = {label: place for place, label in enumerate(dict.fromkeys(notes), start=1)}

    def text(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        # Plain `str`: markdown-it adds it to other text, and `Markup` would escape what it is added to.
        return str(self._highlight(tokens[place].content))

    def code_inline(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        return f"<code>{self._highlight(tokens[place].content)}</code>"

    def fence(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        token = tokens[place]
        language = (token.info.split() or [""])[0].strip("{}.")
        if language == "math":
            return self.math_block(tokens, place, options, env)
        named = "mermaid diagram, as it is written" if language == "mermaid" else language
        label = f'<span class="language">{_text(named)}</span>' if language.replace("-", "").isalnum() else ""
        is_wide = any(len(line) > LONG_CODE_LINE for line in token.content.split("\n"))
        focus = ' tabindex="0" role="group" aria-label="Code"' if is_wide else ""
        code = token.content.removesuffix("\n")
        if not code.strip():  # the rest of the block is cut off
            return ""
        self._uncolored -= len(code)
        shown = color_code(code, language if self._uncolored > 0 else "", self._options.words)
        return f"<div{self._attributes(token, 'code')}>{label}<pre{focus}><code>{shown}</code></pre></div>\n"

    def code_block(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        return self.fence(tokens, place, options, env)

    def th_open(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        if not tokens[place + 1].content:  # the header of nothing
            tokens[place].tag = tokens[place + 2].tag = "td"
        return self.renderToken(tokens, place, options, env)

    def html_block(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        content = tokens[place].content.strip("\n")
        if opening := _DETAILS.fullmatch(content):
            summary = " ".join(_TAG.sub("", opening[1] or "Details").split())
            opened = ' open=""' if self._options.unfolded else ""
            title = f'<summary class="title">{self._highlight(summary)}</summary>'
            return f'<details class="callout note"{opened}>\n{title}\n'
        if content.lower().strip() == "</details>":
            return "</details>\n"  # one that opens or closes nothing ends with what it stands in
        if len(content) <= MAX_FORMULA_CHARS and not _TAG.sub("", content).strip():  # tags alone, or a comment
            found = (dict(_ATTRIBUTE.findall(tag[0])) for tag in _TAG.finditer(content) if tag[1] == "img")
            return "".join(f"<p>{self._show_picture(one.get('src', ''), one.get('alt', ''))}</p>\n" for one in found)
        read = read_html(content)
        if read.rows:
            above = "".join(read.parts[: read.before]).strip()
            rows = "".join(map(self._show_row, read.rows))
            return f"{self._highlight(above)}{self.table_open(tokens, place, options, env)}{rows}</table></div>\n"
        content = _TAG.sub(lambda tag: "" if (tag[1] or "").lower() in LAYOUT else tag[0], content)
        return f"<pre{self._attributes(tokens[place], 'raw')}><code>{self._highlight(content)}</code></pre>\n"

    def _show_row(self, row: tuple[int, list[str], bool]) -> str:
        _, cells, is_header = row
        kind = "th" if is_header else "td"
        return f"<tr>{''.join(f'<{kind}>{self._highlight(cell.strip())}</{kind}>' for cell in cells)}</tr>\n"

    def html_inline(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        content = tokens[place].content
        tag = _TAG.fullmatch(content)
        name = (tag[1] or "").lower() if tag else content
        if name == "img":
            known = dict(_ATTRIBUTE.findall(content))
            return self._show_picture(known.get("src", ""), known.get("alt", ""))
        if not name or name in LAYOUT:
            return "<br>" if name == "br" else ""
        if tag and self._options.dialect.components and COMPONENT.fullmatch(content):
            title = show_component(content)
            return f"<strong>{self._highlight(title)}</strong> " if title else ""
        return f'<span class="tag">{_text(content)}</span>'

    def hidden(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        return ""

    hidden_block = myst_line_comment = myst_target = myst_block_break = hidden

    def include(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        return self.fence(tokens, place, options, env)

    def component(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        title = tokens[place].meta["title"]
        return f'<p class="title">{self._highlight(title)}</p>\n' if title else ""

    def myst_role(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        return f"<code>{self._highlight(show_role(tokens[place].content))}</code>"

    def image(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        alt = self.renderInlineAsText(tokens[place].children, options, env)
        return self._show_picture(str(tokens[place].attrGet("src") or ""), alt)

    def link_open(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        link, href = tokens[place], str(tokens[place].attrGet("href") or "")
        if href.lower().startswith(SAFE_SCHEMES) or href.startswith("//"):
            address = f"https:{href}" if href.startswith("//") else href
            link.attrs = {"href": sanitize(address), "rel": "noreferrer noopener", "class": "outside"}
        else:
            path, _, anchor = href.partition("#")
            target = LinkKind.RELATIVE, unquote(path.partition("?")[0]), unquote(anchor)
            address = (self._options.resolve(*target) or "") if href and not _SCHEME.match(href) else ""
            nowhere: dict[str, str | int | float] = {"class": "nowhere", "title": sanitize(unquote(href))[:300]}
            link.attrs = {"href": sanitize(address)} if address else nowhere
        link.tag = "a" if address else "span"
        # No link is inside a link, so the first end is its own.
        next(token for token in tokens[place:] if token.type == "link_close").tag = link.tag
        return self.renderToken(tokens, place, options, env)

    def wikilink(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        token, target = tokens[place], tokens[place].meta["note"].strip().removesuffix("\\")
        if not token.content:
            return self._show_picture(target, "", embedded=True)
        path, _, anchor = target.partition("#")
        address = self._options.resolve(LinkKind.WIKILINK, path.strip(), anchor.strip())
        if address is None:
            return f'<span class="nowhere" title="{_text(target[:300])}">{self._highlight(token.content)}</span>'
        return f'<a href="{_text(address)}">{self._highlight(token.content)}</a>'

    def _show_picture(self, source: str, alt: str, *, embedded: bool = False) -> str:
        """Return a picture below an indexed folder; of another place its name alone."""
        path = source if embedded else unquote(source.partition("#")[0].partition("?")[0])
        label = _text(alt or path.rstrip("/").rpartition("/")[2][:80])
        is_here = not _SCHEME.match(source) and not source.startswith("//")
        if is_here and (picture := self._options.picture(path, embedded)):
            # The room for it is kept until it comes, so that the text below does not jump.
            room = ' width="{}" height="{}"'.format(*picture.size) if picture.size else ""
            source = f'<img src="{_text(picture.address)}" alt="{label}" title="{label}"{room}'
            return f'{source} loading="lazy" decoding="async">'
        return f'<span class="picture" title="{_text(source[:300])}"><b>Picture</b> {label}</span>'

    def table_open(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        attributes = self._attributes(tokens[place], "scroll")
        return f'<div{attributes} tabindex="0" role="group" aria-label="Table"><table>\n'

    def table_close(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        return "</table></div>\n"

    def list_item_open(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        if tokens[place + 1].type.endswith("_list_open"):  # its own text is above the excerpt
            tokens[place].attrJoin("class", "empty")
        label = "done" if tokens[place].meta.get("checked") else "to do"
        return super().list_item_open(tokens, place, options, env).replace("<input", f'<input aria-label="{label}"')

    def math_inline(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        return write_formula(tokens[place].content)

    math_inline_double = math_inline

    def math_block(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        attributes = self._attributes(tokens[place], "formula")
        return f"<div{attributes}>{write_formula(tokens[place].content, block=True)}</div>\n"

    def footnote_ref(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        label = tokens[place].meta["label"]
        number = self._notes.get(label)  # a note outside what is shown has none
        shown = f'<a href="#note-{self._options.name}{number}">{_text(label)}</a>' if number else _text(label)
        return f"<sup>{shown}</sup>"

    def footnote_reference_open(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        label = tokens[place].meta["label"]
        marked = self._attributes(tokens[place], "footnote")
        return f'<div{marked}><sup id="note-{self._options.name}{self._notes[label]}">{_text(label)}</sup><div>\n'

    def footnote_reference_close(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        return "</div></div>\n"

    def _attributes(self, token: Token, own_class: str) -> str:
        """Return the class that an element has by itself, and what `mark_passage` gave it."""
        token.attrSet("class", " ".join(filter(None, (own_class, str(token.attrGet("class") or "")))))
        return self.renderAttrs(token)


# The pictures of documents: files below the folders that this user has named. One is shown only where `index` would
# list it, were it a document: no part of its path is hidden or ignored, and no link is on the way. It is sent as the
# type that its name says and no other, with a policy under which nothing in it runs or loads.

MAX_PICTURE_BYTES = 3_500_000
MEASURED_BYTES = 65_536  # the first ones, which hold a picture's size
# Where notes keep what is embedded by its name alone, beside the note or in a folder above it.
EMBED_FOLDERS = ("", "attachments", "assets", "images", "img", "media", "files", "_attachments", "Attachments")


def read_picture(folder: str, path: str, access: FolderAccess) -> tuple[bytes, str]:
    """Return the picture at a path below an indexed folder, and its media type.

    Raises:
        UsageError: there is none, or it is none that may be shown.
    """
    media_type = PICTURE_TYPES.get(PurePosixPath(path).suffix.lower())
    if media_type is not None and folder in access.folders:
        with suppress(UnreadableDocumentError, OSError, ValueError), _open_picture(folder, path, access) as file:
            return file.read(MAX_PICTURE_BYTES), media_type
    raise UsageError("there is no such picture below the indexed folders")


def measure_picture(folder: str, path: str, access: FolderAccess) -> tuple[int, int] | None:
    """Return the width and height of a picture in pixels; None where its first bytes do not say them."""
    width, height = -1, -1
    with suppress(UnreadableDocumentError, OSError, ValueError), _open_picture(folder, path, access) as file:
        head = file.read(MEASURED_BYTES)
        root = re.search(rb"<svg\b[^>]*>", head)  # of an SVG the whole is measured: parts of it have a width as well
        width, height = imagesize.get(BytesIO(root[0] if root else head))
    return (round(width), round(height)) if width >= 1 and height >= 1 else None


def _open_picture(folder: str, path: str, access: FolderAccess) -> BinaryIO:
    """Open a picture that may be shown; UnreadableDocumentError or OSError where it may not."""
    pictures = replace(access.options, suffixes=tuple(PICTURE_TYPES), max_file_bytes=MAX_PICTURE_BYTES)
    find_document(folder, path, pictures)
    return os.fdopen(open_regular(f"{folder}/{path}"), "rb")


def locate_picture(folder: str, document: str, source: str, *, by_name: bool) -> str:
    """Return the path, relative to its folder, of the picture that a document shows; empty where there is none.

    Args:
        folder: the indexed folder, absolute; one that may be looked at.
        document: the document's path in it.
        source: as the document writes it, percent signs decoded.
        by_name: whether it is looked for in the usual places, as Obsidian's `![[picture.png]]` is.
    """
    if not source.lower().endswith(tuple(PICTURE_TYPES)) or "\0" in source or "\\" in source:
        return ""
    above = document.split("/")[:-1]
    places = [([], source)] if source.startswith("/") else [(above, source)]
    if by_name and not source.startswith("/"):
        # As Obsidian finds it: in the folder for attachments nearest to the note.
        nearest_first = [above[:depth] for depth in range(len(above), -1, -1)]
        places += [(folders, f"{name}/{source}") for folders in nearest_first for name in EMBED_FOLDERS]
    for folders, name in places:
        path = join_path(folders, name)
        if path and os.path.isfile(os.path.join(folder, path)):  # noqa: PTH113, PTH118 - up to thirty for one picture
            return path
    return ""
