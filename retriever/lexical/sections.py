"""The words of a section that are searched: of its texts, of its front matter, and the names that it is called by.

Front matter gives terms apart from those of texts: `status: draft` gives others than a text that speaks of drafts, so
that properties are found and texts are ranked as if they had none. A day gives its ISO form, whichever way a note or a
question writes it.

Two spellings are one name when their words have the same stems: `what is splatting`, `Splatting` and `about_Splatting`,
`background tasks` and `BackgroundTasks`. A title may be numbered (`3.2 Splatting`); its number is not part of the name.
In references `fs.access(path[, mode], callback)` is called `fs.access` as well, and `--print "script"` `--print`. `Time
to Live (TTL)` is called by its words and by its abbreviation.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from itertools import chain, groupby, takewhile
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, TypeVar

from pageindex.text import FENCES
from retriever.lexical.languages import READ, detect_language, mark_language
from retriever.lexical.tokens import is_unspaced, remove_accents, stems, tokenize
from retriever.store import reading
from retriever.store.database import Connection

if TYPE_CHECKING:
    from pageindex.document import Document

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
_ORDERS = {
    "ynn": (0, 1, 2), "nny": (2, 1, 0), "nmy": (2, 1, 0), "mny": (2, 0, 1), "my": (1, 0), "ym": (0, 1), "yn": (0, 1),
}  # fmt: skip


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
    return list(dict.fromkeys(day for day in cut_days(text) if len(day) > len("2024")))


def drop_days(text: str) -> str:
    """Return a text without the words that make its days, or the text where nothing else is left.

    >>> drop_days("what was decided on 12 October 2026")
    'what was decided on'
    """
    words, days = text.split(), find_days(text)
    others = (words[:place] + words[place + 1 :] for place in range(len(words)))
    return " ".join(word for word, left in zip(words, others, strict=True) if find_days(" ".join(left)) == days) or text


def cut_days(text: str) -> Iterator[str]:
    """Yield the days and months of a text, the years beside them, and an empty text for each other word.

    >>> list(cut_days("minutes of 2. November 1987 and 2020"))
    ['', '1987-11-02', '', '2020']
    """
    if not any(map(str.isdigit, text)):
        return
    words = [word for word in text.lower().translate(_SIGNS).split() if word.count(".") < 3]  # a version has more
    plain = "".join(sign if sign.isalnum() and not is_unspaced(sign) else " " for sign in " ".join(words))
    parts = [
        (part[:4], part[4:6], part[6:]) if len(part) == 8 and part.isdigit() else (part,)  # 20260517
        for part in plain.split()
    ]
    read = [_read_part(part) for own in parts for part in own if part not in ("of", "de", "del")]
    kinds, place = "".join(kind for kind, _ in read), 0
    while place < len(kinds):
        form = next((form for form in _ORDERS if kinds.startswith(form, place)), kinds[place])
        numbers = [read[place + at][1] for at in _ORDERS.get(form, ())]
        day = f"{read[place][1]}" if form == "y" else ""
        with suppress(ValueError, TypeError):  # the 31st of February, and what is no day
            day = date(*numbers, *[1][: 3 - len(form)]).isoformat()[: 3 * len(form) + 1]
        yield day
        place += len(form)


def _read_part(part: str) -> tuple[str, int]:
    """Return `y` and the number of a year, `m` of a month's name, `n` of another one, as of `3`, `3rd` and `1er`."""
    digits, plain = "".join(takewhile(str.isdecimal, part)), remove_accents(part)
    if month := MONTHS.get(plain[:4], MONTHS.get(plain[:3], 0)):
        return "m", month
    is_number = len(digits) in (1, 2) and len(part) - len(digits) <= 2
    return "y" if digits == part and len(part) == 4 else "n" if is_number else "-", int(digits or 0)


# Names.

_ARGUMENTS = re.compile(r"(?<=\w)\(.*", re.DOTALL)
# A flag, what is joined by `.`, `::` or `_`, and a call. Possessive: a long word is gone through once.
_CODE = re.compile(r"(--?[A-Za-z][\w-]++|(?:\w++(?:\.|::))++\w++|(?>\w*?[^\W_]_\w++)|\w++(?=\(\)))(?:\(\))?")
_FLAG = re.compile(r"(?:^|,\s*)(--?\w[\w-]*)")
_TWO_NAMES = re.compile(r"([^()]+?)\s+\(([^()]+)\)")
LONGEST_NAME = 100  # characters: what is longer is a sentence, and no name


def spell_name(text: str) -> str:
    """Return the name that a text is; empty where it is not a name: stop words alone, or a whole sentence."""
    return "".join(stems(text)) if len(text) <= LONGEST_NAME else ""


def spell_code(word: str) -> str:
    """Return the name that a word is letter by letter, as programs have them; empty where it is not a name.

    It has brackets, which no other name has: prose may be called `get current user`, and `emitter.on` is no `emitter`.

    >>> spell_code("fs.readFile"), spell_code("--print"), spell_code("open()"), spell_code("open")
    ('fs.readfile()', '--print()', 'open()', '')
    """
    found = _CODE.fullmatch(word) if len(word) <= LONGEST_NAME else None
    return f"{found[1].casefold()}()" if found else ""


def drop_arguments(title: str) -> str:
    """Return `fs.access` of `fs.access(path[, mode], callback)`; `Install (Linux)` as it is."""
    return _ARGUMENTS.sub("", title)


