"""A question as it is read, and what is searched for: it and the texts beside it, their weights, words and vectors.

A question may hold filters: `oven in:daily -"car" "first week" tag:kitchen` searches for `oven "first week"` in the
folder daily, among the sections of documents with the tag kitchen that hold `first week` and not `car`; `-2023` leaves
out a year. What could be something else stays text: quotation marks in code (`name="x"`, `f("x")`), `--flag`, `-x`,
`-xzf`.

The semantic search takes the weighted mean of the texts' vectors, as HyDE does (Gao, Ma, Lin and Callan, "Precise
Zero-Shot Dense Retrieval without Relevance Labels", ACL 2023); the keyword search takes their words, each counted by
the weight of its text. So an expanded search gives one list for each kind of search, as a plain one does. Measured
against a list for each text (docs/internals/evaluation.md), this is as good or better.
"""

import re
import shlex
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from retriever.embedding.encoder import can_read, unit_rows
from retriever.errors import EncoderError, NoIndexError, QuestionError, suggest
from retriever.lexical.languages import detect_language
from retriever.lexical.spelling import CorrectedQuestion, correct
from retriever.places.view import View
from retriever.query import FILTERS, AskRequest, Expansion, FollowUp, Query, Scope
from retriever.settings import Profile
from retriever.trace import Recorder
from retriever.types import Encoder, FloatMatrix, StageName


@dataclass(frozen=True)
class ExpandedQuery:
    question: str
    expansion: Expansion = field(default_factory=Expansion)
    follow_up: FollowUp | None = None  # none where the question stands alone
    asked: str = ""  # the question as it was asked, with its filters
    scope: Scope = field(default_factory=Scope)  # what may be found
    corrected: CorrectedQuestion = field(default_factory=CorrectedQuestion)  # what was corrected and completed in it


# A question and its filters

MAX_QUESTION_CHARS = 8_000  # a longer question is cut, and the answer says so: no search reads more
EXAMPLE = 'oven in:daily tag:kitchen -"car"'

# Words. A single word in quotation marks in a longer question is quoted, as in a pasted message: `The "path" argument
# must be of type string`. A question that wants it word for word has few words.
MAX_TYPED = 6
_QUOTES = r"""["“„](?P<{0}>[^"“”„]*[^\W_][^"“”„]*)["”“]"""
_END = r"(?=[\s.,;!?)]|$)"
# Each begins a word. In a filter a blank is quoted: `in:"my notes"`, `where:author="Ann Lee"`.
_FILTER = re.compile(
    rf"(?<!\S)(?P<negated>-?)(?:{_QUOTES.format('phrase')}{_END}|(?P<key>in|tag|since|until|where):"
    rf"(?:{_QUOTES.format('quoted')}{_END}|(?P<name>[\w.-]+=){_QUOTES.format('value')}{_END}|(?P<bare>[^\s\"]\S*))|(?<=-)(?P<number>\d{{4,}}){_END})"
)
_BEFORE_CODE = frozenset("=:({[,<>+")  # behind these a quotation mark opens a text of code


def read_question(request: AskRequest, view: View, recorder: Recorder, *, exact: bool) -> ExpandedQuery:
    """Return what is searched for, and where, by the question's filters and the scope of the request together.

    Unless `exact`, its typos are corrected by the words of the documents; not in its filters: a tag is meant as it is
    written.

    Raises:
        QuestionError: the question is empty, or has filters alone.
        NoIndexError: there are no documents yet.
    """
    signs = (" " if unicodedata.category(sign) in {"Cc", "Cs"} else sign for sign in request.question)
    asked = "".join(signs).strip()
    if not asked:
        raise QuestionError("the question is empty; ask something, such as: how do I configure logging?")
    if len(asked) > MAX_QUESTION_CHARS:
        asked = asked[:MAX_QUESTION_CHARS]
        recorder.degrade(StageName.QUESTION, f"only its first {MAX_QUESTION_CHARS:,} characters were read")
    text, scope = split_filters(asked)
    if not view.state.snapshot:
        hint = suggest(f"index FOLDER --index {shlex.quote(str(view.store))}")
        raise NoIndexError(f"the index {view.store} is not finished", hint=hint)
    corrected = CorrectedQuestion(text)
    if not exact:
        corrected = correct(text, view.spellings, view.lexical.languages, is_typing=request.is_typing)
    return ExpandedQuery(corrected.text, asked=asked, scope=request.scope + scope, corrected=corrected)


