"""Inline Markdown as plain text: titles and summaries without their markup."""

import re
from collections.abc import Sequence
from functools import cache
from itertools import groupby

from markdown_it import MarkdownIt
from markdown_it.common.utils import normalizeReference
from markdown_it.token import Token
from markdown_it.utils import EnvType

MAX_INLINE_CHARS = 2000
"""Longer text keeps its markup: the time of markdown-it's inline rules on hostile text grows with the square of it."""

_MARKUP = re.compile(r"[\\`*_\[\]<>&!~]")
_WIKILINK = re.compile(r"!?\[\[(?:[^\[\]|]*\|)?([^\[\]|]*)\]\]")
_SPACES = re.compile(r"\s+")


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
            content = _text_of(self._parse(content))
        return _SPACES.sub(" ", content).strip()

    def _parse(self, content: str) -> list[Token]:
        tokens: list[Token] = []
        parser = _inline_parser()
        parser.inline.parse(content, parser, self._env, tokens)
        return tokens


class _InlineParser(MarkdownIt):
    """Leaves addresses as they are: nobody reads them here, and encoding them takes a fifth of the time."""

    def normalizeLink(self, url: str) -> str:
        """Return the address unchanged."""
        return url

    def validateLink(self, url: str) -> bool:
        """Take any address."""
        return True


@cache
def _inline_parser() -> MarkdownIt:
    return _InlineParser("commonmark").enable("strikethrough")


def _text_of(tokens: Sequence[Token]) -> str:
    """The text of inline tokens; wikilinks outside code give their label."""
    parts = []
    for is_code, group in groupby(tokens, key=lambda token: token.type == "code_inline"):
        text = "".join(map(_token_text, group))
        parts.append(text if is_code else _WIKILINK.sub(r"\1", text))
    return "".join(parts)


def _token_text(token: Token) -> str:
    if token.type == "image":
        return _text_of(token.children or ())
    if token.type in ("softbreak", "hardbreak"):
        return " "
    return "" if token.type == "html_inline" else token.content
