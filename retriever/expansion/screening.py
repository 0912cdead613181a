"""Which questions are put to a language model, and which of its texts are searched with.

Asking costs seconds, and for many questions brings nothing: docs/internals/ranking.md says what each rule saves and
costs. What it writes is checked by its words, then by what it is about.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import TYPE_CHECKING

from pageindex.text import find_sentences
from retriever.display.phrases import pluralize
from retriever.errors import EncoderError
from retriever.lexical.tokens import count_words, tokenize
from retriever.places.background import load_unrelated
from retriever.places.view import View
from retriever.protocols import Encoder
from retriever.query import Dropped, Expansion, ExpansionReport, Query
from retriever.searching.queries import normalize_weights
from retriever.searching.question_words import cut_words, read_form
from retriever.settings.schema import Profile
from retriever.trace import Recorder
from retriever.types import StageName

if TYPE_CHECKING:
    from retriever.types import FloatMatrix


MAX_ENTITIES = 5
QUESTION_MAX_WORDS = 2  # proper questions of no more words are not expanded: `how does caching work?` is

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
    counts = {}
    for name in find_exact_names(question):
        tokens = tokenize(name)
        found = [key for key, _ in view.lexical.search(tokens, 20)] if tokens else []
        # The sections that hold all of its words; the sum of their rarities may differ from 1 in its last bits.
        counts[name] = sum(share > 1 - 1e-9 for share in view.lexical.coverage(tokens, found))
    return {name: count for name, count in counts.items() if 1 <= count < 20}


def reason_to_skip(question: str, names: Mapping[str, int], view: View, settings: Profile) -> str:
    """Return why the question, with the names of `count_rare_names`, needs no expansion; empty when it may need one."""
    if reason := reason_too_short(question, settings):
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


def reason_too_short(question: str, settings: Profile) -> str:
    """Return why a question is too short to expand: a few words name a thing; empty for a longer question.

    What is put as a question says more with as few words: `how does caching work?` is expanded, `caching` is not.
    """
    words, is_question = count_words(question), read_form(cut_words(question)) not in ("words", "function_words")
    if words <= (QUESTION_MAX_WORDS if is_question else settings.hyde_skip_max_words):
        return f"the question has {pluralize(words, 'word')}"
    return f"the question has {len(question)} characters" if len(question) < settings.min_query_length else ""


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


def screen(
    question: str,
    expansion: Expansion,
    max_chars: int,
    names: Collection[str] = (),
) -> tuple[Expansion, tuple[Dropped, ...]]:
    """Return the expansion without the texts that no search should follow, and the dropped texts. Pure.

    A text of more than `max_chars` is cut at a sentence, a much longer one dropped; so is one that lacks one of the
    question's `names`.
    """
    seen = {tuple(sorted(tokenize(question)))}
    name_words = [frozenset(tokenize(name)) for name in names]
    kept, dropped = [], []
    for kind, text in expansion.texts:
        words = tokenize(text)
        checks = (
            (kind != "rewording" and expansion.intent == FACTUAL_INTENT, "a single fact is asked for"),
            (len(text) > 10 * max_chars, f"it has {len(text):,} characters"),
            (not any(map(str.isalnum, text)) or not words, "it says nothing"),
            (not all(name & set(words) for name in name_words), "it lost a name of the question"),
            (tuple(sorted(words)) in seen, "it repeats the question or another text"),
        )
        seen.add(tuple(sorted(words)))
        reason = next((reason for is_wrong, reason in checks if is_wrong), "")
        if reason:
            dropped.append(Dropped(kind, cut_at_sentence(text, max_chars), reason))
        else:
            kept.append((kind, cut_at_sentence(text, max_chars)))
    rewordings = tuple(text for kind, text in kept if kind == "rewording")
    passages = tuple(text for kind, text in kept if kind == "passage")
    return replace(expansion, rewordings=rewordings, passages=passages), tuple(dropped)


def cut_at_sentence(text: str, max_chars: int) -> str:
    """Return the text up to the last sentence that ends within `max_chars`; without one, up to the last word."""
    if len(text) <= max_chars:
        return text
    head = text[:max_chars]
    end = max((end for _, end in find_sentences(text) if end <= max_chars), default=0)
    return head[:end] if end else (head.rpartition(" ")[0] or head)


def drop_unrelated(
    queries: Sequence[Query], vectors: "FloatMatrix | None", view: View, encoder: Encoder | None, recorder: Recorder
) -> tuple[tuple[Query, ...], list[bool]]:
    """Return the queries that are about the question, which stays first, newly weighted; and which of all they are.

    A model may drift away: a text is compared by its vector, of (n, d) float32 with unit rows; one that is not
    embedded, or all without vectors, by whether BM25 finds a section for it that it finds for the question, each among
    its first 20.
    """

    def find_hits(text: str) -> frozenset[int]:
        tokens = tokenize(text)
        return frozenset(key for key, _ in view.lexical.search(tokens, 20)) if tokens else frozenset()

    question, *others = queries
    with recorder.stage(StageName.EXPAND) as note:
        scores: Sequence[float] = ()
        try:
            if vectors is not None and encoder is not None:
                # The cosines of the question with questions on everything else have the mean 0 and the standard
                # deviation 1, so that one limit holds for every model.
                background = load_unrelated(view.connection, encoder) @ vectors[0]
                cosines = (vectors[1:] @ vectors[0]).astype(float)
                scores = (cosines - background.mean()) / (background.std() or 1.0)
            related = [
                bool(scores[place] > MIN_Z_SCORE)
                if len(scores) and query.semantic_weight
                else bool(find_hits(question.text) & find_hits(query.text))
                for place, query in enumerate(others)
            ]
        except EncoderError as error:
            recorder.degrade(StageName.EXPAND, error)
            related = [False] * len(others)
        are_kept = [True, *related]
        kept = normalize_weights(list(compress(queries, are_kept)))
        dropped = [
            Dropped(query.kind, query.text, "it is not about the question")
            for query, is_kept in zip(others, related, strict=True)
            if not is_kept
        ]
        report = recorder.expansion or ExpansionReport("given")
        recorder.expansion = replace(
            report,
            rewordings=tuple(query.text for query in kept[1:] if not query.is_hypothetical),
            passages=tuple(query.text for query in kept[1:] if query.is_hypothetical),
            dropped=(*report.dropped, *dropped),
        )
        note.text = f"{sum(related)} of {len(related)} texts are about the question"
    return kept, are_kept
