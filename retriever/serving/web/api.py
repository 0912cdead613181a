"""The JSON API: the objects that the command line prints with --json, checked parameters, and their description.

The parameters of an address are the fields of a pydantic model: what it refuses is answered with every mistake, and
openapi.json is made of the same fields.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeAlias, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SkipValidation, ValidationError, create_model
from pydantic.json_schema import models_json_schema

from retriever.display.json import dump, dump_answer, dump_node, dump_short_answer
from retriever.errors import ParametersError
from retriever.query import Scope
from retriever.references import find_node
from retriever.searching.question import MAX_QUESTION_CHARS
from retriever.serving.json_schema import AnswerJson, PassageJson, ShortAnswerJson, SimilarJson, TreeJson
from retriever.serving.web.site import Site
from retriever.store.reading import summaries
from retriever.text import find_nearest

if TYPE_CHECKING:
    from retriever.serving.pool import IndexingProgress

MAX_NODES = 1_000  # of one part of the outline
MAX_DEPTH = 10_000  # deeper than any outline
MAX_NUMBER = 1_000_000_000
MAX_TEXT_CHARS = 4_096  # of every parameter but the question: the longest path of a file on Linux

SWITCHES = {"true": True, "1": True, "false": False, "0": False}


def _read_switch(given: object) -> bool:
    if given not in SWITCHES:
        raise ValueError("must be true or false")
    return SWITCHES[str(given)]


def _read_digits(given: object) -> int:
    text = str(given)
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(MAX_NUMBER))):
        raise ValueError("is no whole number")
    return int(text)


# A name that is not UTF-8 comes as Python carries it, with lone surrogates, which pydantic's own text refuses.
ShortText: TypeAlias = Annotated[SkipValidation[str], Field(max_length=MAX_TEXT_CHARS)]
Names: TypeAlias = tuple[ShortText, ...]  # of a parameter that may be given several times
QuestionText: TypeAlias = Annotated[SkipValidation[str], Field(max_length=MAX_QUESTION_CHARS)]
Number: TypeAlias = Annotated[int, BeforeValidator(_read_digits)]  # its field has the bounds
Switch: TypeAlias = Annotated[bool, BeforeValidator(_read_switch)]


class Parameters(BaseModel):
    """What a query string may hold."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def describe_mistake(cls, name: str, kind: str, context: Mapping[str, Any]) -> str:
        """What is wrong with a parameter, and what to give instead."""
        known = {field.alias or own: field for own, field in cls.model_fields.items()}
        if name not in known:
            return f"is no parameter{_nearest(name, known)}; there are: {', '.join(known) or 'none'}"
        if kind == "missing":
            return "is missing"
        if kind == "too_long":
            return f"must have at most {context['max_length']:,} characters, not {context['actual_length']:,}"
        if kind == "literal_error":
            return f"must be {context['expected']}"
        if known[name].annotation is int:
            bounds = {type(bound).__name__: bound for bound in known[name].metadata}
            return f"must be a whole number from {bounds['Ge'].ge:,} to {bounds['Le'].le:,}"
        return str(context["error"])


class QuestionParameters(Parameters):
    """A question, where there is one, and the profile to answer it with: what every page keeps."""

    question: QuestionText = ""
    profile: ShortText = Field("", description="The recall mode.")
    after: Names = Field((), description="Questions that were asked before, oldest first, where this one follows them.")


class ScopedParameters(QuestionParameters):
    """A question and what may be found; the question may hold the same filters (docs/scope.md)."""

    folders: Names = Field((), alias="in", description="Only in one of these folders or files.")
    tags: Names = Field((), alias="tag", description="Only in documents with all of these tags.")
    since: ShortText = Field("", description="Only in documents of this day or later: 2024, 2024-05, 2024-05-01, 7d.")
    until: ShortText = Field("", description="Only in documents of this day or earlier.")
    where: Names = Field((), description="Only in documents whose front matter has all of these: status=draft.")

    @property
    def scope(self) -> Scope:
        """What may be found, beside the filters in the question."""
        tags, where = (tuple(filter(None, names)) for names in (self.tags, self.where))
        return Scope(tuple(filter(None, self.folders)), tags, self.since, self.until, where)


