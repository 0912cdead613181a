"""One document's text as front matter, headings, and text that may hold links."""

from dataclasses import dataclass

from markdown_it.token import Token
from markdown_it.utils import EnvType

from pageindex.blocks import wanted_blocks
from pageindex.front_matter import FrontMatter, read_front_matter
from pageindex.inline import References


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of the document itself, not one inside a list or a quote."""

    level: int
    """1 to 6."""
    title: str
    """Plain text on one line, without `{#id}` and closing `#`; may be empty."""
    anchor_id: str | None
    """The id in `{#id}`, None without one."""
    line: int
    """Its first line, 1-based, counted in the file."""
    line_count: int
    """1, or more for a heading that is underlined."""


@dataclass(frozen=True, slots=True)
class InlineText:
    """A paragraph, heading or HTML block that may hold links."""

    line: int
    """Its first line, 1-based, counted in the file; each further line of `text` is the next line of the file."""
    text: str
    """Its Markdown; indentation and the signs of quotes and lists are gone."""


@dataclass(frozen=True, slots=True)
class Markdown:
    """What the index wants to know about a document."""

    front_matter: FrontMatter
    """Empty without one."""
    headings: tuple[Heading, ...]
    """In the order of lines."""
    texts: tuple[InlineText, ...]
    """In the order of lines, code left out: only those that hold a `[`."""
    references: References
    """The link reference definitions."""
    line_count: int
    """Lines of the file; text after the last line end is a line too."""


def parse_markdown(text: str) -> Markdown:
    """Headings, front matter and linkable text of `text` (LF line ends, no NUL); takes any text, never raises."""
    front_matter = read_front_matter(text)
    env: EnvType = {}
    blocks = wanted_blocks(_after_lines(text, front_matter.lines), env)
    references = References(env)
    headings: list[Heading] = []
    texts: list[InlineText] = []
    for opening, content in blocks:
        line = front_matter.lines + (content.map or [0])[0] + 1
        if opening is not None:
            headings.append(_heading(opening, content, line, references))
        if "[" in content.content:
            texts.append(InlineText(line, content.content))
    return Markdown(front_matter, tuple(headings), tuple(texts), references, count_lines(text))


def count_lines(text: str) -> int:
    """Lines of a text with LF line ends, as an editor numbers them: a final line end opens no new line."""
    return text.count("\n") + (1 if text and not text.endswith("\n") else 0)


def _after_lines(text: str, count: int) -> str:
    """The text without its first `count` lines."""
    pieces = text.split("\n", count)
    return pieces[count] if len(pieces) > count else ""


def _heading(opening: Token, content: Token, line: int, references: References) -> Heading:
    markdown, anchor_id = split_attributes(content.content)
    if opening.markup.startswith("#"):
        markdown = _without_closing_sequence(markdown)
    first, last = opening.map or [0, 1]
    return Heading(int(opening.tag[1]), references.plain_text(markdown), anchor_id, line, last - first)


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


def _without_closing_sequence(content: str) -> str:
    """`Title ##` before a `{#id}` is `Title`; markdown-it has removed it only where it ends the line."""
    stripped = content.rstrip("#")
    return stripped.rstrip() if stripped == "" or stripped[-1] in " \t" else content
