r"""What a follow-up finds: alone, with words of the questions before, and rewritten so that it stands alone.

    uv run python benchmarks/follow_ups.py [--verbose]

benchmarks/follow_ups.jsonl has 40 follow-ups to this project's documentation and the test corpus larder, each with the
questions before it, a rewritten question as a language model would write it, and the line that answers. Where the check
refuses a rewritten question, words join as they do without a model. `otherwise` are the questions of that corpus that
stand alone, each after one on something else: how many are taken for follow-ups, and what that costs.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

from pageindex.node import Span
from retriever import Answer, open_retriever
from retriever.evaluation.formats import read_questions
from retriever.expansion.follow_up import find_fault
from retriever.query import AskRequest, Turn

ROOT = Path(__file__).parents[1]
DOCS = [ROOT / "docs", ROOT / "tests/eval_corpus/larder"]
QUESTIONS = Path(__file__).with_suffix(".jsonl")


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", help="where the index is kept; otherwise it is made for this run")
    parser.add_argument("--verbose", action="store_true", help="every question with what it finds")
    given = parser.parse_args(arguments)
    asked = read_asked(QUESTIONS)
    alone = [question for question in read_questions(DOCS[1].with_suffix(".jsonl")).questions if question.gold]
    with TemporaryDirectory() as folder:
        index = given.index or folder

        with open_retriever(DOCS, index, settings={"top_k": 10, "refresh_seconds": 1e6}) as retriever:
            show("alone", asked, [retriever.search(item["question"]) for item in asked], verbose=given.verbose)
            answers = [retriever.search(AskRequest(item["question"], item["after"])) for item in asked]
            show("with rare words of before", asked, answers, verbose=given.verbose)
            print(f"{sum(answer.follow_up is not None for answer in answers)} of {len(answers)} taken for a follow-up")
            whole = [f"{item['question']} {item['after'][-1]}" for item in asked]
            show("with the whole question before", asked, [retriever.search(text) for text in whole])
            faults = [find_fault(item["rewritten"], item["question"], as_turns(item)) for item in asked]
            answers = [
                words if fault else retriever.search(item["rewritten"])
                for item, words, fault in zip(asked, answers, faults, strict=True)
            ]
            show("rewritten", asked, answers, verbose=given.verbose)
            print(f"{faults.count('')} of {len(faults)} rewritten questions pass the check")
            standing = [
                {"gold": [(f"tests/eval_corpus/larder/{gold.file}", gold.span) for gold in item.gold]} for item in alone
            ]
            show("otherwise, alone", standing, [retriever.search(item.text) for item in alone])
            before = [item.text for item in (alone[-1], *alone[:-1])]
            answers = [
                retriever.search(AskRequest(item.text, [turn])) for item, turn in zip(alone, before, strict=True)
            ]
            show("otherwise, after another", standing, answers)
            print(f"{sum(answer.follow_up is not None for answer in answers)} of {len(answers)} taken for a follow-up")


def read_asked(path: Path) -> list[dict[str, Any]]:
    """The questions, the line of each quotation as (file, span) in `gold`.

    Raises:
        ValueError: a file of the documents has a quotation no more, or twice.
    """
    asked = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for item in asked:
        item["gold"] = [(gold["file"], find_line(gold["file"], gold["quote"])) for gold in item["gold"]]
    return asked


def find_line(file: str, quote: str) -> Span:
    """The line of a file of this repository that has the quotation."""
    text = (ROOT / file).read_text(encoding="utf-8")
    if text.count(quote) != 1:
        raise ValueError(f"{file} has {text.count(quote)} times, not once: {quote}")
    line = 1 + text[: text.index(quote)].count("\n")
    return Span(line, line)


def as_turns(item: dict[str, Any]) -> list[Turn]:
    """The questions before."""
    return [Turn(text) for text in item["after"]]


def count_found(item: dict[str, Any], answer: Answer, most: int) -> int:
    """How many of the lines that answer stand in the first hits."""
    places = [(str(Path(hit.folder, hit.file).relative_to(ROOT)), hit.span) for hit in answer.hits[:most]]
    return sum(any(file == own and span.overlap(lines) for own, span in places) for file, lines in item["gold"])


def show(name: str, asked: Sequence[dict[str, Any]], answers: Sequence[Answer], *, verbose: bool = False) -> None:
    """A line of the table."""
    shares = [
        mean(count_found(item, answer, k) > 0 for item, answer in zip(asked, answers, strict=True)) for k in (1, 5, 10)
    ]
    answered = mean(answer.verdict == "answered" for answer in answers)
    print(f"{name:<36} hit@1 {shares[0]:.3f}  hit@5 {shares[1]:.3f}  hit@10 {shares[2]:.3f}  answered {answered:.2f}")
    if verbose:
        for item, answer in zip(asked, answers, strict=True):
            found = "found " if count_found(item, answer, 5) else "      "
            understood = answer.follow_up.question if answer.follow_up else answer.question
            print(f"  {found} {understood} | {item['after']} | {[hit.citation for hit in answer.hits[:3]]}")


if __name__ == "__main__":
    main()
