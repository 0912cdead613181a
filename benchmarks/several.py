r"""What asking several indexes at once costs: each question to its own index, and to the indexes of all sets.

    uv run python benchmarks/several.py ../shared/eval/fastapi.jsonl:../shared/eval/corpora/fastapi \
        ../shared/eval/rustbook.jsonl:../shared/eval/corpora/rustbook

QUESTIONS:DOCS for each set. Of the lists, which have no section in common, one list is made: by reciprocal rank fusion
where each index weighs the same (k = 60), and as `--all` does, by the confidence of each index's answer. Prints means
over all questions.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.quality import Benchmark
from retriever import open_retriever
from retriever.evaluation.ask import DEPTH, list_sections
from retriever.evaluation.formats import read_questions
from retriever.evaluation.measures import measure
from retriever.evaluation.questions import Judgements, find_right_sections
from retriever.several import fuse_answers
from retriever.types import Answer

MEASURES = ("nDCG@10", "hit@1", "hit@5")


def equal_ranks(answers: Mapping[str, Answer]) -> list[str]:
    """Reciprocal rank fusion: the first of each index, then the second of each ..."""
    hits = [(-1 / (60 + hit.rank), name, hit.node_id) for name, answer in answers.items() for hit in answer.hits]
    return [f"{name}/{node_id}" for _, name, node_id in sorted(hits)]


def by_confidence(answers: Mapping[str, Answer]) -> list[str]:
    """As `--all` does."""
    return [f"{hit.index}/{hit.node_id}" for hit in fuse_answers(answers, DEPTH).hits]


def main(arguments: list[str]) -> None:
    """Prints the table."""
    benchmarks = {benchmark.questions: benchmark for benchmark in map(Benchmark.named, arguments)}
    if len(benchmarks) < 2:
        raise SystemExit(__doc__)
    right: dict[str, Judgements] = {}
    rankings: dict[str, dict[str, list[str]]] = {name: {} for name in ("its own index", "equal ranks", "confidence")}
    with TemporaryDirectory() as place:
        settings = {"top_k": DEPTH, "refresh_seconds": 1e6}
        opened = {
            str(number): open_retriever([benchmark.docs], Path(place, str(number)), settings=settings)
            for number, benchmark in enumerate(benchmarks.values())
        }
        for own, questions in zip(opened, benchmarks, strict=True):
            sections = list_sections(opened[own])
            for question in read_questions(questions).questions:
                answers = {name: retriever.search(question.text) for name, retriever in opened.items()}
                judged = find_right_sections(question, sections)
                right[question.id] = {f"{own}/{node_id}": gain for node_id, gain in judged.items()}
                rankings["its own index"][question.id] = [f"{own}/{hit.node_id}" for hit in answers[own].hits]
                rankings["equal ranks"][question.id] = equal_ranks(answers)
                rankings["confidence"][question.id] = by_confidence(answers)
        for retriever in opened.values():
            retriever.close()
    print(f"{'':<16}{''.join(f'{name:>10}' for name in MEASURES)}")
    for name, ranking in rankings.items():
        values = measure({key: list(dict.fromkeys(ids)) for key, ids in ranking.items()}, right, MEASURES).values()
        print(f"{name:<16}{''.join(f'{mean(value[item] for value in values):>10.3f}' for item in MEASURES)}")


if __name__ == "__main__":
    main(sys.argv[1:])
