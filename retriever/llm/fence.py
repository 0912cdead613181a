"""What others wrote, as data for a language model: JSON, one object a line, between two lines that hold a nonce. Pure.

No text inside can end the fence: it does not know the nonce, it cannot begin a line, and its `<` are escaped.
"""

import json
import secrets
from collections.abc import Iterable, Mapping

_LINE_ENDS = ("\u2028", "\u2029", "\x85")
"""Ends of a line to some readers, and no control characters to JSON."""


def new_nonce() -> str:
    """16 hex digits that no document can know."""
    return secrets.token_hex(8)


def as_line(content: Mapping[str, object]) -> str:
    """One line of JSON. Texts may hold lone surrogates, which no request can carry."""
    text = json.dumps(content, ensure_ascii=False).replace("<", "\\u003c")
    for end in _LINE_ENDS:
        text = text.replace(end, f"\\u{ord(end):04x}")
    return text.encode("utf-8", "replace").decode("utf-8")


def fenced(lines: Iterable[str], nonce: str) -> str:
    """The lines of data within their fence."""
    return "\n".join([f"<data {nonce}>", *lines, f"</data {nonce}>"])
