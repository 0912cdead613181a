"""A document's Markdown, read once: headings, blocks, text that may hold links or tags, and text without markup.

markdown-it-py's block rules do the work. Two things are changed around them:

- Tokens are dropped as they are made, except for the few that are wanted: a million list items cost no memory.
- Lists and quotes nested deeper than markdown-it goes are read as paragraphs; it drops them, and with them
  everything up to the end of the file.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from itertools import groupby
from operator import attrgetter
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.common.utils import normalizeReference
from markdown_it.parser_block import RuleFuncBlockType
from markdown_it.rules_block import StateBlock, blockquote, list_block
from markdown_it.token import Token
from markdown_it.utils import EnvType

from pageindex.front_matter import FrontMatter, read_front_matter

MAX_NESTING = 20  # levels that are opened, as in markdown-it: a quote is one, a list two

# Longer text keeps its markup: the time of markdown-it's inline rules on hostile text grows with the square of it.
MAX_INLINE_CHARS = 2000

# `[[note]]`, `[[note|label]]`, `![[note]]`: groups note and label. Each caller checks what it takes for a note.
WIKILINK = re.compile(r"!?\[\[([^\[\]|]*)(?:\|([^\[\]]*))?\]\]")


class BlockKind(Enum):
    """What decides where a block may be cut."""

    HEADING = "heading"
    PARAGRAPH = "paragraph"
    LIST = "list"
    CODE = "code"
    TABLE = "table"
    DEFINITIONS = "definitions"  # where the links of the text lead (`[label]: target`): no page shows them
    OTHER = "other"  # quotes, HTML, rules


@dataclass(frozen=True, slots=True)
class Block:
    """A block of the document itself, not one inside a list or a quote; it goes on to the line of the next one."""

    kind: BlockKind
    line: int  # its first line, 1-based, counted in the file


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of the document itself, not one inside a list or a quote."""

    level: int  # 1 to 6
    title: str  # plain text on one line, without `{#id}` and closing `#`; may be empty
    anchor_id: str | None  # the id in `{#id}`, None without one
    line: int  # its first line, 1-based, counted in the file
    line_count: int  # 1, or more for a heading that is underlined


@dataclass(frozen=True, slots=True)
class InlineText:
    """A paragraph, heading or HTML block that may hold links or tags."""

    line: int  # its first line, 1-based, counted in the file; each further line of `text` is the next line of the file
    text: str  # its Markdown; indentation and the signs of quotes and lists are gone
    is_html: bool = False  # whether it is an HTML block, in which a `#` makes no tag


class References:
    """The link reference definitions (`[label]: target`) of one document."""

    def __init__(self, env: EnvType | None = None) -> None:
        self._env: EnvType = {} if env is None else env

    def target(self, label: str) -> str | None:
        """Where the label points, percent-encoded; None when it is not defined. Case and spaces do not matter."""
        found = self._env.get("references", {}).get(normalizeReference(label))
        return None if found is None else str(found["href"])

    def plain_text(self, content: str) -> str:
        """Inline Markdown without its markup, on one line; an image gives its alternative text, HTML tags nothing."""
        if len(content) <= MAX_INLINE_CHARS and _MARKUP.search(content):
            tokens: list[Token] = []
            parser = _inline_parser()
            parser.inline.parse(content, parser, self._env, tokens)
            content = _text_of(tokens)
        return _SPACES.sub(" ", content).strip()


@dataclass(frozen=True, slots=True)
class Markdown:
    """What the index wants to know about a document."""

    front_matter: FrontMatter  # empty without one
    headings: tuple[Heading, ...]  # in the order of lines
    texts: tuple[InlineText, ...]  # in the order of lines, without code: those that may hold a link or a tag (`[`, `#`)
    references: References  # the link reference definitions
    blocks: tuple[Block, ...]  # in the order of lines, without tables; lines above the first are front matter or blank
    is_deep: bool  # whether lists and quotes are nested as deep as markdown-it goes
    line_count: int  # lines of the file; text after the last line end is a line too


def parse_markdown(text: str) -> Markdown:
    """Front matter, headings, blocks and linkable text of a text with LF line ends and no NUL; never raises."""
    front_matter = read_front_matter(text)
    above = front_matter.lines
    reader = _read(text.split("\n", above)[above] if text.count("\n") >= above else "", above, with_tables=False)
    references = References(reader.env)
    headings: list[Heading] = []
    texts: list[InlineText] = []
    for opening, content in reader.contents:
        line = above + (content.map or [0])[0] + 1
        if opening is not None:
            title, anchor_id = split_attributes(content.content)
            unclosed = title.rstrip("#")  # `Title ## {#id}`: markdown-it removes `##` only where it ends the line
            if opening.markup.startswith("#") and (unclosed == "" or unclosed[-1] in " \t"):
                title = unclosed.rstrip()
            first, last = opening.map or [0, 1]
            title = drop_icons(title).strip() or title
            headings.append(Heading(int(opening.tag[1]), references.plain_text(title), anchor_id, line, last - first))
        if "[" in content.content or "#" in content.content:
            texts.append(InlineText(line, content.content, is_html=content.type == "html_block"))
    blocks = tuple(reader.blocks)
    return Markdown(front_matter, tuple(headings), tuple(texts), references, blocks, reader.is_deep, count_lines(text))


