"""Parts of the pages and the API: arguments of a question, addresses, the drawn tree."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, TypeAlias
from urllib.parse import quote, urlencode

from pydantic import Field
from starlette.requests import Request

from pageindex.node import MAX_SHOWN_TITLE, DocumentTree, Node, NodeKind, folder_id
from retriever.looking.browse import load_tree
from retriever.places.view import Choices, View, list_choices
from retriever.query import FILTERS, AskRequest, Scope
from retriever.searching.follow_up import MAX_SAID_CHARS, MAX_TURNS
from retriever.serving import Arguments, Model, read_arguments
from retriever.store import reading
from retriever.text import as_tuple, cut
from retriever.types import CitedSentence, Hit

Texts: TypeAlias = tuple[str, ...]  # of a parameter that may be given several times; what is empty is left out


class AskArguments(Arguments):
    """A question and what may be found; the question may hold the same filters (docs/guide/scope.md)."""

    question: str = ""
    profile: str = ""
    after: Texts = ()
    folders: Texts = Field((), alias="in")
    tags: Texts = Field((), alias="tag")
    since: str = ""
    until: str = ""
    where: Texts = ()

    @property
    def scope(self) -> Scope:
        """Return what may be found, beside the filters in the question."""
        return Scope(self.folders, self.tags, self.since, self.until, self.where)

    @property
    def request(self) -> AskRequest:
        """Return the question with what belongs to it."""
        return AskRequest(self.question, self.after, self.scope)


class Visit(AskArguments):
    """One request for a page; its methods give the addresses of other pages, which keep the question.

    >>> visit = Visit.model_validate({"question": "and rolls?", "after": ["bread?", "and rolls?"], "in": ["oven.md"]})
    >>> visit.turns
    ('bread?', 'and rolls?')
    >>> visit.ask(), visit.ask_alone("rolls?")
    ('/?question=and%20rolls%3F&after=bread%3F&after=and%20rolls%3F&in=oven.md', '/?question=rolls%3F&in=oven.md')
    >>> list(visit.list_filters())
    [('in:oven.md', '/?question=and%20rolls%3F&after=bread%3F&after=and%20rolls%3F')]
    >>> Visit(question="now", after=tuple("abcdefghi")).turns
    ('f', 'g', 'h', 'i', 'now')
    """

    @property
    def turns(self) -> tuple[str, ...]:
        """Return what the next question follows: the last questions, with this one. Addresses alone keep them."""
        before = (text for text in self.after if text != self.question)
        return tuple(text[:MAX_SAID_CHARS] for text in (*before, self.question) if text)[-MAX_TURNS:]

    @property
    def _asked(self) -> dict[str, Any]:
        return self.model_dump(by_alias=True, include=set(AskArguments.model_fields))

    def list_filters(self) -> Iterator[tuple[str, str]]:
        """Yield each filter as it is written in a question, with the address without it."""
        for sign, part in FILTERS.items():
            values = as_tuple(getattr(self.scope, part))
            for value in filter(None, values):
                left = tuple(other for other in values if other != value)
                yield f"{sign}{value}", address("/", **{**self._asked, sign.removesuffix(":"): left})

    def ask(self, path: str = "/") -> str:
        """Return the address of the answer; with `/answer` of one that a language model writes."""
        return address(path, **self._asked)

    def ask_alone(self, question: str = "") -> str:
        """Return the address of a question that follows no other."""
        return address("/", **{**self._asked, "question": question or self.question, "after": ()})

    def read(self, node_id: str) -> str:
        return address("/read", node=node_id, **self._asked)

    def read_lines(self, place: Hit | CitedSentence) -> str:
        """Return the address of the section of a hit or sentence, opened at its passage."""
        if isinstance(place, Hit) and place.passage == place.span:
            return self.read(place.node_id)
        lines = place.cited_lines
        return f"{address('/read', node=place.node_id, first=lines.first, last=lines.last, **self._asked)}#passage"


def address(path: str, **parameters: str | int | Sequence[str] | None) -> str:
    """Return the path with those parameters that have a value.

    >>> address("/read", node="a b.md", tag=("x", "y"), first=0, since="", until=None, where=())
    '/read?node=a%20b.md&tag=x&tag=y&first=0'
    >>> address("/", question="")
    '/'
    """
    given = {name: value for name, value in parameters.items() if value not in (None, "", ())}
    return f"{path}?{urlencode(given, doseq=True, quote_via=quote)}" if given else path


def read_query(request: Request, model: type[Model]) -> Model:
    """Return the arguments in the query string of a request; ParametersError names every mistake."""
    return read_arguments(model, parse_query(request, model))


def parse_query(request: Request, model: type[Arguments]) -> dict[str, Any]:
    """Return the values of a query string by their names; of those that may come several times, all."""
    several = {field.alias or name for name, field in model.model_fields.items() if field.annotation == Texts}
    given = request.query_params
    return {name: tuple(filter(None, given.getlist(name))) if name in several else given[name] for name in given}


# The tree of documents as nested lists: the way to what is highlighted, and what is beside it where that is not much.

NO_TITLE = "(no title)"
SMALL_FAMILY = 16  # children that are all shown; of a larger family those that are lit or lead to what is
MAX_DEPTH = 30  # levels that are open in one page: browsers do not nest without end


@dataclass(frozen=True)
class Outline:
    """The tree of an index without its texts, as people read it, and what can be asked of it."""

    tree: DocumentTree
    folder_names: Mapping[str, str]  # node ids of the indexed folders -> their own names
    choices: Choices  # what may be given as a filter

    def find(self, node_id: str) -> Node | None:
        return self.tree.node(node_id) if node_id in self.tree else None

    def label(self, node_id: str) -> str:
        """Return its title, else its file's name, at most MAX_SHOWN_TITLE characters; the id of an unknown node."""
        node = self.find(node_id)
        if node is None:
            return node_id
        label = self.folder_names.get(node_id) or node.title.strip() or PurePath(node.path).name
        return f"{cut(label, MAX_SHOWN_TITLE)}{'/' if node.kind is NodeKind.FOLDER else ''}"

    def path_to(self, node_id: str) -> list[Node]:
        path = [self.tree.node(node_id)]
        while parent := self.tree.parent(path[-1].id):
            path.append(parent)
        return path[::-1]


