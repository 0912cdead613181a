"""The JSON API: the objects that the command line prints with --json, and checked parameters.

The parameters of an address are the fields of a pydantic model: what it refuses is answered with every mistake.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Generic, TypeAlias, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, ConfigDict, Field, SkipValidation, ValidationError

from retriever.display.json import dump, dump_answer, dump_node, dump_short_answer
from retriever.errors import ParametersError
from retriever.looking.references import find_node
from retriever.query import AskRequest, Scope
from retriever.searching.question import MAX_QUESTION_CHARS
from retriever.serving.web.site import Site
from retriever.store.reading import summaries
from retriever.text import find_nearest

MAX_NODES = 1_000  # of one part of the outline
MAX_DEPTH = 10_000  # deeper than any outline
MAX_NUMBER = 1_000_000_000
MAX_TEXT_CHARS = 4_096  # of every parameter but the question: the longest path of a file on Linux

# A name that is not UTF-8 comes as Python carries it, with lone surrogates, which pydantic's own text refuses.
ShortText: TypeAlias = Annotated[SkipValidation[str], Field(max_length=MAX_TEXT_CHARS)]
Names: TypeAlias = tuple[ShortText, ...]  # of a parameter that may be given several times
QuestionText: TypeAlias = Annotated[SkipValidation[str], Field(max_length=MAX_QUESTION_CHARS)]


class Parameters(BaseModel):
    """What a query string may hold."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class QuestionParameters(Parameters):
    """A question, where there is one, and the profile to answer it with: what every page keeps."""

    question: QuestionText = ""
    profile: ShortText = ""
    after: Names = ()  # questions that were asked before, oldest first


class ScopedParameters(QuestionParameters):
    """A question and what may be found; the question may hold the same filters (docs/guide/scope.md)."""

    folders: Names = Field((), alias="in")
    tags: Names = Field((), alias="tag")
    since: ShortText = ""
    until: ShortText = ""
    where: Names = ()

    @property
    def scope(self) -> Scope:
        """What may be found, beside the filters in the question."""
        folders, tags, where = (tuple(filter(None, names)) for names in (self.folders, self.tags, self.where))
        return Scope(folders, tags, self.since, self.until, where)

    @property
    def request(self) -> AskRequest:
        """The question with what belongs to it."""
        return AskRequest(self.question, self.after, self.scope)


class AnswerParameters(ScopedParameters):
    """Of /api/answer."""

    question: QuestionText = Field()  # needed here


class SearchParameters(AnswerParameters):
    """Of /api/search."""

    full: bool = False  # whether each hit has its section's text
    explain: bool = False  # whether the answer has its trace: every stage and every ranking
    hypothetical: bool = False  # whether the answer has the texts that a language model made up to search with


class TreeParameters(Parameters):
    """Of /api/tree."""

    reference: ShortText = ""  # a node id, a path of a file or a folder; all documents when empty
    depth: int = Field(MAX_DEPTH, ge=0, le=MAX_DEPTH)  # levels down
    offset: int = Field(0, ge=0, le=MAX_NUMBER)
    limit: int = Field(200, ge=1, le=MAX_NODES)


class NodeParameters(Parameters):
    """Of /api/node."""

    reference: ShortText  # a node id, a path, `path:line` or `path:first-last`


class SimilarParameters(Parameters):
    """Of /api/similar."""

    reference: ShortText  # a node id or a path
    count: int = Field(10, ge=1, le=MAX_NODES)
    same_file: bool = False  # whether other sections of the same file count as well


Query = TypeVar("Query", bound=Parameters)


def read_parameters(query: bytes, model: type[Query], profiles: Sequence[str] = ()) -> Query:
    """Return the parameters of a percent-encoded query string, all of `model`; ParametersError has every mistake."""
    mistakes: dict[str, str] = {}
    given: dict[str, Any] = {}
    known = {field.alias or name: field for name, field in model.model_fields.items()}
    for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True, errors="surrogateescape"):
        if name in known and known[name].annotation == Names:
            given[name] = (*given.get(name, ()), value)
        elif name in given:
            mistakes[name] = "is given twice"
        given.setdefault(name, value)
    if "profile" in known and given.setdefault("profile", profiles[0]) not in profiles:
        mistakes["profile"] = f"must be one of {', '.join(profiles)}{_nearest(given['profile'], profiles)}"
    try:
        parameters = model.model_validate(given)
    except ValidationError as error:
        for item in error.errors(include_url=False):
            name = str(item["loc"][0])
            message = item["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
            if item["type"] == "extra_forbidden":
                message = f"is no parameter{_nearest(name, known)}; there are: {', '.join(known) or 'none'}"
            elif item["type"] == "too_long":  # pydantic counts items, which are characters here
                message = "must have at most {max_length:,} characters, not {actual_length:,}".format(**item["ctx"])
            mistakes.setdefault(name, "is missing" if item["type"] == "missing" else message)
    if mistakes:
        raise ParametersError(mistakes)
    return parameters


def _nearest(given: str, known: Iterable[str]) -> str:
    near = find_nearest(given, known, 0.6)
    return f"; did you mean {near}?" if near else ""


@dataclass(frozen=True, slots=True)
class Endpoint(Generic[Query]):
    """One address of the API."""

    path: str
    parameters: type[Query]
    answer: Callable[[Query], dict[str, Any]]  # called in a thread


def list_endpoints(site: Site) -> tuple[Endpoint[Any], ...]:
    """All that need the index."""

    def search(given: SearchParameters) -> dict[str, Any]:
        timed = site.search(given.request, given.profile)
        return dump_answer(
            timed.answer, timed.spent, full=given.full, explain=given.explain, hypothetical=given.hypothetical
        )

    def answer(given: AnswerParameters) -> dict[str, Any]:
        short, spent = site.answer(given.request, given.profile)
        return dump_short_answer(short, spent)

    def tree(given: TreeParameters) -> dict[str, Any]:
        with site.library.retriever() as retriever, retriever.view() as view:
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

    def node(given: NodeParameters) -> dict[str, Any]:
        with site.library.retriever() as retriever:
            return dict(dump(retriever.read(given.reference)))

    def similar(given: SimilarParameters) -> dict[str, Any]:
        with site.library.retriever() as retriever:
            return dict(dump(retriever.similar(given.reference, given.count, same_file=given.same_file)))

    return (
        Endpoint("/api/search", SearchParameters, search),
        Endpoint("/api/answer", AnswerParameters, answer),
        Endpoint("/api/tree", TreeParameters, tree),
        Endpoint("/api/node", NodeParameters, node),
        Endpoint("/api/similar", SimilarParameters, similar),
    )
