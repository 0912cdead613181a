"""Every value that programs get, as JSON: `ask --json`, the web API, MCP and the history give the same objects.

Each class is one object: its fields are the keys, in their order, and are read from the attributes of the value that it
is made from. `SCHEMA_VERSION` rises when a key goes or changes its meaning; new keys may come at any time. Imports
pydantic: import this module where JSON is wanted, not above.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, AliasPath, BaseModel, BeforeValidator, ConfigDict, Field, SkipValidation

from retriever.trace import Spent
from retriever.types import RelationKind, Signals, Source, Verdict

if TYPE_CHECKING:
    from retriever.query import ExpansionReport
    from retriever.types import Answer, Hit, ShortAnswer

SCHEMA_VERSION = 2

TRACED_RANKS = 10  # of each ranking in a trace

Text: TypeAlias = SkipValidation[str]  # a file name that is not UTF-8 holds lone surrogates, which pydantic refuses
Milliseconds: TypeAlias = Annotated[float, AfterValidator(lambda value: round(value, 3))]
Count: TypeAlias = Annotated[int, Field(ge=0)]
Line: TypeAlias = Annotated[int, Field(ge=1)]
Sentences: TypeAlias = Annotated[list[Text], BeforeValidator(lambda items: [str(item) for item in items])]
CitationState: TypeAlias = Literal["exact", "moved", "stale", "gone", "unchecked"]


class JsonObject(BaseModel):
    """An object that is read from the attributes of a value."""

    model_config = ConfigDict(from_attributes=True, defer_build=True)  # a command builds only what it prints

    @classmethod
    def dump(cls, value: object, exclude: Mapping[str, Any] | set[str] | None = None) -> dict[str, Any]:
        """The object of a value, without the keys in `exclude`, nested as in pydantic's `model_dump`."""
        return cls.model_validate(value).model_dump(exclude=exclude)


class FoundJson(JsonObject):
    """A section that was found, in a line of a run; without lines where a run names files alone."""

    node_id: Text
    file: Text
    start_line: Line | None = Field(None, validation_alias=AliasPath("span", "first"))
    end_line: Line | None = Field(None, validation_alias=AliasPath("span", "last"))
    score: float


class LinesJson(JsonObject):
    """Lines of a file, 1-based and inclusive."""

    start_line: Line = Field(validation_alias="first")
    end_line: Line = Field(validation_alias="last")


class CitedJson(JsonObject):
    """Lines of a file, relative to `folder`, and how they are cited."""

    folder: Text
    file: Text
    start_line: Line = Field(validation_alias=AliasPath("span", "first"))
    end_line: Line = Field(validation_alias=AliasPath("span", "last"))
    citation: Text
    citation_state: CitationState


class RelationJson(JsonObject):
    """How the tree brought a section in: it is the `kind` of the section `node_id`."""

    kind: RelationKind
    node_id: Text


class EvidenceJson(JsonObject):
    """What one source says for a section; `matched` are the lines of the chunk that matched, `via` a neighbor's hit."""

    source: Source
    rank: Count
    score: float
    scale: str
    share: float
    matched: LinesJson | None
    via: RelationJson | None
    note: Text


class FieldJson(JsonObject):
    """A line of a document's front matter, or a tag of it (`tags`)."""

    key: Text
    value: Text


class HitJson(JsonObject):
    """A section that answers: its lines, and those of its passage, which `citation` names.

    `file` is relative to `folder`, lines are 1-based and inclusive.
    """

    rank: Count
    node_id: Text
    index: Text = ""
    folder: Text
    file: Text
    start_line: Line = Field(validation_alias=AliasPath("span", "first"))
    end_line: Line = Field(validation_alias=AliasPath("span", "last"))
    passage: LinesJson
    citation: Text
    citation_state: CitationState
    title: Text
    breadcrumb: list[Text]
    sentence: Text
    snippet: Text
    summary: Text
    text: Text = ""
    text_cut: bool = False
    score: float
    scale: str
    words: list[Text] = Field(default_factory=list)
    reasons: list[Text] = Field(default_factory=list)
    evidence: list[EvidenceJson]
    matched_fields: Annotated[
        list[FieldJson], BeforeValidator(lambda pairs: [{"key": key, "value": value} for key, value in pairs])
    ]