@dataclass(frozen=True)
class Branch:
    """A node as it is drawn."""

    node: Node
    label: str
    rank: int | None  # of the hit that it is
    below: "tuple[Branch, ...]"
    more: int  # children that are not drawn, of a node that is open


def read_outline(view: View) -> Outline:
    """Read the outline of an index, in a snapshot of it."""
    folders = reading.folders(view.connection)
    return Outline(
        tree=load_tree(view.connection),
        folder_names={folder_id(item.prefix, ""): PurePath(item.path).name or "/" for item in folders},
        choices=list_choices(view.documents, view.fields),
    )


def draw_tree(outline: Outline, ranks: Mapping[str, int], here: str = "") -> list[Branch]:
    """Return the roots, open down to the hits (node ids to their ranks) and to the node `here`."""
    lit = {node_id for node_id in (*ranks, here) if node_id in outline.tree}
    opened = {node.id for node_id in lit for node in outline.path_to(node_id)[:-1]} | ({here} & lit)

    def draw(node: Node, depth: int) -> Branch:
        children = outline.tree.children(node.id) if node.id in opened and depth < MAX_DEPTH else ()
        is_small = len(children) <= SMALL_FAMILY
        shown = [child for child in children if is_small or child.id in opened | lit]
        return Branch(
            node=node,
            label=outline.label(node.id),
            rank=ranks.get(node.id),
            below=tuple(draw(child, depth + 1) for child in shown),
            more=len(children) - len(shown),
        )

    return [draw(root, 0) for root in outline.tree.walk(depth=0)]
