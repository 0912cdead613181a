"""A document's Markdown, read once: its blocks, each with the text that a page shows of it and the lines it stands in.

markdown-it-py's rules do the work, with those of the document's dialect. Of its tokens only those are kept that open a
block or hold text: an item of a list takes two. Everything that the index wants to know is read from the blocks:
sections, summaries, units, chunks, names, links.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from html import unescape
from itertools import chain
from typing import Literal

import nh3
from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline.state_inline import Scanned, StateInline
from markdown_it.token import Token
from markdown_it.utils import EnvType

from pageindex.dialects import COMMONMARK, Dialect, open_parser
from pageindex.links import Link, read_link, read_tags, read_wikilink
from pageindex.rules import is_option, show_component, split_words
from pageindex.text import Span, strike_out

# Longer text is read in pieces: the time of a parser on hostile text may grow with its square.
MAX_INLINE_CHARS = 2000
MAX_HTML_CHARS = 10_000


class BlockKind(Enum):
    """The kinds of blocks."""

    HEADING = "heading"
    PARAGRAPH = "paragraph"
    PICTURE = "picture"  # a paragraph of nothing else
    LIST = "list"
    ITEM = "item"
    CODE = "code"
    TABLE = "table"
    ROW = "row"
    QUOTE = "quote"
    CONTAINER = "container"  # a note, a tab; what is in it are blocks of its own
    COMPONENT = "component"  # tags of MDX in lines of their own
    TERMS = "terms"  # a list of terms, each with what it means
    TERM = "term"
    MEANING = "meaning"
    FOOTNOTE = "footnote"
    HTML = "html"
    RULE = "rule"
    HIDDEN = "hidden"  # what no page shows: a comment, a template
    INCLUDE = "include"  # a line that a program replaces by another text


@dataclass(frozen=True, slots=True)
class Inline:
    """A paragraph, a heading or a cell, read once."""

    text: str
    """The text that a page shows, with a line end where a line of the file ends."""
    term: str = ""
    """The bold, emphasized or code text that it begins with; empty without."""
    rest: str = ""
    """The text behind the term, with `CODE` instead of code."""
    is_bold: bool = False
    """Whether the term is bold."""
    is_picture: bool = False
    """Whether it holds nothing but pictures; beside words, they are not in `text`."""
    links: tuple[Link, ...] = ()
    tags: tuple[str, ...] = ()
    """Without `#`; code, links and attributes have none."""
    linked: int = 0
    """How many of its characters are the texts of links."""

    @property
    def line(self) -> str:
        """Return the text on one line."""
        return " ".join(self.text.split())


CODE = "\ue000"


@dataclass(slots=True)  # not frozen, which takes three times as long to make: a list may have a million
class Block:
    """A block of a document, with the blocks inside of it."""

    kind: BlockKind
    first: int
    """Its first line, 1-based, counted in the file."""
    last: int
    """Its last line that is not blank."""
    texts: Sequence[Inline] = ()
    """Of a paragraph, a heading or a term one; of a row, its cells."""
    blocks: "list[Block]" = field(default_factory=list)
    content: str = ""
    """Of code, its lines; of HTML and what is hidden, what is written; of a heading, the id that it is given; of a
    container its kind; of a component `text` if it holds nothing."""
    info: str = ""
    """Of a container, a callout and a component its title, of a heading its level; of code its fence with the language,
    empty where it is indented."""

    @property
    def span(self) -> Span:
        """Its lines."""
        return Span(self.first, self.last)

    @property
    def is_silent(self) -> bool:
        """Return whether it says nothing below its heading."""
        return self.kind in (BlockKind.HEADING, BlockKind.HIDDEN, BlockKind.RULE)

    def walk(self) -> "Iterator[Block]":
        """Yield it and the blocks inside of it, in their order."""
        pending = [self]
        while pending:
            block = pending.pop()
            yield block
            pending.extend(reversed(block.blocks))


# Blocks.

_KINDS = {
    "heading_open": BlockKind.HEADING,
    "inline": BlockKind.PARAGRAPH,
    "bullet_list_open": BlockKind.LIST,
    "ordered_list_open": BlockKind.LIST,
    "list_item_open": BlockKind.ITEM,
    "fence": BlockKind.CODE,
    "code_block": BlockKind.CODE,
    "table_open": BlockKind.TABLE,
    "tr_open": BlockKind.ROW,
    "blockquote_open": BlockKind.QUOTE,
    "container_open": BlockKind.CONTAINER,
    "component": BlockKind.COMPONENT,
    "dl_open": BlockKind.TERMS,
    "dt_open": BlockKind.TERM,
    "dd_open": BlockKind.MEANING,
    "footnote_reference_open": BlockKind.FOOTNOTE,
    "html_block": BlockKind.HTML,
    "math_block": BlockKind.PARAGRAPH,
    "hr": BlockKind.RULE,
    "hidden_block": BlockKind.HIDDEN,
    "include": BlockKind.INCLUDE,
    "myst_line_comment": BlockKind.HIDDEN,
    "myst_target": BlockKind.HIDDEN,
    "myst_block_break": BlockKind.HIDDEN,
}


_TITLED = (BlockKind.HEADING, BlockKind.TERM)


class _Reader(StateBlock):
    """A block parser's state that keeps the tokens that open a block or hold text."""

    def push(self, ttype: str, tag: str, nesting: Literal[-1, 0, 1]) -> Token:
        """Give the rule a token to fill in; of those that nobody reads, only the level counts."""
        if nesting < 0:
            self.level -= 1
        token = Token(ttype, tag, nesting, level=self.level)
        if ttype in _KINDS:
            self.tokens.append(token)
        if nesting > 0:
            self.level += 1
        return token