class IndexJson(JsonObject):
    """What was searched; `fresh` is false while files on disk differ from it, or are not looked at."""

    path: Text
    folders: list[Text]
    snapshot: Count
    documents: Count
    sections: Count
    chunks: Count
    fresh: bool
    refreshed_files: Count
    stale_files: Count
    skipped_files: Count
    unchecked_folders: Count
    embedded_share: float = 1.0
    note: Text = ""


class DroppedJson(JsonObject):
    """A text of an expansion that was not searched with."""

    kind: str
    reason: Text
    text: Text = ""


class ExpansionJson(JsonObject):
    """What a language model added to the question, and what became of it."""

    used: bool
    used_hyde: bool
    note: Text
    rewordings: list[Text]
    passages: list[Text] = Field(default_factory=list)
    dropped: list[DroppedJson]
    intent: Text
    entities: list[Text]
    milliseconds: float | None
    cached: bool
    gated: bool = False


class ScopeJson(JsonObject):
    """The part of the index that was searched, each filter as docs/scope.md has it; what was searched for in it."""

    question: Text
    sections: Count
    documents: Count
    folders: list[Text] = Field(validation_alias=AliasPath("scope", "folders"))
    tags: list[Text] = Field(validation_alias=AliasPath("scope", "tags"))
    since: Text = Field(validation_alias=AliasPath("scope", "since"))
    until: Text = Field(validation_alias=AliasPath("scope", "until"))
    where: list[Text] = Field(validation_alias=AliasPath("scope", "where"))
    without: list[Text] = Field(validation_alias=AliasPath("scope", "without"))
    phrases: list[Text] = Field(validation_alias=AliasPath("scope", "phrases"))
    not_folders: list[Text] = Field(validation_alias=AliasPath("scope", "not_folders"))
    not_tags: list[Text] = Field(validation_alias=AliasPath("scope", "not_tags"))


class StageJson(JsonObject):
    """One step of a search."""

    name: str
    milliseconds: Milliseconds
    note: Text


class RankedJson(JsonObject):
    """A section in a ranking."""

    node_id: Text
    score: float
    matched: LinesJson | None
    via: RelationJson | None


class RankingJson(JsonObject):
    """What one source found, before the fusion: how many sections, and the first of them."""

    source: Source
    scale: str
    weight: float
    found: Annotated[Count, BeforeValidator(len)] = Field(validation_alias="items")
    first: Annotated[list[RankedJson], BeforeValidator(lambda items: items[:TRACED_RANKS])] = Field(
        validation_alias="items"
    )


class TraceJson(JsonObject):
    """The stages in their order, what each source ranked first, and what the verdict was made of."""

    stages: list[StageJson]
    rankings: list[RankingJson]
    signals: Signals


class CorrectionJson(JsonObject):
    """A word of the question that was searched for in another spelling."""

    wrote: Text
    searched: Text


class FollowUpJson(JsonObject):
    """How a question was understood that follows others: as it was searched for, and words of before that joined it."""

    question: Text
    words: list[Text]


class AnswerJson(JsonObject):
    """The sections found for a question, and how sure, fresh and complete that is."""

    schema_version: Literal[2] = 2
    question: Text
    profile: Text
    verdict: Verdict
    confidence: Annotated[float, Field(ge=0, le=1)]
    hits: list[HitJson]
    index: IndexJson
    indexes: list[IndexJson] = Field(default_factory=list)
    degraded: Sentences
    corrections: list[CorrectionJson] = Field(default_factory=list)
    follow_up: FollowUpJson | None = None
    expansion: ExpansionJson | None
    scope: ScopeJson | None
    notes: Sentences
    timings_ms: dict[str, float] = Field(default_factory=dict)
    trace: TraceJson | None = None


class PieceJson(CitedJson):
    """Lines that a context quotes; `rank` is that of the best hit among them, null when they only complete a family."""

    group: list[Text] = Field(default_factory=list)
    titles: list[Text]
    node_ids: list[Text]
    rank: Count | None
    cut_from: Annotated[list[str], BeforeValidator(lambda spans: [str(span) for span in spans])]
    text: Text


class LeftOutJson(JsonObject):
    """A hit that a context does not quote; `same_as` cites the piece's section that has the same text."""

    citation: Text = Field(validation_alias=AliasPath("section", "citation"))
    citation_state: CitationState = Field(validation_alias=AliasPath("section", "citation_state"))
    folder: Text = Field(validation_alias=AliasPath("section", "folder"))
    node_id: Text = Field(validation_alias=AliasPath("section", "node_id"))
    titles: list[Text] = Field(validation_alias=AliasPath("section", "titles"))
    rank: Count | None = Field(validation_alias=AliasPath("section", "rank"))
    tokens: Count
    same_as: Annotated[Text | None, BeforeValidator(lambda citation: citation or None)]


