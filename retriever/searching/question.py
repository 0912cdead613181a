"""A question as it is read: text, not empty, not endless, and the filters that stand in it.

    oven in:daily -car "first week" tag:kitchen

searches for `oven "first week"` in the folder daily, among the sections of documents with the tag kitchen that hold
`first week` and not `car`. What could be something else stays text: quotation marks in code (`name="x"`, `f("x")`),
`--flag`, `-x`. A `-word` that the documents themselves write with its dash, such as `-xzf`, is a flag: only who has the
index can tell (`scope.py`), so it comes in `doubtful`.
"""

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

from retriever.embedding import is_english_word
from retriever.errors import QuestionError
from retriever.lexical.mending import Mended, correct
from retriever.query import EVERYWHERE, Scope
from retriever.searching.queries import ExpandedQuery
from retriever.searching.scope import find_flags
from retriever.trace import Recorder
from retriever.types import StageName

if TYPE_CHECKING:
    from retriever.searching.open_index import View

MAX_QUESTION_CHARS = 8_000  # a longer question is cut, and the answer says so: no search reads more
EXAMPLE = "oven in:daily tag:kitchen -car"

_KEYS = {"in": "folders", "tag": "tags", "since": "since", "until": "until", "where": "where"}
_NEGATED = {"in": "not_folders", "tag": "not_tags"}
MAX_PHRASES = 5  # a question with more quotations is a text with quotations, and they are words like others
# Words. A single word in quotation marks in a longer question is quoted, as in a pasted message: `The "path" argument
# must be of type string`. Who wants it word for word types few words.
MAX_TYPED = 6
_QUOTES = r"""(?:"(?P<{0}1>[^"]*[^\W_][^"]*)"|[“„](?P<{0}2>[^“”„"]*[^\W_][^“”„"]*)[”“])"""
_END = r"(?=[\s.,;!?)]|$)"
# Each begins a word. In a filter a blank is quoted: `in:"my notes"`, `where:author="Ann Lee"`.
_FILTER = re.compile(
    rf"(?<!\S)(?P<negated>-?)(?:{_QUOTES.format('phrase')}{_END}|(?P<key>{'|'.join(_KEYS)}):"
    rf"(?:{_QUOTES.format('quoted')}{_END}|(?P<name>[\w.-]+=){_QUOTES.format('value')}{_END}|(?P<bare>[^\s\"]\S*)))"
)
# Two letters or more, and nothing but words and their joints: no `-x`, `--flag`, `-1`, `-Dname=value`.
_WITHOUT = re.compile(r"(?<!\S)-(?P<word>[^\W\d_]\w+(?:[.'\u2019_-]\w+)*)(?=[.,;!?)]*(?:\s|$))")
_BEFORE_CODE = frozenset("=:({[,<>+")  # behind these a quotation mark opens a text of code


@dataclass(frozen=True)
class ReadQuestion:
    """A question without its filters, and what they say."""

    asked: str
    """As it was written."""
    scope: Scope
    """What is certainly a filter."""
    parts: tuple[tuple[str, str], ...]
    """(text, `-word` behind it that may be a flag, or empty), in order."""
    quoted: tuple[str, ...] = ()
    """Single words in quotation marks that a long question quotes, and are no filters."""
    given: Scope = EVERYWHERE
    """What the caller gave beside the question."""
    right: Collection[str] = ()
    """Words that are no slips."""

    @cached_property
    def doubtful(self) -> tuple[str, ...]:
        """Words with a dash before them, each once: filters, unless the documents write them so."""
        return tuple(dict.fromkeys(word for _, word in self.parts if word))

    def settle(self, flags: Collection[str] = ()) -> tuple[str, Scope]:
        """What is searched for, and where, when `flags` of the doubtful words are text.

        Raises:
            QuestionError: there are filters alone.
        """
        without = tuple(word for word in self.doubtful if word not in flags)
        if not self.scope and not without:
            return self.asked, self.given
        text = "".join(f"{text}-{word}" if word in flags else text for text, word in self.parts)
        question = " ".join(text.split())
        if not any(sign.isalnum() for sign in question):
            given = " ".join(self.asked.split())
            raise QuestionError(f"{given!r} says where to look, and not for what; add words, as in: {EXAMPLE!r}")
        return question, self.given + self.scope + Scope(without=without)


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


