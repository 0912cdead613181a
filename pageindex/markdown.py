"""A document's Markdown, read once: headings, blocks, text that may hold links or tags, and text without markup.

markdown-it-py's rules do the work, with GitHub's tables and with wikilinks. Of the tokens of blocks only the outermost
are kept, and those with text: a million list items take no memory.
"""

import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import EnvType

from pageindex.front_matter import FrontMatter, read_front_matter

MAX_NESTING = 50  # levels that are opened: a quote is one, a list two; what is deeper is left out of the blocks

# Longer text is read in pieces: the time of markdown-it's inline rules on hostile text may grow with its square.
MAX_INLINE_CHARS = 2000

# The pictures that a page shows, by their endings.
PICTURE_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".avif": "image/avif",
    ".svg": "image/svg+xml",
}
# `[[note]]`, `[[note|label]]`, `![[note]]`: groups note and label; a `(` or `[` behind it makes a link of it.
WIKILINK = re.compile(r"!?\[\[([^\[\]|\n]{1,999})(?:\|([^\[\]|\n]{0,999}))?\]\](?![(\[])")


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
    """A paragraph, heading, cell or HTML block that may hold links or tags."""

    line: int  # its first line, 1-based, counted in the file; each further line of `text` is the next line of the file
    text: str  # its Markdown; indentation and the signs of quotes and lists are gone
    is_html: bool = False  # whether it is an HTML block, in which a `#` makes no tag


class References:
    """Reads text by the link reference definitions (`[label]: target`) of one document."""

    def __init__(self, env: EnvType | None = None) -> None:
        self._env: EnvType = {} if env is None else env

    def read_inline(self, content: str) -> list[Token]:
        """Return the tokens of inline Markdown; a wikilink is one of type `wikilink`, with its label as content.

        The `map` of a token is the line in which it begins, 0-based in `content`; that of text is None.
        """
        parser = _inline_parser()
        found: list[Token] = []
        above = 0
        for piece in _split_inline(content):
            state = _InlineReader(piece, parser, self._env, [])
            state.above = above
            parser.inline.tokenize(state)
            for rule in parser.inline.ruler2.getRules(""):
                rule(state)
            found += state.tokens
            above += piece.count("\n")
        return found

    def plain_text(self, content: str) -> str:
        """Strip inline Markdown of its markup, to one line; an image gives its alternative text, HTML tags nothing."""
        if _MARKUP.search(content):
            content = "".join(map(_token_text, self.read_inline(content)))
        return _SPACES.sub(" ", content).strip()


@dataclass(frozen=True, slots=True)
class Markdown:
    """What the index wants to know about a document."""

    front_matter: FrontMatter  # empty without one
    headings: tuple[Heading, ...]  # in the order of lines
    texts: tuple[InlineText, ...]  # in the order of lines, without code: those that may hold a link or a tag (`[`, `#`)
    references: References  # the link reference definitions
    line_count: int  # lines of the file; text after the last line end is a line too


def parse_markdown(text: str) -> Markdown:
    """Read front matter, headings and linkable text from `text` (LF line ends, no NUL); never raise."""
    front_matter = read_front_matter(text)
    above = front_matter.lines
    reader = _read(text.split("\n", above)[above] if text.count("\n") >= above else "")
    references = References(reader.env)
    headings, texts = [], []
    opening: Token | None = None  # of a heading whose text comes next
    for token in reader.tokens:
        if token.type == "heading_open" and token.level == 0:
            opening = token
        elif opening is not None:
            title, anchor_id = split_attributes(token.content)
            title = references.plain_text(_TEMPLATE.sub(r"\1", drop_icons(title)).strip() or title)
            begin, end = opening.map or (0, 1)
            headings.append(Heading(int(opening.tag[1]), title, anchor_id, above + begin + 1, end - begin))
            opening = None
        is_raw = token.type == "html_block" and token.content.lstrip().lower().startswith(_RAW_HTML)
        if ("[" in token.content or "#" in token.content) and token.type in _TEXTS and not is_raw:
            texts.append(
                InlineText(above + (token.map or [0])[0] + 1, token.content, is_html=token.type == "html_block")
            )
    return Markdown(front_matter, tuple(headings), tuple(texts), references, count_lines(text))


