"""Front matter as it is searched: terms apart from those of texts, and days as people write them.

`status: draft` gives other terms than a text that speaks of drafts, so that properties are found and texts are ranked
as if they had none. A day gives its ISO form, whichever way a note or a question writes it.
"""

import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import date

from retriever.lexical.tokens import remove_accents, tokenize

TEXT_FIELDS = frozenset({"title", "aliases", "tags"})  # which are searched as text

SUCCESSOR_KEYS = ("superseded_by", "superseded-by", "supersededby", "replaced_by", "replaced-by", "successor")
STATUS_KEYS = ("status", "state", "statut", "estado", "stato")
FLAGS = ("draft", "deprecated", "obsolete", "archived")  # `draft: true`

# How the months begin, in English, German, French, Spanish, Portuguese, Italian, Dutch and the Scandinavian languages.
_MONTHS = (
    "jan ene gen", "feb fev", "mar mrt maa mae", "apr avr abr", "may mai mag mei maj", "jun juin giu", "jul juil lug",
    "aug aou ago", "sep set", "oct okt ott out", "nov", "dec dez dic des",
)  # fmt: skip
MONTHS = {begin: number for number, names in enumerate(_MONTHS, start=1) for begin in names.split()}
_DAY, _NAME, _YEAR = r"(?P<day>\d{1,2})(?:st|nd|rd|th|er|\.|o)?", r"(?P<name>[a-z]{3,10})\.?", r"(?P<year>\d{4})"
_DAYS = tuple(
    re.compile(rf"(?<![\w.-]){form}(?!\w|[.-]\w)")
    for form in (
        r"(?P<year>\d{4})-(?P<month>\d\d?)-(?P<day>\d\d?)",
        r"(?P<day>\d\d?)[./](?P<month>\d\d?)[./](?P<year>\d{4})",
        rf"{_DAY} (?:of |de )?{_NAME},? (?:de |del )?{_YEAR}",
        rf"{_NAME} {_DAY},? {_YEAR}",
        rf"{_NAME},? (?:de |del )?{_YEAR}",
    )
)


def mark_property(term: str) -> str:
    """Return the index's term for a word of a property; no text gives such a term."""
    return f"&{term}"


def tokenize_properties(fields: Iterable[tuple[str, str]], languages: tuple[str, ...] = ()) -> list[str]:
    """Return the terms of keys and values, each once, in their order; those that are read as text are left out."""
    terms: dict[str, None] = {}
    for key, value in fields:
        if key not in TEXT_FIELDS:
            days = find_days(value)
            terms |= dict.fromkeys([*tokenize(f"{key} {value}", languages), *days, *(day[:7] for day in days)])
    return list(terms)


def is_status(key: str, value: str) -> bool:
    """Return whether a property says how far its document holds: its values are words of any language."""
    return key in SUCCESSOR_KEYS or key in STATUS_KEYS or (key in FLAGS and value.casefold() == "true")


def find_days(text: str) -> list[str]:
    """Return the days and months that a text names, as `1987-11-02` and `1987-11`, each once.

    >>> find_days("on 2.11.1987, in March 2024, le 1er mai 1990")
    ['1987-11-02', '1990-05-01', '2024-03']
    """
    if not any(map(str.isdigit, text)):
        return []
    plain = " ".join(remove_accents(word) for word in text.lower().split())
    found = []
    for pattern in _DAYS:
        for match in pattern.finditer(plain):
            groups = match.groupdict()
            name = groups.get("name") or ""
            month = int(groups.get("month") or MONTHS.get(name[:4], MONTHS.get(name[:3], 0)))
            with suppress(ValueError):  # the 31st of February, and what is no month
                written = date(int(groups["year"]), month, int(groups.get("day") or 1)).isoformat()
                found.append(written if groups.get("day") else written[:7])
        plain = pattern.sub(" ", plain)
    return list(dict.fromkeys(found))
