"""The kind of answer that a question asks for, by its words: a value, a definition, a list, ... Pure.

The kind says which shape of text answers. It is a hint among others, so that a question that is read wrongly is still
answered. The words of each language are in question_kinds.txt.
"""

from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path

from retriever.lexical.tokens import is_unspaced

PUNCTUATION = "?!.,:;()\"'¿«»„“”"


class QuestionKind(Enum):
    """The kinds of questions, by what they ask for."""

    DIFFERENCE = "difference"
    DEFINITION = "definition"
    VALUE = "value"
    YES_NO = "yes or no"
    LIST = "list"
    WHY = "why"
    WHERE = "where"
    HOW_TO = "how to"
    WHICH = "which"  # of phrases alone
    OTHER = "other"


_BARE = 2  # words, and no more: a term whose meaning is asked for
_NO_PLURAL = ("ss", "us", "is")


def read_phrases(file: str) -> Iterator[tuple[str, QuestionKind]]:
    """Yield the phrases of a file beside this one, between blanks where a script has them, with their kind."""
    for line in Path(__file__).with_name(file).read_text(encoding="utf-8").splitlines():
        kind, _, phrases = line.partition(": ")
        for phrase in phrases.split(", ") if phrases and not line.startswith("#") else ():
            begins, text = "^" * phrase.startswith("^"), phrase.removeprefix("^")
            yield begins + (text if is_unspaced(text[0]) else f" {text} "), QuestionKind(kind)


def cut_phrases(text: str) -> str:
    """Return a text as phrases are looked for in it: `^`, and its words between blanks, without signs about them."""
    words = (word.strip(PUNCTUATION) for word in text.lower().replace("\u2019", "'").split())
    return f"^ {' '.join(words)} "


PHRASES = tuple(read_phrases("question_kinds.txt"))
# The words that questions begin with; who writes `list` or `name` may have no sentence in mind.
OPENINGS = frozenset(
    phrase.split()[1] for phrase, kind in PHRASES if phrase.startswith("^") and kind is not QuestionKind.LIST
)


# Words of phrases that questions begin with: they say what is asked for, not about what.
OPENING_WORDS = frozenset(
    word
    for phrase, kind in PHRASES
    if phrase[0] == "^" and kind is not QuestionKind.LIST
    for word in phrase.split()[1:]
)


def read_kind(question: str, before: str = "") -> QuestionKind:
    """Return what a question asks for; what begins as no question does may be a term, or name several things.

    A follow-up that does not say it, also behind a first word, asks for what the question `before` asks for.

    >>> read_kind("what is the default port?").value
    'value'
    >>> read_kind("What is a snapshot?").value
    'definition'
    >>> read_kind("which states does a promise have").value
    'list'
    """
    text = cut_phrases(question)
    kind, words = find_kind(text), text.split()[1:]
    if before and kind in (None, QuestionKind.OTHER):
        words = words[1:]  # `and when?`
        kind = find_kind(f"^ {' '.join(words)} ")
        if kind in (None, QuestionKind.OTHER):
            return read_kind(before)
    if kind is QuestionKind.WHICH:
        return QuestionKind.LIST if has_plural(words[1:3]) else QuestionKind.VALUE
    if kind:
        return kind
    is_short = len(words) <= _BARE
    if has_plural(words[1:] if is_short else words[:2]):
        return QuestionKind.LIST
    is_term = is_short and not any(map(is_unspaced, question))
    return QuestionKind.DEFINITION if is_term else QuestionKind.OTHER


def find_kind(text: str) -> QuestionKind | None:
    """Return the kind of the first phrase that a text, cut for phrases, has."""
    return next((kind for phrase, kind in PHRASES if phrase in text), None)


def has_plural(words: Sequence[str]) -> bool:
    """Return whether one of some words is a plural, as English and the Romance languages write it."""
    return any(word.endswith("s") and not word.endswith(_NO_PLURAL) and word not in OPENING_WORDS for word in words)