def read_blocks(body: str, first: int = 1) -> tuple[Block, ...]:
    """Return the blocks of a text whose first line is line `first` of its file; lines in no block are blank."""
    return tuple(_list_blocks(_read(body), first))


def count_lines(text: str) -> int:
    """Count the lines of a text with LF line ends as an editor does: a final line end opens no new line."""
    return text.count("\n") + (1 if text and not text.endswith("\n") else 0)


def line_starts(text: str) -> Sequence[int]:
    """Return where each line starts, in characters, and at last where the text ends."""
    starts = array("q", [0])  # a list has 40 bytes for each
    starts.extend(match.end() for match in re.finditer("\n", text))
    starts.append(len(text))
    return starts


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


# What MkDocs opens: `!!! note "Title"`, `??? tip`, `=== "Tab"`. It holds the lines below that are indented further.
_CONTAINER = re.compile(r"""[ ]*(?:(?:!!!|\?\?\?\+?)[ ]+["\w]|===[!+]?[ ]+")""")
TAB = re.compile(r'([ ]*)===[!+]?[ ]+(?="[^"\n]*"[ \t]*$)')
# A tag of MDX, and what a page shows of it: `<Tab title="npm">`, `<ParamField path="id">`, `<Snippet text="npm i" />`.
COMPONENT = re.compile(r"(?<!\\)</?[A-Z][\w.]{0,60}(?:[ \t][^<>\n]{0,500})?/?>")
_COMPONENTS = re.compile(rf"[ \t]*(?:{COMPONENT.pattern}[ \t]*){{1,20}}+$")
# Where a comment of Obsidian or MDX begins, or a call of Hugo or tag that goes on in the next line, and how each ends.
_OPENING = re.compile(r"[ \t]*(?:(%%|\{/\*|\{\{[<%](?!.*\}\}))|<[A-Z][\w.]{0,60}(?:[ \t][^<>]{0,200})?$)")
_TABLE = re.compile(r"\[\s*\{.*/>\s*$")  # a list of what a page shows: `<Options of={[{name: "depth"}]} />`
_CLOSINGS = {"%%": "%%", "{/*": "*/}", "{{<": "}}", "{{%": "}}", None: ">"}
# What Jekyll and Hugo put around code in place of a fence.
_CODE_TAG = re.compile(
    r"([ \t]*)\{(?:%-?[ ]*highlight|\{[<%][ ]*(?:highlight|code[\w-]{0,30}))(?:[ ][^{}\n]{0,200})?(?<!/)[%>]\}+[ \t]*$"
)
_CODE_END = re.compile(r"[ \t]*\{(?:%-?[ ]*end|\{[<%][ ]*/[ ]*)(?:highlight|code)")
# Blocks of MyST, which Sphinx reads: `{note}` holds Markdown though it is fenced as code is; options may begin each.
_DIRECTIVE = re.compile(
    r"""([ \t>]*)(`{3,}|~{3,}|:{3,})(?=\{[\w:.-]{1,60}\}) (\{(?:note|tip|hint|important|warning|caution|danger|seealso
        |admonition|dropdown|margin|sidebar|version\w+|deprecated|figure|(?:tab|grid|card)[\w-]*)\}.*)?""",
    re.VERBOSE,
)
_OPTION = re.compile(r"[ \t>]*:[\w-]{1,60}:(?:[ \t]|$)")
_MOST_LINES = 100
_INLINE_COMMENT = re.compile(r"(`[^`\n]*`)|%%[^%\n]{0,500}%%")  # code stays
_SHOWN_OF_IT = re.compile(
    r"""\s(?:title|label|caption|name|path|query|body|header|text)=\{?(["'`])([^"`\n]{1,200}?)\1"""
)


