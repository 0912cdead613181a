r"""The most that reranking and expansions can win and lose: scripted ones in the real pipeline, on questions with gold.

    uv run python benchmarks/rerank.py ../shared/eval/fastapi.jsonl:../shared/eval/corpora/fastapi \
        ../shared/eval/rustbook.jsonl:../shared/eval/corpora/rustbook

QUESTIONS:DOCS for each set. The scripted rerankers know the gold: `perfect` puts right sections first, `last` puts them
last, `shuffled` puts all in an order that is drawn from the question. They score by rank, as a language model's order
is scored, and see what a profile gives them. Where QUESTIONS.expansions.jsonl lies beside QUESTIONS.jsonl, the
questions are asked with their own expansions too, and each with those of the question after it, and with senseless
rewordings: the question's words, and words of everyday life. Prints means over the sets.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.quality import Benchmark
from retriever import open_retriever, rerank
from retriever.evaluation import DEPTH, Question, find_right, measure_ranking, read_questions
from retriever.query import AskRequest, Expansion
from retriever.rerank import RerankInput, rank_value
from retriever.retriever import Retriever
from retriever.settings import DEFAULT_PROFILE, merge

MEASURES = ("nDCG@10", "hit@1", "hit@5", "hit@30")
PROFILES = ("fast", "balanced", "recall")
BLENDS = (0.0, 0.3)
EVERYDAY = (
    "harbour", "umbrella", "violin", "cheese", "glacier", "saxophone", "turnip", "pilgrim", "lighthouse", "carnival",
    "hedgehog", "sauna", "parliament", "velvet", "orchard", "tractor", "sonnet", "marathon", "cathedral", "grandmother",
    "camel", "opera", "pottery", "marmalade", "volcano", "wedding", "trousers", "ferry", "beard", "monastery",
)  # fmt: skip

Order = Callable[[str, Sequence[str], set[str]], Sequence[str]]
"""(question id, node ids as they come, what is right) -> the node ids, best first."""
Expansions = Mapping[str, Expansion]
"""By question id."""
Means = dict[str, dict[str, float]]
"""Rows to the means of their measures."""


def perfect(_: str, pool: Sequence[str], right: set[str]) -> Sequence[str]:
    """Put right sections first."""
    return sorted(pool, key=lambda node_id: node_id not in right)


def last(_: str, pool: Sequence[str], right: set[str]) -> Sequence[str]:
    """Put right sections last."""
    return sorted(pool, key=lambda node_id: node_id in right)


def shuffled(key: str, pool: Sequence[str], _: set[str]) -> Sequence[str]:
    """Shuffle the sections, always in the same order."""
    return Random(key).sample(pool, len(pool))


ORDERS: dict[str, Order] = {"perfect": perfect, "shuffled": shuffled, "last": last}


@dataclass
class Scripted:
    """A reranker that is given the candidates it will be shown, and the order to put them in."""

    pool: Sequence[str] = ()
    """Node ids in the order in which they are shown."""
    order: Sequence[str] = ()
    """The same, best first."""

    scale: ClassVar[str] = "scripted"

    def score(self, question: str, candidates: Sequence[RerankInput]) -> list[float]:
        """Score the candidates by their rank in the script."""
        assert len(candidates) == len(self.pool), "the same question gives the same candidates"
        ranks = {node_id: rank for rank, node_id in enumerate(self.order, start=1)}
        return [rank_value(ranks[node_id]) for node_id in self.pool]


@dataclass(frozen=True, slots=True)
class Questions:
    """One set, and the index of its documents."""

    docs: Path
    index: str
    questions: Sequence[Question]
    right: Mapping[str, set[str]]
    """By question id."""
    expansions: Expansions
    """Empty where none are recorded."""

    @classmethod
    def of(cls, benchmark: Benchmark, index: str) -> "Questions":
        """Index the documents, and read the questions."""
        questions = [question for question in read_questions(benchmark.questions).questions if question.gold]
        recorded = benchmark.read_expansions()
        with open_retriever([benchmark.docs], index) as retriever:
            sections = retriever.nodes()
        right = {question.id: find_right(sections, question.gold) for question in questions}
        return cls(benchmark.docs, index, questions, right, recorded)

    def open(self, profile: str, settings: Mapping[str, Any]) -> Retriever:
        """Open a retriever with as many hits as there are candidates, or more."""
        with open_retriever([self.docs], self.index, profile, settings=settings) as retriever:
            depth = max(DEPTH, retriever.profile.candidate_cap)
        return open_retriever([self.docs], self.index, profile, settings=merge(settings, {"top_k": depth}))

    @property
    def of_others(self) -> Expansions:
        """To each question the expansions of the one after it."""
        ids = [question.id for question in self.questions]
        return {key: self.expansions[other] for key, other in zip(ids, [*ids[1:], ids[0]], strict=True)}

    @property
    def senseless(self) -> Expansions:
        """To each question three rewordings that mix its words with three others."""
        made = {}
        for question in self.questions:
            random, words = Random(question.id), question.question.split()
            mixed = ([*words, *random.sample(EVERYDAY, 3)] for _ in range(3))
            made[question.id] = Expansion(tuple(" ".join(random.sample(text, len(text))) for text in mixed))
        return made


@dataclass(frozen=True, slots=True)
class Way:
    """How the questions of a set are asked."""

    profile: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    expanded: str = ""
    """`own`, `of others`, `senseless`, or not at all."""

    def found(self, asked: Questions, script: "Script | None" = None) -> dict[str, list[str]]:
        """Return node ids by question id, best first: as the pipeline puts them, or as the script reranks them."""
        recorded = {"": {}, "own": asked.expansions, "senseless": asked.senseless}
        recorded |= {"of others": asked.of_others} if self.expanded == "of others" else {}
        kind = {"rerank": {"kind": "onnx" if script else "none"}}
        rerank.BLEND = script.blend if script else 0.0
        with asked.open(self.profile, merge(self.settings, kind)) as retriever:
            retriever._models.reranker = reranker = Scripted()  # in place of the model that would be loaded
            found = {}
            for question in asked.questions:
                if script:
                    reranker.pool = script.pools[question.id][: retriever.profile.candidate_cap]
                    reranker.order = script.order(question.id, reranker.pool, asked.right[question.id])
                hits = retriever.search(
                    AskRequest(question.question, expansion=recorded[self.expanded].get(question.id))
                ).hits
                found[question.id] = [hit.node_id for hit in hits]
            return found


@dataclass(frozen=True, slots=True)
class Script:
    """The orders of a scripted reranker, and how they are blended."""

    pools: Mapping[str, Sequence[str]]
    """Node ids by question id, as they come without a reranker."""
    order: Order
    blend: float


def of_set(asked: Questions) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """Yield every row with its rankings, on one set."""
    for profile in PROFILES:
        way = Way(profile)
        pools = way.found(asked)
        yield f"{profile}: no reranking", pools
        yield f"{profile}: perfect", way.found(asked, Script(pools, perfect, 0.0))
        for name, order in ORDERS.items() if profile == DEFAULT_PROFILE else ():
            for blend in BLENDS:
                yield f"{profile}: {name}, blend {blend:g}", way.found(asked, Script(pools, order, blend))
    yield "senseless rewordings, gate always", Way(DEFAULT_PROFILE, {"hyde": "always"}, "senseless").found(asked)
    if not asked.expansions:
        return
    for whose in ("own", "of others"):
        for gate in ("auto", "always"):
            way = Way(DEFAULT_PROFILE, {"hyde": gate}, whose)
            pools = way.found(asked)
            yield f"expansions {whose}, gate {gate}", pools
            if (whose, gate) == ("own", "auto"):
                yield "expansions own, gate auto: perfect", way.found(asked, Script(pools, perfect, 0.0))


def means(asked: Questions, rankings: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Return the measures, averaged over the questions of a set."""
    values = [measure_ranking(ranking, asked.right[key]) for key, ranking in rankings.items()]
    return {name: mean(one[name] for one in values) for name in MEASURES}


def rows(sets: Sequence[Means]) -> Iterator[str]:
    """Yield the table: means over the sets, of what every set has."""
    yield f"| | {' | '.join(MEASURES)} |"
    yield f"|---|{'---|' * len(MEASURES)}"
    for name in sets[0]:
        if all(name in one for one in sets):
            values = [mean(one[name][measure] for one in sets) for measure in MEASURES]
            yield f"| {name} | {' | '.join(f'{value:.3f}' for value in values)} |"


def main(arguments: Sequence[str]) -> None:
    """Print the table."""
    if not arguments:
        raise SystemExit(__doc__)
    sets = []
    for argument in arguments:
        with TemporaryDirectory() as index:
            asked = Questions.of(Benchmark.named(argument), index)
            sets.append({name: means(asked, rankings) for name, rankings in of_set(asked)})
    print("\n".join(rows(sets)))


if __name__ == "__main__":
    main(sys.argv[1:])
