"""The headings of a document as nested sections: who contains whom, which lines are whose, what each is called."""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pageindex.markdown import Heading
from pageindex.node import Span

# Of one heading in an id; anchors are not cut.
MAX_SLUG_CHARS = 100


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
    """The sections of a file of `line_count` lines, in the order of lines."""
    if not headings:
        return ()
    parents = _parents([heading.level for heading in headings])
    slugs = _sibling_slugs([heading.title for heading in headings], parents)
    anchors = unique_anchors(headings)
    ends = [heading.line - 1 for heading in headings[1:]] + [line_count]
    return tuple(
        Section(heading, parent, Span(heading.line, end), slug, anchor)
        for heading, parent, end, slug, anchor in zip(headings, parents, ends, slugs, anchors, strict=True)
    )


def _parents(levels: Iterable[int]) -> list[int | None]:
    """For each level the position of the nearest earlier lower one, None if there is none."""
    parents: list[int | None] = []
    above: list[tuple[int, int]] = []  # (level, position), levels rising
    for position, level in enumerate(levels):
        while above and above[-1][0] >= level:
            above.pop()
        parents.append(above[-1][1] if above else None)
        above.append((level, position))
    return parents


def _sibling_slugs(titles: Sequence[str], parents: Sequence[int | None]) -> list[str]:
    """A slug for each title, with `~2`, `~3` ... for repeats below the same parent; `~` is in no slug otherwise."""
    seen: Counter[tuple[int | None, str]] = Counter()
    slugs = []
    for title, parent in zip(titles, parents, strict=True):
        slug = github_slug(title)[:MAX_SLUG_CHARS] or "section"
        seen[parent, slug] += 1
        count = seen[parent, slug]
        slugs.append(slug if count == 1 else f"{slug}~{count}")
    return slugs


def unique_anchors(headings: Iterable[Heading]) -> list[str]:
    """The `{#id}` of each heading, else its slug with `-1`, `-2` ... for repeats, counted as github-slugger does."""
    used: dict[str, int] = {}
    anchors = []
    for heading in headings:
        base = heading.anchor_id or github_slug(heading.title) or "section"
        anchor = base
        while anchor in used:
            used[base] += 1
            anchor = f"{base}-{used[base]}"
        used[anchor] = 0
        anchors.append(anchor)
    return anchors


def github_slug(title: str) -> str:
    """The title as GitHub makes a fragment of it: lower case, letters, digits, `_` and `-`, spaces as `-`."""
    return "".join("-" if char == " " else char for char in title.lower() if char in " -" or _is_word(char))


def _is_word(char: str) -> bool:
    return char.isalnum() or unicodedata.category(char) in ("Mn", "Mc", "Me", "Pc", "Nl")
