r"""How documents and questions in other languages fare: each search alone and both together, and the verdicts.

    uv run python benchmarks/languages.py               # tests/data/languages, each language in an index of its own
    uv run python benchmarks/languages.py --together    # all languages in one index
    uv run python benchmarks/languages.py de zh         # these alone

`LANGUAGE/` holds the notes, `LANGUAGE.jsonl` the questions with gold lines, `LANGUAGE.unanswerable.jsonl` questions
that the notes do not answer and strings that mean nothing. docs/internals/languages.md holds the tables.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1]))

from retriever import open_retriever
from retriever.evaluation.measures import QuestionSet, read_questions
from retriever.evaluation.results import EvaluationInput, System, ask_all, summarize

NOTES = Path(__file__).parents[1] / "tests" / "data" / "languages"
LANGUAGES = ("de", "fr", "es", "zh", "ja", "th")
SYSTEMS = (
    System("balanced", "balanced", {}),
    System("words alone", "balanced", {"semantic_weight": 0.0}),
    System("meaning alone", "balanced", {"keyword_weight": 0.0, "name_weight": 0.0}),
)
MEASURES = ("hit@5", "nDCG@10")


def read_set(language: str, folder: str) -> QuestionSet:
    """The questions of a language; `folder` is put before the names of their files."""
    questions = read_questions(NOTES / f"{language}.jsonl")
    moved = tuple(
        replace(item, gold=tuple(replace(gold, file=f"{folder}{gold.file}") for gold in item.gold))
        for item in questions.questions
    )
    return replace(questions, questions=moved)


def measure(language: str, docs: Path, index: str) -> str:
    """A row: each system's measures, then what becomes of the verdict."""
    questions = read_set(language, "" if docs != NOTES else f"{language}/")
    asked = EvaluationInput(questions, (str(docs),), index)
    runs = [ask_all(system, asked) for system in SYSTEMS]
    sections = runs[0].sections
    with open_retriever(asked.docs, index) as retriever:
        summary = summarize(questions, runs)
        cells = [
            f"{mean(values[name] for values in system.per_question.values()):.3f}"
            for system in summary.systems
            for name in MEASURES
        ]
        right_first, others = Counter[str](), Counter[str]()
        for question in questions.questions:
            answer = retriever.search(question.question)
            if answer.hits and answer.hits[0].node_id in sections.find_right(question.gold):
                right_first[answer.verdict] += 1
        for question in read_questions(NOTES / f"{language}.unanswerable.jsonl").questions:
            others[retriever.search(question.question).verdict] += 1
    verdicts = [
        " / ".join(str(found[name]) for name in ("answered", "weak", "none")) for found in (right_first, others)
    ]
    return " | ".join(("", language, *cells, *verdicts, "")).strip()


def main(arguments: Sequence[str]) -> None:
    """Prints the table."""
    together = "--together" in arguments
    languages = [item for item in arguments if item != "--together"] or LANGUAGES
    systems = " | ".join(f"{system.name}: {name}" for system in SYSTEMS for name in MEASURES)
    print(f"| language | {systems} | right section first: answered / weak / none | no answer there: likewise |")
    print("|---" * (2 * len(SYSTEMS) + 3) + "|")
    with TemporaryDirectory() as index:
        for language in languages:
            if together:
                print(measure(language, NOTES, index), flush=True)
                continue
            with TemporaryDirectory() as own:
                print(measure(language, NOTES / language, own), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