def unindent_containers(text: str) -> str:
    """Return a text, line by line, with what MkDocs's notes and tabs hold beginning where their opening does.

    To CommonMark it is code, of which nothing is read: no paragraph, no list and no link.
    """
    if "!!!" not in text and "???" not in text and "===" not in text:
        return text
    lines, held, fence = [], list[int](), ""  # the second: how far what the open containers hold is indented
    for line in text.split("\n"):
        indentation = len(line) - len(line.lstrip(" "))
        while held and line.strip() and indentation < held[-1]:
            held.pop()
            fence = ""
        if not line.lstrip(" ").startswith("#"):  # a heading in a note begins no section
            line = line[min(indentation, 4 * len(held)) :]
        before, fence = fence, fence_after(fence, line)
        if not (before or fence) and _CONTAINER.match(line):
            held.append(indentation + 4)
        lines.append(line)
    return "\n".join(lines)


def drop_notation(text: str) -> str:
    r"""Return a text, line by line, without what Obsidian and MDX do not show: comments, and lines of tags alone.

    Such a line becomes a tab with what a page shows of the tags. To CommonMark what stands directly below is HTML, of
    which nothing is read.

    >>> drop_notation('<Tab title="npm">\nText.\n</Tab>\n<Snippet\n  text="npm i"\n/>').split("\n")
    ['=== "npm"', 'Text.', '', '', '', 'npm i']
    """
    if "<" not in text and "{" not in text and "%%" not in text:
        return text
    lines, fence = text.split("\n"), ""
    for number, line in enumerate(lines):
        if not fence:
            line = _show_fence(lines, number)
        before, fence = fence, fence_after(fence, line)
        if before or fence:
            continue
        if "%%" in line:
            line = lines[number] = _INLINE_COMMENT.sub(r"\1", line)
        opening = _OPENING.match(line)
        end = _find_closing(lines, number, opening) if opening else number + 1
        if opening and opening[1] and end:
            lines[number:end] = [""] * (end - number)
        elif "<" in line and end and _COMPONENTS.match(tags := " ".join(lines[number:end])) and not _TABLE.search(tags):
            lines[number:end] = [*[""] * (end - number - 1), _show_tags(tags)]
    return "\n".join(lines)


def _show_fence(lines: list[str], number: int) -> str:
    """Return a line of a list, after what it opens was given the fence of what it holds: of code, or `:::` of text."""
    line, rest = lines[number], range(number + 1, min(number + _MOST_LINES, len(lines)))
    code, opening = _CODE_TAG.match(line), _DIRECTIVE.match(line)
    if code:
        end = next((place for place in rest if _CODE_END.match(lines[place])), 0)
        if end and not any(fence_after("", lines[place]) for place in range(number + 1, end)):
            lines[number] = lines[end] = f"{code[1]}```"
    elif opening:
        indent, fence, prose = opening.groups()
        if prose and (end := next((place for place in rest if not fence_after(fence, lines[place])), 0)):
            lines[number], lines[end] = f"{indent}:::{prose}", f"{indent}:::"
        below = next((place for place in rest if not _OPTION.match(lines[place])), number + 1)
        options = [""] * (below - number - 1)
        lines[number:below] = [*options, lines[number]] if prose else [lines[number], *options]
    return lines[number]


def _show_tags(tags: str) -> str:
    title = " ".join(filter(None, map(show_component, COMPONENT.findall(tags))))
    return title if not title or tags.rstrip().endswith("/>") else f'=== "{title}"'


def _find_closing(lines: Sequence[str], number: int, opening: re.Match[str]) -> int:
    """Return the line behind the one that ends what begins in a line; 0 where none does."""
    closing = _CLOSINGS[opening[1]]
    if lines[number][opening.end() :].rstrip().endswith(closing):
        return number + 1
    rest = range(number + 1, min(number + _MOST_LINES, len(lines)))
    return next((place + 1 for place in rest if lines[place].rstrip().endswith(closing)), 0)