def read_blocks(text: str, first: int = 1, dialect: Dialect = COMMONMARK) -> list[Block]:
    """Return the outermost blocks of a text that begins in the line `first` of its file.

    Lines in none are blank, define where links lead (`[label]: target`), or are nested beyond `MAX_NESTING`.
    """
    parser = open_parser(dialect)
    reader = _Reader(dialect.unfold(text), parser, {}, [])
    parser.block.tokenize(reader, 0, reader.lineMax)
    inline = InlineParser(parser, reader.env, dialect)
    outermost: list[Block] = []
    above: list[tuple[int, Block]] = []  # (level, block) of the blocks around the next one
    for token in (token for token in reader.tokens if token.type in _KINDS):  # a plugin adds its own, too
        is_text = token.type == "inline"
        level = token.level - is_text  # what opens a paragraph is not kept: its text stands for it
        titled = above[-1][1] if above and is_text and above[-1][1].kind in _TITLED else None
        if titled and not titled.texts:
            _read_title(titled, token.content, inline)
            continue
        while above and above[-1][0] >= level:
            above.pop()
        around = above[-1][1] if above else None
        if around is not None and around.kind is BlockKind.ROW:
            around.texts = (*around.texts, inline.read(token.content, around.first))
            continue
        begin, end = token.map or (around.first - first if around else 0, 0)
        while end > begin + 1 and reader.isEmpty(end - 1):
            end -= 1
        block = Block(_KINDS[token.type], first + begin, first + max(begin, end - 1))
        _fill(block, token, dialect, inline)
        if block.content and around is not None and around.kind is BlockKind.LIST and around.blocks:
            # A page counts from the first number on, whatever the others are: many people write `1.` each time.
            block.content = f"{int(around.blocks[-1].content[:-1]) + 1}{token.markup}"
        if around is not None and around.kind is BlockKind.QUOTE and not around.blocks and is_text:
            _read_callout(around, block)
        (outermost if around is None else around.blocks).append(block)
        above.append((level, block))
    return outermost


def _read_title(block: Block, content: str, inline: "InlineParser") -> None:
    """Give a heading or a term its text, and the id that a heading names."""
    title, name = split_attributes(content)
    read = inline.read(title, block.first)
    # A picture of a sign alone is shown as it is written.
    block.texts = (read if read.line or read.is_picture else Inline(title),)
    if block.kind is BlockKind.HEADING:
        block.content = name


def split_attributes(content: str) -> tuple[str, str]:
    """Return a heading's Markdown without a closing `{#id .class key=value}` or `{/* #id */}`, and the id in it.

    Behind `{:` any words are attributes. The `##` that closes a heading may stand before them.

    >>> split_attributes("Set up {#start .wide}"), split_attributes("Set up ## {: wide }"), split_attributes("C# {.x}")
    (('Set up', 'start'), ('Set up', ''), ('C#', ''))
    >>> split_attributes("Set up {/* #start */}"), split_attributes("Of {x}"), split_attributes("Of {}")
    (('Set up', 'start'), ('Of {x}', ''), ('Of {}', ''))
    """
    start = content.rfind("{")
    inside = content[start + 1 : -1]
    if start < 0 or not content.endswith("}"):
        return content, ""
    if inside.startswith("/*") and inside.endswith("*/"):
        return content[:start].rstrip(), inside[2:-2].strip().removeprefix("#")
    attributes = inside.removeprefix(":").split()
    are_plain = inside.startswith(":") or all(item[0] in "#." or "=" in item for item in attributes)
    if not attributes or not are_plain:
        return content, ""
    title = content[:start].rstrip()
    bare = title.rstrip("#")
    ids = [item[1:] for item in attributes if item.startswith("#")]
    return bare.rstrip() if bare[-1:].isspace() else title, ids[0] if ids else ""