def blocks_between(markdown: Markdown, body: str, first: int) -> tuple[Block, ...]:
    """The blocks of a node whose `body` begins in the line `first` of the document, tables among them."""
    # Slices of the one reading of the document, where it may serve. But CommonMark, which decides what is a heading,
    # knows no tables; front matter that was not understood is text; and what is nested too deep for markdown-it ends
    # with the node. There the body is read by itself.
    if markdown.is_deep or first <= markdown.front_matter.lines or may_hold_table(body):
        return read_blocks(body, first)
    end = first + count_lines(body)
    low = bisect_left(markdown.blocks, first, key=attrgetter("line"))
    return markdown.blocks[low : bisect_left(markdown.blocks, end, low, key=attrgetter("line"))]


def read_blocks(body: str, first: int = 1) -> tuple[Block, ...]:
    """The blocks of a text that begins in the line `first` of its file, tables among them; what is in none is blank."""
    return tuple(_read(body, first - 1, with_tables=True).blocks)


def count_lines(text: str) -> int:
    """Lines of a text with LF line ends, as an editor numbers them: a final line end opens no new line."""
    return text.count("\n") + (1 if text and not text.endswith("\n") else 0)


_FENCE = re.compile(r"[ \t>]*(`{3,}|~{3,})")


def fence_after(fence: str, line: str) -> str:
    """Return the fence of code that is open after a line, empty if none; `fence` is what was open before it."""
    mark = _FENCE.match(line)
    if mark is None:
        return fence
    if not fence:
        return mark[1]
    # Closed by as many marks as it was opened with, or more.
    return "" if mark[1].startswith(fence) and not line[mark.end() :].strip() else fence


def split_attributes(content: str) -> tuple[str, str | None]:
    """A heading's Markdown without a closing `{#id .class key=value}`, and the id in it."""
    start = content.rfind("{")
    if start < 0 or not content.endswith("}"):
        return content, None
    attributes = content[start + 1 : -1].removeprefix(":").split()
    if not attributes or not all(item[0] in "#." or "=" in item for item in attributes):
        return content, None
    ids = [item[1:] for item in attributes if item.startswith("#") and len(item) > 1]
    return content[:start].rstrip(), ids[0] if ids else None


# As MkDocs and kramdown read them behind what they belong to: `{ .wide }`, `{: #id }`, `{ align=right }`.
ATTRIBUTES = r"\{:?[ ]?(?:[.#]|[\w-]{1,50}=)[^{}\n]{0,200}+\}"
_ICON = re.compile(rf"(?<!`):(?:material|fontawesome|octicons|simple)-[\w-]{{1,100}}:(?:{ATTRIBUTES})?")


def drop_icons(content: str) -> str:
    """Markdown without what MkDocs shows as a picture, `:material-check:{ .green }`; what is quoted as code stays."""
    return _ICON.sub("", content) if ":" in content else content


def up_to_nesting(rule: RuleFuncBlockType) -> RuleFuncBlockType:
    """The rule of lists or quotes; deeper than MAX_NESTING, where markdown-it drops all that follows, a paragraph."""

    def bounded(state: StateBlock, first: int, end: int, silent: bool) -> bool:
        return (silent or state.level < MAX_NESTING) and rule(state, first, end, silent)

    return bounded


# How an HTML block begins whose content is no text.
_RAW_HTML = ("<!", "<?", "<script", "<style", "<pre", "<textarea")
# The dashes below the header of a table, in lists and quotes as well.
_TABLE_RULE = re.compile(r"^[ \t>]*+[|:-][-|: \t]*+$", re.MULTILINE)
_MARKUP = re.compile(r"[\\`*_\[\]<>&!~]")
_SPACES = re.compile(r"\s+")
_KINDS = {
    "heading_open": BlockKind.HEADING,
    "paragraph_open": BlockKind.PARAGRAPH,
    "bullet_list_open": BlockKind.LIST,
    "ordered_list_open": BlockKind.LIST,
    "fence": BlockKind.CODE,
    "code_block": BlockKind.CODE,
    "table_open": BlockKind.TABLE,
}


