"""What an index is asked for beside answers, as JSON: its outline, texts, what is similar, its state; as `json`."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, AliasPath, BeforeValidator, Field

from pageindex.node import Node, NodeKind
from retriever.display.json import CitedJson, Count, IndexJson, JsonObject, Line, Text


class NodeJson(JsonObject):
    """A folder, file or section; the lines are null where it has none of its own.

    `documents` and `sections` are how many a folder has below it; null for a file or a section.
    """

    node_id: Text = Field(validation_alias="id")
    kind: NodeKind
    file: Text = Field(validation_alias="path")
    title: Text
    level: Count
    start_line: Line | None = Field(None, validation_alias=AliasPath("span", "first"))
    end_line: Line | None = Field(None, validation_alias=AliasPath("span", "last"))
    summary: Text
    documents: Count | None = None
    sections: Count | None = None

    @classmethod
    def of(cls, node: Node, counts: Mapping[str, tuple[int, int]]) -> "NodeJson":
        """A node; with how much is in it, if it is one of the folders of `counts`."""
        documents, sections = counts.get(node.id, (None, None))
        return cls.model_validate(node).model_copy(update={"documents": documents, "sections": sections})


class TreeJson(JsonObject):
    """A part of the outline; `next_offset` says where the next part begins, null after the last one."""

    schema_version: Literal[2] = 2
    nodes: list[NodeJson]
    total: Count
    next_offset: Count | None


class PassageJson(CitedJson):
    """Lines of a document."""

    schema_version: Literal[2] = 2
    node_id: Text
    title: Text
    breadcrumb: list[Text]
    text: Text


class SimilarSectionJson(CitedJson):
    """A section that is near in meaning to another one; `similarity` is a cosine, -1 to 1."""

    rank: Count
    node_id: Text
    title: Text
    breadcrumb: list[Text]
    summary: Text
    similarity: float
    same_file: bool = Field(validation_alias="is_same_file")


class SimilarJson(JsonObject):
    """What is near in meaning to the section or file `node_id`; nearest first."""

    schema_version: Literal[2] = 2
    node_id: Text
    file: Text
    title: Text
    sections: list[SimilarSectionJson]


class SkippedJson(JsonObject):
    """A file that could not be read, and why."""

    file: Text
    reason: Text


SkippedFiles: TypeAlias = Annotated[
    list[SkippedJson], BeforeValidator(lambda pairs: [{"file": path, "reason": reason} for path, reason in pairs])
]


class BrokenLinkJson(JsonObject):
    """A link that leads nowhere, and why; `target` as it is written."""

    file: Text
    line: Line
    target: Text
    reason: Text


class StatusDetailsJson(JsonObject):
    """What else the documents are like; `unread_formats` counts files that are no documents by their ending."""

    broken_links: Annotated[
        list[BrokenLinkJson],
        BeforeValidator(
            lambda rows: [dict(zip(("file", "line", "target", "reason"), row, strict=True)) for row in rows]
        ),
    ]
    duplicates: list[list[Text]]
    unread_formats: Annotated[dict[str, int], BeforeValidator(dict)]


class TextSurveyJson(JsonObject):
    """How much of the text the embedding model does not know, and the share of each language, 0 to 1."""

    unknown: float
    languages: Annotated[dict[str, float], BeforeValidator(dict)]


class StatusJson(JsonObject):
    """What an index holds, and how it stands to its folders."""

    index: IndexJson
    encoder: Text
    prefixes: Text = ""
    size_bytes: Count
    changed_files: list[Text]
    skipped: SkippedFiles
    broken_links: Count
    coverage: float
    remarks: SkippedFiles = Field(default_factory=list)
    forgotten: SkippedFiles = Field(default_factory=list)
    details: StatusDetailsJson | None = None
    survey: TextSurveyJson | None = None


class ListedIndexJson(JsonObject):
    """An index of this user; `missing` are those of its folders that are not there."""

    name: Text
    path: Text
    folders: list[Text]
    missing: list[Text]
    documents: Count
    size_bytes: Count
    updated: float
    trouble: Text


class IndexReportJson(JsonObject):
    """What indexing did."""

    path: Text
    folders: list[Text]
    snapshot: Count
    added: Count
    changed: Count
    moved: Count
    removed: Count
    unchanged: Count
    documents: Count
    sections: Count
    chunks: Count
    embedded: Count
    reused_vectors: Count
    prefixes: Text
    summaries: Annotated[dict[str, Any] | None, BeforeValidator(lambda report: asdict(report) if report else None)]
    skipped: SkippedFiles
    seconds: Annotated[float, AfterValidator(lambda value: round(value, 3))]