def list_names(title: str) -> set[str]:
    """Return what a heading is called: as it is written, and what references are looked up by.

    >>> sorted(list_names('-p, --print "script"'))
    ['--print', '-p', '-p, --print "script"']
    """
    called = drop_arguments(title)
    names = {title, *(_FLAG.findall(title) if title.startswith("-") else ())}
    names |= list_abbreviated(title)
    if called != title:
        names |= {called, f"{called}()"}
    return names


def split_number(title: str) -> tuple[str, str, str]:
    """Return the form of the number that a title begins with, the number, and what stands behind it.

    The form is what numbers of one kind have in common; without a number it is empty, and both others are the title.

    >>> split_number("TOP 7.1: Wahlen"), split_number("第60条 退職金"), split_number("3.2 Sums")
    (('TOP', 'TOP 7.1', 'Wahlen'), ('第条', '第60条', '退職金'), ('', '3.2', 'Sums'))
    """
    words = title.split()
    for at, word in enumerate(words[:2], start=1):
        if any(map(str.isnumeric, word)) and words[at:]:
            number = " ".join(words[:at]).rstrip(".:)")
            form = "".join(sign for sign in number if not sign.isnumeric() and sign != ".")
            return form.strip(), number, " ".join(words[at:])
    return "", title, title


def list_abbreviated(name: str) -> set[str]:
    """Return both names of `Time to Live (TTL)` or `TTL (Time to Live)`; none where neither abbreviates the other.

    >>> sorted(list_abbreviated("Time to Live (TTL)")), list_abbreviated("Install (Linux)")
    (['TTL', 'Time to Live'], set())
    """
    found = _TWO_NAMES.fullmatch(name)
    if not found:
        return set()
    short, full = sorted(found.groups(), key=len)
    letters = iter(full.casefold())
    is_short = short.isupper() and full.casefold().startswith(short[0].casefold())
    return {short, full} if is_short and all(sign in letters for sign in short.casefold()) else set()


def names_of_nodes(document: "Document") -> dict[str, set[str]]:
    """Map node ids to names: the heading; of the file also its file name and aliases.

    What a heading begins with is its number if others of the document have one of that form; both parts are names.
    """
    nodes = [placed.node for placed in document.nodes]
    parts = [split_number(node.title) for node in nodes]
    forms = Counter(form for form, _ in {own[:2] for own in parts})
    found = {
        node.id: list_names(node.title) | set(named if not form or forms[form] > 1 else ())
        for node, (form, *named) in zip(nodes, parts, strict=True)
    }
    found[document.nodes[0].node.id] |= {PurePosixPath(document.path).stem, *document.front_matter.aliases}
    spells = (spell_name, spell_code)
    return {node_id: {spell(name) for name in names for spell in spells} - {""} for node_id, names in found.items()}


# One reading of texts for the indexes of every place.

SEARCHED_FIELDS = frozenset({"aliases", "tags"})  # of the front matter; titles have every section already
Stored = TypeVar("Stored", reading.StoredNode, reading.OutlineNode)


@dataclass(frozen=True, slots=True)
class SearchedText:
    """The texts of a node whose words are searched."""

    text: str
    language: str
    """Of its document (`detect_language`)."""
    properties: Sequence[tuple[str, str]] = ()
    """Keys and values of the front matter that is searched with it, and its path."""

    @property
    def written(self) -> str:
        """All of it, to tell words from typos by."""
        return "\n".join((self.text, *map(" ".join, self.properties)))


def read_texts(connection: Connection, documents: Sequence[int]) -> dict[int, SearchedText]:
    """Read what is searched of each node that has lines, by its key: title, breadcrumb and own text.

    The front matter is no text: the file's other names, its tags and properties are read with its first node that has
    text.
    """
    fields = reading.fields(connection, documents)
    texts = {}
    nodes = (stored for stored in reading.nodes_of_documents(connection, documents) if stored.node.span)
    for document_key, group in groupby(nodes, key=lambda stored: stored.document_key):
        document = [(stored, stored.node.shown_text) for stored in group]
        language = detect_language("\n".join(f"{stored.node.title}\n{text[:READ]}" for stored, text in document[:READ]))
        properties = fields.get(document_key, ())
        reader = find_reader([stored for stored, _ in document])
        for stored, text in document:
            node, own = stored.node, properties if stored is reader else ()
            names = (value for key, value in own if key in SEARCHED_FIELDS)
            # Though no page shows it: the addresses of links, and the languages of code.
            words = (word for word in node.body.split() if "://" in word or word.startswith(FENCES))
            read = (*node.titles, text, *(word.rpartition("(")[2] for word in words), *names)
            days = " ".join(chain.from_iterable(map(find_days, node.titles)))
            placed = (("", node.path.rpartition(".")[0]), ("", days))
            texts[stored.key] = SearchedText("\n".join(read), language, (*own, *placed))
    return texts


def find_reader(nodes: Sequence[Stored]) -> Stored:
    """Return the node of a document that its other names and tags belong to: the first with text, else the first."""
    return next((node for node in nodes if node.holder_id is None), nodes[0])


def tokenize_text(item: SearchedText) -> list[str]:
    """Return what BM25 reads of a node; a term that no text gives says its language, unless that is English.

    >>> tokenize_text(SearchedText("An oven", "")), tokenize_text(SearchedText("Ein Ofen", "german", [("a", "neu")]))
    (['oven'], ['ofen', '&neu', '=german'])
    """
    languages = (item.language,) if item.language else ()
    properties = tokenize_properties(item.properties, languages)
    return [*tokenize(item.text, languages), *map(mark_property, properties), *map(mark_language, languages)]
