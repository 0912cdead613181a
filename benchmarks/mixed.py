r"""How one folder of English documents and notes in other languages fares with each choice of the bundled models.

    uv run python benchmarks/mixed.py ../shared/eval/corpora/rustbook ../shared/eval/rustbook.jsonl \
        benchmarks/data/cross.rustbook.jsonl de es ja

First a folder of English documents, then sets of questions about it, then languages of benchmarks/data/languages, whose
notes stand beside. A line says what each set finds with each choice, and the verdicts where a right section is among
the first five, where none is, and for near misses. docs/internals/languages.md holds the figures.
"""

import shutil
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.languages import read_set
from retriever import open_retriever
from retriever.evaluation import QuestionSet, System, ask_all, read_questions

NOTES = Path(__file__).parent / "data" / "languages"
CHOICES = ("english", "multilingual", "both")


def measure(questions: QuestionSet, near_misses: Path, docs: str, index: str, system: System) -> str:
    """Return what one set finds, and its verdicts."""
    measured = ask_all(system, questions.questions, (docs,), index)
    values = [measured.overall[name].mean for name in ("hit@5", "nDCG@10")]
    found, missed, unanswered = Counter[str](), Counter[str](), Counter[str]()
    with open_retriever((docs,), index, system.profile, system.settings) as retriever:
        for question in questions.questions:
            is_found = measured.per_question.get(question.id, {}).get("hit@5")
            (found if is_found else missed)[retriever.search(question.question).verdict] += 1
        if near_misses.exists():
            for question in read_questions(near_misses).questions:
                unanswered[retriever.search(question.question).verdict] += 1
    counts = [
        " / ".join(str(part[name]) for name in ("answered", "weak", "none")) for part in (found, missed, unanswered)
    ]
    return " | ".join((f"{values[0]:.3f} / {values[1]:.3f}", *counts))


def main(arguments: Sequence[str]) -> None:
    """Index all of it once for each choice, and print a table."""
    english, *rest = arguments
    languages = [item for item in rest if (NOTES / item).is_dir()]
    sets = {Path(item).stem: Path(item) for item in rest if item not in languages}
    print(
        "| models | questions | hit@5 / nDCG@10 | found: answered / weak / none | not found | near misses |\n"
        + 6 * "|---"
        + "|"
    )
    with TemporaryDirectory() as place:
        docs = Path(place, "docs")
        for source in (Path(english), *(NOTES / language for language in languages)):
            shutil.copytree(source, docs / source.name)
        for choice in CHOICES:
            system = System(choice, "balanced", {"encoder": {"model": choice}})
            begun, index = time.perf_counter(), str(Path(place, choice))
            open_retriever((str(docs),), index, system.profile, system.settings).close()
            print(f"{choice}: {time.perf_counter() - begun:.0f} s", file=sys.stderr, flush=True)
            of_all = {name: read_set(file.parent, name, f"{Path(english).name}/") for name, file in sets.items()}
            of_all |= {language: read_set(NOTES, language, f"{language}/") for language in languages}
            for name, questions in of_all.items():
                row = measure(questions, NOTES / f"{name}.unanswerable.jsonl", str(docs), index, system)
                print(f"| {choice} | {name} | {row} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
