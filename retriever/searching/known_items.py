"""The sections that a question names: those that are called what was asked, and those that hold it as it is written.

Who types a title, a file name or a flag wants that, and not what resembles it. How sure a name is depends on how many
sections bear it: `Installation` stands above forty of them, `Splatting` above one.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import PurePosixPath

from retriever.lexical.correction import SHORTEST_PREFIX
from retriever.lexical.names import find_codes, is_identifier, spell_code, spell_member, spell_name, spell_term
from retriever.lexical.properties import find_days, mark_property
from retriever.lexical.tokens import remove_accents, tokenize
from retriever.searching.question_words import cut_words, drop_verbs, read_form
from retriever.searching.scope import find_phrase
from retriever.searching.view import View
from retriever.store import reading
from retriever.types import Ranked, Ranking, Source

MOST_NAMESAKES = 12  # more sections of one name than this, and the name says nothing
MOST_ASKED = 10 * MOST_NAMESAKES  # a scope may leave few of them
MOST_BEGUN = 2_000  # names that share their first letters with what is half typed
IN_QUESTION = 0.25  # the share of a name that a question has among its words
AS_WRITTEN = 0.5  # the share of what a section holds as it is written
# What a question asks of what it names: `snapshot meaning`, `default of nodeLinker`.
_VALUE = re.compile(r"\b(?:defaults?|values?)\b", re.IGNORECASE)
_ASIDE = re.compile(rf"\b(?:meanings?|means?|definitions?|defined?)\b|{_VALUE.pattern}", re.IGNORECASE)
_MARKUP = "`'\"() "  # what may stand about an identifier
_PART = re.compile(r"[^\W_]+")
MOST_READ, MOST_HOLDING = 500, 60  # sections with its words that an identifier is looked for in, and are found


@dataclass(frozen=True, slots=True)
class Shown:
    """A section that a search shows for a node."""

    key: int
    """Of the node."""
    node_id: str
    """Of what is shown."""


def rank_names(view: View, question: str, half_typed: str, weight: float) -> tuple[Ranking | None, bool]:
    """Rank the sections that the question names, and say whether it is the name of one, and nothing besides.

    The ranking is None where the question names none, or names are switched off.

    Args:
        view: the index.
        question: as it is searched for.
        half_typed: the question with its last word as it was typed, where that may be half typed; else empty.
        weight: of the ranking; 0 switches it off.
    """
    if not weight:
        return None, False
    typed = half_typed or question  # without the words that it may be the beginning of
    subject = _ASIDE.sub(" ", typed)
    named = find_file(view, typed) or find_code(view, typed)
    named = named or find_bearers(view, spell_name(typed), spell_term(subject) if subject == typed else "")
    is_name = max(named.values(), default=0.0) > 0.5
    if not named and subject != typed:
        named = find_bearers(view, spell_name(subject), spell_term(subject))
        is_name = has_asked(view, named, _VALUE.findall(typed))
    if not named and not spell_code(typed):  # `node --inspect-brk`, `how do I use fs.readFile?`
        for word in find_codes(typed):
            for node_id, share in find_code(view, word).items():
                named.setdefault(node_id, share * IN_QUESTION)
    name = spell_name(drop_verbs(typed, view.lexical.detect_question(typed)))
    if not named and name != spell_name(typed):
        named = find_bearers(view, name)
        is_name = max(named.values(), default=0.0) > 0.5
    if not named and half_typed:
        named = find_begun(view, half_typed)
    word = half_typed.rpartition(" ")[2] or question
    held = find_holding(view, question, word, half_typed) if is_identifier(word) else find_as_written(view, question)
    written = [node_id for node_id in held if node_id not in named]
    named |= dict.fromkeys(written, AS_WRITTEN)
    found = (item for day in find_days(typed) for item in find_matching(view, [mark_property(day)], MOST_ASKED))
    days = dict.fromkeys((item.node_id for item in found), 1.0)
    named |= days if len(days) <= MOST_NAMESAKES else {}
    items = tuple(
        Ranked(node_id, share, share, note="as written" if node_id in written else "by name")
        for node_id, share in named.items()
    )
    return (Ranking(Source.NAME, "share of the name", weight, items) if items else None), is_name


def has_asked(view: View, named: Mapping[str, float], asked: Sequence[str]) -> bool:
    """Return whether a section that alone bears a name, or one of two, has any of the words asked of it.

    What says what a thing means has its name, and need not say that it is a meaning.
    """
    ids = [node_id for node_id, share in named.items() if share >= 0.5]
    if not (ids and asked):
        return bool(ids)
    return any(view.lexical.coverage(tokenize(" ".join(asked)), view.tree.keys(ids)))


def find_begun(view: View, typed: str) -> dict[str, float]:
    """Do as `find_bearers` for titles in which words begin as typed; the more of a name, the larger its share.

    Of several with the same word the shortest one: `comm` may be the beginning of `command`, `comment` and `common`.
    """
    last = typed.rpartition(" ")[2]
    for text in (typed, last) if not last.isalpha() else (typed,):
        parts = _PART.findall(text)
        signs = text[: text.index(parts[0])]
        # `port` begins no word of `import`, and one of `serverPort`; `background ta` those of `BackgroundTasks`.
        begun = r"[\W_]*".join(f"(?i:{part})" for part in parts)
        begins = re.compile(rf"(?:(?<![^\W_])|(?<=[a-z])(?=[A-Z])){re.escape(signs)}{begun}[^\W_]*")
        # Names are stems: the first letters are all that `installa` has in common with one.
        found = reading.nodes_called(view.connection, remove_accents(parts[0].lower())[:SHORTEST_PREFIX], MOST_BEGUN)
        words: dict[str, str] = {}
        named: dict[str, float] = {}
        for node_id, name, title in compress(found, view.are_allowed([node_id for node_id, _, _ in found])):
            match = begins.search(title)
            if match and words.setdefault(match[0].lower(), node_id) == node_id and len(words) <= MOST_NAMESAKES:
                named.setdefault(node_id, 0.5 + 0.5 * min(1.0, len("".join(parts)) / len(name)))
        if named:
            return named
    return {}


def find_holding(view: View, question: str, word: str, half_typed: str) -> list[str]:
    """Return the sections that hold an identifier letter by letter; else, where half typed, those that contain it."""
    shown = find_matching(view, tokenize(question), MOST_READ)
    texts = reading.texts_of_nodes(view.connection, [item.node_id for item in shown])
    bare = word.strip(_MARKUP).lower()
    begun = [item for item in shown if bare in texts.get(item.node_id, "").lower()]
    held = [item for item in begun if holds_identifier(texts[item.node_id], word)]
    found = held or (begun if half_typed else [])
    return [item.node_id for item in found[:MOST_HOLDING]]


def find_as_written(view: View, question: str) -> list[str]:
    """Return the sections that hold what is asked as it is written; none where many do, or where it is a question.

    What is typed in a word or two, or pasted, is looked up, as in the index of a book: `copper` alone means little to
    an encoder, and to BM25, which compares stems, the app `Spendly` is the verb.
    """
    terms = tokenize(question)
    keys = view.lexical.find_holding(terms)
    if not 0 < len(keys) <= MOST_HOLDING or read_form(cut_words(question)) == "question":
        return []
    held = find_phrase(view, question, keys).tolist()
    if not 0 < len(held) <= MOST_NAMESAKES:
        return []
    scores = dict(view.lexical.search(terms, MOST_READ))
    shown = list_shown(view, {key: scores.get(key, 0.0) for key in keys.tolist()})
    return [item.node_id for item in shown if item.key in held]


def find_matching(view: View, terms: Sequence[str], limit: int) -> list[Shown]:
    """Return the sections that may be found and hold any of the terms, the best by BM25 first."""
    return list_shown(view, dict(view.lexical.search(terms, limit)))


def list_shown(view: View, scores: Mapping[int, float]) -> list[Shown]:
    """Return the sections that a search shows for nodes, those that may be found: best first, ties by id."""
    rows = reading.shown_nodes(view.connection, scores)
    shown = [Shown(key, rows[key]) for key in sorted(rows, key=lambda key: (-scores[key], rows[key]))]
    return list(compress(shown, view.are_allowed([item.node_id for item in shown])))


def find_file(view: View, typed: str) -> dict[str, float]:
    """Return the first sections of the files at the end of whose path it is, `cli/add.md`, `cli/add` or `add.md`."""
    path = typed.strip(_MARKUP).removeprefix("./")
    if " " in path or not re.search(r"[./]", path):
        return {}
    ids = []
    for node_id, _ in reading.nodes_named(view.connection, spell_name(PurePosixPath(path).stem), "", MOST_ASKED):
        file = f"/{node_id.partition('#')[0]}"
        if file.endswith(f"/{path}") or file.rpartition(".")[0].endswith(f"/{path}"):
            ids.append(node_id)
    return dict.fromkeys(compress(ids, view.are_allowed(ids)), 1.0)


def find_code(view: View, word: str) -> dict[str, float]:
    """Do as `find_bearers` for a name of a program; where nothing bears it whole, for the member that it names."""
    return find_bearers(view, spell_code(word)) or find_bearers(view, spell_member(word))


def find_bearers(view: View, name: str, term: str = "") -> dict[str, float]:
    """Return the sections that may be found and bear a name, the highest headings first, each with its share of it.

    Where none bears it, those that define the term; nothing where more than MOST_NAMESAKES do. For `plugins`, the page
    of that title is a better hit than a section of another page: of several, one with fewer titles above it has more
    than an equal share, by the square of their number. None has less.
    """
    found = reading.nodes_named(view.connection, name, term, MOST_ASKED) if name or term else []
    named: dict[str, float] = {}
    for node_id, above in compress(found, view.are_allowed([node_id for node_id, _ in found])):
        named.setdefault(node_id, 1 / (1 + above) ** 2)
    if not 0 < len(named) <= MOST_NAMESAKES:
        return {}
    whole = sum(named.values())
    return {node_id: max(1 / len(named), share / whole) for node_id, share in named.items()}


def holds_identifier(text: str, question: str) -> bool:
    """Return whether the text has it letter by letter, and not as a part of a longer word; case does not matter."""
    word = question.strip(_MARKUP)
    begins = r"(?<![^\W_])" if word[:1].isalnum() else ""
    ends = r"(?![^\W_])" if word[-1:].isalnum() else ""
    return bool(re.search(f"(?i:{begins}{re.escape(word)}{ends})", text))
