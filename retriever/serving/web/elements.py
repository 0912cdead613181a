"""HTML made of elements: text is always escaped, and holds no character that would reorder or hide what is read."""

from collections.abc import Iterable
from html import escape
from typing import TypeAlias

from retriever.display.sanitize import sanitize

_VOID = frozenset({"br", "hr", "input", "link", "meta", "rect", "line"})
"""Elements without content, those of SVG among them that are drawn here; the slash matters to the latter."""


class Html(str):
    """Markup that was made by `element` or by the renderer: what is safe to send as it is."""

    __slots__ = ()


Content: TypeAlias = "str | Iterable[Content] | None"
"""Html as it is, other text escaped, None nothing, and several of them in a row."""
Attribute: TypeAlias = str | int | float | bool | None
"""True is an attribute without a value; False and None leave it out."""


def text(value: str) -> Html:
    """The value as it may stand in an element or an attribute."""
    return Html(escape(sanitize(value)))


def markup(*contents: Content) -> Html:
    """The contents in a row."""
    return Html("".join(_pieces(contents)))


def _pieces(contents: Iterable[Content]) -> Iterable[str]:
    for content in contents:
        if isinstance(content, Html):
            yield content
        elif isinstance(content, str):
            yield text(content)
        elif content is not None:
            yield from _pieces(content)


def element(name: str, /, *contents: Content, **attributes: Attribute) -> Html:
    """An element.

    Args:
        name: such as `a`.
        contents: what is in it.
        attributes: `class_` is `class`, `aria_label` is `aria-label`, `viewBox` stays as it is.
    """
    given = "".join(_attribute(key, value) for key, value in attributes.items())
    return Html(f"<{name}{given}/>") if name in _VOID else Html(f"<{name}{given}>{markup(*contents)}</{name}>")


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = key.strip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{text(str(value))}"'