class _Reader(StateBlock):
    """A block parser's state that notes blocks, keeps headings and linkable text, and drops every other token."""

    def __init__(self, text: str, parser: MarkdownIt, above: int) -> None:
        super().__init__(text, parser, {}, [])
        self.blocks: list[Block] = []
        # The opening token of a heading of the document itself, None for other texts; and the token with the text.
        self.contents: list[tuple[Token | None, Token]] = []
        self.is_deep = False
        self._above = above
        self._done = 0  # lines that were read
        self._block: Token | None = None
        self._opening: Token | None = None
        self._content: Token | None = None
        self._unwanted = Token("", "", 0)

    def push(self, ttype: str, tag: str, nesting: Literal[-1, 0, 1]) -> Token:
        """Give the rule a token to fill in; the unwanted one is the same each time."""
        if self._content is not None:  # a rule fills a token in after it was pushed, before it pushes the next
            self._keep_content()
        if nesting < 0:
            self.level -= 1
        token = self._unwanted
        is_content = ttype in ("inline", "html_block")
        if is_content or (self.level == 0 and nesting >= 0):
            token = Token(ttype, tag, nesting)
        if self.level == 0 and nesting >= 0:
            self._note_block()
            self._block = token
            self._opening = token if ttype == "heading_open" else None
        if is_content:
            self._content = token
        if nesting > 0:
            self.level += 1
            self.is_deep = self.is_deep or self.level >= MAX_NESTING
        return token

    def finish(self) -> None:
        if self._content is not None:
            self._keep_content()
        self._note_block()
        self._note_definitions(self.lineMax)

    def _keep_content(self) -> None:
        """Keep the text of a heading, and one that may hold links or tags: MDX components, not comments and scripts."""
        content = self._content
        assert content is not None
        is_raw = content.type == "html_block" and content.content.lstrip().lower().startswith(_RAW_HTML)
        may_lead = "[" in content.content or "#" in content.content
        if self._opening is not None or (may_lead and not is_raw):
            self.contents.append((self._opening, content))
        self._opening = self._content = None

    def _note_block(self) -> None:
        if self._block is not None and self._block.map:
            first, end = self._block.map
            self._note_definitions(first)
            self.blocks.append(Block(_KINDS.get(self._block.type, BlockKind.OTHER), self._above + first + 1))
            self._done = end
        self._block = None

    def _note_definitions(self, end: int) -> None:
        """Note lines that were read and have no token: definitions of links, and what markdown-it dropped."""
        lines = [
            (line, text)
            for line in range(self._done, end)
            if (text := self.src[self.bMarks[line] : self.eMarks[line]].strip())
        ]
        if lines:  # a footnote of one word is a definition to CommonMark, but pages show it
            are_hidden = all(text.startswith("[") and not text.startswith("[^") for _, text in lines)
            kind = BlockKind.DEFINITIONS if are_hidden else BlockKind.OTHER
            self.blocks.append(Block(kind, self._above + lines[0][0] + 1))


def _read(text: str, above: int, *, with_tables: bool) -> _Reader:
    """Read the text below the first `above` lines of a file."""
    parser = _block_parser(with_tables)
    reader = _Reader(text, parser, above)
    parser.block.tokenize(reader, 0, reader.lineMax)
    reader.finish()
    return reader


def may_hold_table(text: str) -> bool:
    """Whether there are dashes below a line with a `|`."""
    return "|" in text and any(
        "|" in text[text.rfind("\n", 0, rule.start() - 1) + 1 : rule.start()]
        for rule in _TABLE_RULE.finditer(text)
        if rule.start()
    )


@cache
def _block_parser(with_tables: bool) -> MarkdownIt:
    """The block rules. With tables, only where blocks begin is wanted: what is too deep may be dropped."""
    parser = MarkdownIt("commonmark", {"maxNesting": MAX_NESTING * (1 if with_tables else 10)})
    ruler = parser.block.ruler
    ruler.at("blockquote", up_to_nesting(blockquote), {"alt": ["paragraph", "reference", "blockquote", "list"]})
    ruler.at("list", up_to_nesting(list_block), {"alt": ["paragraph", "reference", "blockquote"]})
    return parser.enable("table") if with_tables else parser


class _InlineParser(MarkdownIt):
    """Leaves addresses as they are: nobody reads them here, and encoding them takes a fifth of the time."""

    def normalizeLink(self, url: str) -> str:
        return url

    def validateLink(self, url: str) -> bool:
        return True


@cache
def _inline_parser() -> MarkdownIt:
    return _InlineParser("commonmark").enable("strikethrough")


def _text_of(tokens: Sequence[Token]) -> str:
    """The text of inline tokens; wikilinks outside code give their label."""
    parts = []
    for is_code, group in groupby(tokens, key=lambda token: token.type == "code_inline"):
        text = "".join(map(_token_text, group))
        parts.append(text if is_code else WIKILINK.sub(_label, text))
    return "".join(parts)


def _token_text(token: Token) -> str:
    if token.type == "image":
        return _text_of(token.children or ())
    if token.type in ("softbreak", "hardbreak"):
        return " "
    return "" if token.type == "html_inline" else token.content


def _label(wikilink: re.Match[str]) -> str:
    """The label, else the note; with two `|` it is no wikilink here."""
    note, label = wikilink.groups()
    return note if label is None else wikilink[0] if "|" in label else label
