r"""Whether the first screen holds the answer when people type little, or mistype.

    uv run python benchmarks/first_screen.py docs:docs larder:tests/eval_corpus/larder \
        fastapi:../shared/eval/corpora/fastapi rustbook:../shared/eval/corpora/rustbook

NAME:FOLDER for each set. `benchmarks/first_screen.jsonl` holds short topic questions and mistyped ones with the files
that answer them; exact titles are drawn from the documents, and names of programs where there are. Each is asked as it
is, and with `--name-weight 0 --exact`, to show what names and correction do.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from retriever import Retriever, open_retriever
from retriever.lexical.languages import STOP_WORDS
from retriever.lexical.sections import list_names, spell_code, spell_name
from retriever.lexical.tokens import stem_word
from retriever.query import AskRequest

TITLES = 120
"""Drawn from each set, or as many as there are."""
HALVES = 30
"""Half-typed words, likewise."""
RARE = 3
"""In how many sections a rare word stands at most."""
SETTINGS: dict[str, dict[str, Any]] = {"as it is": {}, "names and typos off": {"name_weight": 0.0, "exact": True}}
QUESTIONS = Path(__file__).with_suffix(".jsonl")


def read_questions(name: str) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return (kind, question, beginnings of right node ids) of a set."""
    rows = map(json.loads, QUESTIONS.read_text(encoding="utf-8").splitlines())
    return [(row["kind"], row["question"], tuple(row["gold"])) for row in rows if row["set"] == name]


def draw_titles(retriever: Retriever) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield titles that one section alone bears, and those of pages that sections bear as well.

    Right is that section, or the one below it that holds its text; of a page, whatever stands in it.
    """
    nodes = [node for node in retriever.nodes() if node.kind.value == "section"]
    bearers = Counter(spell_name(node.title) for node in nodes)
    unique = [node for node in nodes if spell_name(node.title) and bearers[spell_name(node.title)] == 1]
    for node in Random(1).sample(unique, min(TITLES, len(unique))):
        yield "title", node.title, (node.id,)
    pages = [node for node in retriever.nodes() if node.kind.value == "file"]
    shared = [page for page in pages if bearers[spell_name(page.title)] > 1]
    for page in Random(1).sample(shared, min(TITLES, len(shared))):
        yield "title of a page, and of sections elsewhere", page.title, (page.id,)


def draw_halves(retriever: Retriever) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield words of titles, cut to 60 % as while typed; right is each section with a form of it in its title."""
    titled: dict[str, set[str]] = {}
    words: set[str] = set()
    for node in retriever.nodes():
        for word in re.findall(r"[a-z]{5,}", node.title.lower()) if node.kind.value == "section" else ():
            words.add(word)
            titled.setdefault(stem_word(word, "english"), set()).add(node.id)
    drawn = sorted(words - STOP_WORDS["english"])
    for word in Random(7).sample(drawn, min(HALVES, len(drawn))):
        right = titled[stem_word(word, "english")]  # for `upgr`, `Upgrades` is right as well
        yield "word of a title, cut to 60 %", word[: round(0.6 * len(word))], tuple(sorted(right))


def draw_names(retriever: Retriever) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield names of programs, each in one section's longer title alone: by themselves and in a question."""
    nodes = [node for node in retriever.nodes() if node.kind.value == "section"]
    bearers: dict[str, list[tuple[str, str]]] = {}
    for node in nodes:
        for name in list_names(node.title):
            if spell_code(name):
                bearers.setdefault(spell_code(name), []).append((name.removesuffix("()"), node.id))
    unique = [names[0] for names in bearers.values() if len({node_id for _, node_id in names}) == 1]
    titles = {node.title for node in nodes}
    unique = sorted((name, node_id) for name, node_id in unique if name not in titles)
    for name, node_id in Random(1).sample(unique, min(TITLES, len(unique))):
        yield "name of a program", name, (node_id,)
        yield "the same in a question", f"how do I use {name}?", (node_id,)


def draw_words(retriever: Retriever) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield rare words, and pairs of them that stand side by side; right is each section that has them so."""
    sections = [node.id for node in retriever.nodes() if node.kind.value == "section"]
    with retriever.view() as view:
        read = view.tree.read(sections)
    kinds = {"rare word": r"\b[a-z]{6,14}\b", "pair of words": r"\b(?=([a-z]{4,14}\s+[a-z]{5,14})\b)"}
    for kind, pattern in kinds.items():
        held: dict[str, set[str]] = {}
        for node in read.values():
            for found in re.findall(pattern, node.body.lower()):
                if not STOP_WORDS["english"].intersection(found.split()):
                    held.setdefault(" ".join(found.split()), set()).add(node.id)
        rare = sorted(words for words, ids in held.items() if len(ids) <= RARE)
        for words in Random(7).sample(rare, min(TITLES, len(rare))):
            yield kind, words, tuple(sorted(held[words]))


def measure(name: str, folder: str, index: str) -> None:
    """Print a row for each kind of question and each setting."""
    with open_retriever([folder], index) as retriever:
        questions = [*read_questions(name), *draw_titles(retriever), *draw_halves(retriever)]
        questions += [*draw_names(retriever), *draw_words(retriever)]
    for setting, values in SETTINGS.items():
        with open_retriever([folder], index, settings={"top_k": 5, **values}) as retriever:
            for kind in dict.fromkeys(kind for kind, _, _ in questions):
                asked = [(question, gold) for own, question, gold in questions if own == kind]
                scores = score(retriever, asked, is_typing="cut" in kind)
                print(f"| {name} | {kind} | {setting} | {scores} |", flush=True)


def score(retriever: Retriever, asked: Sequence[tuple[str, tuple[str, ...]]], *, is_typing: bool) -> str:
    """Return how often a right section is first, and among five; of the hits, how many have no text."""
    first = five = silent = shown = 0
    for question, gold in asked:
        hits = retriever.search(AskRequest(question, is_typing=is_typing)).hits
        right = [any(hit.node_id.startswith(begin) for begin in gold) for hit in hits]
        first += right[:1] == [True]
        five += any(right)
        with retriever.view() as view:
            silent += sum(not node.has_text for node in view.tree.read(hit.node_id for hit in hits).values())
        shown += len(hits)
    return f"{len(asked)} | {first} | {five} | {silent} of {shown}"


def main(arguments: Sequence[str]) -> None:
    """Print the table."""
    if not arguments:
        raise SystemExit(__doc__)
    print(
        "| set | kind | setting | questions | first | among five | hits without text |\n|---|---|---|---|---|---|---|"
    )
    for argument in arguments:
        name, _, folder = argument.partition(":")
        with TemporaryDirectory() as index:
            measure(name, folder, index)


if __name__ == "__main__":
    main(sys.argv[1:])
