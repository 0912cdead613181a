"""The JSON API: the objects that the command line prints with --json."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pydantic import Field

from retriever.display.json import dump, dump_answer, dump_node, dump_short_answer
from retriever.looking.references import find_node
from retriever.serving.arguments import Arguments
from retriever.serving.web.site import AskArguments, Site, Text
from retriever.store.reading import summaries
from retriever.trace import Spent

MAX_NODES = 1_000  # of one part of the outline


class SearchArguments(AskArguments):
    """Of /api/search."""

    full: bool = False
    """Whether each hit has its section's text."""
    explain: bool = False
    """Whether the answer has its trace: every stage and every ranking."""
    hypothetical: bool = False
    """Whether the answer has the texts that a language model made up to search with."""


class TreeArguments(Arguments):
    """Of /api/tree."""

    reference: Text = ""
    depth: int | None = Field(None, ge=0)
    offset: int = Field(0, ge=0)
    limit: int = Field(200, ge=1, le=MAX_NODES)


class NodeArguments(Arguments):
    """Of /api/node."""

    reference: Text


class SimilarArguments(Arguments):
    """Of /api/similar."""

    reference: Text
    count: int = Field(10, ge=1, le=MAX_NODES)
    same_file: bool = False


Endpoint = tuple[str, type[Any], Callable[[Any], dict[str, Any]]]


def list_endpoints(site: Site) -> list[Endpoint]:
    """Return each address, the arguments that it takes, and what answers it: called in a thread, or RetrieverError."""
    library = site.library

    def search(given: SearchArguments) -> dict[str, Any]:
        begun = time.perf_counter()
        answer = library.open(given.profile).search(given.request)
        spent = Spent.since(begun, answer.trace.stages)
        return dump_answer(answer, spent, full=given.full, explain=given.explain, hypothetical=given.hypothetical)

    def answer(given: AskArguments) -> dict[str, Any]:
        begun = time.perf_counter()
        short = library.open(given.profile).answer(given.request)
        return dump_short_answer(short, Spent.since(begun, short.answer.trace.stages))

    def tree(given: TreeArguments) -> dict[str, Any]:
        with library.open().view() as view:
            outline = site.outline(view).tree
            start = find_node(view.connection, outline, given.reference) if given.reference else None
            nodes = list(outline.walk(start, given.depth))
            end = given.offset + given.limit
            shown = nodes[given.offset : end]
            # The nodes of an outline come without summaries: those of one page are read, not those of all.
            known = summaries(view.connection, (node.id for node in shown))
        counts = outline.count_folders()
        parts = [dump_node(replace(node, summary=known.get(node.id, "")), counts) for node in shown]
        return {"nodes": parts, "total": len(nodes), "next_offset": end if end < len(nodes) else None}

    def node(given: NodeArguments) -> dict[str, Any]:
        return dict(dump(library.open().read(given.reference)))

    def similar(given: SimilarArguments) -> dict[str, Any]:
        return dict(dump(library.open().similar(given.reference, given.count, same_file=given.same_file)))

    return [
        ("/api/search", SearchArguments, search),
        ("/api/answer", AskArguments, answer),
        ("/api/tree", TreeArguments, tree),
        ("/api/node", NodeArguments, node),
        ("/api/similar", SimilarArguments, similar),
    ]