def read_question(asked: str, scope: Scope = EVERYWHERE) -> ReadQuestion:
    """Return the question and its filters; one word alone is searched for, whatever it begins with.

    Args:
        asked: from `clean_question`.
        scope: what the caller gave beside the question.
    """
    if len(asked.split()) < 2 and asked.startswith("-") and not _FILTER.match(asked):
        return ReadQuestion(asked, Scope(), ((asked, ""),), given=scope)
    given: dict[str, list[str]] = {part.name: [] for part in fields(Scope)}
    pieces, place = [], 0
    for found in _FILTER.finditer(asked):
        before = asked[place : found.start()]
        phrase = found["phrase1"] or found["phrase2"]
        if not phrase or found["negated"]:
            name, value = ("without", phrase) if phrase else _read_filter(found)
            given[name].append(value)
            pieces.append(before)
            place = found.end()
        elif (asked[: found.start()].rstrip()[-1:] or " ") not in _BEFORE_CODE:
            given["phrases"].append(phrase)
    if len(given["phrases"]) > MAX_PHRASES:
        given["phrases"] = []
    rest = "".join((*pieces, asked[place:]))
    quoted = [phrase for phrase in given["phrases"] if len(phrase.split()) == 1 and len(rest.split()) > MAX_TYPED]
    given["phrases"] = [phrase for phrase in given["phrases"] if phrase not in quoted]
    parts, place = [], 0
    for word in _WITHOUT.finditer(rest):
        parts.append((rest[place : word.start()], word["word"]))
        place = word.end()
    parts.append((rest[place:], ""))
    return ReadQuestion(asked, make_scope(given), tuple(parts), tuple(dict.fromkeys(quoted)), scope)


def settle_question(read: ReadQuestion, view: "View | None", *, exact: bool) -> ExpandedQuery:
    """Return what is searched for and where, which only the index can tell; no typing mistakes are mended with `exact`.

    Without a view it is what the question says by itself.

    Raises:
        QuestionError: there are filters alone.
    """
    flags: tuple[str, ...] = ()
    if read.doubtful and view is not None and view.number:
        flags = find_flags(view, read.doubtful)
    text, within = read.settle(flags)
    # Filters are read before slips are mended: a tag is meant as it is written.
    mended = Mended(text)
    if not exact and view is not None and view.number and (spellings := view.spellings) is not None:
        mended = correct(text, spellings, is_english_word, view.lexical.read_apart, read.right)
    notes = (*map(phrase_flag, flags), *map(phrase_quoted, read.quoted))
    return ExpandedQuery(
        mended.text,
        asked=read.asked,
        scope=within,
        notes=notes,
        corrections=mended.corrections,
        half_typed=mended.half_typed,
    )


def phrase_flag(word: str) -> str:
    """What is said of a word that was no filter, because the documents write it as a flag."""
    return f'-{word} was searched for: documents write it so; to leave out sections with the word, write -"{word}"'


def phrase_quoted(word: str) -> str:
    """What is said of a quoted word that was no filter."""
    return f'"{word}" was searched for like other words, as the question is long; a shorter one has it word for word'


def make_scope(given: Mapping[str, Sequence[str]]) -> Scope:
    """The scope with these values, each field's once; of days, the one that was given last."""
    values: dict[str, Any] = {}
    for part in fields(Scope):
        listed = tuple(dict.fromkeys(given.get(part.name, ())))
        values[part.name] = listed if isinstance(part.default, tuple) else "".join(listed[-1:])
    return Scope(**values)


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
