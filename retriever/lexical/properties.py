"""Front matter as it is searched: terms apart from those of texts, and days as people write them.

`status: draft` gives other terms than a text that speaks of drafts, so that properties are found and texts are ranked
as if they had none. A day gives its ISO form, whichever way a note or a question writes it.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import date, timedelta
from itertools import takewhile

from retriever.lexical.languages import SINGLED
from retriever.lexical.tokens import is_unspaced, remove_accents, tokenize

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
_SIGNS = str.maketrans("年月日년월일", "-- -- ")  # of days in Chinese, Japanese and Korean
# Of the parts of a day, by their kinds: where the year, the month and the day are.
_ORDERS = {"ynn": (0, 1, 2), "nny": (2, 1, 0), "nmy": (2, 1, 0), "mny": (2, 0, 1), "my": (1, 0)}

# The words for today and yesterday, by language: in a question they are days.
RECENT = """
    english|today|yesterday, german|heute|gestern, french|aujourd'hui|hier, spanish|hoy|ayer, portuguese|hoje|ontem,
    italian|oggi|ieri, dutch|vandaag|gisteren, swedish|idag|igår, danish|i dag|i går, norwegian|i dag|i går,
    russian|сегодня|вчера, chinese|今天|昨天, japanese|今日|昨日
"""


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

    >>> find_days("on 2.11.1987, in March 2024, le 1er mai 1990, journal/2026/05/17")
    ['1987-11-02', '2024-03', '1990-05-01', '2026-05-17']
    """
    if not any(map(str.isdigit, text)):
        return []
    words = [word for word in text.lower().translate(_SIGNS).split() if word.count(".") < 3]  # a version has more
    plain = "".join(sign if sign.isalnum() and not is_unspaced(sign) else " " for sign in " ".join(words))
    parts = [
        (part[:4], part[4:6], part[6:]) if len(part) == 8 and part.isdigit() else (part,)  # 20260517
        for part in plain.split()
    ]
    read = [_read_part(part) for own in parts for part in own if part not in ("of", "de", "del")]
    kinds, place, found = "".join(kind for kind, _ in read), 0, dict[str, None]()
    while place < len(kinds):
        form = next((form for form in _ORDERS if kinds.startswith(form, place)), "-")
        numbers = [read[place + at][1] for at in _ORDERS.get(form, ())]
        with suppress(ValueError, TypeError):  # the 31st of February, and what is no day
            day = date(*numbers, *[1][: 3 - len(form)]).isoformat()
            found[day if len(form) == 3 else day[:7]] = None
        place += len(form)
    return list(found)


def _read_part(part: str) -> tuple[str, int]:
    """Return `y` and the number of a year, `m` of a month's name, `n` of another one, as of `3`, `3rd` and `1er`."""
    digits, plain = "".join(takewhile(str.isdecimal, part)), remove_accents(part)
    if month := MONTHS.get(plain[:4], MONTHS.get(plain[:3], 0)):
        return "m", month
    is_number = len(digits) in (1, 2) and len(part) - len(digits) <= 2
    return "y" if digits == part and len(part) == 4 else "n" if is_number else "-", int(digits or 0)


def find_recent_day(question: str, languages: Sequence[str], today: date) -> tuple[str, str] | None:
    """Return the word for today or yesterday in a question, in one of its languages, and the day; None without one.

    >>> find_recent_day("Was geschah gestern?", ["german"], date(2026, 5, 18))
    ('gestern', '2026-05-17')
    """
    words = f" {' '.join(question.rstrip('?!. ').split())} ".lower()
    for name, *recent in (listed.strip().split("|") for listed in RECENT.split(",")):
        for ago, word in enumerate(recent if name in ("english", *languages) else ()):
            if (word if name in SINGLED else f" {word} ") in words:
                return word, (today - timedelta(days=ago)).isoformat()
    return None