def read_callout(line: str) -> tuple[str, str, str] | None:
    """Return the kind, the title and the fold (`+`, `-` or none) of `[!note]- Title`; None where it is no callout.

    GitHub has five kinds; others have more, and people write their own.

    >>> read_callout("[!to-do]- Buy +1 "), read_callout("[!x y]"), read_callout("[!x"), read_callout("[x] y")
    (('to-do', 'Buy +1', '-'), None, None, None)
    """
    marked, bracket, rest = line.removeprefix("[!").partition("]")
    kind = marked.partition("|")[0].strip()  # behind it Obsidian's themes have their own words
    if not (line.startswith("[!") and bracket and kind.replace("-", "").isalnum()):
        return None
    title = rest.lstrip("+-")
    return kind, title.strip(), rest[: len(rest) - len(title)]


def _read_callout(quote: Block, paragraph: Block) -> None:
    """Make the first line of a quote its title, where it is `[!note] Title`."""
    first, _, rest = paragraph.texts[0].text.partition("\n")
    if found := read_callout(first):
        kind, title, _ = found
        quote.info = title or kind.capitalize()
        paragraph.texts = (replace(paragraph.texts[0], text=rest),) if rest else ()
        paragraph.first += 1 if rest else 0


def _fill(block: Block, token: Token, dialect: Dialect, inline: "InlineParser") -> None:
    """Give a block what its token says of it besides its lines."""
    match block.kind:
        case BlockKind.PARAGRAPH:
            is_formula = token.type == "math_block"
            read = Inline(f"$${token.content}$$") if is_formula else inline.read(token.content, block.first)
            block.texts = (read,)
            if block.texts[0].is_picture:
                block.kind = BlockKind.PICTURE
        case BlockKind.HEADING:
            block.info = token.tag[1:]
        case BlockKind.ITEM if token.info:
            block.content = f"{token.info}{token.markup}"
        case BlockKind.CODE:
            block.content, block.info = _read_code(token, dialect), f"{token.markup}{token.info}".strip()
        case BlockKind.CONTAINER | BlockKind.COMPONENT:
            title, kind = inline.read(token.meta["title"], block.first).line, token.meta["kind"]
            # A version says nothing without what was done in it: `{deprecated} 2.1`.
            block.info = title if not title or any(map(str.isalpha, title)) else f"{kind.capitalize()} {title}"
            block.content = kind
        case _:
            block.content = token.content
            if block.kind is BlockKind.HTML:
                _read_html(block)


def _read_html(block: Block) -> None:
    """Make HTML that shows nothing hidden, and a table one like any other."""
    is_code = block.content.lstrip().lower().startswith(("<script", "<style", "<?"))
    if is_code or not drop_comments(block.content).strip():
        block.kind = BlockKind.HIDDEN
    elif "<td" in block.content.lower():
        _read_rows(block)


def _read_rows(block: Block) -> None:
    """Make a table of HTML a block like any other table, with the text above it as its title."""
    above, *rows = _mark_breaks(block.content).split("<tr")
    if not rows or "<script" in block.content.lower():
        return
    block.kind, block.info = BlockKind.TABLE, show_html(above)
    if "<th" not in rows[0]:
        block.blocks.append(Block(BlockKind.ROW, block.first, block.first))
    line = block.first + above.count("\n")
    for row in rows:
        end = line + row.count("\n")
        _, *cells = row.replace("<th", "<td").split("<td")
        texts = [Inline(show_html(f"<td{cell}")) for cell in cells]
        block.blocks.append(Block(BlockKind.ROW, line, max(line, end - 1), texts))
        line = end


def _read_code(token: Token, dialect: Dialect) -> str:
    """Return the lines of code, blank where they are options of a directive, or stand for another file."""
    lines = token.content.rstrip("\n").split("\n")
    if token.info.startswith("{"):
        count = next((place for place, line in enumerate(lines) if not is_option(line)), len(lines))
        lines[:count] = [""] * count
    if dialect.hides_in_code:
        lines = ["" if line.strip().startswith(dialect.hides_in_code) else line for line in lines]
    return "\n".join(lines)


# Text.


EAST_ASIAN = "\u2e80"  # behind it are the signs and letters of Chinese, Japanese and Korean