def _list_pieces(groups: Sequence[Any]) -> list[PieceJson]:
    """The pieces of all groups of a context, each with its group's titles."""
    return [
        PieceJson.model_validate(piece).model_copy(update={"group": list(group.titles)})
        for group in groups
        for piece in group.pieces
    ]


class ContextJson(JsonObject):
    """An answer as context for a prompt."""

    question: Text = Field(validation_alias=AliasPath("answer", "question"))
    profile: Text = Field(validation_alias=AliasPath("answer", "profile"))
    verdict: Verdict = Field(validation_alias=AliasPath("answer", "verdict"))
    confidence: float = Field(validation_alias=AliasPath("answer", "confidence"))
    max_tokens: Count = Field(validation_alias=AliasPath("context", "max_tokens"))
    tokens: Count = Field(validation_alias=AliasPath("context", "tokens"))
    markdown: Text = Field(validation_alias=AliasPath("context", "markdown"))
    pieces: Annotated[list[PieceJson], BeforeValidator(_list_pieces)] = Field(
        validation_alias=AliasPath("context", "groups")
    )
    left_out: list[LeftOutJson] = Field(validation_alias=AliasPath("context", "left_out"))
    index: IndexJson = Field(validation_alias=AliasPath("answer", "index"))
    degraded: Sentences = Field(validation_alias=AliasPath("answer", "degraded"))
    scope: ScopeJson | None = Field(validation_alias=AliasPath("answer", "scope"))
    notes: Sentences = Field(validation_alias=AliasPath("answer", "notes"))
    timings_ms: dict[str, float] = Field(default_factory=dict)


class CitedSentenceJson(CitedJson):
    """A sentence, the words that it rests on, and the lines that hold these."""

    node_id: Text
    text: Text
    quote: Text


class DroppedSentenceJson(JsonObject):
    """A sentence of a model that does not hold in the lines that it cites."""

    text: Text
    reason: Text


class SentencesJson(JsonObject):
    """A short answer: who wrote it (empty: it is quoted from the documents), and how that came about."""

    writer: Text
    note: Text
    sentences: list[CitedSentenceJson]
    dropped: list[DroppedSentenceJson]


class ShortAnswerJson(AnswerJson):
    """The sections found for a question, and a few sentences that answer it."""

    answer: SentencesJson


# What a language model made up stays out where it is not asked for, so that nothing quotes it.
MADE_UP: Mapping[str, Any] = {"passages": True, "dropped": {"__all__": {"text"}}}


def dump_answer(
    answer: "Answer", spent: Spent, *, full: bool = False, explain: bool = False, hypothetical: bool = False
) -> dict[str, Any]:
    """An answer; with each hit's text if `full`, with the trace if `explain`, with made-up texts if `hypothetical`."""
    hidden: dict[str, Any] = {} if explain else {"trace": True}
    if not full:
        hidden["hits"] = {"__all__": {"text", "text_cut"}}
    if not hypothetical:
        hidden["expansion"] = MADE_UP
    return AnswerJson.dump(answer, hidden) | {"timings_ms": sum_timings(answer, spent)}


def dump_short_answer(short: "ShortAnswer", spent: Spent) -> dict[str, Any]:
    """The answer as `dump_answer` has it, and its sentences."""
    return dump_answer(short.answer, spent) | {"answer": SentencesJson.dump(short)}


def dump_expansion(report: "ExpansionReport", *, hypothetical: bool) -> dict[str, Any]:
    return ExpansionJson.dump(report, None if hypothetical else MADE_UP)


def dump_hit(hit: "Hit", *, full: bool) -> dict[str, Any]:
    return HitJson.dump(hit, None if full else {"text", "text_cut"})


def sum_timings(answer: "Answer", spent: Spent) -> dict[str, float]:
    """Milliseconds: `opening` (loading, indexing --docs), each stage of the search, `total` by the clock."""
    by_stage: dict[str, float] = {"opening": spent.opening}
    for stage in answer.trace.stages:
        by_stage[stage.name] = by_stage.get(stage.name, 0.0) + stage.milliseconds
    return {name: round(value, 3) for name, value in by_stage.items()} | {"total": round(spent.total, 3)}
