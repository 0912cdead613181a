"""Front matter as it is searched: terms apart from those of texts, and days as people write them.

`status: draft` gives other terms than a text that speaks of drafts, so that properties are found and texts are ranked
as if they had none. A day gives its ISO form, whichever way a note or a question writes it.
"""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import date, timedelta

from retriever.lexical.languages import SINGLED
from retriever.lexical.tokens import remove_accents, tokenize

TEXT_FIELDS = frozenset({"title", "aliases", "tags"})  # which are searched as text

SUCCESSOR_KEYS = ("superseded_by", "superseded-by", "supersededby", "replaced_by", "replaced-by", "successor")
STATUS_KEYS = ("status", "state", "statut", "estado", "stato")
FLAGS = ("draft", "deprecated", "obsolete", "archived")  # `draft: true`

# How the months begin, in English and the languages with stop words of their own.
_MONTHS = (
    "jan ene gen янв", "feb fev фев", "mar mrt maa mae мар", "apr avr abr апр", "may mai mag mei maj мая май",
    "jun juin giu июн", "jul juil lug июл", "aug aou ago авг", "sep set сен", "oct okt ott out окт", "nov ноя",
    "dec dez dic des дек",
)  # fmt: skip
MONTHS = {begin: number for number, names in enumerate(_MONTHS, start=1) for begin in names.split()}
# Of the days of Chinese, Japanese and Korean the signs, as those of other dates.
_SIGNS = str.maketrans("年月日년월일", "-- -- ")
_DAY, _NAME, _YEAR = r"(?P<day>\d{1,2})(?:st|nd|rd|th|er|\.|o)?", r"(?P<name>[^\W\d_]{3,10})\.?", r"(?P<year>\d{4})"
_DAYS = tuple(
    re.compile(rf"(?<![a-z\d.-]){form}(?![a-z\d]|[.-][a-z\d])")
    for form in (
        r"(?P<year>\d{4})-(?P<month>\d\d?)-(?P<day>\d\d?)",
        r"(?P<day>\d\d?)[./](?P<month>\d\d?)[./](?P<year>\d{4})",
        rf"{_DAY} (?:of |de )?{_NAME},? (?:de |del )?{_YEAR}",
        rf"{_NAME} {_DAY},? {_YEAR}",
        rf"{_NAME},? (?:de |del )?{_YEAR}",
    )
)

# Today and yesterday, by language: in a question they are days.
_RECENT = {
    "english": ("today", "yesterday"),
    "german": ("heute", "gestern"),
    "french": ("aujourd'hui", "hier"),
    "spanish": ("hoy", "ayer"),
    "portuguese": ("hoje", "ontem"),
    "italian": ("oggi", "ieri"),
    "dutch": ("vandaag", "gisteren"),
    "swedish": ("idag", "igår"),
    "danish": ("i dag", "i går"),
    "norwegian": ("i dag", "i går"),
    "russian": ("сегодня", "вчера"),
    "chinese": ("今天", "昨天"),
    "japanese": ("今日", "昨日"),
}


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
    plain = " ".join(remove_accents(word) for word in text.lower().translate(_SIGNS).split())
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


def find_days_of_path(path: str) -> list[str]:
    """Return the days that a path names, and their months: its numbers may be joined by anything, or be folders.

    >>> find_days_of_path("journal/2026/05/17"), find_days_of_path("20260517 Standup")
    (['2026-05-17', '2026-05'], ['2026-05-17', '2026-05'])
    """
    numbers = "".join(sign if sign.isdigit() else " " for sign in path).split()
    parts = [part for item in numbers for part in ((item[:4], item[4:6], item[6:]) if len(item) == 8 else (item,))]
    written = [sign.join(three) for three in zip(parts, parts[1:], parts[2:], strict=False) for sign in "-."]
    days = [day for text in (path, *written) for day in find_days(text)]
    return list(dict.fromkeys(form for day in days for form in (day, day[:7])))


def find_recent_day(question: str, languages: Sequence[str], today: date) -> tuple[str, str] | None:
    """Return the word for today or yesterday in a question, in one of its languages, and the day; None without one.

    >>> find_recent_day("Was geschah gestern?", ["german"], date(2026, 5, 18))
    ('gestern', '2026-05-17')
    """
    words = f" {' '.join(question.rstrip('?!. ').split())} ".lower()
    for name in ("english", *languages):
        for ago, word in enumerate(_RECENT.get(name, ())):
            if (word if name in SINGLED else f" {word} ") in words:
                return word, (today - timedelta(days=ago)).isoformat()
    return None