class AnswerParameters(ScopedParameters):
    """Of /api/answer."""

    question: QuestionText = Field(
        description="In any words.",
        # At least one character that is neither a space nor a control character.
        json_schema_extra={"minLength": 1, "pattern": r"[^\s\x00-\x1f\x7f-\x9f]"},
    )


class SearchParameters(AnswerParameters):
    """Of /api/search."""

    full: Switch = Field(False, description="Whether each hit has its section's text.")
    explain: Switch = Field(False, description="Whether the answer has its trace: every stage and every ranking.")
    hypothetical: Switch = Field(
        False, description="Whether the answer has the texts that a language model made up to search with."
    )


class TreeParameters(Parameters):
    """Of /api/tree."""

    reference: ShortText = Field("", description="A node id, a path of a file or a folder; all documents when empty.")
    depth: Number = Field(MAX_DEPTH, ge=0, le=MAX_DEPTH, description="How many levels down; all of them by default.")
    offset: Number = Field(0, ge=0, le=MAX_NUMBER, description="How many nodes to leave out first.")
    limit: Number = Field(200, ge=1, le=MAX_NODES, description="How many nodes at most.")


class NodeParameters(Parameters):
    """Of /api/node."""

    reference: ShortText = Field(
        description="A node id, a path, `path:line` or `path:first-last`.", json_schema_extra={"minLength": 1}
    )


class SimilarParameters(Parameters):
    """Of /api/similar."""

    reference: ShortText = Field(description="A node id or a path.", json_schema_extra={"minLength": 1})
    count: Number = Field(10, ge=1, le=MAX_NODES, description="How many sections at most.")
    same_file: Switch = Field(False, description="Whether other sections of the same file count as well.")


Query = TypeVar("Query", bound=Parameters)
PageQuery = TypeVar("PageQuery", bound=QuestionParameters)


def with_profiles(site: Site, model: type[PageQuery]) -> type[PageQuery]:
    """The model, where `profile` is one of the site's: its own unless another is named."""

    def read(given: object) -> object:
        if given not in site.profiles:
            raise ValueError(f"must be one of {', '.join(site.profiles)}{_nearest(str(given), site.profiles)}")
        return given

    choices = Annotated[ShortText, BeforeValidator(read)]
    described = model.model_fields["profile"].description
    field = Field(site.library.profile, description=described, json_schema_extra={"enum": list(site.profiles)})
    return create_model(model.__name__, __base__=model, profile=(choices, field))


def read_parameters(query: bytes, model: type[Query]) -> Query:
    """The parameters of a percent-encoded query string, all of `model`; ParametersError has every mistake."""
    mistakes: dict[str, str] = {}
    given: dict[str, Any] = {}
    several = {field.alias or name for name, field in model.model_fields.items() if field.annotation == Names}
    for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True, errors="surrogateescape"):
        if name in several:
            given[name] = (*given.get(name, ()), value)
        elif name in given:
            mistakes[name] = "is given twice"
        given.setdefault(name, value)
    try:
        parameters = model.model_validate(given)
    except ValidationError as error:
        for item in error.errors(include_url=False):
            name = str(item["loc"][0])
            mistakes.setdefault(name, model.describe_mistake(name, item["type"], item.get("ctx", {})))
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
    summary: str
    parameters: type[Query]
    answer: Callable[[Query], dict[str, Any]]  # called in a thread
    schema: str  # what it gives, by its name in openapi.json

    def describe(self) -> dict[str, Any]:
        """It as an operation of OpenAPI."""
        schema = self.parameters.model_json_schema()
        parameters = [
            {
                "name": name,
                "in": "query",
                "required": name in schema.get("required", ()),
                "description": field.pop("description"),
                "schema": field,
            }
            for name, field in schema["properties"].items()
        ]
        failures = {status: _response(text, "ErrorJson") for status, text in FAILURES.items()}
        return {
            "operationId": self.path.rpartition("/")[2],
            "summary": self.summary,
            "parameters": parameters,
            "responses": {"200": _response("It was found.", self.schema), **failures},
        }


