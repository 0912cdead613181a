"""A question that follows others ("and the old ones?"): when it is one, and the words of those that join it."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import dropwhile

from retriever.errors import QuestionError
from retriever.lexical.bm25 import QuestionTerm
from retriever.lexical.languages import STEMMED
from retriever.lexical.sections import spell_name
from retriever.lexical.tokens import count_words, is_unspaced, tokenize
from retriever.places.view import View
from retriever.query import FollowUp
from retriever.searching.known_items import find_called
from retriever.searching.queries import ExpandedQuery, split_filters
from retriever.searching.question_words import OPENING_WORDS, PHRASES, cut_words, split_bare
from retriever.trace import Recorder
from retriever.types import StageName

MAX_TURNS = 5  # the last ones
MAX_SAID_CHARS = 300  # of each question
MAX_WORDS = 12  # of a question that refers to something; a longer one says what it is about
MAX_BEFORE = 2  # telling words before the one that refers: behind more of them, it refers to these
MAX_ELLIPTIC_WORDS = 5  # of one that asks nothing and begins with a small word
# Of a question's words, those at least so rare beside the rarest: hit@1 is .725 with 0, .775 with .25 to .5, and
# .700 with .7, and with .25 most are answered.
LEAST_RARITY = 0.25

_REFERRING = re.compile(
    r"""^\W*(?:and|or|but|so|also|what\ about|how\ about|und|oder|aber|et|mais|y|pero|mas|ma|och|og|peki)\b
      | ^\W*(?:e|\u0430|\u0438)(?=\s) | ^\W*(?:那|它|他|她|じゃ|では|それ|그럼|그러면|그런데|그건|그거)
      | \b(?:it|its|they|them|their|this|these|those|ones|instead\W*$|the\ (?:others?|rest|same|former|latter)
      | (?:that|the\ \w+|this|another|which|second|other)\ one|he|she|him|her|his
      | davon|damit|daf\u00fcr|dabei|dazu|diese[rsmn]?|celui-ci|celle-ci|ceux-ci|cela|\u00e7a|eso|esto|esos|estos)\b
      | (?<!\bis\ )(?<!\bare\ )\bthere\b
      | \bthat\s*(?:[?.!,]|$) | ^\W*(?:is|was|does|did|can|will|should|why|how|when)\b(?:\s\w+)?\s+that\b
    """,
    re.VERBOSE | re.IGNORECASE,
)


def is_follow_up(question: str) -> bool:
    """Return whether a question is short, and refers to something or leaves out what it is about.

    >>> [is_follow_up(text) for text in ("and the old ones?", "how often?", "how are old files deleted?")]
    [True, True, False]
    """
    found = _REFERRING.search(question) if count_words(question) <= MAX_WORDS else None
    return bool(found and len(tokenize(question[: found.start()])) <= MAX_BEFORE) or leaves_out_topic(question)


def leaves_out_topic(question: str) -> bool:
    """Return whether a question asks nothing of a single word, or asks of none: `how often?`.

    `What is a snapshot?` asks something of one. In a script without spaces one more counts as none: a particle, or
    `it`. What asks nothing and begins with a small word may have more: `for new students?`. Of 25,594 questions that
    stand alone, in 15 languages, this last rule takes 12 for others.
    """
    words = split_bare(question)
    asked = whole = f" {' '.join(words)} "
    for phrase, _ in PHRASES:
        asked = asked.replace(phrase.removeprefix("^"), " ")
    cut = cut_words(asked, STEMMED)
    telling = " ".join(word for word, terms in cut if terms)
    most = any(map(is_unspaced, question)) + (asked == whole)
    opens, has_sign = not OPENING_WORDS.isdisjoint(words[:1]), question.endswith(("?", "\uff1f"))
    if has_sign and asked == whole and not opens and 0 < len(words) <= MAX_ELLIPTIC_WORDS and not cut[0][1]:
        most = MAX_ELLIPTIC_WORDS
    return (opens or has_sign) and count_words(telling) <= most


def follow(asked: ExpandedQuery, conversation: Sequence[str], view: View, recorder: Recorder) -> ExpandedQuery:
    """Rewrite a follow-up so that it stands alone; return any other question unchanged."""
    earlier = read_conversation(conversation, asked.question)
    if not earlier or not is_follow_up(asked.question):
        return asked
    # What `and the hummus?` names takes the place of what stands nowhere beside it, of the lentil soup before.
    is_named = _REFERRING.match(asked.question) and find_called(view, asked.question, spell_name)
    own = tokenize(asked.question) if is_named else []

    def describe(terms: Sequence[str]) -> Mapping[str, QuestionTerm]:
        return view.lexical.describe([term for term in terms if view.lexical.find_holding([*own, term]).size])

    with recorder.stage(StageName.FOLLOW_UP) as note:
        before, words = carry_words(asked.question, earlier, describe, view.lexical.languages)
        if not words:
            return asked
        question = " ".join((asked.question, *words))
        note.text = f"understood as: {question}"
    return replace(asked, question=question, follow_up=FollowUp(question, words, before))


def read_conversation(conversation: Sequence[str], question: str) -> tuple[str, ...]:
    """Return the last questions within their limits, oldest first: without filters, and without the question itself."""
    said = []
    for text in conversation:
        with suppress(QuestionError):  # it had no answer when it was asked
            said.append(" ".join(split_filters(text)[0].split())[:MAX_SAID_CHARS])
    return tuple(text for text in said if text and text != question)[-MAX_TURNS:]


def carry_words(
    question: str,
    earlier: Sequence[str],
    describe: Callable[[Sequence[str]], Mapping[str, QuestionTerm]],
    languages: tuple[str, ...] = (),
) -> tuple[str, tuple[str, ...]]:
    """Return the last question that stands alone; its rare words, and of those since, as they were written. Pure.

    What these begin with is left out, as `how many`.

    Args:
        question: the follow-up, whose own words are left out.
        earlier: the questions before, oldest first.
        describe: says of terms how rare they are in this index, without those that may not join.
        languages: in which the questions are read beside English.

    >>> rare = {"das": QuestionTerm(1, 3.0), "boot": QuestionTerm(1, 3.0)}
    >>> carry_words("warum?", ["was kostet das Boot?"], lambda terms: rare, ("german",))
    ('was kostet das Boot?', ('Boot',))
    """
    known = set(tokenize(question, languages))
    spelled: dict[str, str] = {}
    asked = ""
    for asked in reversed(earlier):
        said = re.findall(r"[^\s,;:?!()\"]+", asked)
        for word in dropwhile(lambda word: word.lower() in OPENING_WORDS, said):
            for term in tokenize(word, languages):
                if term not in known:
                    spelled.setdefault(term, word.strip("."))
        if not is_follow_up(asked):
            break
    rare = {term: found.rarity for term, found in describe(list(spelled)).items()}
    least = LEAST_RARITY * max(rare.values(), default=0.0)
    telling = {term for term, rarity in rare.items() if rarity >= least}
    return asked, tuple(dict.fromkeys(word for term, word in spelled.items() if term in telling))
