"""Writes docs/reference.md from the code: what programs use, with its docstrings, and every setting with its default.

uv run scripts/write_reference.py           # writes the page
uv run scripts/write_reference.py --check   # only says whether it is up to date
"""

import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, get_args, get_origin

from retriever import api, errors, protocols, sharing, types
from retriever.retriever import Retriever
from retriever.settings.schema import Bounds, list_settings

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference.md"

HEAD = """# Reference

What programs use of `retriever`, and every setting. [From a Python program](library.md) has examples, [the command
line](cli.md) every flag, [the glossary](glossary.md) the words. This page is written by `scripts/write_reference.py`
from the docstrings.
"""


def reference() -> str:
    """The whole page."""
    parts = [HEAD]
    parts += ["## Functions", "In `retriever.api`; `open_retriever` also in `retriever`."]
    parts += [describe(function) for function in public(api, inspect.isfunction)]
    parts += ["## An index that is shared", "In `retriever.sharing`: for an index in PostgreSQL."]
    parts += [describe(function) for function in public(sharing, inspect.isfunction)]
    parts += ["## Retriever", doc(Retriever)]
    parts += [describe(member) for name, member in vars(Retriever).items() if is_public(name, member)]
    parts += ["## Values", "In `retriever.types`, in the order of the flow."]
    parts += [describe(kind) for kind in public(types, inspect.isclass)]
    parts += ["## Protocols", "In `retriever.protocols`: what a caller may bring of its own."]
    parts += [describe(kind) for kind in public(protocols, inspect.isclass)]
    parts += ["## Errors", "In `retriever.errors`. Catch `RetrieverError` for all of them.", tree_of_errors()]
    parts += [
        "## Settings",
        "A key is the same in a profile, in `settings=` and, with dots as `-`, as a flag.",
        table(),
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def public(module: ModuleType, is_kind: Any) -> list[Any]:  # noqa: ANN401 - a predicate of inspect
    """What the module itself defines for others, in the order of its source."""
    members = [member for name, member in inspect.getmembers(module, is_kind) if not name.startswith("_")]
    return sorted((own for own in members if own.__module__ == module.__name__), key=lambda own: line_of(own))


def line_of(member: Any) -> int:  # noqa: ANN401 - a function or class
    """Where its source begins."""
    return inspect.getsourcelines(member)[1]


def is_public(name: str, member: object) -> bool:
    """Whether a member of a class is a method that callers use."""
    return not name.startswith("_") and inspect.isfunction(member)


def describe(member: Any) -> str:  # noqa: ANN401 - a function or class
    """A heading, the signature or the fields, and the docstring."""
    heading = f"### {member.__name__}"
    if inspect.isfunction(member):
        return f"{heading}\n\n```python\n{signature(member)}\n```\n\n{doc(member)}"
    rows = []
    if isinstance(member, type) and dataclasses.is_dataclass(member):
        notes = field_notes(member)
        rows = ["\n| field | type | |", "|---|---|---|"]
        for item in dataclasses.fields(member):
            rows.append(f"| `{item.name}` | `{cell(annotation(item.type))}` | {cell(notes.get(item.name, ''))} |")
    elif issubclass(member, Enum):
        rows = ["", *(f"- `{value.value}`" for value in member)]
    return "\n".join([f"{heading}\n\n{doc(member)}", *rows])


def signature(function: Any) -> str:  # noqa: ANN401 - a function
    """`name(` each argument on a line `) -> result`, without `self`."""
    found = inspect.signature(function)
    parameters = [
        # A default keeps its quotation marks, as ruff writes them in the code blocks of Markdown; a type has none.
        str(each).replace("'", "") if each.default is inspect.Parameter.empty else str(each).replace("'", '"')
        for each in found.parameters.values()
        if each.name != "self"
    ]
    if any(each.kind is inspect.Parameter.KEYWORD_ONLY for each in found.parameters.values()):
        first = next(each.name for each in found.parameters.values() if each.kind is inspect.Parameter.KEYWORD_ONLY)
        parameters.insert(next(at for at, text in enumerate(parameters) if text.startswith(first)), "*")
    result = annotation(found.return_annotation)
    inside = "".join(f"    {parameter},\n" for parameter in map(short, parameters))
    return f"def {function.__name__}({chr(10) + inside if inside else ''}) -> {result}: ..."


def annotation(kind: object) -> str:
    """A type as it is written in the source, without the modules."""
    return short(kind if isinstance(kind, str) else inspect.formatannotation(kind))


def short(text: str) -> str:
    """Without the modules before the names."""
    return re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", text)


def field_notes(kind: type) -> dict[str, str]:
    """What the string below each field of a dataclass says."""
    found = re.findall(r'^    (\w+): [^\n]*\n    """(.*?)"""', inspect.getsource(kind), re.MULTILINE | re.DOTALL)
    return {name: " ".join(note.split()) for name, note in found}


def doc(member: object) -> str:
    """Its docstring; the parts that Google's style names become lists."""
    text = inspect.getdoc(member) or ""
    text = re.sub(r"^(Args|Raises|Attributes|Returns|Yields):\n", r"*\1*\n\n", text, flags=re.MULTILINE)
    text = re.sub(r"^    (\w+): ", r"- `\1`: ", text, flags=re.MULTILINE)
    text = re.sub(r"^    (?=\w)", "", text, flags=re.MULTILINE)
    return re.sub(r"^ {8}", "  ", text, flags=re.MULTILINE)


def tree_of_errors() -> str:
    """The tree that the module draws."""
    return f"```text\n{inspect.getdoc(errors).split(chr(10), 2)[2].strip()}\n```"  # type: ignore[union-attr] # it has one


def table() -> str:
    """Every setting of a profile."""
    return "\n".join(["| key | type | default | meaning |", "|---|---|---|---|", *setting_rows()])


def setting_rows() -> Iterator[str]:
    """One row for each setting."""
    for item in list_settings():
        kind, *rules = get_args(item.type) if get_origin(item.type) is Annotated else (item.type,)
        shown = re.sub(r"^Literal\[(.*)\]$", r"\1", annotation(kind)).replace("'", "")
        shown += "".join(f", {words}" for rule in rules if isinstance(rule, Bounds) for words in bounds(rule))
        yield f"| `{item.key}` | {cell(shown)} | `{item.default!r}` | {cell(item.help)} |"


def bounds(rule: Bounds) -> Iterator[str]:
    """The range of a number in words."""
    for words, limit in (("at least", rule.at_least), ("above", rule.above), ("at most", rule.at_most)):
        if limit is not None:
            yield f"{words} {limit:g}"


def cell(text: str) -> str:
    """The text as the inside of a table's cell."""
    return text.replace("|", "\\|")


def main() -> int:
    """Writes the page, or with --check says whether that would change it."""
    after = reference()
    if "--check" in sys.argv[1:]:
        stale = not PAGE.exists() or PAGE.read_text(encoding="utf-8") != after
        if stale:
            print(f"{PAGE.name} is out of date; run: uv run scripts/write_reference.py")
        return int(stale)
    PAGE.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
