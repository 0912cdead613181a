"""Texts cut to a line or a length, how long they are for a model, and the known name that was meant. Pure."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from math import ceil
from pathlib import Path
from typing import Any

SNIPPET_CHARS = 300
MAX_NAMED = 8  # of what there is, in a message
MAX_NAME_CHARS = 60
# Of UTF-8. Every model counts in its own way, and most need fewer tokens: English has four to five characters to a
# token, Chinese about one.
BYTES_PER_TOKEN = 3


def as_tuple(items: Iterable[Any]) -> tuple[Any, ...]:
    """Return the items as a tuple; one text or path alone, which would be read letter by letter, as the only item.

    >>> as_tuple("daily"), as_tuple(["daily", "work"])
    (('daily',), ('daily', 'work'))
    """
    return (items,) if isinstance(items, str | Path) else tuple(items)


def cut(text: str, max_chars: int) -> str:
    """Return the text, or its beginning up to a word's end within `max_chars` characters, and an ellipsis."""
    if len(text) <= max_chars:
        return text
    if max_chars < 2:
        return ""
    head = text[: max_chars - 1]
    end = max(head.rfind(" "), head.rfind("\n"))
    return (head[:end] if end > max_chars // 2 else head).rstrip() + "…"


def estimate_tokens(text: str) -> int:
    """Estimate how many tokens a language model reads in a text, rather too many.

    >>> estimate_tokens("oven"), estimate_tokens("窯")
    (2, 1)
    """
    return ceil(len(text.encode()) / BYTES_PER_TOKEN)


def find_nearest(name: str, known: Iterable[str], cutoff: float = 0.5) -> str:
    """Return the known name most like another one (difflib's ratio, at least `cutoff`); empty where none is.

    >>> find_nearest("instal", ["install", "remove"]), find_nearest("oven", ["install"])
    ('install', '')
    """
    # Its time is the product of the lengths, and the name is from outside.
    return next(iter(get_close_matches(name[:100], list(known), 1, cutoff)), "")


def suggest_among(known: Sequence[str], wanted: str, also: Sequence[str] = ()) -> str:
    """Return `; did you mean daily? There are: daily, work`: the nearest, of `also` too, and the first known ones.

    >>> suggest_among(["work", "daily", "", "work"], "Dayly")
    '; did you mean daily? There are: work, daily'
    >>> suggest_among(["notes/Daily"], "daily", also=["Daily"])
    '; did you mean Daily? There are: notes/Daily'
    >>> suggest_among("abcdefghi", "oven"), suggest_among("abcdefgh", "oven"), suggest_among([], "oven")
    ('; there are: a, b, c, d, e, f, g, h, ...', '; there are: a, b, c, d, e, f, g, h', '')
    """
    listed = [cut(name, MAX_NAME_CHARS) for name in dict.fromkeys(known) if name]
    if not listed:
        return ""
    by_fold = {name.casefold(): name for name in reversed([*listed, *also])}
    near = find_nearest(wanted.casefold(), by_fold, 0.6)
    shown = ", ".join(listed[:MAX_NAMED]) + (", ..." if len(listed) > MAX_NAMED else "")
    return f"; did you mean {by_fold[near]}? There are: {shown}" if near else f"; there are: {shown}"
