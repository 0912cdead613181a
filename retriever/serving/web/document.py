"""A section, a file, a folder or some lines, to be read."""

from collections.abc import Sequence
from dataclasses import replace

from pageindex.front_matter import read_front_matter
from pageindex.node import NodeKind, Span
from retriever.browsing import Passage
from retriever.errors import UsageError
from retriever.lexical.tokens import tokenize
from retriever.searching.open_index import View
from retriever.serving.web.contents import Contents, Entry
from retriever.serving.web.elements import Content, Html, element, markup
from retriever.serving.web.rendering import Surroundings, nowhere, rendered
from retriever.serving.web.results import citation
from retriever.serving.web.site import Visit, link_resolver, loaded_node
from retriever.serving.web.tree_view import branch, title_of
from retriever.store import reading
from retriever.store.outline import backlinks

MAX_SHOWN_CHARS = 60_000
"""Of one page; the rest of a longer text is a link away."""
MAX_SHOWN_LINKS = 30


def document(view: View, contents: Contents, passage: Passage, entry: Entry | None, visit: Visit) -> tuple[Entry, Html]:
    """A passage with what is around it: the node that it is of, and the main part of the page.

    Args:
        view: the index.
        contents: of the index.
        passage: what is to be read.
        entry: what was asked for; None when it was lines or a path.
        visit: for its addresses and the question's words.

    Raises:
        UsageError: the documents changed since the passage was read.
    """
    named = entry or contents.get(passage.node_id)
    if named is None:
        raise UsageError("the documents have just changed; ask again")
    title, shown = title_of(named), _shown(passage)
    main = element(
        "article",
        _way(named, visit),
        element("h1", title, dir="auto"),
        _place(shown, visit),
        element("div", _text(view, shown, title, visit), class_="text", dir="auto"),
        _rest(passage, shown, named, visit),
        class_="document",
    )
    return named, markup(main, _around(view, contents, named, visit))


def has_lines(entry: Entry) -> bool:
    """Whether there is text below it that can be read as one: a file or a section, unless the file is empty."""
    return entry.kind is not NodeKind.FOLDER and bool(entry.children)


def listing(entry: Entry, visit: Visit, first: int = 0, count: int | None = None) -> Html:
    """What a folder, or any other node, contains."""
    children = branch(entry, visit, first, count)
    below = children if entry.children else element("p", "There is no text in it.")
    return element("article", _way(entry, visit), element("h1", title_of(entry), dir="auto"), below, class_="document")


def _way(entry: Entry, visit: Visit) -> Html:
    """The titles from the indexed folder down, each a link but the last."""
    above = [element("li", element("a", title_of(item), href=visit.read(item.node_id))) for item in entry.way()[:-1]]
    return element("nav", element("ol", above), aria_label="Where this is", class_="way", dir="auto")


def _place(passage: Passage, visit: Visit) -> Html:
    back = element("a", "Back to the answer", href=visit.ask(), class_="back") if visit.question else None
    return element("p", citation(passage, visit), back, class_="foot")


def _shown(passage: Passage) -> Passage:
    """The passage, or its first lines: at least one, and whole ones."""
    if len(passage.text) <= MAX_SHOWN_CHARS:
        return passage
    end = passage.text.rfind("\n", 0, MAX_SHOWN_CHARS) + 1 or passage.text.find("\n") + 1
    text = passage.text[:end]
    span = Span(passage.span.first, passage.span.first + text.count("\n") - 1)
    return replace(passage, span=span, text=text)


def _text(view: View, passage: Passage, title: str, visit: Visit) -> Html:
    block, text = "", passage.text
    if passage.span.first == 1 and (lines := read_front_matter(text).lines):
        pieces = text.split("\n", lines)
        block, text = "\n".join(pieces[:lines]), pieces[-1]
    resolve = link_resolver(view, passage.node_id, visit) if loaded_node(view, passage.node_id) else nowhere
    body = rendered(text, Surroundings(resolve, frozenset(tokenize(visit.question)), title))
    shown = element("pre", element("code", block)) if block else None
    return markup(element("details", element("summary", "Front matter"), shown) if shown else None, body)


def _rest(passage: Passage, shown: Passage, entry: Entry, visit: Visit) -> Content:
    if shown.span.last == passage.span.last:
        return None
    file = next(item for item in entry.way() if item.kind is NodeKind.FILE)
    following = f"{file.node_id}:{shown.span.last + 1}-{passage.span.last}"
    label = f"Read on: lines {shown.span.last + 1:,} to {passage.span.last:,}"
    return element("p", element("a", label, href=visit.read(following)), class_="rest")


def _around(view: View, contents: Contents, entry: Entry, visit: Visit) -> Html:
    """The sections before and after it, those that it links to, and those that link to it."""
    family = entry.parent.children if entry.parent else contents.roots
    place = family.index(entry)
    leads_to = [target for _, target, _ in reading.link_targets_of_nodes(view.connection, [entry.node_id])]
    links = [item for node_id in dict.fromkeys(leads_to) if (item := contents.get(node_id))]
    leads_here = backlinks(view.connection, entry.node_id, MAX_SHOWN_LINKS + 1)
    sources = [item for node_id in leads_here if (item := contents.get(node_id))]
    parts = [
        _list("Before", family[max(0, place - 1) : place], visit),
        _list("After", family[place + 1 : place + 2], visit),
        _list("Links to", links, visit),
        _list("Linked from", sources, visit),
    ]
    return element("aside", parts, class_="around", aria_label="Around this section")


def _list(title: str, entries: Sequence[Entry], visit: Visit) -> Content:
    if not entries:
        return None
    items = [
        element("li", element("a", title_of(entry), href=visit.read(entry.node_id), title=entry.node_id))
        for entry in entries[:MAX_SHOWN_LINKS]
    ]
    more = element("li", "and more", class_="quiet") if len(entries) > MAX_SHOWN_LINKS else None
    return element("section", element("h2", title), element("ul", items, more))
