"""Sections -> a context within a token budget: the stages in their order. Pure, but for the tokenizer."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from retriever.context.budget import filled
from retriever.context.grouping import grouped
from retriever.context.merging import without_repeats
from retriever.context.rendering import more_line, outline_line, rendered
from retriever.context.sections import Excerpt, Group, LeftOut, Piece, Section
from retriever.errors import UsageError
from retriever.settings.profile import LEAST_CONTEXT_TOKENS
from retriever.types import Verdict

OUTLINE_SHARE = 0.125
"""The outline of what was left out has at most this share of the budget."""
_COUNTED_CHARS = 100_000
_LONG_WORD = re.compile(r"(\w{100})(?=\w)")

TokenCount = Callable[[str], int]
"""The number of tokens of a text, special ones aside; of two texts with a line end between, the sum."""


@dataclass(frozen=True, slots=True)
class Context:
    """Sections for a prompt, within a budget."""

    groups: tuple[Group, ...]
    """By their best hit."""
    left_out: tuple[LeftOut, ...]
    """Hits that are not quoted, best first; the outline in `markdown` may hold fewer."""
    markdown: str
    """The whole page: what is quoted, where it stands, what was left out."""
    tokens: int
    """Of `markdown`, by the bundled model's tokenizer; at most `max_tokens`."""
    max_tokens: int

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """All of the groups' pieces, in the order of the page."""
        return tuple(piece for group in self.groups for piece in group.pieces)


def assembled(sections: Sequence[Section], verdict: Verdict, max_tokens: int, count: TokenCount) -> Context:
    """The context of these sections.

    Args:
        sections: hits first, best first; then what completes their families.
        verdict: of the answer.
        max_tokens: the most that the page may have, all that it says by itself included.
        count: counts tokens.

    Raises:
        UsageError: so few tokens hold nothing.
    """
    if max_tokens < LEAST_CONTEXT_TOKENS:
        raise UsageError(f"a context needs at least {LEAST_CONTEXT_TOKENS} tokens, got {max_tokens}")
    return _Assembly(sections, verdict, max_tokens, count).context()


class _Assembly:
    """One context on its way: what it could quote, and how long that would be."""

    def __init__(self, sections: Sequence[Section], verdict: Verdict, max_tokens: int, count: TokenCount) -> None:
        self._hits = [section for section in sections if section.rank is not None]
        self._sections, self._repeats = without_repeats(sections)
        self._verdict: Verdict = verdict
        self._max_tokens = max_tokens
        self._count = cache(count)  # lines come again with every trial

    def context(self) -> Context:
        excerpts = filled(self._sections, self._fits)
        markdown = self._markdown(excerpts)
        while excerpts and self._count(markdown) > self._max_tokens:  # a tokenizer whose counts do not add up
            excerpts = excerpts[:-1]
            markdown = self._markdown(excerpts)
        left_out = tuple(self._left_out(excerpts))
        return Context(grouped(excerpts), left_out, markdown, self._count(markdown), self._max_tokens)

    def _fits(self, excerpts: Sequence[Excerpt], share: float) -> bool:
        room = self._max_tokens * share
        for line in self._page(excerpts):
            room -= self._count(line)
            if room < 0:
                return False
        return True

    def _markdown(self, excerpts: Sequence[Excerpt]) -> str:
        return "".join(f"{line}\n" for line in self._page(excerpts))

    def _page(self, excerpts: Sequence[Excerpt]) -> Iterator[str]:
        return rendered(grouped(excerpts), self._outline(excerpts), self._verdict)

    def _outline(self, excerpts: Sequence[Excerpt]) -> list[str]:
        """A line for each hit that is left out, as many as the outline may have."""
        items = list(self._left_out(excerpts))
        room, lines = int(self._max_tokens * OUTLINE_SHARE), list[str]()
        for item in items:
            line = outline_line(item)
            room -= self._count(line)
            if room < 0:
                return [*lines, more_line(len(items) - len(lines))]
            lines.append(line)
        return lines

    def _left_out(self, excerpts: Sequence[Excerpt]) -> Iterator[LeftOut]:
        quoted = {excerpt.section.node_id for excerpt in excerpts}
        for section in self._hits:
            kept = self._repeats.get(section.node_id)
            if section.node_id not in quoted:
                same_as = kept.citation if kept and kept.node_id in quoted else ""
                yield LeftOut(section, self._estimate(section.text), same_as)

    def _estimate(self, text: str) -> int:
        read = text[:_COUNTED_CHARS]
        return round(self._count(read) * len(text) / len(read)) if read else 0


def bundled_count() -> TokenCount:
    """Counts by the tokenizer of the bundled model.

    It takes any word of more than 100 letters for one token: such a word is counted in pieces.
    """
    from retriever.embedding import bundled_counter

    counter = bundled_counter()
    special = counter([""])[0]
    return lambda text: counter([_LONG_WORD.sub(r"\1 ", text)])[0] - special
