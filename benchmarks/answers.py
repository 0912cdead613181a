r"""How often a short answer that is quoted from the documents rests on the right lines, for questions with gold lines.

    uv run python benchmarks/answers.py ../shared/eval/fastapi.jsonl:../shared/eval/corpora/fastapi \
        ../shared/eval/rustbook.jsonl:../shared/eval/corpora/rustbook [--index FOLDER]

QUESTIONS:DOCS for each set; --index keeps the indexes in FOLDER. Prints for each set, and as the mean over the sets,
the share of all questions with a sentence whose cited lines overlap a gold span, with the first sentence so, the same
by the first hits' passages without a choice, of all sentences the share that is so, and the share
whose words stand in their lines one after another (others had markup in the middle). No model is asked.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.quality import Benchmark
from pageindex.node import Span
from retriever import open_retriever
from retriever.answering.sentences import MAX_EXTRACTED, find_quote
from retriever.evaluation.question_files import read_questions
from retriever.evaluation.questions import Question
from retriever.types import CitedSentence

COLUMNS = (
    "a sentence",
    "the first",
    f"{MAX_EXTRACTED} passages",
    "of the sentences",
    "word for word",
    "sentences each",
    "answered",
)


def is_gold(question: Question, file: str, span: Span) -> bool:
    """Whether lines of a file overlap lines that answer."""
    return any(gold.file == file and gold.span and gold.span.overlap(span) for gold in question.gold)


def stands(sentence: CitedSentence) -> bool:
    """Whether a sentence stands in the lines that it cites."""
    lines = Path(sentence.folder, sentence.file).read_text(encoding="utf-8").split("\n")
    cited = "\n".join(lines[sentence.span.first - 1 : sentence.span.last])
    text = sentence.text.removesuffix("\u2026")
    return text in cited or find_quote(text, cited) is not None


def measure(benchmark: Benchmark, index: str) -> tuple[float, ...]:
    """One set, in the order of COLUMNS."""
    rows = []
    right: list[bool] = []
    literal: list[bool] = []
    settings = {"answer": {"kind": "extractive"}, "refresh_seconds": 1e6}
    with open_retriever([benchmark.docs], index, settings=settings) as retriever:
        for question in read_questions(benchmark.questions).questions:
            found = retriever.answer(question.text)
            cited = [is_gold(question, item.file, item.span) for item in found.sentences]
            passages = [is_gold(question, hit.file, hit.passage) for hit in found.answer.hits[:MAX_EXTRACTED]]
            rows.append((any(cited), any(cited[:1]), any(passages), len(cited), bool(cited)))
            right += cited
            literal += map(stands, found.sentences)
    some, first, passage, count, answered = (mean(column) for column in zip(*rows, strict=True))
    return some, first, passage, mean(right), mean(literal), count, answered


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", metavar="QUESTIONS:DOCS")
    parser.add_argument("--index", type=Path)
    given = parser.parse_args(arguments)
    print(f"| set | questions | {' | '.join(COLUMNS)} |\n|---|---|{'---|' * len(COLUMNS)}")
    sets = []
    with TemporaryDirectory() as folder:
        for argument in given.sets:
            benchmark = Benchmark.named(argument)
            name = benchmark.questions.stem
            sets.append(measure(benchmark, str((given.index or Path(folder)) / name)))
            print(f"| {name} | {len(read_questions(benchmark.questions).questions)} | {row(sets[-1])} |", flush=True)
    print(f"| mean | | {row([mean(column) for column in zip(*sets, strict=True)])} |")


def row(values: Sequence[float]) -> str:
    """The cells."""
    return " | ".join(f"{value:.3f}" for value in values)


if __name__ == "__main__":
    main()
