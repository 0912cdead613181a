"""The JSON API: the objects that the command line prints with --json."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pageindex.node import Node
from retriever.browsing import find_node
from retriever.display.as_json import SCHEMA_VERSION, answer_object, node_object, passage_object
from retriever.searching.open_index import View
from retriever.searching.question import MAX_QUESTION_CHARS
from retriever.serving.web.contents import Entry
from retriever.serving.web.parameters import Choice, Number, Parameter, Question, Switch
from retriever.serving.web.site import Site
from retriever.store.outline import summaries

MAX_NODES = 1_000
"""Of one answer; `next_offset` says where the next one goes on."""

Values = Mapping[str, Any]
"""Parameters by name, checked."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One address of the API."""

    path: str
    summary: str
    parameters: tuple[Parameter, ...]
    answer: Callable[[Values], dict[str, Any]]
    """Called in a thread."""
    schema: str
    """What it gives, by its name in openapi.json."""


def endpoints(site: Site) -> tuple[Endpoint, ...]:
    """All that need the index."""
    return (
        Endpoint("/api/search", "Answer a question with sections.", search_parameters(site), _search(site), "Answer"),
        Endpoint("/api/tree", "The outline of the documents, or of a part.", TREE, _tree(site), "Tree"),
        Endpoint("/api/node", "The text of a section, a file, or lines of it.", NODE, _node(site), "Passage"),
    )


def question_parameters(site: Site, *, required: bool) -> tuple[Parameter, ...]:
    """A question and the profile to ask it with."""
    return (
        Question("question", "In any words.", required=required, most=MAX_QUESTION_CHARS),
        Choice("profile", "The recall mode.", default=site.library.profile, choices=site.profiles),
    )


def search_parameters(site: Site) -> tuple[Parameter, ...]:
    """Of /api/search."""
    return (
        *question_parameters(site, required=True),
        Switch("full", "Whether each hit has its section's text."),
        Switch("explain", "Whether the answer has its trace: every stage, and what each arm ranked."),
        Switch("hypothetical", "Whether the answer has the texts that a language model made up to search with."),
    )


TREE = (
    Parameter("reference", "A node id, or the path of a file or a folder; all documents when empty."),
    Number("depth", "How many levels down; all of them by default.", low=0, high=10_000),
    Number("offset", "How many nodes to leave out first.", default=0),
    Number("limit", "How many nodes at most.", default=200, low=1, high=MAX_NODES),
)
NODE = (Parameter("reference", "A node id, a path, `path:line` or `path:first-last`.", required=True),)


def _search(site: Site) -> Callable[[Values], dict[str, Any]]:
    def search(values: Values) -> dict[str, Any]:
        timed = site.search(values["question"], values["profile"])
        wanted = {name: values[name] for name in ("full", "explain", "hypothetical")}
        return _object(answer_object(timed.answer, timed.spent, **wanted))

    return search


def _tree(site: Site) -> Callable[[Values], dict[str, Any]]:
    def tree(values: Values) -> dict[str, Any]:
        with site.library.retriever() as retriever, retriever.view() as view:
            contents = site.contents(view)
            reference = values["reference"]
            start = contents.get(find_node(view.connection, contents, reference)) if reference else None
            entries = list(contents.walk(start, values["depth"]))
            end = values["offset"] + values["limit"]
            nodes = [node_object(node) for node in _nodes(view, entries[values["offset"] : end])]
            next_offset = end if end < len(entries) else None
            return _object({"nodes": nodes, "total": len(entries), "next_offset": next_offset})

    return tree


def _nodes(view: View, entries: list[Entry]) -> list[Node]:
    known = summaries(view.connection, (entry.node_id for entry in entries))
    nodes = []
    for entry in entries:
        level, summary = known.get(entry.node_id, (0, ""))
        nodes.append(
            Node(entry.node_id, entry.kind, entry.path, entry.title, level, (), entry.span, "", summary=summary)
        )
    return nodes


def _node(site: Site) -> Callable[[Values], dict[str, Any]]:
    def node(values: Values) -> dict[str, Any]:
        with site.library.retriever() as retriever:
            return _object(passage_object(retriever.read(values["reference"])))

    return node


def _object(content: dict[str, Any]) -> dict[str, Any]:
    return {"schema_version": SCHEMA_VERSION, **content}
