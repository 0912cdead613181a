"""The part of an index that a question may find, decided before anything is ranked.

A scope names folders, tags, days, fields of the front matter, words and phrases. What it names is looked up here; the
result is the nodes that are left. A `View` of a scope (`View.within`) gives every ranking those alone, so that a scope
of one folder finds as if only that were indexed. How rare a word is, and how near unrelated questions come, stay those
of the whole index.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import date, timedelta
from pathlib import PurePosixPath

import numpy as np

from retriever.errors import ScopeError
from retriever.indexing.request import locate_path
from retriever.lexical.bm25 import IntArray
from retriever.lexical.sections import find_days
from retriever.lexical.tokens import is_unspaced, tokenize
from retriever.places.view import Fields, Part, View, list_document_folders, list_values
from retriever.query import Scope
from retriever.store import reading
from retriever.store.writing import NODE_BITS
from retriever.text import suggest_among

DAY_FORMS = "2024, 2024-05, 2024-05-01, 1.5.2024, 1 May 2024, today, yesterday, or how long ago: 7d, 2w, 3m, 1y"

DAYS_OF = {"d": 1, "w": 7, "m": 30, "y": 365}
_AGO = re.compile(r"(\d{1,4})([dwmy])")


def find_part(view: View, scope: Scope) -> Part:
    """Return the part of an index that meets every field of a scope.

    Raises:
        ScopeError: there is no such folder, tag or field, or the day is not a date.
    """
    everything = {document.key for document in view.documents}
    left = everything.intersection(*read_filters(view, scope, everything))
    keys = np.array(reading.rankable_keys(view.connection, left), np.int64)
    for phrase in scope.phrases:
        keys = find_phrase(view, phrase, keys)
    for word in scope.without:  # a word in any of its forms
        terms = tokenize(word)
        is_word = terms and not any(sign.isspace() for sign in word)
        held = view.lexical.find_holding(terms) if is_word else find_phrase(view, word, keys)
        keys = np.setdiff1d(keys, held)
    return Part(keys, len(np.unique(keys >> NODE_BITS)))


# Documents: folders, tags, days, fields.


def read_filters(view: View, scope: Scope, everything: set[int]) -> Iterator[set[int]]:
    """Yield, for each filter on documents, the keys of those of `everything` that meet it."""
    if scope.folders:
        yield set().union(*(find_folder(view, name) for name in scope.folders))
    for name in scope.not_folders:
        yield everything - find_folder(view, name)
    for name in scope.tags:
        yield find_tag(name, view.fields)
    for name in scope.not_tags:
        yield everything - find_tag(name, view.fields)
    if scope.since:
        first = read_period(scope.since)
        yield {document.key for document in view.documents if document.day >= first}
    if scope.until:
        last = read_period(scope.until)
        yield {document.key for document in view.documents if document.day[: len(last)] <= last}
    for condition in scope.where:
        yield find_field(condition, view.fields)


def find_folder(view: View, name: str) -> set[int]:
    """Return the documents in a folder, or of a file name: given as a path, the end of one, or a path on the disk."""
    wanted = name.replace("\\", "/").removeprefix("./").strip("/").casefold()

    def find(is_there: Callable[[str], bool]) -> set[int]:
        return {item.key for item in view.documents if any(is_there(path.casefold()) for path in item.names)}

    if wanted and (
        found := find(lambda path: f"{path}/".startswith(f"{wanted}/"))
        or find(lambda path: wanted.endswith(":") and path.startswith(wanted))  # one of two folders of one name
        or find(lambda path: f"/{wanted}/" in f"/{path}/{path.rpartition('.')[0]}/")  # with its ending or not
    ):
        return found
    for folder, inside in locate_path(reading.folders(view.connection), name):
        below = f"{folder.prefix}{inside}".rstrip("/")
        if found := {item.key for item in view.documents if not below or f"{item.names[1]}/".startswith(f"{below}/")}:
            return found
    folders = list_document_folders(view.documents)
    listed = suggest_among(
        [*folders, *(document.path for document in view.documents)],
        wanted,
        also=[PurePosixPath(path).name for path in folders],
    )
    raise ScopeError(f"there is no folder or file {name!r}{listed}")


def find_tag(name: str, fields: Fields) -> set[int]:
    """Return the documents with a tag, or one below it; ScopeError where none has it."""
    wanted = f"{name.removeprefix('#').strip('/').casefold()}/"
    found = {
        key
        for key, own in fields.items()
        for field, tag in own
        if field == "tags" and f"{tag.casefold()}/".startswith(wanted)
    }
    if not found:
        listed = suggest_among(list_values(fields, "tags"), name) or ", or any other"
        raise ScopeError(f"no document has the tag {name!r}{listed}")
    return found


def find_field(condition: str, fields: Fields) -> set[int]:
    """Return the documents whose front matter has `status=draft`, or `status`; ScopeError without that key or value."""
    name, sign, given = condition.partition("=")
    key, wanted = name.strip().lower(), " ".join(given.split())
    held = [(document, own.casefold()) for document, pairs in fields.items() for known, own in pairs if known == key]
    if not held:
        counts = Counter(known for pairs in fields.values() for known in dict(pairs))
        what = f"the field {name.strip()!r} in its front matter" if counts else "front matter"
        listed = suggest_among([known for known, _ in counts.most_common()], key)
        raise ScopeError(f"no document has {what}{listed}")
    low, days = wanted.casefold(), tuple(find_days(wanted))
    # The whole value; else a date in any form, in a month or on a day; else the beginning: `super` of `superseded`.
    found = {document for document, own in held if not sign or own == low}
    found = found or {document for document, own in held if any(day.startswith(days) for day in find_days(own))}
    found = found or {document for document, own in held if low and own.startswith(low)}
    if not found:
        listed = suggest_among(list_values(fields, key), wanted)
        raise ScopeError(f"{key} is {given!r} in no document{listed}")
    return found


def read_period(given: str) -> str:
    """Return the year, month or day that `since` and `until` name, as the beginning of an ISO day; ScopeError for none.

    >>> read_period("2024-05"), read_period("1.5.2024")
    ('2024-05', '2024-05-01')
    """
    wanted = given.strip().lower()
    if ago := _AGO.fullmatch({"today": "0d", "yesterday": "1d"}.get(wanted, wanted)):
        with suppress(OverflowError):
            return (date.today() - timedelta(days=int(ago[1]) * DAYS_OF[ago[2]])).isoformat()
    for period in (wanted[:10], *find_days(wanted)[:1]):
        with suppress(ValueError):
            date.fromisoformat(f"{period}-01-01"[:10])
            return period
    raise ScopeError(f"{given!r} is no day; write {DAY_FORMS}")


# Sections: words and phrases.


def find_phrase(view: View, phrase: str, keys: IntArray) -> IntArray:
    """Return the sections of `keys` that show a phrase in text, title or front matter, whatever case and markup."""
    sought = _normalize(phrase)
    if not sought:
        raise ScopeError("a blank phrase names nothing; leave it out")
    terms = tokenize(phrase)
    if terms:
        keys = np.intersect1d(keys, view.lexical.find_holding(terms), assume_unique=True)
    found = [
        key
        for key, document_key, title, units in reading.shown_texts(view.connection, keys.tolist())
        if any(_holds(text, sought) for text in (title, *(unit.in_full for unit in units)))
        or any(_holds(value, sought) for _, value in view.fields.get(document_key, ()))
    ]
    return np.array(found, np.int64)


def _holds(text: str, sought: str) -> bool:
    """Return whether a text has a phrase as whole words; in a script without spaces nothing says where they end.

    >>> [_holds("A “scar”, ﬁne C++#x", phrase) for phrase in ("scar", "fine c++", "#x", "car", "sca")]
    [True, True, True, False, False]
    >>> _holds("scar and car", "car"), _holds("日本語", "本")
    (True, True)
    """
    text, place = _normalize(text), -1
    begins, ends = map(_is_of_word, (sought[0], sought[-1]))
    while (place := text.find(sought, place + 1)) >= 0:
        before, behind = text[place - 1 : place], text[place + len(sought) : place + len(sought) + 1]
        if not (begins and _is_of_word(before)) and not (ends and _is_of_word(behind)):
            return True
    return False


def _is_of_word(sign: str) -> bool:
    return sign.isalnum() and not is_unspaced(sign)


# Apostrophes are one sign; quotation marks do not belong to a phrase.
_SIGNS = str.maketrans({**dict.fromkeys("\u2018\u2019\u02bc", "'"), **dict.fromkeys('"\u201c\u201d\u201e\u00ab\u00bb')})


def _normalize(text: str) -> str:
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return " ".join(text.translate(_SIGNS).lower().split())