class _InlineReader(StateInline):
    """An inline parser's state that notes in which line a token stands: markdown-it gives the lines of blocks alone."""

    first = 1  # the line of the file that the text begins in

    def push(self, ttype: str, tag: str, nesting: Literal[-1, 0, 1]) -> Token:
        return self._place(super().push(ttype, tag, nesting))

    def pushPending(self) -> Token:
        return self._place(super().pushPending())  # a line end is a token of its own, so none is in it

    def _place(self, token: Token) -> Token:
        token.map = [self.first + self.src.count("\n", 0, self.pos)]
        return token

    def scanDelims(self, start: int, canSplitWord: bool) -> Scanned:
        """Let `**(x)**` begin and end beside a word of a script that puts no blank there."""
        found = super().scanDelims(start, canSplitWord)
        before, after = self.src[start - 1 : start], self.src[start + found.length :][:1]
        opens = canSplitWord and before >= EAST_ASIAN and after.strip()
        closes = canSplitWord and after >= EAST_ASIAN and before.strip()
        return Scanned(found.can_open or bool(opens), found.can_close or bool(closes), found.length)


class InlineParser:
    """Reads paragraphs, headings and cells by the link definitions and footnotes of one document."""

    def __init__(self, parser: MarkdownIt, env: EnvType, dialect: Dialect) -> None:
        self._parser, self._env, self._dialect = parser, env, dialect
        # What has none of these is text as it stands.
        signs = chain("\\`*_[<&~$#", *(opening[0] for opening, _ in dialect.hides))
        self._signs = frozenset(chain(signs, "" if dialect is COMMONMARK else "^={:"))

    def read(self, content: str, line: int) -> Inline:
        """Return what a page shows of inline Markdown that begins in that line of its file."""
        if self._signs.isdisjoint(content):
            return Inline(content)
        tokens: list[Token] = []
        first = line
        for piece in _split(content, MAX_INLINE_CHARS, "\n", " ["):
            state = _InlineReader(piece, self._parser, self._env, [])
            state.first = first
            self._parser.inline.tokenize(state)
            for rule in self._parser.inline.ruler2.getRules(""):
                rule(state)
            tokens += state.tokens
            first += piece.count("\n")
        return _Inlines(tokens, line, self._dialect).read()


def _split(content: str, most: int, *signs: str) -> Iterator[str]:
    """Yield a text in pieces of at most that length, cut behind the first character of a sign, or between words."""
    start = 0
    while len(content) - start > most:
        end = start + most
        cut = max(content.rfind(sign, start, end) for sign in signs) + 1
        cut = cut or content.rfind(" ", start, end) + 1 or end
        yield content[start:cut]
        start = cut
    yield content[start:]


_BREAKS = split_words("""br p td th tr li ul ol dl dd dt div summary hr h1 h2 h3 h4 h5 h6""")


