"""Which questions are put to a language model, and which of its texts are searched with.

Asking costs seconds, and for many questions brings nothing: docs/internals/ranking.md says what each rule saves and
costs. What it writes is checked by its words, then by what it is about.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import compress

import numpy as np
import numpy.typing as npt

from retriever.display import pluralize
from retriever.embedding.encoder import checked_rows
from retriever.errors import EncoderError
from retriever.lexical.tokens import count_words, tokenize
from retriever.places.background import load_unrelated
from retriever.places.view import View
from retriever.query import Dropped, Expansion, Query
from retriever.searching.queries import EncodedQueries
from retriever.searching.question_words import cut_words, read_form
from retriever.text import cut
from retriever.trace import Recorder
from retriever.types import FloatMatrix, StageName

MAX_ENTITIES = 5
MAX_TEXT_CHARS = 420  # of a text that is searched with: three or four sentences, as a section has them
# What is shorter is not expanded: a few words name a thing, which the documents name too.
QUESTION_MAX_WORDS = 2  # of a proper question: `how does caching work?` is expanded
LOOKUP_MAX_WORDS = 5

_QUOTED = re.compile(r"`([^`\n]{1,200})`|\"([^\"\n]{1,200})\"|“([^”\n]{1,200})”|(?<!\w)'([^'\n]{1,200})'(?!\w)")
_WORD = re.compile(r"[^\s,;`\"“”]{1,200}")
_ENDINGS = re.compile(r"(?:['\u2019]s)?[.?!:']*$")
_SYMBOL = re.compile(
    r"""^--?[A-Za-z][\w-]*(?:=|$)           # --include-ignored, -v
      | ^(?:\.{0,2}|~|\w+:/)/[\w.{}:~-]     # /docs, ./run.sh, ~/.config, https://...
      | /.*/ | /[\w-]+\.\w{1,5}$            # src/garden/mod.rs, docs/install.md
      | [^\W_]_+[^\W_] | ^_+\w              # try_recv, __init__
      | [a-z0-9][A-Z]                       # BackgroundTasks, camelCase
      | :: | \w\( | ^@\w | ^\#\[ | \w<      # std::mem::drop, fetch(), @app.get, #[ignore], Vec<T>
      | ^[A-Za-z_][\w-]+(?:\.[A-Za-z_]\w+)+$  # response.status_code, Cargo.toml
      | ^[A-Z]\d{3,}$                       # E0382
    """,
    re.VERBOSE,
)
_CAPITALS = re.compile(r"\b[A-Z][\w-]+(?: [A-Z][\w-]+)*")


def find_exact_names(text: str) -> tuple[str, ...]:
    """Return the quoted texts, symbols, paths and flags of a question, each once: quoted ones first.

    >>> find_exact_names("does `x` reach try_recv() in src/main.rs?")
    ('x', 'try_recv()', 'src/main.rs')
    """
    quoted = [next(filter(None, match.groups())) for match in _QUOTED.finditer(text)]
    words = (_ENDINGS.sub("", word) for word in _WORD.findall(_QUOTED.sub(" ", text)))
    return tuple(dict.fromkeys([*quoted, *(word for word in words if _SYMBOL.search(word))]))


def count_rare_names(question: str, view: View) -> dict[str, int]:
    """Return the exact names that a few sections hold, and how many do; the product's own name says nothing."""
    counts = {name: len(view.lexical.find_holding(tokenize(name))) for name in find_exact_names(question)}
    return {name: count for name, count in counts.items() if 1 <= count < 20}


def reason_to_skip(question: str, names: Mapping[str, int], view: View) -> str:
    """Return why the question, with the names of `count_rare_names`, needs no expansion; empty when it may need one."""
    if reason := reason_too_short(question):
        return reason
    for name, count in names.items():
        if count <= 5:  # BM25 has all of them among its first hits; other words would only lead away from them
            return f"{pluralize(count, 'section')} with {name}"
    tokens = tokenize(question)
    ranking = view.lexical.search(tokens, 2) if tokens else ()
    if ranking and ranking[0][1] > 0:
        best = ranking[0][1]
        margin = best - (ranking[1][1] if len(ranking) > 1 else 0.0)
        (covered,) = view.lexical.coverage(tokens, [ranking[0][0]])
        if covered >= 0.6 and margin >= 0.3 * best:  # chosen on the two sets of docs/guide/language-model.md
            return f"one section holds {covered:.0%} of the question, far before the next"
    return ""


def reason_too_short(question: str) -> str:
    """Return why a question is too short to expand: a few words name a thing; empty for a longer question.

    What is put as a question says more with as few words: `how does caching work?` is expanded, `caching` is not.
    """
    words, is_question = count_words(question), read_form(cut_words(question)) not in ("words", "function_words")
    if words <= (QUESTION_MAX_WORDS if is_question else LOOKUP_MAX_WORDS):
        return f"the question has {pluralize(words, 'word')}"
    return ""


def find_entities(question: str) -> tuple[str, ...]:
    """Return the names that a question speaks of, each once, as it writes them.

    >>> find_entities("does Postgres keep `x` after the Big Migration?")
    ('x', 'Postgres', 'Big Migration')
    """
    start = len(question) - len(question.lstrip().partition(" ")[2])  # behind the first word, which has one anyway
    by_words: dict[tuple[str, ...], str] = {}
    for name in (*find_exact_names(question), *(match[0] for match in _CAPITALS.finditer(question, start))):
        if words := tuple(tokenize(name)):
            by_words.setdefault(words, name)
    return tuple(by_words.values())[:MAX_ENTITIES]


FACTUAL_INTENT = "STUDY_DETAIL"  # a single fact is asked for: an invented one is a wrong one
MIN_Z_SCORE = 2.0  # of normally distributed texts about something else, one in forty-four is higher
MIN_NEW_WORDS = 2  # with fewer, a text searches for the question once more
MAX_TITLE_WORDS = 12  # of a text without a full stop
QUESTION_MARKS = ("?", "\uff1f", "\u061f")


def screen(question: str, expansion: Expansion, names: Collection[str] = ()) -> tuple[Expansion, tuple[Dropped, ...]]:
    """Return the expansion without the texts that no search should follow, and the dropped texts. Pure.

    A text of more than `MAX_TEXT_CHARS` is cut.

    Args:
        question: the question.
        expansion: what a model wrote.
        names: of the question, which every text must have.
    """
    seen = {tuple(sorted(tokenize(question)))}
    name_words = [frozenset(tokenize(name)) for name in names]
    kept, dropped = [], []
    for kind, text in expansion.texts:
        words = tokenize(text)
        is_passage = kind == "passage"
        is_title = text[-1:].isalnum() and count_words(text) <= MAX_TITLE_WORDS
        checks = (
            (is_passage and expansion.intent == FACTUAL_INTENT, "a single fact is asked for"),
            (not any(map(str.isalnum, text)) or not words, "it says nothing"),
            (not all(name & set(words) for name in name_words), "it lost a name of the question"),
            (tuple(sorted(words)) in seen, "it repeats the question or another text"),
            (len(set(tokenize(find_added_words(text, question)))) < MIN_NEW_WORDS, "it adds no words"),
            (is_passage and text.endswith(QUESTION_MARKS), "it is a question"),
            (is_passage and is_title, "it is a title"),
        )
        seen.add(tuple(sorted(words)))
        reason = next((reason for is_wrong, reason in checks if is_wrong), "")
        shown = cut(text, MAX_TEXT_CHARS)
        if reason:
            dropped.append(Dropped(kind, shown, reason))
        else:
            kept.append((kind, shown))
    rewordings = tuple(text for kind, text in kept if kind == "rewording")
    passages = tuple(text for kind, text in kept if kind == "passage")
    return replace(expansion, rewordings=rewordings, passages=passages), tuple(dropped)


def drop_unrelated(
    queries: Sequence[Query], encoded: EncodedQueries | None, view: View, recorder: Recorder
) -> tuple[Expansion, list[bool]]:
    """Return the texts beside the question, which stands first, that add something about it; and which queries stay.

    A text that repeats the question's words and goes on about something else is near the question. So the vector of its
    other words is compared; without vectors nothing is.
    """
    question, *others = queries
    languages = view.lexical.detect_question(question.text)
    # A passage is long, and what it has of the question weighs little.
    compared = [
        query.text if query.is_hypothetical else find_added_words(query.text, question.text, languages) or query.text
        for query in others
    ]
    with recorder.stage(StageName.EXPAND) as note:
        related = [encoded is None] * len(others)
        try:
            if encoded is not None:
                # The cosines of the question with questions on everything else have the mean 0 and the standard
                # deviation 1, so that one limit holds for every model.
                encoder, unrelated = encoded.encoder, load_unrelated(view.connection, encoded.encoder)
                rows = checked_rows(encoder.encode_queries(compared), len(compared), encoder.dimension)

                def find_near(topic: FloatMatrix) -> npt.NDArray[np.bool_]:
                    background = unrelated @ topic
                    near: npt.NDArray[np.bool_] = rows @ topic > background.mean() + MIN_Z_SCORE * background.std()
                    return near

                topic = question.semantic_weight * encoded.vectors[0]
                is_passage = np.array([query.is_hypothetical for query in others])
                passages = is_passage & find_near(topic)
                # What a rewording adds is often said by the passages, and far from the words of the question.
                topic = topic + passages * [query.semantic_weight for query in others] @ rows
                related = (passages | find_near(topic) & ~is_passage).tolist()
        except EncoderError as error:
            recorder.degrade(StageName.EXPAND, error)
        kept = list(compress(others, related))
        dropped = [
            Dropped(query.kind, query.text, "what it adds is about something else")
            for query in others
            if query not in kept
        ]
        expansion = Expansion(
            tuple(query.text for query in kept if not query.is_hypothetical),
            tuple(query.text for query in kept if query.is_hypothetical),
        )
        report = recorder.expansion
        assert report is not None, "where there are other texts, it says how they came about"
        recorder.expansion = replace(
            report,
            rewordings=expansion.rewordings,
            passages=expansion.passages,
            dropped=(*report.dropped, *dropped),
        )
        note.text = f"{len(kept)} of {len(others)} texts add something about the question"
    return expansion, [True, *related]


def find_added_words(text: str, question: str, languages: tuple[str, ...] = ()) -> str:
    """Return the words of a text, as they are written, that the question does not have; function words aside.

    >>> find_added_words("how long is bread fresh in the freezer?", "how long can I keep bread?")
    'fresh freezer?'
    """
    own = set(tokenize(question, languages))
    return " ".join(word for word in text.split() if not own.issuperset(tokenize(word, languages)))
