"""The JSON API described in OpenAPI 3.1, made of what the endpoints declare. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from retriever.serving.web.json_api import Endpoint
from retriever.serving.web.parameters import Parameter

TEXT: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "number"}
COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
LINE: dict[str, Any] = {"type": ["integer", "null"], "minimum": 1}
TEXTS: dict[str, Any] = {"type": "array", "items": TEXT}
SWITCH: dict[str, Any] = {"type": "boolean"}
STATE: dict[str, Any] = {"enum": ["exact", "moved", "stale", "gone", "unchecked"]}

FAILURES = {
    "404": "The documents hold no such node, path or line.",
    "422": "A parameter is wrong; the message says which, and what to give instead.",
    "503": "The index cannot be used now; the message says what to do.",
}


def openapi(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """The whole description."""
    paths = {item.path: {"get": _operation(item)} for item in endpoints}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Hybrid Retrieve",
            "version": "1",
            "description": "Sections of a folder of Markdown that answer a question, each cited as file:first-last.",
        },
        "paths": {**paths, "/health": {"get": _health()}},
        "components": {"schemas": SCHEMAS},
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    failures = {
        status: _response(text, "Error")
        for status, text in FAILURES.items()
        if status != "404" or endpoint.schema != "Answer"
    }
    return {
        "operationId": endpoint.path.rpartition("/")[2],
        "summary": endpoint.summary,
        "parameters": [_parameter(item) for item in endpoint.parameters],
        "responses": {"200": _response("It was found.", endpoint.schema), **failures},
    }


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": "query",
        "required": parameter.required,
        "description": parameter.help,
        "schema": parameter.schema(),
    }


def _health() -> dict[str, Any]:
    return {
        "operationId": "health",
        "summary": "Whether this process answers; it waits for no search.",
        "responses": {
            "200": _response("It does.", "Health"),
            "422": _response("It takes no parameters.", "Error"),
        },
    }


def _response(description: str, schema: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": _ref(schema)}}}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _list_of(name: str) -> dict[str, Any]:
    return {"type": "array", "items": _ref(name)}


def _object(properties: Mapping[str, Any], optional: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "object", "required": list(properties), "properties": {**properties, **(optional or {})}}


VERSION = {"schema_version": {"type": "integer", "const": 1}}

SCHEMAS: dict[str, Any] = {
    "Error": _object({"error": TEXT}, {"parameters": {"type": "object", "additionalProperties": TEXT}}),
    "Health": _object({"status": {"const": "ok"}}),
    "Answer": _object(
        {
            **VERSION,
            "question": TEXT,
            "profile": TEXT,
            "verdict": {"enum": ["answered", "weak", "none"]},
            "confidence": {"type": "number", "minimum": 0, "maximum": 1},
            "hits": _list_of("Hit"),
            "index": _ref("Index"),
            "degraded": TEXTS,
            "expansion": {"oneOf": [{"type": "null"}, _ref("Expansion")]},
            "timings_ms": {"type": "object", "additionalProperties": NUMBER},
        },
        {"trace": _ref("Trace")},
    ),
    "Expansion": _object(
        {
            "used": SWITCH,
            "used_hyde": SWITCH,
            "note": TEXT,
            "rewordings": TEXTS,
            "dropped": {"type": "array", "items": _object({"kind": TEXT, "reason": TEXT}, {"text": TEXT})},
            "intent": TEXT,
            "entities": TEXTS,
            "milliseconds": {"type": ["number", "null"]},
            "cached": SWITCH,
        },
        {"passages": TEXTS},
    ),
    "Hit": _object(
        {
            "rank": COUNT,
            "node_id": TEXT,
            "folder": TEXT,
            "file": TEXT,
            "start_line": COUNT,
            "end_line": COUNT,
            "citation": TEXT,
            "citation_state": STATE,
            "title": TEXT,
            "breadcrumb": TEXTS,
            "snippet": TEXT,
            "summary": TEXT,
            "score": NUMBER,
            "scale": TEXT,
            "evidence": _list_of("Evidence"),
        },
        {"text": TEXT, "text_cut": SWITCH},
    ),
    "Evidence": _object({"arm": TEXT, "rank": COUNT, "score": NUMBER, "scale": TEXT, "share": NUMBER, "origin": TEXT}),
    "Index": _object(
        {
            "path": TEXT,
            "folders": TEXTS,
            "generation": COUNT,
            "documents": COUNT,
            "sections": COUNT,
            "chunks": COUNT,
            "fresh": SWITCH,
            "refreshed_files": COUNT,
            "stale_files": COUNT,
            "skipped_files": COUNT,
            "unchecked_folders": COUNT,
        }
    ),
    "Trace": _object({"stages": _list_of("Stage"), "rankings": _list_of("Ranking"), "signals": {"type": "object"}}),
    "Stage": _object({"name": TEXT, "milliseconds": NUMBER, "note": TEXT}),
    "Ranking": _object({"arm": TEXT, "scale": TEXT, "weight": NUMBER, "found": COUNT, "first": {"type": "array"}}),
    "Tree": _object(
        {**VERSION, "nodes": _list_of("Node"), "total": COUNT, "next_offset": {"type": ["integer", "null"]}}
    ),
    "Node": _object(
        {
            "node_id": TEXT,
            "kind": {"enum": ["folder", "file", "section"]},
            "file": TEXT,
            "title": TEXT,
            "level": COUNT,
            "start_line": LINE,
            "end_line": LINE,
            "summary": TEXT,
        }
    ),
    "Passage": _object(
        {
            **VERSION,
            "node_id": TEXT,
            "folder": TEXT,
            "file": TEXT,
            "start_line": COUNT,
            "end_line": COUNT,
            "citation": TEXT,
            "citation_state": STATE,
            "title": TEXT,
            "breadcrumb": TEXTS,
            "text": TEXT,
        }
    ),
}