def list_endpoints(site: Site) -> tuple[Endpoint[Any], ...]:
    """All that need the index."""

    def search(given: SearchParameters) -> dict[str, Any]:
        timed = site.search(given.question, given.profile, given.scope, given.after)
        return dump_answer(
            timed.answer, timed.spent, full=given.full, explain=given.explain, hypothetical=given.hypothetical
        )

    def answer(given: AnswerParameters) -> dict[str, Any]:
        short, spent = site.answer(given.question, given.profile, given.scope, given.after)
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
            content: dict[str, Any] = dump(retriever.read(given.reference))
            return content

    def similar(given: SimilarParameters) -> dict[str, Any]:
        with site.library.retriever() as retriever:
            content: dict[str, Any] = dump(retriever.similar(given.reference, given.count, same_file=given.same_file))
            return content

    searching, answering = with_profiles(site, SearchParameters), with_profiles(site, AnswerParameters)
    return (
        Endpoint("/api/search", "Answer a question with sections.", searching, search, "AnswerJson"),
        Endpoint("/api/answer", "Answer it in a few sentences too.", answering, answer, "ShortAnswerJson"),
        Endpoint("/api/tree", "The outline of the documents, or of a part.", TreeParameters, tree, "TreeJson"),
        Endpoint("/api/node", "The text of a section, a file, or lines of it.", NodeParameters, node, "PassageJson"),
        Endpoint("/api/similar", "What is near in meaning to a section.", SimilarParameters, similar, "SimilarJson"),
    )


class ErrorJson(BaseModel):
    """What went wrong, and what to do; `parameters` has each wrong parameter."""

    error: str
    parameters: dict[str, str] = Field(default_factory=dict)


TEXT = {"type": "string"}


class HealthJson(BaseModel):
    """This process answers."""

    status: str = Field(json_schema_extra={"const": "ok"})


class ProgressJson(BaseModel):
    """How far indexing has come: `stage` is empty before it begins, `is_indexing` false when it is over."""

    is_indexing: bool
    stage: str
    done: int = Field(ge=0)
    total: int = Field(ge=0)
    unit: str

    @classmethod
    def of(cls, progress: "IndexingProgress") -> "ProgressJson":
        """As the page's bar shows it."""
        last = progress.last
        return cls(is_indexing=progress.is_indexing, stage=last.stage, done=last.done, total=last.total, unit=last.unit)


FAILURES = {
    "404": "The documents hold no such node, path or line, or a filter names what they do not have.",
    "422": "A parameter is wrong; the message says which, and what to give instead.",
    "503": "The index cannot be used now; the message says what to do.",
}


def describe_api(described: Iterable[Endpoint[Any]]) -> dict[str, Any]:
    """The API in OpenAPI 3.1."""
    models = (AnswerJson, ShortAnswerJson, TreeJson, PassageJson, SimilarJson, ErrorJson, HealthJson, ProgressJson)
    template = "#/components/schemas/{model}"
    _, schemas = models_json_schema([(model, "validation") for model in models], by_alias=False, ref_template=template)
    alive = {"200": _response("It does.", "HealthJson")}
    unready = {"503": _response("It cannot; the message says why.", "ErrorJson")}
    numbers = {"200": {"description": "In Prometheus' text format.", "content": {"text/plain": {"schema": TEXT}}}}
    probes = {
        f"/{name}": {"get": {"operationId": name, "summary": summary, "responses": responses}}
        for name, summary, responses in (
            ("healthz", "Whether this process answers; it waits for nothing.", alive),
            ("readyz", "Whether it can answer questions: index, database and model.", alive | unready),
            ("metrics", "How many questions were answered, and in which time.", numbers),
        )
    }
    progress = {
        "operationId": "progress",
        "summary": "How far indexing has come; it waits for no search.",
        "responses": {
            "200": _response("This far.", "ProgressJson"),
            "422": _response("It takes no parameters.", "ErrorJson"),
        },
    }
    paths = {item.path: {"get": item.describe()} for item in described}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Hybrid Retrieve",
            "version": "1",
            "description": "Sections of a folder of Markdown that answer a question, each cited as file:first-last.",
        },
        "paths": {**paths, "/api/progress": {"get": progress}, **probes},
        "components": {"schemas": schemas["$defs"]},
    }


def _response(description: str, schema: str) -> dict[str, Any]:
    reference = {"$ref": f"#/components/schemas/{schema}"}
    return {"description": description, "content": {"application/json": {"schema": reference}}}
