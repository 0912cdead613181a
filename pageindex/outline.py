"""The headings of a document as nested sections: who contains whom, which lines are whose, what each is called."""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pageindex.markdown import Heading
from pageindex.node import PART_LEVEL, Span

MAX_SLUG_CHARS = 100  # of one heading in an id; anchors are not cut


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and the lines up to the next heading of any level."""

    heading: Heading  # what it begins with
    # The position in the outline of the nearest earlier heading of a lower level; None below the file itself.
    parent: int | None
    span: Span  # its own lines, child sections excluded
    slug: str  # names it among its siblings: unique there
    anchor: str  # names it in the file: unique there


def outline(headings: Sequence[Heading], line_count: int) -> tuple[Section, ...]:
    """Return the sections of a file of `line_count` lines, in the order of lines."""
    if not headings:
        return ()
    sections = []
    above: list[tuple[int, int]] = []  # (level, position) of the headings around this one, levels rising
    seen: Counter[tuple[int | None, str]] = Counter()
    ends = [heading.line - 1 for heading in headings[1:]] + [line_count]
    for position, (heading, end, anchor) in enumerate(zip(headings, ends, unique_anchors(headings), strict=True)):
        while above and above[-1][0] >= heading.level:
            above.pop()
        parent = above[-1][1] if above else None
        above.append((heading.level, position))
        slug = github_slug(heading.title)[:MAX_SLUG_CHARS] or "section"
        seen[parent, slug] += 1
        if seen[parent, slug] > 1:  # repeats below the same parent; `~` is in no slug otherwise
            slug = f"{slug}~{seen[parent, slug]}"
        sections.append(Section(heading, parent, Span(heading.line, end), slug, anchor))
    return tuple(sections)


def unique_anchors(headings: Iterable[Heading]) -> list[str]:
    """The `{#id}` of each heading, else its slug with `-1`, `-2` ... for repeats, counted as github-slugger does."""
    used: dict[str, int] = {}
    anchors: dict[int, str] = {}
    # Parts last: a link means a heading.
    for place, heading in sorted(enumerate(headings), key=lambda item: item[1].level == PART_LEVEL):
        base = heading.anchor_id or github_slug(heading.title) or "section"
        anchor = base
        while anchor in used:
            used[base] += 1
            anchor = f"{base}-{used[base]}"
        used[anchor] = 0
        anchors[place] = anchor
    return [anchors[place] for place in range(len(anchors))]


def github_slug(title: str) -> str:
    """Return the title as GitHub makes a fragment of it: lower case, letters, digits, `_` and `-`, spaces as `-`."""
    words = ("Mn", "Mc", "Me", "Pc", "Nl")  # categories of what is in words besides letters and digits
    kept = (char for char in title.lower() if char in " -" or char.isalnum() or unicodedata.category(char) in words)
    return "".join(kept).replace(" ", "-")
