r"""How documents and questions in other languages fare: each search alone and both together, and the verdicts.

    uv run python benchmarks/languages.py               # tests/data/languages, each language in an index of its own
    uv run python benchmarks/languages.py --together    # all languages in one index
    uv run python benchmarks/languages.py de zh         # these alone
    uv run python benchmarks/languages.py benchmarks/data/languages    # everyday notes, and near misses
    uv run python benchmarks/languages.py --foreign FOLDER...          # how many documents are taken for foreign ones

`--model=english` embeds with the English model.

`LANGUAGE/` holds the notes, `LANGUAGE.jsonl` the questions with gold lines, `LANGUAGE.unanswerable.jsonl` questions
that the notes do not answer: in tests/data/languages those of other topics and strings that mean nothing, in
benchmarks/data/languages near misses, whose topic is there. docs/internals/languages.md holds the tables.
"""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from retriever import open_retriever
from retriever.embedding.encoder import measure_foreign
from retriever.evaluation import QuestionSet, System, ask_all, read_questions

NOTES = Path(__file__).parents[1] / "tests" / "data" / "languages"
SYSTEMS = (
    System("balanced", "balanced", {}),
    System("words alone", "balanced", {"semantic_weight": 0.0}),
    System("meaning alone", "balanced", {"keyword_weight": 0.0, "name_weight": 0.0}),
)
MEASURES = ("hit@5", "nDCG@10")


def read_set(notes: Path, language: str, folder: str) -> QuestionSet:
    """Read the questions of a language; `folder` is put before the names of their files."""
    questions = read_questions(notes / f"{language}.jsonl")
    moved = tuple(
        replace(item, gold=tuple(replace(gold, file=f"{folder}{gold.file}") for gold in item.gold))
        for item in questions.questions
    )
    return replace(questions, questions=moved)


def measure(notes: Path, language: str, docs: Path, index: str, settings: Mapping[str, Any]) -> str:
    """Return a row: each system's measures, then how the verdicts are distributed."""
    questions = read_set(notes, language, "" if docs != notes else f"{language}/")
    systems = [replace(system, settings={**system.settings, **settings}) for system in SYSTEMS]
    measured = [ask_all(system, questions.questions, (str(docs),), index) for system in systems]
    cells = [f"{system.overall[name].mean:.3f}" for system in measured for name in MEASURES]
    with open_retriever((docs,), index, settings=settings) as retriever:
        right_first, others, unanswered = Counter[str](), Counter[str](), Counter[str]()
        for question in questions.questions:
            values = measured[0].per_question.get(question.id, {})
            (right_first if values.get("hit@1") else others)[retriever.search(question.question).verdict] += 1
        for question in read_questions(notes / f"{language}.unanswerable.jsonl").questions:
            unanswered[retriever.search(question.question).verdict] += 1
    verdicts = [
        " / ".join(str(found[name]) for name in ("answered", "weak", "none"))
        for found in (right_first, others, unanswered)
    ]
    return " | ".join(("", language, *cells, *verdicts, "")).strip()


def count_foreign(folders: Sequence[str]) -> None:
    """Print of each folder how many of its documents are not in English, as the choice of the model sees them."""
    for folder in folders:
        texts = [path.read_text(encoding="utf-8", errors="replace") for path in sorted(Path(folder).rglob("*.md"))]
        found = sum(bool(measure_foreign([text])) for text in texts)
        print(f"{folder}: {found} of {len(texts)} documents, {measure_foreign(texts):.3f} of the text")


def main(arguments: Sequence[str]) -> None:
    """Print the table."""
    if "--foreign" in arguments:
        count_foreign([item for item in arguments if item != "--foreign"])
        return
    together = "--together" in arguments
    model = next((item.removeprefix("--model=") for item in arguments if item.startswith("--model=")), "")
    settings = {"encoder": {"model": model}} if model else {}
    notes = next((Path(item) for item in arguments if Path(item).is_dir()), NOTES)
    every = sorted(file.stem for file in notes.glob("*.jsonl") if "." not in file.stem)
    languages = [item for item in arguments if item in every] or every
    systems = " | ".join(f"{system.name}: {name}" for system in SYSTEMS for name in MEASURES)
    verdicts = "right section first: answered / weak / none | another one first | no answer there"
    print(f"| language | {systems} | {verdicts} |")
    print("|---" * (2 * len(SYSTEMS) + 4) + "|")
    with TemporaryDirectory() as index:
        for language in languages:
            if together:
                print(measure(notes, language, notes, index, settings), flush=True)
                continue
            with TemporaryDirectory() as own:
                print(measure(notes, language, notes / language, own, settings), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
