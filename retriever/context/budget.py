"""Which lines of which sections fit: the passages that matched first, then whole sections, best first. Pure."""

from collections.abc import Callable, Iterator, Sequence

from pageindex.node import Span
from retriever.context.sections import Excerpt, Section

PASSAGES_SHARE = 0.5
"""The share of the budget within which the passages that matched come first: without it, two long sections would leave
no room for the other hits. Measured in docs/context.md."""

Fits = Callable[[Sequence[Excerpt], float], bool]
"""Whether all that would be shown with these excerpts, headings and outline included, is within a share of the budget.
Of excerpts that do not fit, more do not fit either."""


def filled(sections: Sequence[Section], fits: Fits) -> tuple[Excerpt, ...]:
    """As much of the sections as fits.

    First the passage that matched of each hit; then each hit whole where that fits, or else as many passages around
    the one that matched as fit; then what completes families, whole or not at all.

    Args:
        sections: hits, best first, then what completes families.
        fits: the budget.
    """
    taking = _Taking(fits)
    hits = [section for section in sections if section.rank is not None]
    for section in hits:
        taking.take(section, _excerpts(section, 1), PASSAGES_SHARE)
    for section in hits:
        if not taking.take(section, _whole(section)):
            taking.grow(section)
    for section in sections:
        if section.rank is None:
            taking.take(section, _whole(section))
    return taking.excerpts


class _Taking:
    """What has been taken so far."""

    def __init__(self, fits: Fits) -> None:
        self._fits = fits
        self._taken: dict[str, Sequence[Excerpt]] = {}

    @property
    def excerpts(self) -> tuple[Excerpt, ...]:
        return tuple(excerpt for some in self._taken.values() for excerpt in some)

    def take(self, section: Section, excerpts: Sequence[Excerpt], share: float = 1.0) -> bool:
        """Takes these in place of what was taken of the section, if they fit."""
        others = (some for node_id, some in self._taken.items() if node_id != section.node_id)
        all_excerpts = [*(excerpt for some in others for excerpt in some), *excerpts]
        if not excerpts or not self._fits(all_excerpts, share):
            return False
        self._taken[section.node_id] = excerpts
        return True

    def grow(self, section: Section) -> None:
        """Takes one passage more of the section, as often as it fits."""
        for count in range(1, len(section.passages) + 1):
            if not self.take(section, _excerpts(section, count)):
                break


def _whole(section: Section) -> list[Excerpt]:
    return [Excerpt(section, section.span)]


def _excerpts(section: Section, count: int) -> list[Excerpt]:
    """Its first passages, in one where they touch; the section whole when these are all of them."""
    if count >= len(section.passages) > 0:
        return _whole(section)
    return [Excerpt(section, span) for span in _joined(section, section.passages[:count])]


def _joined(section: Section, passages: Sequence[Span]) -> Iterator[Span]:
    """The passages in order, in one where they overlap or nothing but blank lines is between them."""
    current: Span | None = None
    for passage in sorted(passages):
        if current is None:
            current = passage
        elif passage.first <= current.last + 1 or _is_blank(section, current.last + 1, passage.first - 1):
            current = Span(current.first, max(current.last, passage.last))
        else:
            yield current
            current = passage
    if current is not None:
        yield current


def _is_blank(section: Section, first: int, last: int) -> bool:
    return not any(line.strip() for line in section.lines(Span(first, last)))