class _Inlines:
    """Puts the text of inline tokens together."""

    def __init__(self, tokens: Sequence[Token], line: int, dialect: Dialect) -> None:
        self._tokens, self._first, self._dialect = tokens, line, dialect
        self._links: list[Link] = []
        self._linked = 0
        self._is_picture = not any(token.type != "image" and self._show_inside(token).strip() for token in tokens)

    def read(self) -> Inline:
        parts: list[str] = []
        plain: list[str] = []  # what may hold a tag, which code and links do not
        line, inside_link = self._first, 0
        struck: list[int] = []  # which parts what is struck out begins with
        for place, token in enumerate(self._tokens):
            (at,) = token.map or [line]
            shown, ends = self._show(token, place), at - line
            if ends > 0:  # code or a tag goes over lines: of code each became a blank
                if parts and parts[-1].count(" ") >= ends:
                    parts.append("\n".join(parts.pop().rsplit(" ", ends)))
                elif shown.count(" ") >= ends:  # a comment tears no word from its comma
                    shown = shown.replace(" ", "\n", ends)
                else:
                    parts.append("\n" * ends)
            is_break = token.type.endswith("break")
            line = max(line, at) + is_break
            parts.append(shown)
            if token.type == "s_open":
                struck.append(len(parts))
            elif token.type == "s_close":
                begin = struck.pop()
                parts[begin:] = [strike_out("".join(parts[begin:]))]
            inside_link += (token.type == "link_open") - (token.type == "link_close")
            self._linked += len(shown) if inside_link or token.type in ("wikilink", "image") else 0
            is_plain = is_break or (token.type == "text" and not inside_link)
            # A reader of another kind of document may leave tags in a comment.
            plain.append(token.content if token.type == "html_inline" else shown if is_plain else "*")
        term, rest, is_bold = self._find_term()
        return Inline(
            "".join(parts),
            term,
            rest,
            is_bold,
            self._is_picture,
            tuple(self._links),
            tuple(read_tags("".join(plain).split())),
            self._linked,
        )

    def _show(self, token: Token, place: int) -> str:
        """Return what a page shows of a token; note links."""
        (at,) = token.map or [self._first]
        match token.type:
            case "softbreak" | "hardbreak":
                return "\n"
            case "image":
                # Right behind words it is one of them, as a button; elsewhere it illustrates them.
                is_shown = self._is_picture or (place and self._show_inside(self._tokens[place - 1]).strip())
                return (self._show_inside(token) or str(token.attrs.get("title", ""))) if is_shown else ""
            case "wikilink":
                self._links += read_wikilink(at, token.meta["note"])
                return token.content
            case "link_open":
                self._links += read_link(at, str(token.attrs.get("href", "")))
            case "html_inline" | "hidden":
                return self._show_tag(token.content)
            case "math_inline" | "math_inline_double":
                return f"{token.markup}{token.content}{token.markup}"
            case "myst_role":
                return show_role(token.content)
        return token.content

    def _show_inside(self, token: Token) -> str:
        if token.type == "image":
            return "".join(self._show_inside(child) for child in token.children or ())
        return " " if token.type.endswith("break") else "" if token.type == "html_inline" else token.content

    def _show_tag(self, written: str) -> str:
        name = written.strip("</> ").partition(" ")[0].lower()
        if name in _BREAKS:
            return " "
        if self._dialect.components and written[1:2].isupper():
            return show_component(written)
        return ""

    def _find_term(self) -> tuple[str, str, bool]:
        """Return the marked text that the tokens begin with, what follows it, and whether it is bold."""
        tokens = [token for token in self._tokens if token.type != "text" or token.content]
        if tokens and tokens[0].type == "link_open":
            tokens = tokens[1:]
        kind = tokens[0].type if tokens else ""
        closing = kind.replace("open", "close")
        end = next((at for at, token in enumerate(tokens) if token.type == closing), None)
        if kind not in ("strong_open", "em_open", "code_inline") or end is None:
            return "", "", False
        term = "".join(map(self._show_inside, tokens[: end + 1]))
        behind = tokens[end + 1 :]
        if behind and behind[0].type == "link_close":
            behind = behind[1:]
        rest = "".join(
            CODE if token.type == "code_inline" else "\n" if token.type.endswith("break") else token.content
            for token in behind
        )
        return ("", "", False) if "\n" in term else (term, rest, kind == "strong_open")


def show_role(written: str) -> str:
    """Return what a page shows of a role of MyST: a text without its target, of `~a.b` the last part.

    >>> show_role("words <target>"), show_role("~a.b"), show_role("a.b"), show_role("a > b"), show_role("a<b>")
    ('words', 'b', 'a.b', 'a > b', 'a<b>')
    """
    text = written.rpartition(" <")[0] if written.endswith(">") and " <" in written else written
    return text.rpartition(".")[2] if text.startswith("~") else text


# HTML.


_BREAK = re.compile(rf"</?(?:{'|'.join(_BREAKS)})\b", re.IGNORECASE)


def _mark_breaks(written: str) -> str:
    """Return HTML without comments, with a blank before each tag that ends a word, which is in lower case."""
    return _BREAK.sub(lambda tag: f" {tag[0].lower()}", drop_comments(written))


def show_html(written: str) -> str:
    r"""Return the text of HTML on one line.

    >>> show_html("Day<br>and <b>n</b>ight &amp;<!-- or -->\n<P>more <script>x</script><style>y</style> <!-- no end")
    'Day and night & more <!-- no end'
    """
    plain = _mark_breaks(written).replace("<!--", "&lt;!--")  # a comment without an end is text
    pieces = _split(plain, MAX_HTML_CHARS, " <")
    shown = (nh3.clean(piece, tags=set()) for piece in pieces)
    return " ".join(unescape("".join(shown)).split())


def drop_comments(written: str) -> str:
    r"""Return HTML without its comments, whose line ends stay; one without an end is text.

    >>> drop_comments("a<!-- b\n-->c <!-- d -->e<!-- f")
    'a\nc e<!-- f'
    """
    kept, done = [], 0
    while (begin := written.find("<!--", done)) >= 0 and (end := written.find("-->", begin)) >= 0:
        kept += [written[done:begin], "\n" * written.count("\n", begin, end)]
        done = end + 3
    return "".join([*kept, written[done:]])
