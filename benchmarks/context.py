r"""How many questions have their gold lines in the context for a prompt, beside two plain ways to fill one.

    uv run python benchmarks/context.py ../shared/eval/fastapi.jsonl:../shared/eval/corpora/fastapi \
        ../shared/eval/rustbook.jsonl:../shared/eval/corpora/rustbook

QUESTIONS:DOCS for each set, whose gold has lines. Prints the mean over the sets of the share of questions with all
lines of a gold span in the context, and in brackets with at least one of them. Beside it, with the same hits and the
same tokens: the texts of the hits, one after another until the budget is full, and the whole files of the hits.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.quality import Benchmark
from pageindex.node import Span
from retriever import open_retriever
from retriever.context.budget import TokenCount, load_token_counter
from retriever.evaluation.formats import read_questions
from retriever.evaluation.questions import Question
from retriever.retriever import Retriever
from retriever.types import Answer

HITS = (5, 12)
TOKENS = (1_000, 2_000, 4_000)
WHOLE_TEXT = 1_000_000_000
"""Characters: more than a section has."""
NEVER_REFRESH = 1e6
"""Seconds: the folders are looked at once."""

Shown = set[tuple[str, int]]
"""File and line, 1-based."""
Search = Callable[[str], Answer]
Way = Callable[[Retriever, Search, str, int], Shown]
"""(retriever, its search that remembers, question, tokens) -> what a reader is shown."""
Shares = dict[tuple[int, int, str], tuple[float, float]]
"""(hits, tokens, way) -> the share of questions with a whole gold span, and with a line of one."""


def assembled(retriever: Retriever, _: Search, question: str, tokens: int) -> Shown:
    """The lines of the context."""
    pieces = retriever.context(question, tokens).context.pieces
    return {place for piece in pieces for place in lines_of(piece.file, piece.span)}


def texts_of_hits(_: Retriever, search: Search, question: str, tokens: int) -> Shown:
    """The lines of the hits, each hit after its citation."""
    hits = search(question).hits
    return filled(((hit.file, hit.citation, hit.span.first, hit.text) for hit in hits), tokens)


def whole_files(_: Retriever, search: Search, question: str, tokens: int) -> Shown:
    """The lines of the files of the hits, each file after its name."""
    files = dict.fromkeys((hit.folder, hit.file) for hit in search(question).hits)
    return filled(((file, file, 1, Path(folder, file).read_text(encoding="utf-8")) for folder, file in files), tokens)


WAYS: dict[str, Way] = {"context": assembled, "texts of the hits": texts_of_hits, "whole files": whole_files}


@cache
def counter() -> TokenCount:
    """Of the tokens of a line: the same lines come again with every budget."""
    return cache(load_token_counter())


def filled(texts: Iterable[tuple[str, str, int, str]], tokens: int) -> Shown:
    """The lines that fit of (file, heading, first line, text), in that order."""
    count = counter()
    shown: Shown = set()
    for file, heading, first, text in texts:
        tokens -= count(heading)
        for number, line in enumerate(text.removesuffix("\n").split("\n"), start=first):
            tokens -= count(line)
            if tokens < 0:
                return shown
            shown.add((file, number))
    return shown


def lines_of(file: str, span: Span) -> Iterator[tuple[str, int]]:
    """Each of them."""
    return ((file, line) for line in range(span.first, span.last + 1))


def holds(shown: Shown, question: Question) -> tuple[bool, bool]:
    """Whether all lines of a gold span are shown, and whether one of any is."""
    found = [[place in shown for place in lines_of(gold.file, gold.span)] for gold in question.gold if gold.span]
    return any(map(all, found)), any(map(any, found))


def measured(benchmark: Benchmark, index: str) -> Shares:
    """One set."""
    questions = read_questions(benchmark.questions).questions
    shares: Shares = {}
    for hits in HITS:
        settings = {"top_k": hits, "final_text_chars": WHOLE_TEXT, "refresh_seconds": NEVER_REFRESH}
        with open_retriever([benchmark.docs], index, settings=settings) as retriever:
            search = cache(retriever.search)
            for tokens in TOKENS:
                for name, way in WAYS.items():
                    found = [holds(way(retriever, search, question.text, tokens), question) for question in questions]
                    shares[hits, tokens, name] = (mean(whole for whole, _ in found), mean(part for _, part in found))
    return shares


def rows(sets: Sequence[Shares]) -> Iterator[str]:
    """The table: means over the sets."""
    yield f"| hits | tokens | {' | '.join(WAYS)} |"
    yield f"|---|---|{'---|' * len(WAYS)}"
    for hits in HITS:
        for tokens in TOKENS:
            pairs = [[mean(one[hits, tokens, way][place] for one in sets) for place in (0, 1)] for way in WAYS]
            cells = " | ".join(f"{whole:.3f} ({part:.3f})" for whole, part in pairs)
            yield f"| {hits} | {tokens:,} | {cells} |"


def main(arguments: Sequence[str]) -> None:
    """Prints the table."""
    if not arguments:
        raise SystemExit(__doc__)
    sets = []
    for argument in arguments:
        with TemporaryDirectory() as index:
            sets.append(measured(Benchmark.named(argument), index))
    print("\n".join(rows(sets)))


if __name__ == "__main__":
    main(sys.argv[1:])
