"""The JSON API: the objects that the command line prints with --json, checked parameters, and their description.

The parameters of an address are the fields of a pydantic model: what it refuses is answered with every mistake, and
openapi.json is made of the same fields.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Generic, TypeAlias, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, ConfigDict, Field, SkipValidation, ValidationError
from pydantic.json_schema import models_json_schema

from retriever.display.json import dump, dump_answer, dump_node, dump_short_answer
from retriever.errors import ParametersError
from retriever.looking.references import find_node
from retriever.query import AskRequest, Scope
from retriever.searching.question import MAX_QUESTION_CHARS
from retriever.serving.json_schema import AnswerJson, PassageJson, ShortAnswerJson, SimilarJson, TreeJson
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
    profile: ShortText = Field("", description="The recall mode.")
    after: Names = Field((), description="Questions that were asked before, oldest first, where this one follows them.")


class ScopedParameters(QuestionParameters):
    """A question and what may be found; the question may hold the same filters (docs/guide/scope.md)."""

    folders: Names = Field((), alias="in", description="Only in one of these folders or files.")
    tags: Names = Field((), alias="tag", description="Only in documents with all of these tags.")
    since: ShortText = Field("", description="Only in documents of this day or later: 2024, 2024-05, 2024-05-01, 7d.")
    until: ShortText = Field("", description="Only in documents of this day or earlier.")
    where: Names = Field((), description="Only in documents whose front matter has all of these: status=draft.")

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

    question: QuestionText = Field(
        description="In any words.",
        # At least one character that is neither a space nor a control character.
        json_schema_extra={"minLength": 1, "pattern": r"[^\s\x00-\x1f\x7f-\x9f]"},
    )


class SearchParameters(AnswerParameters):
    """Of /api/search."""

    full: bool = Field(False, description="Whether each hit has its section's text.")
    explain: bool = Field(False, description="Whether the answer has its trace: every stage and every ranking.")
    hypothetical: bool = Field(
        False, description="Whether the answer has the texts that a language model made up to search with."
    )


class TreeParameters(Parameters):
    """Of /api/tree."""

    reference: ShortText = Field("", description="A node id, a path of a file or a folder; all documents when empty.")
    depth: int = Field(MAX_DEPTH, ge=0, le=MAX_DEPTH, description="How many levels down; all of them by default.")
    offset: int = Field(0, ge=0, le=MAX_NUMBER, description="How many nodes to leave out first.")
    limit: int = Field(200, ge=1, le=MAX_NODES, description="How many nodes at most.")


class NodeParameters(Parameters):
    """Of /api/node."""

    reference: ShortText = Field(
        description="A node id, a path, `path:line` or `path:first-last`.", json_schema_extra={"minLength": 1}
    )


class SimilarParameters(Parameters):
    """Of /api/similar."""

    reference: ShortText = Field(description="A node id or a path.", json_schema_extra={"minLength": 1})
    count: int = Field(10, ge=1, le=MAX_NODES, description="How many sections at most.")
    same_file: bool = Field(False, description="Whether other sections of the same file count as well.")


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
    summary: str
    parameters: type[Query]
    answer: Callable[[Query], dict[str, Any]]  # called in a thread
    schema: str  # what it gives, by its name in openapi.json

    def describe(self, profiles: Sequence[str]) -> dict[str, Any]:
        """Return it as an operation of OpenAPI."""
        schema = self.parameters.model_json_schema()
        if "profile" in schema["properties"]:
            schema["properties"]["profile"] |= {"enum": list(profiles), "default": profiles[0]}
        required = schema.get("required", ())
        parameters = [
            {"name": name, "in": "query", "required": name in required, "description": field.pop("description")}
            | {"schema": field}
            for name, field in schema["properties"].items()
        ]
        responses = {"200": ("It was found.", self.schema)} | {code: (text, "ErrorJson") for code, text in FAILURES}
        return _describe(self.path, self.summary, responses) | {"parameters": parameters}


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
        Endpoint("/api/search", "Answer a question with sections.", SearchParameters, search, "AnswerJson"),
        Endpoint("/api/answer", "Answer it in a few sentences too.", AnswerParameters, answer, "ShortAnswerJson"),
        Endpoint("/api/tree", "The outline of the documents, or of a part.", TreeParameters, tree, "TreeJson"),
        Endpoint("/api/node", "The text of a section, a file, or lines of it.", NodeParameters, node, "PassageJson"),
        Endpoint("/api/similar", "What is near in meaning to a section.", SimilarParameters, similar, "SimilarJson"),
    )


class ErrorJson(BaseModel):
    """What went wrong, and what to do; `parameters` has each wrong parameter."""

    error: str
    parameters: dict[str, str] = Field(default_factory=dict)


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


FAILURES = (
    ("404", "The documents hold no such node, path or line, or a filter names what they do not have."),
    ("422", "A parameter is wrong; the message says which, and what to give instead."),
    ("503", "The index cannot be used now; the message says what to do."),
)


def describe_api(described: Iterable[Endpoint[Any]], profiles: Sequence[str]) -> dict[str, Any]:
    """Return the API in OpenAPI 3.1; `profiles` are those that a question may name, the default first."""
    models = (AnswerJson, ShortAnswerJson, TreeJson, PassageJson, SimilarJson, ErrorJson, HealthJson, ProgressJson)
    template = "#/components/schemas/{model}"
    _, schemas = models_json_schema([(model, "validation") for model in models], by_alias=False, ref_template=template)
    alive, unready = {"200": ("It does.", "HealthJson")}, {"503": ("It cannot; the message says why.", "ErrorJson")}
    progress = {"200": ("This far.", "ProgressJson"), "422": ("It takes no parameters.", "ErrorJson")}
    operations = {
        **{item.path: item.describe(profiles) for item in described},
        "/api/progress": _describe("/api/progress", "How far indexing has come; it waits for no search.", progress),
        "/healthz": _describe("/healthz", "Whether this process answers; it waits for nothing.", alive),
        "/readyz": _describe("/readyz", "Whether it can answer questions: index, database, model.", alive | unready),
    }
    about = "Sections of a folder of Markdown that answer a question, each cited as file:first-last."
    return {
        "openapi": "3.1.0",
        "info": {"title": "Hybrid Retrieve", "version": "1", "description": about},
        "paths": {path: {"get": operation} for path, operation in operations.items()},
        "components": {"schemas": schemas["$defs"]},
    }


def _describe(path: str, summary: str, responses: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    """Return an operation of OpenAPI whose responses are by status: what it means, and the name of the JSON object."""
    described = {
        status: {
            "description": text,
            "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}},
        }
        for status, (text, schema) in responses.items()
    }
    return {"operationId": path.rpartition("/")[2], "summary": summary, "responses": described}
