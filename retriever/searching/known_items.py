"""The sections that a question names: those that are called what was asked, and those that hold it as it is written.

A typed title, file name or flag asks for that section, and not for what resembles it. How sure a name is depends on
how many sections bear it: `Installation` stands above forty of them, `Splatting` above one.
"""

import re
from collections.abc import Callable
from functools import partial
from itertools import compress
from pathlib import PurePosixPath

from retriever.lexical.sections import cut_days, find_days, mark_property, spell_code, spell_name
from retriever.lexical.spelling import SHORTEST_PREFIX
from retriever.lexical.tokens import remove_accents, tokenize
from retriever.places.view import View
from retriever.searching.question_words import PUNCTUATION, cut_words, read_form
from retriever.searching.scope import find_phrase
from retriever.store import reading
from retriever.types import Ranked, Ranking, Source

MOST_NAMESAKES = 12  # more sections of one name than this, and the name says nothing
MOST_ASKED = 10 * MOST_NAMESAKES  # a scope may leave few of them
MOST_HOLDING = 60  # sections with all words of what is looked for as it is written
MOST_BEGUN = 2_000  # names that share their first letters with what is half typed
_MARKUP = "`'\" "  # what may stand about a name


def rank_names(view: View, question: str, half_typed: str, weight: float) -> tuple[Ranking | None, bool]:
    """Rank the sections that the question names, and say whether it is the name of one, and nothing besides.

    The ranking is None where the question names none, or names are switched off.

    Args:
        view: the index.
        question: as it is searched for.
        half_typed: the question with its last word as it was typed, where that may be half typed; else empty.
        weight: of the ranking; 0 switches it off.
    """
    typed = (half_typed or question).strip(_MARKUP)  # without the words that it may be the beginning of
    named: dict[str, Ranked] = {}
    for find, worth, note in FINDERS if weight else ():
        if named and note == "by name":  # a path, or an identifier, is no title besides
            continue
        found = find(view, typed)
        for node_id in compress(found, view.are_allowed([*found])):
            share = worth * found[node_id]
            named.setdefault(node_id, Ranked(node_id, share, share, note=note))
    is_name = any(item.score > AS_WRITTEN for item in named.values())
    if half_typed and not is_name:
        for node_id, share in find_begun(view, typed).items():
            named.setdefault(node_id, Ranked(node_id, share, share, note="by name"))
    items = tuple(sorted(named.values(), key=lambda item: -item.score))
    return (Ranking(Source.NAME, "share of the name", weight, items) if items else None), is_name


def find_file(view: View, typed: str) -> dict[str, float]:
    """Return the first sections of the files at the end of whose path it is, `cli/add.md`, `cli/add` or `add.md`."""
    path = typed.removeprefix("./")
    if " " in path or not ("." in path or "/" in path):
        return {}
    ids = []
    for node_id, _ in reading.nodes_named(view.connection, spell_name(PurePosixPath(path).stem), MOST_ASKED):
        file = f"/{node_id.partition('#')[0]}"
        if file.endswith(f"/{path}") or file.rpartition(".")[0].endswith(f"/{path}"):
            ids.append(node_id)
    return dict.fromkeys(ids, 1.0)


def find_called(view: View, typed: str, spell: Callable[[str], str]) -> dict[str, float]:
    """Return the sections with a name; else those with what is left of it without stop words: `the tabs`.

    `spell_code` finds those called so letter by letter, `--print`; `spell_name` a title, file name or alias.
    """
    words = cut_words(typed, view.lexical.detect_question(typed))
    about = " ".join(word for word, terms in words if terms).strip(PUNCTUATION)
    return find_bearers(view, spell(typed)) or find_bearers(view, spell(about))


def find_bearers(view: View, name: str) -> dict[str, float]:
    """Return the sections that may be found and bear a name, the highest headings first, each with its share of it.

    Nothing where more than MOST_NAMESAKES do. For `plugins`, the page of that title is a better hit than a section of
    another page: of several, one with fewer titles above it has more than an equal share, by the square of their
    number. None has less.
    """
    found = reading.nodes_named(view.connection, name, MOST_ASKED) if name else []
    named: dict[str, float] = {}
    for node_id, above in compress(found, view.are_allowed([node_id for node_id, _ in found])):
        named.setdefault(node_id, 1 / (1 + above) ** 2)
    if not 0 < len(named) <= MOST_NAMESAKES:
        return {}
    whole = sum(named.values())
    return {node_id: max(1 / len(named), share / whole) for node_id, share in named.items()}


def find_written(view: View, typed: str) -> dict[str, float]:
    """Return the sections that hold it as it is written; none where many do, or where it is a question.

    What is typed in a word or two, or pasted, is looked up, as in the index of a book: `copper` alone means little to
    an encoder, and to BM25, which compares stems, the app `Spendly` is the verb.
    """
    phrase = typed.lower()  # `readFile` is found as `readfile` as well
    terms = tokenize(phrase)
    keys = view.lexical.find_holding(terms)
    if not 0 < len(keys) <= MOST_HOLDING or read_form(cut_words(typed)) == "question":
        return {}
    held = find_phrase(view, phrase, keys).tolist()
    shown = reading.shown_nodes(view.connection, held if len(held) <= MOST_NAMESAKES else ())
    best = dict(view.lexical.search(terms, MOST_HOLDING))
    return {shown[key]: 1.0 for key in sorted(shown, key=lambda key: (-best.get(key, 0.0), shown[key]))}


def find_dated(view: View, typed: str) -> dict[str, float]:
    """Return the sections of the days or the month that a question names, in their order; none where many are.

    Sections have the days of their titles and of their paths, and the first one those of the front matter.
    """
    days = find_days(typed)
    if not days:  # as of nearly all questions, and of each it is asked twice
        return {}
    keys = view.lexical.find_holding([mark_property(day) for day in days])
    shown = reading.shown_nodes(view.connection, keys.tolist() if len(keys) <= MOST_HOLDING else ())
    share = 1.0 if all(cut_days(typed)) else AS_WRITTEN  # nothing but a day is a name
    return dict.fromkeys(shown.values(), share)


def find_begun(view: View, typed: str) -> dict[str, float]:
    """Return the sections with a word in their titles that begins as typed; the more of a name, the larger its share.

    Of several with the same word the shortest one: `comm` may be the beginning of `command`, `comment` and `common`.
    """
    begun = remove_accents(typed.lower())
    letters = "".join(filter(str.isalnum, begun))
    # Names are stems: the first letters are all that `installa` has in common with one.
    found = reading.nodes_called(view.connection, letters[:SHORTEST_PREFIX], MOST_BEGUN)
    begins = re.compile(rf"(?<![^\W_]){re.escape(begun)}[^\W_]*")
    words: dict[str, str] = {}
    named: dict[str, float] = {}
    for node_id, name, title in compress(found, view.are_allowed([node_id for node_id, _, _ in found])):
        word = begins.search(remove_accents(title.lower()))
        if word and words.setdefault(word[0], node_id) == node_id and len(words) <= MOST_NAMESAKES:
            named.setdefault(node_id, 0.5 + 0.5 * min(1.0, len(letters) / len(name)))
    return named


AS_WRITTEN = 0.5  # of what a section is called by
# How sections are named, what each way is worth, and how it is told.
FINDERS = (
    (find_file, 1.0, "by name"),
    (partial(find_called, spell=spell_code), 1.0, "by name"),
    (partial(find_called, spell=spell_name), 1.0, "by name"),
    (find_dated, 1.0, "by day"),
    (find_written, AS_WRITTEN, "as written"),
)
