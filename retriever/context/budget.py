"""Sections -> a context within a token budget: which lines fit, and the page that quotes them. Pure.

The passages that matched come first, within half of the budget: without that limit, two long sections would leave no
room for the other hits (measured in docs/context.md). Then whole sections, best first.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from pageindex.node import Span
from retriever.context.render import group_excerpts, more_line, outline_line, render_page
from retriever.context.sections import Excerpt, Group, LeftOut, Piece, Section
from retriever.errors import UsageError
from retriever.settings.schema import LEAST_CONTEXT_TOKENS
from retriever.types import Verdict

PASSAGES_SHARE = 0.5  # of the budget, for the passages that matched
OUTLINE_SHARE = 0.125  # of the budget, for the outline of what was left out
COUNTED_CHARS = 100_000  # the tokens of a longer text are estimated from so many characters

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
        """All pieces of the groups, in the order of the page."""
        return tuple(piece for group in self.groups for piece in group.pieces)


def load_token_counter() -> TokenCount:
    """Counts tokens by the tokenizer of the bundled model."""
    from retriever.embedding import bundled_counter

    counter = bundled_counter()
    special = counter([""])[0]
    # It takes any word of more than 100 letters for one token, so such a word is counted in pieces.
    return lambda text: counter([re.sub(r"(\w{100})(?=\w)", r"\1 ", text)])[0] - special


def build_context(sections: Sequence[Section], verdict: Verdict, max_tokens: int, count: TokenCount) -> Context:
    """The context of these sections.

    First it takes the passage that matched of each hit; then each hit whole where that fits, or else as many passages
    around the one that matched as fit; then the sections that complete families, whole or not at all.

    Args:
        sections: hits first, best first; then the sections that complete their families.
        verdict: of the answer.
        max_tokens: of the whole page, headings and outline included.
        count: counts tokens.

    Raises:
        UsageError: so few tokens hold nothing.
    """
    if max_tokens < LEAST_CONTEXT_TOKENS:
        raise UsageError(f"a context needs at least {LEAST_CONTEXT_TOKENS} tokens, got {max_tokens}")
    distinct, repeats = drop_repeats(sections)
    hits = [section for section in sections if section.rank is not None]
    page = _Page(hits, repeats, verdict, max_tokens, count)
    distinct_hits = [section for section in distinct if section.rank is not None]
    for section in distinct_hits:
        page.take(section, _excerpts(section, 1), PASSAGES_SHARE)
    for section in distinct_hits:
        if not page.take(section, [Excerpt(section, section.span)]):
            for number in range(1, len(section.passages) + 1):
                if not page.take(section, _excerpts(section, number)):
                    break
    for section in distinct:
        if section.rank is None:
            page.take(section, [Excerpt(section, section.span)])
    return page.context()


def drop_repeats(sections: Sequence[Section]) -> tuple[list[Section], dict[str, Section]]:
    """The sections, each text once; and for the dropped ones, by node id, the first section with their text."""
    first: dict[str, Section] = {}
    repeats = {}
    for section in sections:
        kept = first.setdefault(section.text.strip(), section)
        if kept is not section:
            repeats[section.node_id] = kept
    return [section for section in sections if section.node_id not in repeats], repeats


class _Page:
    """The excerpts that were taken so far, and how long the page with them is."""

    def __init__(
        self,
        hits: Sequence[Section],
        repeats: dict[str, Section],
        verdict: Verdict,
        max_tokens: int,
        count: TokenCount,
    ) -> None:
        self._hits = hits
        self._repeats = repeats
        self._verdict: Verdict = verdict
        self._max_tokens = max_tokens
        self._count = cache(count)  # lines come again with every trial
        self._taken: dict[str, Sequence[Excerpt]] = {}

    def take(self, section: Section, excerpts: Sequence[Excerpt], share: float = 1.0) -> bool:
        """Takes the excerpts in place of those taken of the section, if the page is then within a share of the budget.

        When some excerpts do not fit, more of the section do not fit either.
        """
        if not excerpts:
            return False
        room = self._max_tokens * share
        for line in self._lines(_flatten({**self._taken, section.node_id: excerpts})):
            room -= self._count(line)
            if room < 0:
                return False
        self._taken[section.node_id] = excerpts
        return True

    def context(self) -> Context:
        excerpts = _flatten(self._taken)
        markdown = self._markdown(excerpts)
        while excerpts and self._count(markdown) > self._max_tokens:  # a tokenizer whose counts do not add up
            excerpts = excerpts[:-1]
            markdown = self._markdown(excerpts)
        left_out = tuple(self._left_out(excerpts))
        return Context(group_excerpts(excerpts), left_out, markdown, self._count(markdown), self._max_tokens)

    def _markdown(self, excerpts: Sequence[Excerpt]) -> str:
        return "".join(f"{line}\n" for line in self._lines(excerpts))

    def _lines(self, excerpts: Sequence[Excerpt]) -> Iterator[str]:
        return render_page(group_excerpts(excerpts), self._outline(excerpts), self._verdict)

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
            if section.node_id not in quoted:
                kept = self._repeats.get(section.node_id)
                same_as = kept.citation if kept and kept.node_id in quoted else ""
                counted = section.text[:COUNTED_CHARS]
                tokens = round(self._count(counted) * len(section.text) / len(counted)) if counted else 0
                yield LeftOut(section, tokens, same_as)


def _flatten(taken: dict[str, Sequence[Excerpt]]) -> tuple[Excerpt, ...]:
    return tuple(excerpt for excerpts in taken.values() for excerpt in excerpts)


def _excerpts(section: Section, count: int) -> list[Excerpt]:
    """Its first passages, as one excerpt where they touch; the section whole when these are all of them."""
    if count >= len(section.passages) > 0:
        return [Excerpt(section, section.span)]
    joined: list[Span] = []
    for passage in sorted(section.passages[:count]):
        if joined and _touch(section, joined[-1], passage):
            joined[-1] = Span(joined[-1].first, max(joined[-1].last, passage.last))
        else:
            joined.append(passage)
    return [Excerpt(section, span) for span in joined]


def _touch(section: Section, one: Span, other: Span) -> bool:
    """Whether the spans overlap, or only blank lines are between them."""
    if other.first <= one.last + 1:
        return True
    return not any(line.strip() for line in section.lines(Span(one.last + 1, other.first - 1)))
