r"""The worth of each rule of the ranking: all of `balanced` without one rule at a time.

    uv run python benchmarks/ablation.py ../shared/eval/fastapi.jsonl:../shared/eval/corpora/fastapi \
        ../shared/eval/rustbook.jsonl:../shared/eval/corpora/rustbook --rules=prior,names --work=/tmp/ablation

QUESTIONS:DOCS for each set of documentation. Besides come the five collections of benchmarks/data/lines, the notes of
benchmarks/data/everyday, and German and Chinese ones of tests/data and benchmarks/data. A cell is nDCG@10 / hit@5 of
the order before the reader, but for the row that names it; the last columns say how often a right section is first for
exact titles, words of titles that are half typed, and rare words and pairs of words, which benchmarks/first_screen.py
draws. `--rules` asks for rows with one of these words alone, `--work` keeps the indexes for the next time.
docs/internals/ranking.md holds the table.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.first_screen import draw_halves, draw_titles, draw_words
from benchmarks.quality import Benchmark
from retriever import Retriever, open_retriever
from retriever.embedding.onnx import OnnxEncoder
from retriever.evaluation import DEPTH, Gold, Question, find_right, measure_ranking, read_questions
from retriever.query import AskRequest
from retriever.searching import known_items
from tests.fake_encoder import CrowdedEncoder

HERE = Path(__file__).parent
LINES, EVERYDAY = HERE / "data" / "lines", HERE / "data" / "everyday"
SHOWN = 5
# What is drawn of documentation, by column.
DRAWN = {
    "title": "titles",
    "word of a title, cut to 60 %": "half typed",
    "rare word": "words",
    "pair of words": "words",
}
COLUMNS = ("titles", "half typed", "words")
CROWDED = CrowdedEncoder(OnnxEncoder())


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule, and how it is switched off."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    patches: Mapping[str, object] = field(default_factory=dict)
    """Names of what stands in its place, below `retriever`."""
    is_crowded: bool = False
    """Whether all cosines lie between .7 and 1, as of many models."""


def leave_finder_out(number: int) -> Mapping[str, object]:
    """Return the patch that leaves one of the finders of names out."""
    finders = known_items.FINDERS
    return {"searching.known_items.FINDERS": (*finders[:number], *finders[number + 1 :])}


RULES = (
    Rule("all"),
    Rule("with the section first that reads best", {"read_passages": 3}),
    Rule("without semantic search", {"semantic_weight": 0.0}),
    Rule("without keyword search", {"keyword_weight": 0.0}),
    Rule("evidence 1 for each word hit", patches={"searching.sources.COVERAGE_POWER": 0.0}),
    Rule("evidence 1 for each semantic hit", patches={"searching.sources.weigh_evidence": lambda items: items}),
    Rule("meaning in full, however near", patches={"search.weigh_by_margin": lambda ranking, margin: ranking}),
    Rule("no second chunk", patches={"searching.fusion.SECOND_SHARE": 0.0}),
    Rule("no prior of pages", {"page_prior": 0.0}),
    Rule("no names", {"name_weight": 0.0}),
    Rule("names: no file and path", patches=leave_finder_out(0)),
    Rule("names: no identifier and code", patches=leave_finder_out(1)),
    Rule("names: no title and alias", patches=leave_finder_out(2)),
    Rule("names: none by day", patches=leave_finder_out(3)),
    Rule("names: none held as written", patches=leave_finder_out(4)),
    Rule("names: none half typed", patches={"searching.known_items.find_begun": lambda view, typed: {}}),
    Rule("no neighbors", {"neighbor_depth": 0}),
    Rule("no file roots", {"candidate_file_roots": 0}),
    Rule("copies apart", patches={"search.join_copies": lambda fused, hashes: fused}),
    Rule("no correction of typos", {"exact": True}),
    Rule("cosines between .7 and 1", is_crowded=True),
    Rule("the same, without one scale", patches={"places.view.View.common": 0.0}, is_crowded=True),
    Rule("classic", {"ranking": "classic", "name_weight": 0.0, "page_prior": 0.0, "exact": True}),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """The questions to one index."""

    group: str
    docs: Path
    questions: Sequence[Question]
    is_documentation: bool = False
    """Whether titles and words are drawn from it."""


def list_sets(arguments: Sequence[str]) -> Iterator[Asked]:
    """Yield what is asked of the documentation that is named, then of the collections and notes of this project."""
    for given in map(Benchmark.named, arguments):
        yield Asked(given.docs.name, given.docs, read_questions(given.questions).questions, is_documentation=True)
    for group, folder in (("collections", LINES), ("notes", EVERYDAY)):
        rows = [json.loads(row) for row in folder.with_suffix(".jsonl").read_text(encoding="utf-8").splitlines()]
        for docs in sorted(folder.iterdir()):
            own = [row for row in rows if row["corpus"] == docs.name and row["kind"] != "none"]
            yield Asked(group, docs, [read_row(row) for row in own])
    for language, code in (("German", "de"), ("Chinese", "zh")):
        for notes in (HERE.parent / "tests" / "data" / "languages", HERE / "data" / "languages"):
            if (notes / code).is_dir():
                yield Asked(language, notes / code, read_questions(notes / f"{code}.jsonl").questions)


def read_row(row: Mapping[str, Any]) -> Question:
    """Return a row of lines.jsonl as a question with gold lines."""
    places = [{"file": row["file"], "lines": row["lines"]}, *row["also"]]
    gold = tuple(Gold(place["file"], *place["lines"]) for place in places)
    return Question(row["id"], row["question"], gold, row["kind"])


def measure(
    asked: Asked, index: str, rule: Rule, drawn: Sequence[tuple[str, str, tuple[str, ...]]]
) -> dict[str, list[float]]:
    """Return nDCG@10 and hit@5 of each question, and whether what is drawn has its section first, by column."""
    values: dict[str, list[float]] = {}
    with ExitStack() as stack:
        for name, value in rule.patches.items():
            stack.enter_context(patch(f"retriever.{name}", value))
        settings = {"top_k": SHOWN, "read_passages": 0, "candidate_cap": DEPTH, **rule.settings}
        if rule.is_crowded:
            opened = open_retriever([asked.docs], f"{index}-crowded", settings=settings, encoder=CROWDED)
        else:
            opened = open_retriever((), index, settings=settings)
        retriever = stack.enter_context(opened)
        sections = retriever.nodes()
        for item in filter(lambda item: item.gold, asked.questions):
            found = measure_ranking(order(retriever, item.question), find_right(sections, item.gold))
            for name in ("nDCG@10", "hit@5"):
                values.setdefault(f"{asked.group} {name}", []).append(found[name])
        for kind, question, gold in drawn:
            first = order(retriever, question, is_typing="cut" in kind)[0]
            values.setdefault(DRAWN[kind], []).append(float(any(first.startswith(begin) for begin in gold)))
    return values


def order(retriever: Retriever, question: str, *, is_typing: bool = False) -> Sequence[str]:
    """Return the ids of the candidates, best first: of the hits, then of all others."""
    answer = retriever.search(AskRequest(question, is_typing=is_typing))
    behind = answer.trace.order if answer.trace else ()
    return list(dict.fromkeys((*(hit.node_id for hit in answer.hits), *behind))) or [""]


def print_table(sets: Sequence[Asked], rules: Sequence[Rule], work: Path) -> None:
    """Print a row for each rule; the indexes are made in a folder."""
    groups = list(dict.fromkeys(asked.group for asked in sets))
    print(f"| | {' | '.join((*groups, *COLUMNS))} |\n{'|---' * (len(groups) + len(COLUMNS) + 1)}|")
    indexes = [str(work / f"{number}-{asked.group}") for number, asked in enumerate(sets)]
    drawn = []
    for asked, index in zip(sets, indexes, strict=True):
        with open_retriever([asked.docs], index) as retriever:
            draws = (draw_titles, draw_halves, draw_words) if asked.is_documentation else ()
            drawn.append([item for draw in draws for item in draw(retriever) if item[0] in DRAWN])
    for rule in rules:
        values: dict[str, list[float]] = {}
        for asked, index, own in zip(sets, indexes, drawn, strict=True):
            for column, numbers in measure(asked, index, rule, own).items():
                values.setdefault(column, []).extend(numbers)
        cells = [f"{fmean(values[f'{group} nDCG@10']):.3f} / {fmean(values[f'{group} hit@5']):.3f}" for group in groups]
        counts = [str(round(sum(values[column]))) for column in COLUMNS]
        print(f"| {rule.name} | {' | '.join((*cells, *counts)).replace('0.', '.')} |", flush=True)


def main(arguments: Sequence[str]) -> None:
    """Print the table."""
    options = dict(item[2:].split("=", 1) for item in arguments if item.startswith("--"))
    named = [item for item in arguments if not item.startswith("--")]
    if not named:
        raise SystemExit(__doc__)
    words = options.get("rules", "").split(",")
    rules = [rule for rule in RULES if rule.name == "all" or any(word in rule.name for word in words)]
    with TemporaryDirectory() as place:
        print_table(list(list_sets(named)), rules, Path(options.get("work", place)))


if __name__ == "__main__":
    main(sys.argv[1:])
