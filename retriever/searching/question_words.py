"""The words of a question: the kind of answer that they ask for, and what they say of the documents.

The kind says which shape of text answers: a value, a definition, a list, ... It is a hint among others, so that a
question that is read wrongly is still answered. The words of each language are in question_kinds.txt.

Of the documents the words say whether these have an answer: whether they hold the words, and have them together.
A section may hold every word of a question and say nothing about it: words drawn at random from the documents are all
there. What they lack is company. In a question that the documents answer, words that follow each other in the question
stand side by side in some section as well; random words do not.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import chain, islice, pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING

from pageindex.node import Node, UnitKind
from retriever.embedding.encoder import is_english_word
from retriever.lexical.tokens import is_unspaced, tokenize, tokenize_unit
from retriever.types import QuestionForm

if TYPE_CHECKING:
    from retriever.lexical.bm25 import QuestionTerm
    from retriever.lexical.spelling import Spellings

PUNCTUATION = "?!.,:;()\"'¿«»„“”؟\uff1f\uff01。、"


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


_UNSAID = (None, QuestionKind.OTHER)
_NO_PLURAL = ("ss", "us", "is")


def read_phrases() -> Iterator[tuple[str, QuestionKind]]:
    """Yield the phrases of question_kinds.txt, between blanks where a script has them, with their kind."""
    for line in Path(__file__).with_name("question_kinds.txt").read_text(encoding="utf-8").splitlines():
        kind, _, phrases = line.partition(": ")
        for phrase in phrases.split(", ") if phrases and not line.startswith("#") else ():
            begins, text = "^" * phrase.startswith("^"), phrase.removeprefix("^")
            yield begins + (text if is_unspaced(text[0]) else f" {text} "), QuestionKind(kind)


PHRASES = tuple(read_phrases())
# Words of phrases that questions begin with; one with `list` or `name` may want no sentence.
_OPENED = [phrase.split()[1:] for phrase, kind in PHRASES if phrase[0] == "^" and kind is not QuestionKind.LIST]
OPENINGS = frozenset(first for first, *_ in _OPENED)
OPENING_WORDS = frozenset(chain(*_OPENED))  # they say what is asked for, not about what


def read_kind(question: str, before: str = "") -> QuestionKind:
    """Return what a question asks for; what begins as no question does may be a term, or name several things.

    The first word may be a preposition. A follow-up that says no kind asks for what the question `before` asks for.

    >>> read_kind("what is the default port?").value
    'value'
    >>> read_kind("What is a snapshot?").value
    'definition'
    >>> read_kind("which states does a promise have").value
    'list'
    """
    words = split_bare(question)
    kind, behind = find_kind(words), find_kind(words[1:])
    if kind in _UNSAID and (before or behind is QuestionKind.WHICH):
        words, kind = words[1:], behind  # `and when?`, `in which cases`
    if before and kind in _UNSAID:
        return read_kind(before)
    if kind is QuestionKind.WHICH:
        # In German and Dutch a noun in -en behind `which` is a plural, one in -e may be none.
        is_plural = has_plural(words[1:3]) or (words[0].startswith("wel") and words[:2][-1].endswith("en"))
        return QuestionKind.LIST if is_plural else QuestionKind.VALUE
    if kind:
        return kind
    is_short = len(words) <= 2  # a term, or what one has
    if has_plural(words[1:] if is_short else words[:2]):
        return QuestionKind.LIST
    is_term = is_short and not any(map(is_unspaced, question))
    return QuestionKind.DEFINITION if is_term else QuestionKind.OTHER


def split_bare(question: str) -> list[str]:
    """Return the words of a question in lower case, without punctuation."""
    typed = question.lower().replace("\u2019", "'").split()
    return [bare for word in typed if (bare := word.strip(PUNCTUATION))]


def find_kind(words: Sequence[str]) -> QuestionKind | None:
    """Return the kind of the first phrase that some words have."""
    text = f"^ {' '.join(words)} "
    return next((kind for phrase, kind in PHRASES if phrase in text), None)


def has_plural(words: Sequence[str]) -> bool:
    """Return whether one of some words is a plural, as English and the Romance languages write it.

    >>> [has_plural([word]) for word in ("boats", "glass", "status", "axis", "does", "boat")]
    [True, False, False, False, False, False]
    """
    return any(word.endswith("s") and not word.endswith(_NO_PLURAL) and word not in OPENING_WORDS for word in words)


# The words that tell whether the documents have an answer.

# The terms of one word as it was typed: an identifier gives itself and its parts.
Word = tuple[str, ...]
# One as it was typed, with them.
TypedWord = tuple[str, Word]

MOST_LOOKED_UP = 20  # unknown words of one question: to look for what one may be a typo of costs 2 ms
PART_LETTERS = 3  # of a part that speaks for its identifier: the `Xv7` and `38` of a random key are in many folders
MOST_READ = 400  # units of a section: one with more is a table or a log


def cut_words(question: str, languages: tuple[str, ...] = ()) -> tuple[TypedWord, ...]:
    """Cut a question into its words as typed, in its order, each with its terms as `tokenize` has them.

    >>> cut_words("tabs with git add")
    (('tabs', ('tab',)), ('with', ()), ('git', ('git',)), ('add', ('add',)))
    """
    return tuple((typed, tuple(tokenize(typed, languages))) for typed in question.split())


def choose_telling(typed_words: Iterable[TypedWord]) -> tuple[Word, ...]:
    """Return the words of a question, each once, in its order, without stop words, single letters and single digits.

    In a script without spaces each pair of neighbouring characters is a word.
    """
    words: list[Word] = []
    for typed, terms in typed_words:
        words += [(term,) for term in terms] if any(map(is_unspaced, typed)) else [terms]
    telling = [word for word in words if any(len(term) > 1 or not term.isascii() for term in word)]
    return tuple(dict.fromkeys(telling))


def read_form(typed_words: Sequence[TypedWord]) -> QuestionForm:
    """Return whether it asks something, is a list of words, or has no words.

    A script without spaces has a form of its own: its words are pairs of characters, many of them of two words. Terms
    are counted, for a Latin name has as many letters as a whole question in Chinese.
    """
    if not any(map(str.isalpha, chain.from_iterable(typed for typed, _ in typed_words))):
        return "numbers"
    terms = [term for _, own in typed_words for term in own]
    if 2 * sum(is_unspaced(term[0]) for term in terms) >= max(1, len(terms)):
        return "unspaced"
    if typed_words[0][0].lower().strip(PUNCTUATION) in OPENINGS or typed_words[-1][0].endswith("?"):
        return "question"
    return "words"


def measure_known(words: Sequence[Word], terms: Mapping[str, "QuestionTerm"], spellings: "Spellings") -> float:
    """Return the share of the question, by the rarity of its words, that is words which some section holds, 0 to 1.

    A typo or another form of a word that a section holds counts as held; so does an identifier of which some section
    holds a part of three letters, or of as many as the identifier has (`3.13`).

    Args:
        words: of the question.
        terms: what the index says of their terms.
        spellings: the words of the documents.

    >>> from retriever.lexical.bm25 import QuestionTerm
    >>> from types import SimpleNamespace
    >>> spellings = SimpleNamespace(resembles=lambda term: term == "ovne")
    >>> rare, held = QuestionTerm(0, 3.0), QuestionTerm(2, 1.0)
    >>> measure_known([("oven",), ("tofu",)], {"oven": held, "tofu": rare}, spellings)
    0.25
    >>> measure_known([("ovne",), ("tofu",)], {"ovne": rare, "tofu": rare}, spellings)
    0.5
    >>> measure_known([("xv7tofu", "xv", "tofu")], {"xv7tofu": rare, "xv": held, "tofu": rare}, spellings)
    0.0
    >>> measure_known([("xv7tofu", "xv", "tofu")], {"xv7tofu": rare, "xv": rare, "tofu": held}, spellings)
    1.0
    >>> measure_known([("3.13", "3", "13")], {"3.13": rare, "3": held, "13": rare}, spellings)
    1.0
    """
    known = total = 0.0
    looked_up = 0
    for word in words:
        asked = [terms[term] for term in word]
        letters = min(PART_LETTERS, _count_letters(word[0]))
        held = [terms[term] for term in word if terms[term].documents and _count_letters(term) >= letters]
        rarity = max((term.rarity for term in held or asked), default=0.0)
        total += rarity
        if not held:
            looked_up += 1
        if held or (looked_up <= MOST_LOOKED_UP and spellings.resembles(word[0])):
            known += rarity
    return known / total if total else 0.0


def has_strange_word(
    typed_words: Iterable[TypedWord], terms: Mapping[str, "QuestionTerm"], spellings: "Spellings"
) -> bool:
    """Return whether a word is no English one, and in no document: a name of something else, or of nothing.

    Args:
        typed_words: of the question.
        terms: what the index says of their terms.
        spellings: the words of the documents.

    >>> from retriever.lexical.bm25 import QuestionTerm
    >>> from types import SimpleNamespace
    >>> def is_strange(word: str, documents: int) -> bool:
    ...     spellings = SimpleNamespace(resembles=lambda term: term == "ovne")
    ...     return has_strange_word([("the", ()), (word, (word,))], {word: QuestionTerm(documents, 1.0)}, spellings)
    >>> is_strange("spendly", 0), is_strange("spendly", 1), is_strange("ovne", 0), is_strange("house", 0)
    (True, False, False, False)
    """
    lacking = [(word, own) for word, own in typed_words if own and not any(terms[one].documents for one in own)]
    return any(
        not any(map(is_english_word, (word.lower(), *own))) and not spellings.resembles(own[0])
        for word, own in lacking[:MOST_LOOKED_UP]
    )


def measure_together(words: Sequence[Word], sections: Iterable[Node], languages: tuple[str, ...]) -> float:
    """Return the share of pairs of successive words that one of these sections has together, 0 to 1.

    Together: one right after the other, as in the question, but for stop words; in one paragraph, one code block, or
    one title with those above it. In either order, or with a term between them, twice as many random words are together
    (docs/internals/confidence.md). A single word is together with itself.
    """
    pairs = [(first, second) for first, second in pairwise(words) if not set(first) & set(second)]
    if not pairs:
        return 1.0 if words else 0.0
    apart = set(pairs)
    for section in sections if apart else ():
        titles = "\n".join(section.titles)
        texts = (unit.in_full for unit in section.units if unit.kind is not UnitKind.LIST)
        for passage in islice(chain([titles], texts), MOST_READ):
            successive = {*pairwise(tokenize_unit(passage, languages))}  # a term of one word, and one of the next
            apart -= {pair for pair in apart if not successive.isdisjoint(product(*pair))}
    return sum(pair not in apart for pair in pairs) / len(pairs)


def _count_letters(term: str) -> int:
    return sum(character.isalpha() for character in term)
