"""Values as JSON: the command line, the HTTP API and MCP give programs the same objects.

The keys of an object are the fields of its dataclass; the tables below name the exceptions. `SCHEMA_VERSION` rises when
a key goes or changes its meaning; new keys may come at any time.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any

from pageindex.node import Node, Span
from retriever.query import Scope
from retriever.trace import Spent
from retriever.types import Answer, Degradation, ShortAnswer

SCHEMA_VERSION = 6

ADDED = ("fresh", "used", "citation")  # properties that programs see beside the fields
# Fields that are tuples of rows: the keys of a row.
ROWS = {
    "matched_fields": ("key", "value"),
    "skipped": ("file", "reason"),
    "remarks": ("file", "reason"),
    "forgotten": ("file", "reason"),
    "failed": ("file", "reason"),
    "broken_links": ("file", "line", "target", "reason"),
}
TIMES = frozenset({"milliseconds", "seconds"})  # rounded to three digits


@cache
def list_keys(kind: type) -> tuple[str, ...]:
    """Return the keys of the JSON object of a dataclass or named tuple, in order: its fields and properties."""
    names = getattr(kind, "_fields", None) or [field.name for field in fields(kind)]
    return (*names, *(name for name in ADDED if hasattr(kind, name)))


def dump(value: Any, *left_out: str) -> Any:  # noqa: ANN401 - JSON
    """Return a value as JSON: for a dataclass or named tuple an object, without the keys `left_out`."""
    if isinstance(value, Span):
        return {"start_line": value.first, "end_line": value.last}
    if isinstance(value, Degradation):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: dump(part) for key, part in value.items()}
    if is_dataclass(value) or hasattr(value, "_fields"):
        return dict(_list_items(value, left_out))
    return [dump(part) for part in value] if isinstance(value, list | tuple) else value


def _list_items(value: Any, left_out: tuple[str, ...]) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - a dataclass
    for key in list_keys(type(value)):  # type: ignore[arg-type]  # every class can be hashed
        if key in left_out:
            continue
        part = getattr(value, key)
        if key == "span":  # of the object itself; that of a passage has a key of its own
            yield "start_line", part and part.first
            yield "end_line", part and part.last
        elif isinstance(part, Scope):
            yield from _list_items(part, ())
        elif key in ROWS and isinstance(part, tuple):
            yield key, [dict(zip(ROWS[key], row, strict=True)) for row in part]
        else:
            yield key, round(part, 3) if key in TIMES and part is not None else dump(part)


def add_version(content: Mapping[str, Any]) -> dict[str, Any]:
    """Put the version of the schema before an answer to a program."""
    return {"schema_version": SCHEMA_VERSION, **content}


def dump_answer(answer: Answer, spent: Spent, *, full: bool = False, explain: bool = False) -> dict[str, Any]:
    """Return an answer as JSON; if `full`, with the hits' texts; if `explain`, with trace and made-up passages."""
    content: dict[str, Any] = dump(answer, *(() if explain else ("trace",)))
    content["hits"] = [dump(hit, *(() if full else ("text", "text_cut"))) for hit in answer.hits]
    if answer.expansion is not None and not explain:  # so that nothing quotes what no document says
        content["expansion"] = dump(answer.expansion, "passages")
        content["expansion"]["dropped"] = [dump(item, "text") for item in answer.expansion.dropped]
    return content | {"timings_ms": sum_timings(answer, spent)}


def dump_short_answer(short: ShortAnswer, spent: Spent) -> dict[str, Any]:
    """Return the answer as `dump_answer` has it, and its sentences."""
    return dump_answer(short.answer, spent) | {"answer": dump(short, "answer")}


def dump_node(node: Node) -> dict[str, Any]:
    """Return a node of the outline."""
    return {
        "node_id": node.id,
        "kind": dump(node.kind),
        "file": node.path,
        "title": node.title,
        "level": node.level,
        "start_line": node.span and node.span.first,
        "end_line": node.span and node.span.last,
        "summary": node.summary,
    }


def sum_timings(answer: Answer, spent: Spent) -> dict[str, float]:
    """Return milliseconds: `opening` (loading, indexing --docs), each stage of the search, `total` by the clock."""
    by_stage: dict[str, float] = {"opening": spent.opening}
    for stage in answer.trace.stages:
        by_stage[stage.name] = by_stage.get(stage.name, 0.0) + stage.milliseconds
    return {name: round(value, 3) for name, value in by_stage.items()} | {"total": round(spent.total, 3)}
