"""The objects of display/json.py as pydantic models, for OpenAPI, made from the same dataclasses and tables."""

from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, Field, create_model

from pageindex.node import Node, Span
from retriever.display.json import ROWS, list_keys
from retriever.looking.browse import Excerpt
from retriever.query import Scope
from retriever.types import Answer, Degradation, ShortAnswer, SimilarSections

LEFT_OUT = frozenset({"text", "text_cut", "passages", "trace"})  # where they are not asked for

Keys = dict[str, Any]  # the fields of a pydantic model: a type each, and `...` where the key is always there


def make_object(name: str, doc: str | None, keys: Keys) -> type[BaseModel]:
    """A JSON object of this name."""
    return create_model(name, __doc__=doc, **keys)


@cache
def make_model(kind: type) -> type[BaseModel]:
    """The JSON object that `dump` makes of a dataclass."""
    return make_object(f"{kind.__name__}Json", kind.__doc__, describe_keys(kind))


def describe_keys(kind: type, *left_out: str) -> Keys:
    """The keys of the JSON of a dataclass, without those `left_out`."""
    hints = {field.name: field.type for field in fields(kind)}
    keys: Keys = {}
    for key, attribute in list_keys(kind):
        if key in left_out:
            continue
        hint = hints.get(attribute) or getattr(kind, attribute).fget.__annotations__["return"]
        if key == "span":
            line = int if hint is Span else int | None
            keys |= {"start_line": (line, ...), "end_line": (line, ...)}
        elif hint is Scope:
            keys |= describe_keys(Scope)
        elif key in ROWS and get_origin(hint) is tuple:
            row = make_object("FieldJson", "A key of a document's front matter.", dict.fromkeys(ROWS[key], (str, ...)))
            keys[key] = list[row], ...  # type: ignore[valid-type]  # made here
        else:
            keys[key] = translate(hint), Field(default_factory=lambda: None) if key in LEFT_OUT else ...
    return keys


def translate(hint: Any) -> Any:  # noqa: ANN401 - a type
    """The type of the JSON of a value of this type."""
    if hint is Span:
        return LINES
    if hint is Degradation:
        return str
    if get_origin(hint) is UnionType:
        return translate(next(part for part in get_args(hint) if part is not NoneType)) | None
    if get_origin(hint) is tuple:
        return list[translate(get_args(hint)[0])]  # type: ignore[misc]  # made here
    return make_model(hint) if is_dataclass(hint) and isinstance(hint, type) else hint


LINES = make_object(
    "LinesJson", "Lines of a file, 1-based and inclusive.", dict.fromkeys(("start_line", "end_line"), int)
)
VERSION: Keys = {"schema_version": (Literal[2], ...)}
ANSWER: Keys = {**VERSION, **describe_keys(Answer), "timings_ms": (dict[str, float], ...)}
SENTENCES = make_object("SentencesJson", ShortAnswer.__doc__, describe_keys(ShortAnswer, "answer"))
COUNTS: Keys = dict.fromkeys(("documents", "sections"), (int | None, ...))
NODE = make_object("NodeJson", "A folder, file or section.", describe_keys(Node) | COUNTS)
PART: Keys = {"nodes": (list[NODE], ...), "total": (int, ...), "next_offset": (int | None, ...)}  # type: ignore[valid-type]  # made here

AnswerJson = make_object("AnswerJson", Answer.__doc__, ANSWER)
ShortAnswerJson = make_object("ShortAnswerJson", ShortAnswer.__doc__, ANSWER | {"answer": (SENTENCES, ...)})
PassageJson = make_object("PassageJson", Excerpt.__doc__, VERSION | describe_keys(Excerpt))
SimilarJson = make_object("SimilarJson", SimilarSections.__doc__, VERSION | describe_keys(SimilarSections))
TreeJson = make_object("TreeJson", "A part of the outline; the next one begins at `next_offset`.", VERSION | PART)