def show_component(tag: str) -> str:
    """Return what a page shows of a tag of MDX: a title, a label, the parameter that it describes; or nothing."""
    shown = _SHOWN_OF_IT.search(tag)
    return shown[2] if shown else ""


def find_opening(lines: Sequence[str], place: int) -> Sequence[str]:
    """Return what opens the block that a line goes on with: a fence, a tag of MDX, a table's header; or nothing."""
    fence, opened, tag = "", "", ""
    for line in lines[:place]:
        opened, fence = opened if fence else line, fence_after(fence, line)
        begins = not (fence or tag) and _OPENING.match(line)
        tag = "" if line.rstrip().endswith(">") else line if begins and not begins[1] else tag
    if fence or tag:
        return [opened if fence else tag]
    top = place
    while top and lines[top].lstrip().startswith("|") and lines[top - 1].lstrip().startswith("|"):
        top -= 1
    return lines[top : min(top + 2, place)]


def split_attributes(content: str) -> tuple[str, str | None]:
    """Return a heading's Markdown without a closing `{#id .class key=value}` or MDX's `{/*id*/}`, and the id in it.

    Behind `{:` any words are attributes. The `##` that closes a heading may stand before them.
    """
    start = content.rfind("{")
    if start < 0 or not content.endswith("}"):
        return content, None
    inside = content[start + 1 : -1]
    if inside.startswith("/*") and inside.endswith("*/"):
        return content[:start].rstrip(), inside[2:-2].strip() or None
    attributes = inside.removeprefix(":").split()
    are_plain = inside.startswith(":") or all(item[0] in "#." or "=" in item for item in attributes)
    if not attributes or not are_plain:
        return content, None
    ids = [item[1:] for item in attributes if item.startswith("#") and len(item) > 1]
    title = content[:start].rstrip()
    bare = title.rstrip("#")
    return bare.rstrip() if bare[-1:].isspace() else title, ids[0] if ids else None


# As MkDocs and kramdown read them behind what they belong to: `{ .wide }`, `{: #id }`, `{ align=right }`.
ATTRIBUTES = r"\{:?[ ]?(?:[.#]|[\w-]{1,50}=)[^{}\n]{0,200}+\}"
_ICON = re.compile(rf"(?<!`):(?:material|fontawesome|octicons|simple)-[\w-]{{1,100}}:(?:{ATTRIBUTES})?")

# Templates of Hugo, Jekyll, Liquid.
TEMPLATE = r"\{\{[^{}\n]{0,300}\}\}|\{%[^{}\n]{0,300}%\}"
_TEMPLATE = re.compile(rf"(`[^`\n]*`)|{TEMPLATE}")  # code stays


def drop_icons(content: str) -> str:
    """Remove what MkDocs shows as a picture, `:material-check:{ .green }`, unless a backtick comes before it."""
    return _ICON.sub("", content) if ":" in content else content


_TEXTS = ("inline", "html_block")  # tokens with text
# How an HTML block begins whose content is no text.
_RAW_HTML = ("<!", "<?", "<script", "<style", "<pre", "<textarea")
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
    """A block parser's state that keeps the tokens of the outermost blocks, and those with text."""

    def __init__(self, text: str, parser: MarkdownIt) -> None:
        super().__init__(text, parser, {}, [])
        self._unwanted = Token("", "", 0)

    def push(self, ttype: str, tag: str, nesting: Literal[-1, 0, 1]) -> Token:
        """Give the rule a token to fill in; the unwanted one is the same each time."""
        if nesting < 0:
            self.level -= 1
        token = self._unwanted
        if ttype in _TEXTS or (self.level == 0 and nesting >= 0):
            # The text of a cell has no lines of its own: those of its row were given to the token before.
            token = Token(ttype, tag, nesting, level=self.level, map=self._unwanted.map)
            self.tokens.append(token)
        if nesting > 0:
            self.level += 1
        return token


