"""A question as it is read: text, not empty, not endless, and the filters that stand in it.

    oven in:daily -"car" "first week" tag:kitchen

searches for `oven "first week"` in the folder daily, among the sections of documents with the tag kitchen that hold
`first week` and not `car`. What could be something else stays text: quotation marks in code (`name="x"`, `f("x")`),
`--flag`, `-x`, `-xzf`.
"""

import re
import unicodedata
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from retriever.embedding import is_english_word
from retriever.errors import QuestionError
from retriever.lexical.mending import correct
from retriever.query import AskRequest, Scope
from retriever.searching.queries import ExpandedQuery
from retriever.trace import Recorder
from retriever.types import StageName

if TYPE_CHECKING:
    from retriever.searching.open_index import View

MAX_QUESTION_CHARS = 8_000  # a longer question is cut, and the answer says so: no search reads more
EXAMPLE = 'oven in:daily tag:kitchen -"car"'

_KEYS = {"in": "folders", "tag": "tags", "since": "since", "until": "until", "where": "where"}
_NEGATED = {"in": "not_folders", "tag": "not_tags"}
# Words. A single word in quotation marks in a longer question is quoted, as in a pasted message: `The "path" argument
# must be of type string`. A question that wants it word for word has few words.
MAX_TYPED = 6
_QUOTES = r"""(?:"(?P<{0}1>[^"]*[^\W_][^"]*)"|[“„](?P<{0}2>[^“”„"]*[^\W_][^“”„"]*)[”“])"""
_END = r"(?=[\s.,;!?)]|$)"
# Each begins a word. In a filter a blank is quoted: `in:"my notes"`, `where:author="Ann Lee"`.
_FILTER = re.compile(
    rf"(?<!\S)(?P<negated>-?)(?:{_QUOTES.format('phrase')}{_END}|(?P<key>{'|'.join(_KEYS)}):"
    rf"(?:{_QUOTES.format('quoted')}{_END}|(?P<name>[\w.-]+=){_QUOTES.format('value')}{_END}|(?P<bare>[^\s\"]\S*)))"
)
_BEFORE_CODE = frozenset("=:({[,<>+")  # behind these a quotation mark opens a text of code


def clean_question(question: str, recorder: Recorder) -> str:
    """The question without what is no text; what is cut is noted.

    Raises:
        QuestionError: nothing is left.
    """
    text = "".join(" " if unicodedata.category(sign) in {"Cc", "Cs"} else sign for sign in question).strip()
    if not text:
        raise QuestionError("the question is empty; ask something, such as: how do I configure logging?")
    if len(text) > MAX_QUESTION_CHARS:
        recorder.degrade(StageName.QUESTION, f"only its first {MAX_QUESTION_CHARS:,} characters were read")
    return text[:MAX_QUESTION_CHARS]


def read_question(request: AskRequest, recorder: Recorder, *, mends: bool) -> ExpandedQuery:
    """Return what is searched for, and where, by the question's filters and the scope of the request together.

    With `mends`, `mend_question` is to mend its typing mistakes.

    Raises:
        QuestionError: the question is empty, or has filters alone.
    """
    asked = clean_question(request.question, recorder)
    text, scope = split_filters(asked)
    return ExpandedQuery(text, asked=asked, scope=request.scope + scope, mends=mends)


def split_filters(asked: str) -> tuple[str, Scope]:
    """Return the question without its filters, and what these say.

    Raises:
        QuestionError: there are filters alone.
    """
    given: dict[str, list[str]] = {part.name: [] for part in fields(Scope)}
    pieces, place = [], 0
    for found in _FILTER.finditer(asked):
        phrase = found["phrase1"] or found["phrase2"]
        if not phrase or found["negated"]:
            name, value = ("without", phrase) if phrase else _read_filter(found)
            given[name].append(value)
            pieces.append(asked[place : found.start()])
            place = found.end()
        elif (asked[: found.start()].rstrip()[-1:] or " ") not in _BEFORE_CODE:
            given["phrases"].append(phrase)  # its words are searched for as well
    text = "".join((*pieces, asked[place:]))
    is_long = len(text.split()) > MAX_TYPED
    given["phrases"] = [phrase for phrase in given["phrases"] if not is_long or len(phrase.split()) > 1]
    values: dict[str, Any] = {name: tuple(dict.fromkeys(listed)) for name, listed in given.items()}
    scope = Scope(**values | {name: "".join(given[name][-1:]) for name in ("since", "until")})
    if pieces and not any(sign.isalnum() for sign in text):
        raise QuestionError(f"{asked!r} says where to look, and not for what; add words, as in: {EXAMPLE!r}")
    return " ".join(text.split()) if pieces else asked, scope


def mend_question(asked: ExpandedQuery, view: "View") -> ExpandedQuery:
    """Return a question with its typing mistakes mended by the words of the documents, where that is still to be done.

    Its filters are not in it any more: a tag is meant as it is written.
    """
    if not asked.mends or not view.number:
        return asked
    mended = correct(asked.question, view.spellings, is_english_word, view.lexical.read_apart)
    return replace(
        asked, question=mended.text, corrections=mended.corrections, half_typed=mended.half_typed, mends=False
    )


def _read_filter(found: re.Match[str]) -> tuple[str, str]:
    """The field of the scope, and the value."""
    value = found["quoted1"] or found["quoted2"] or ""
    if found["name"]:
        value = found["name"] + (found["value1"] or found["value2"])
    elif not value:
        value = found["bare"].rstrip(",;!?)") or found["bare"]
    key = found["key"]
    if found["negated"] and key not in _NEGATED:
        raise QuestionError(f"-{key}: has no meaning; -in: and -tag: leave out a folder or a tag")
    return (_NEGATED if found["negated"] else _KEYS)[key], value
