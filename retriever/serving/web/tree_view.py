"""The tree of documents as nested lists: open where something is lit, short where there is much."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pageindex.node import NodeKind
from pageindex.tree import MAX_SHOWN_TITLE
from retriever.serving.web.contents import Contents, Entry
from retriever.serving.web.elements import Html, element, markup
from retriever.serving.web.site import Visit

SMALL_FAMILY = 16
"""So many children are always shown; of more, those that are lit or open, those beside them, and the first ones."""
FIRST_SHOWN = 6
MAX_SHOWN_CHILDREN = 200
"""Of one family at once; the rest is a step away."""
MAX_DEPTH = 30
"""Levels that are open in one page: browsers do not nest without end."""


@dataclass(frozen=True, slots=True)
class Marks:
    """What of the tree is to be seen."""

    hits: Mapping[str, int]
    """Node ids of the hits with their ranks."""
    here: str = ""
    """The node id of what is being read."""

    def open_ids(self, contents: Contents) -> frozenset[str]:
        """Everything above what is lit; without any, the roots."""
        lit = [entry for node_id in (*self.hits, self.here) if (entry := contents.get(node_id))]
        above = {above.node_id for entry in lit for above in entry.way()[:-1]}
        if self.here:
            above.add(self.here)
        return frozenset(above or (root.node_id for root in contents.roots))


@dataclass(frozen=True, slots=True)
class Gap:
    """Children that are not shown."""

    first: int
    """The place of the first of them, from 0."""
    count: int


def whole_tree(contents: Contents, marks: Marks, visit: Visit) -> Html:
    """The list of the roots, open down to what is marked."""
    drawing = _Drawing(marks, marks.open_ids(contents), visit)
    return element("ul", drawing.family(contents.roots, "", 0), class_="tree")


def branch(parent: Entry, visit: Visit, first: int = 0, count: int | None = None) -> Html:
    """The list of the children of a node from one place on, all of them or so many, none of them open."""
    drawing = _Drawing(Marks({}), frozenset(), visit)
    last = len(parent.children) if count is None else min(len(parent.children), first + count)
    shown = min(last, first + MAX_SHOWN_CHILDREN)
    rest = [Gap(shown, last - shown)] if last > shown else []
    return element("ul", drawing.items([*parent.children[first:shown], *rest], parent.node_id, 0), class_="tree")


def title_of(entry: Entry) -> str:
    """As it is shown."""
    return entry.label if len(entry.label) <= MAX_SHOWN_TITLE else f"{entry.label[: MAX_SHOWN_TITLE - 1]}…"


def only_section(entry: Entry) -> Entry:
    """The section that is all of a file and has its title: the two are shown as one. Pure."""
    if entry.kind is NodeKind.FILE and entry.span is None and len(entry.children) == 1:
        only = entry.children[0]
        return only if only.label == entry.label else entry
    return entry


def shortened(children: Sequence[Entry], wanted: Iterable[int]) -> list[Entry | Gap]:
    """A family without what is far from the wanted places; runs of what is left out are gaps. Pure."""
    if len(children) <= SMALL_FAMILY:
        return list(children)
    shown = set(range(FIRST_SHOWN))
    for place in wanted:
        shown |= {place - 1, place, place + 1}
    result: list[Entry | Gap] = []
    for place, child in enumerate(children):
        if place in shown:
            result.append(child)
        elif result and isinstance(result[-1], Gap):
            result[-1] = Gap(result[-1].first, result[-1].count + 1)
        else:
            result.append(Gap(place, 1))
    return result


@dataclass(frozen=True, slots=True)
class _Drawing:
    marks: Marks
    open_ids: frozenset[str]
    visit: Visit

    def family(self, children: Sequence[Entry], parent_id: str, depth: int) -> Iterator[Html]:
        """The items of what a node contains, shortened."""
        wanted = [place for place, child in enumerate(children) if self._is_wanted(child)]
        return self.items(shortened(children, wanted[:MAX_SHOWN_CHILDREN]), parent_id, depth)

    def items(self, family: Sequence[Entry | Gap], parent_id: str, depth: int) -> Iterator[Html]:
        """A list item each."""
        for member in family:
            if isinstance(member, Gap):
                address = self.visit.tree(parent_id, member.first, member.count)
                yield element("li", element("a", f"{member.count:,} more", href=address, class_="more"), class_="gap")
            else:
                yield self._item(member, depth)

    def _is_wanted(self, entry: Entry) -> bool:
        return entry.node_id in self.open_ids or entry.node_id in self.marks.hits or entry.node_id == self.marks.here

    def _item(self, file: Entry, depth: int) -> Html:
        entry = only_section(file)
        is_open = bool({entry.node_id, file.node_id} & self.open_ids) and bool(entry.children) and depth < MAX_DEPTH
        below = element("ul", self.family(entry.children, entry.node_id, depth + 1)) if is_open else None
        rank = self.marks.hits.get(entry.node_id)
        classes = [str(file.kind), "lit" if rank else "", "here" if self._is_here(file, entry) else ""]
        row = element(
            "div", self._twig(entry, is_open), self._link(entry, rank, is_here=self._is_here(file, entry)), class_="row"
        )
        return element("li", row, below, class_=" ".join(filter(None, classes)))

    def _twig(self, entry: Entry, is_open: bool) -> Html:
        if not entry.children:
            return element("span", class_="leaf")
        return element(
            "a",
            href=self.visit.tree(entry.node_id),
            class_="twig",
            aria_expanded="true" if is_open else "false",
            aria_label=f"Contents of {title_of(entry)}",
        )

    def _is_here(self, *entries: Entry) -> bool:
        return self.marks.here in {entry.node_id for entry in entries}

    def _link(self, entry: Entry, rank: int | None, *, is_here: bool) -> Html:
        current = "page" if is_here else None
        hidden = element("span", "hit ", class_="unseen")
        badge = element("span", hidden, str(rank), class_="rank") if rank else None
        name = title_of(entry) + ("/" if entry.kind is NodeKind.FOLDER else "")
        return markup(element("a", name, href=self.visit.read(entry.node_id), aria_current=current), badge)
