r"""Does the cited line answer? Sections, passages, first sentences and verdicts beside the lines that answer.

    uv run python benchmarks/lines.py ../shared/eval/lines.jsonl ../shared/eval/corpora [--index FOLDER] [--json]
    uv run python benchmarks/lines.py benchmarks/data/lines.jsonl benchmarks/data/lines
    uv run python benchmarks/lines.py benchmarks/data/people.jsonl benchmarks/data/people
    uv run python benchmarks/lines.py benchmarks/data/everyday.jsonl benchmarks/data/everyday

Each question names a folder of documents (`corpus`), a file and the lines that answer, `also` where other lines do, or
is of the kind `none`: the documents do not answer it. A section is right if its lines hold such a line, a passage if
it and they overlap, a first sentence if most words of one of the two texts stand in the other, a list is whole if that
holds of each of its lines. `before` has the questions that one follows. Shares come with intervals of 95 % (Wilson), by
kind, and by `half` where questions have one.
"""

import argparse
import json
import re
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from math import sqrt
from pathlib import Path
from typing import Any

from pageindex.blocks import read_blocks
from pageindex.node import Span
from pageindex.units import show_block
from retriever import AskRequest, Hit, open_retriever
from retriever.types import CitedSentence, ShortAnswer

MOST_WORDS = 0.6  # of the shorter text, in the other one
_WORD = re.compile(r"\w+")


def main(arguments: Sequence[str] | None = None) -> None:
    """Ask every question and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", type=Path)
    parser.add_argument("documents", type=Path, help="a folder with one folder for each corpus")
    parser.add_argument("--index", type=Path, help="where the indexes are kept")
    parser.add_argument("--profile", default="balanced")
    parser.add_argument("--verbose", action="store_true", help="each question with what is shown")
    given = parser.parse_args(arguments)
    asked = [json.loads(line) for line in given.questions.read_text(encoding="utf-8").splitlines()]
    judged: list[dict[str, Any]] = []
    index = given.index or Path(tempfile.mkdtemp(prefix="lines-"))
    for corpus in dict.fromkeys(item["corpus"] for item in asked):
        docs = given.documents / corpus
        with open_retriever([docs], index / corpus, profile=given.profile, settings={"top_k": 5}) as retriever:
            for item in asked:
                if item["corpus"] == corpus:
                    request = AskRequest(item["question"], item.get("before", ()))
                    judged.append(judge(item, retriever.answer(request), docs))
                    if given.verbose:
                        print(json.dumps(judged[-1], ensure_ascii=False))
    print_table(judged)


def judge(item: dict[str, Any], shown: ShortAnswer, docs: Path) -> dict[str, Any]:
    """Return what of an answer is right, each as True or False; None where it does not apply."""
    answer = shown.answer
    first = shown.sentences[0] if shown.sentences else None
    seen = {
        "question": item["question"], "kind": item["kind"], "half": item.get("half"), "verdict": answer.verdict,
        "shown": first.text if first else "", "cited": first.citation if first else "",
    }  # fmt: skip
    if item["kind"] == "none":
        return seen
    places = [(item["file"], *item["lines"]), *((other["file"], *other["lines"]) for other in item["also"])]
    right = [hit for hit in answer.hits if any(overlaps(hit, hit.span, place) for place in places)]
    seen["section first"] = bool(answer.hits) and answer.hits[0] in right
    seen["section in five"] = bool(right)
    seen["passage"] = any(overlaps(right[0], right[0].passage, place) for place in places) if right else None
    seen["lines cited"] = len(right[0].passage) if right else None
    texts = [read_lines(docs / file, start, end) for file, start, end in places]
    seen["sentence"] = first is not None and any(says(first.text, text) for text in texts)
    if item["kind"] == "list":
        file, start, end = places[0]
        lines = [read_lines(docs / file, line, line) for line in range(start, end + 1)]
        seen["whole"] = first is not None and all(says(first.text, line) for line in lines if line)
    seen["gold"] = texts[0][:300]
    return seen


def overlaps(hit: Hit | CitedSentence, span: Span, place: tuple[str, int, int]) -> bool:
    """Return whether lines of a hit are among those of a place."""
    file, start, end = place
    return bool(hit.file == file and span.first <= end and start <= span.last)


def read_lines(file: Path, start: int, end: int) -> str:
    """Return lines of a file as a page shows them."""
    lines = file.read_text(encoding="utf-8").split("\n")[start - 1 : end]
    return " ".join(map(show_block, read_blocks("\n".join(lines)))) or " ".join(lines)


def says(sentence: str, gold: str) -> bool:
    """Return whether one of two texts has most words of the other."""
    one, other = (set(_WORD.findall(text.lower())) for text in (sentence, gold))
    shorter = min(len(one), len(other))
    return shorter > 0 and len(one & other) >= MOST_WORDS * shorter


def print_table(judged: Sequence[dict[str, Any]]) -> None:
    """Print the shares by kind; then the answers to the questions without an answer."""
    kinds = defaultdict(list)
    for item in judged:
        if item["kind"] != "none":
            for kind in filter(None, (item["kind"], item["half"], "all")):
                kinds[kind].append(item)
    print(f"{'':<12}{'n':>4}  section first  in five        passage of these  first sentence  answered       none")
    for kind, items in kinds.items():
        found = [item for item in items if item["section in five"]]
        shares = [
            share([item["section first"] for item in items]),
            share([item["section in five"] for item in items]),
            share([bool(item["passage"]) for item in found]),
            share([item["sentence"] for item in found]),
            share([item["verdict"] == "answered" for item in items]),
            share([item["verdict"] == "none" for item in items]),
        ]
        print(f"{kind:<12}{len(items):>4}  " + "  ".join(shares))
    found = [item for item in kinds["all"] if item["section in five"]]
    print(f"lines cited: {sum(item['lines cited'] for item in found) / max(1, len(found)):.1f}")
    print(f"lists whole: {share([item['whole'] for item in found if item['kind'] == 'list'])}")
    wrong = [item for item in kinds["all"] if item["verdict"] == "answered" and not item["sentence"]]
    print(f"answered, and the first sentence is wrong: {len(wrong)} of {len(kinds['all'])}")
    without = [item for item in judged if item["kind"] == "none"]
    for verdict in ("answered", "weak", "none"):
        print(f"without an answer, {verdict}: {share([item['verdict'] == verdict for item in without])}")


def share(values: Sequence[bool]) -> str:
    """Return the share of True with Wilson's interval of 95 %, as text."""
    n = len(values)
    if not n:
        return "-".ljust(14)
    p, z = sum(values) / n, 1.96
    middle, half = p + z * z / (2 * n), z * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    low, high = (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)
    return f"{p:.2f} ({low:.2f}-{high:.2f})".ljust(14)


if __name__ == "__main__":
    main()
