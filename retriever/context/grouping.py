"""Lines to quote -> pieces that follow one another, below their common headings. Pure."""

from collections.abc import Iterable, Sequence
from itertools import takewhile
from operator import attrgetter

from pageindex.node import Span
from retriever.context.sections import Excerpt, Group, Piece

LAST = 10**9
"""Behind every rank."""


def grouped(excerpts: Iterable[Excerpt]) -> tuple[Group, ...]:
    """The lines below their headings: groups by their best hit, in document order inside a group, no line twice."""
    families: dict[tuple[str, str], list[Excerpt]] = {}
    for excerpt in excerpts:
        families.setdefault((excerpt.section.folder, excerpt.section.heading_id), []).append(excerpt)
    groups = [_group(_pieces(family)) for family in families.values()]
    return tuple(sorted(groups, key=lambda group: (_best(group), group.folder, group.pieces[0].citation)))


def common_titles(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The titles that all paths begin with."""
    same = takewhile(lambda titles: len(set(titles)) == 1, zip(*paths, strict=False))
    return tuple(titles[0] for titles in same)


def _best(group: Group) -> int:
    return min(LAST if piece.rank is None else piece.rank for piece in group.pieces)


def _group(pieces: Sequence[Piece]) -> Group:
    return Group(common_titles([piece.titles for piece in pieces]), pieces[0].folder, tuple(pieces))


def _pieces(family: Iterable[Excerpt]) -> list[Piece]:
    """Excerpts of one document, joined where they touch."""
    runs: list[list[Excerpt]] = []
    for excerpt in sorted(family, key=lambda item: (item.section.is_held, item.span)):
        if runs and _touches(excerpt, runs[-1]):
            runs[-1].append(excerpt)
        else:
            runs.append([excerpt])
    return sorted(map(_piece, runs), key=attrgetter("span"))


def _touches(excerpt: Excerpt, run: Sequence[Excerpt]) -> bool:
    """Whether it goes on where the run ends; never, where the file holds the one and no longer the other."""
    is_near = excerpt.span.first <= max(other.span.last for other in run) + 1
    return is_near and excerpt.section.is_held == run[-1].section.is_held


def _piece(run: Sequence[Excerpt]) -> Piece:
    lines: dict[int, str] = {}
    for excerpt in run:
        lines.update(enumerate(excerpt.section.lines(excerpt.span), start=excerpt.span.first))
    sections = list({excerpt.section.node_id: excerpt.section for excerpt in run}.values())
    span = Span(min(lines), max(lines))
    return Piece(
        folder=sections[0].folder,
        file=sections[0].file,
        span=span,
        titles=common_titles([section.titles for section in sections]),
        node_ids=tuple(section.node_id for section in sections),
        rank=min((section.rank for section in sections if section.rank is not None), default=None),
        text="".join(f"{lines[number]}\n" for number in sorted(lines)),
        cut_from=tuple(section.span for section in sections if section.span.overlap(span) < len(section.span)),
        citation_state=next((item.citation_state for item in sections if item.citation_state != "exact"), "exact"),
    )