def _read(text: str) -> _Reader:
    parser = _block_parser()
    reader = _Reader(unindent_containers(drop_notation(text)), parser)
    parser.block.tokenize(reader, 0, reader.lineMax)
    return reader


def _list_blocks(reader: _Reader, first_line: int) -> Iterator[Block]:
    """Yield the outermost blocks of a text that begins in that line of its file.

    Lines that have no token are blocks, too: definitions of links, and what markdown-it left out.
    """
    done = 0
    for token in (*(token for token in reader.tokens if token.level == 0), None):
        first, end = (token.map or (0, 0)) if token else (reader.lineMax, 0)
        lines = ((line, reader.src[reader.bMarks[line] : reader.eMarks[line]].strip()) for line in range(done, first))
        skipped = [(line, text) for line, text in lines if text]
        if skipped:  # a footnote of one word is a definition to CommonMark, but pages show it
            are_hidden = all(text.startswith("[") and not text.startswith("[^") for _, text in skipped)
            yield Block(BlockKind.DEFINITIONS if are_hidden else BlockKind.OTHER, first_line + skipped[0][0])
        if token:
            yield Block(_KINDS.get(token.type, BlockKind.OTHER), first_line + first)
        done = end


@cache
def _block_parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"maxNesting": MAX_NESTING}).enable("table")


class _InlineReader(StateInline):
    """An inline parser's state that notes where a token begins: markdown-it gives the lines of blocks alone."""

    above = 0  # how many lines of the text come before this piece

    def push(self, ttype: str, tag: str, nesting: Literal[-1, 0, 1]) -> Token:
        token = super().push(ttype, tag, nesting)
        token.map = [self.above + self.src.count("\n", 0, self.pos)]
        return token


class _InlineParser(MarkdownIt):
    """Leaves addresses as they are: nobody reads them here, and encoding them takes a fifth of the time."""

    def normalizeLink(self, url: str) -> str:
        return url

    def validateLink(self, url: str) -> bool:
        return True


@cache
def _inline_parser() -> MarkdownIt:
    parser = _InlineParser("commonmark").enable("strikethrough")
    parser.inline.ruler.before("link", "wikilink", parse_wikilink)
    return parser


def parse_wikilink(state: StateInline, silent: bool) -> bool:
    """Read `[[note#Part|label]]` and `![[picture.png]]` as one token with its label, which a picture has none of."""
    found = WIKILINK.match(state.src, state.pos)
    if found is None:
        return False
    if not silent:
        note, label = found.groups()
        token = state.push("wikilink", "", 0)
        is_picture = found[0].startswith("!") and note.partition("#")[0].lower().endswith(tuple(PICTURE_TYPES))
        token.content = "" if is_picture else label or name_target(note)
        token.meta = {"note": note}
    state.pos = found.end()
    return True


def name_target(note: str) -> str:
    """Return what a page shows of a wikilink without a label, as Obsidian does.

    >>> name_target("Plants#Beans"), name_target("#Beans")
    ('Plants > Beans', 'Beans')
    """
    return note.removesuffix("\\").removeprefix("#").replace("#", " > ")


def _split_inline(content: str) -> Iterator[str]:
    """Yield a text in pieces that are short enough, cut between lines, before a bracket, or where they are too long."""
    start = 0
    while len(content) - start > MAX_INLINE_CHARS:
        end = start + MAX_INLINE_CHARS
        cut = max(content.rfind("\n", start, end), content.rfind(" [", start, end)) + 1
        yield content[start : cut or end]
        start = cut or end
    yield content[start:]


def _token_text(token: Token) -> str:
    if token.type == "image":
        return "".join(map(_token_text, token.children or ()))
    if token.type in ("softbreak", "hardbreak"):
        return " "
    return "" if token.type == "html_inline" else token.content