def split_filters(asked: str) -> tuple[str, Scope]:
    """Return the question without its filters, and what these say.

    >>> text, scope = split_filters('oven in:daily, tag:kitchen -"car" where:author="Ann Lee" "first week"')
    >>> text
    'oven "first week"'
    >>> scope.terms
    ('in:daily', 'tag:kitchen', 'where:"author=Ann Lee"', '-"car"', '"first week"')
    >>> split_filters('oven since:2023 since:2024 -2025 in:a in:a')[1].terms
    ('in:a', 'since:2024', '-"2025"')
    >>> short, long = 'the "hot" oven of Ann Lee', 'find the "hot" oven of Ann Lee'
    >>> [split_filters(text)[1].phrases for text in (short, long, long.replace('the "', '"the '), 'name="oven"')]
    [('hot',), (), ('the hot',), ()]

    Raises:
        QuestionError: there are filters alone.
    """
    given: dict[str, list[str]] = {part.name: [] for part in fields(Scope)}
    pieces, place = [], 0
    for found in _FILTER.finditer(asked):
        phrase = found["phrase"] or found["number"]
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


def _read_filter(found: re.Match[str]) -> tuple[str, str]:
    """Return the field of the scope that a filter sets, and its value; QuestionError for a `-` that has no meaning."""
    value = found["quoted"] or (found["bare"] or "").rstrip(",;!?)")
    if found["name"]:
        value = found["name"] + found["value"]
    sign = f"{found['negated']}{found['key']}:"
    if sign not in FILTERS:
        raise QuestionError(f"{sign} has no meaning; -in: and -tag: leave out a folder or a tag")
    return FILTERS[sign], value


# The texts of a search: their weights, words and vectors

# Beside the question's 1, and of all together 1. Recorded ones give nDCG@10 .927 and .964, and senseless ones cost
# one of 220 questions its hit@5.
REWORDING_WEIGHT = 1 / 3
PASSAGE_KEYWORD_WEIGHT = 0.5  # in keyword search, where a passage has many words; the question's is 1


def weigh_queries(question: str, expansion: Expansion, profile: Profile) -> tuple[Query, ...]:
    """Return the question, then the texts of its expansion, with weights that add up to 1 in each search.

    A passage weighs what the profile gives it, and all rewordings together at most as much as the question: they never
    outvote it.
    """
    share = min(REWORDING_WEIGHT, 1.0 / max(1, len(expansion.rewordings)))
    weights = {"rewording": (share, share), "passage": (profile.hyde_variant_weight, PASSAGE_KEYWORD_WEIGHT)}
    others = [Query(text, *weights[kind], kind) for kind, text in expansion.texts]
    queries = [Query(question, 1.0, 1.0), *others]
    semantic = sum(query.semantic_weight for query in queries)
    keyword = sum(query.keyword_weight for query in queries)
    return tuple(
        replace(query, semantic_weight=query.semantic_weight / semantic, keyword_weight=query.keyword_weight / keyword)
        for query in queries
    )


def weigh_words(texts: Iterable[tuple[Sequence[str], float]]) -> Mapping[str, float]:
    """Return how much each word counts: the sum, over its occurrences, of the weights of their texts.

    Args:
        texts: the words of each, from `tokenize`, and its weight.
    """
    counts: dict[str, float] = {}
    for words, weight in texts:
        for word in words:
            counts[word] = counts.get(word, 0.0) + weight
    return counts


@dataclass(frozen=True)
class EncodedQueries:
    """The vectors of the queries of a search."""

    encoder: Encoder
    vectors: FloatMatrix
    """(n, d)"""


def encode(encoder: Encoder, queries: Sequence[Query], recorder: Recorder) -> EncodedQueries | None:
    """Encode the questions in one batch, and passages in another.

    Args:
        encoder: of the vectors in force.
        queries: the question first.
        recorder: learns what is not read of a long question, or why there are no vectors: then the result is None, as
            for a question in letters that the encoder does not know.
    """
    question = queries[0].text
    is_read = can_read(encoder, question)
    if not is_read or (getattr(encoder, "bundled_as", "") == "english" and detect_language(question)):
        cure = suggest("index FOLDER --encoder-model both", "for other languages, run")
        recorder.degrade(StageName.EMBED, f"the embedding model of this index is for English; {cure}")
    if not is_read:
        return None
    vectors = np.zeros((len(queries), encoder.dimension), np.float32)
    try:
        unread = encoder.count_tokens([question])[0] - encoder.max_tokens  # other texts are short
        if unread > 0:
            reason = f"the last {unread} tokens of the question are more than the model reads"
            recorder.degrade(StageName.EMBED, reason)
        for is_hypothetical, encode_texts in ((False, encoder.encode_queries), (True, encoder.encode_documents)):
            places = [place for place, query in enumerate(queries) if query.is_hypothetical is is_hypothetical]
            if places:
                texts = [queries[place].text for place in places]
                vectors[places] = unit_rows(encode_texts(texts), len(places), encoder.dimension)
    except EncoderError as error:
        recorder.degrade(StageName.SEMANTIC, error)
        return None
    return EncodedQueries(encoder, vectors)
