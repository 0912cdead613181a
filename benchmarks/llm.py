r"""What a language model does for the hits, and how long it takes: a real one and its server, on questions with gold.

    llama-server -m model.gguf -c 4096 -np 1 --port 8080
    uv run python benchmarks/llm.py http://127.0.0.1:8080/v1 \
        ../shared/eval/fastapi.jsonl:../shared/eval/corpora/fastapi \
        ../shared/eval/rustbook.jsonl:../shared/eval/corpora/rustbook

QUESTIONS:DOCS for each set; `--count` questions are asked, spread over the sets. First comes the probe of `doctor
--llm`: what the model was seen to do. Then each way of using it, whatever the probe says: `odds` reranks the hits of
`balanced` by yes and no, `lists` in one list, `texts` searches with what the model writes. Seconds are the median.
What is learnt of the model is forgotten afterwards; `--indexes` keeps the indexes.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.quality import Benchmark
from retriever import open_retriever
from retriever.evaluation import DEPTH, Judgements, Question, Sections, measure_ranking, read_questions
from retriever.rerank import llm as rerank_llm
from retriever.served.generator import Generator
from retriever.served.task import Abilities
from retriever.settings.layers import DEFAULT_PROFILE
from retriever.settings.schema import LlmSettings, Profile, merge
from retriever.types import StageName
from retriever.upkeep import probe

MEASURES = ("hit@1", "hit@5", "nDCG@10")
NOTHING = Abilities(lists=False, odds=False, rewordings=False, passages=False, intents=False)
PLAIN = "no model"


@dataclass(frozen=True, slots=True)
class Way:
    """One use of the model, and the abilities that the program needs to see for it."""

    abilities: Abilities
    settings: Mapping[str, Any]


RERANKED = {"use_llm": True, "hyde": "never", "rerank": {"kind": "llm"}}
WAYS = {
    PLAIN: Way(NOTHING, {}),
    "odds": Way(Abilities(lists=False), RERANKED),
    "lists": Way(Abilities(odds=False), RERANKED),
    "texts": Way(Abilities(), {"use_llm": True, "hyde": "always"}),
}


@dataclass(frozen=True, slots=True)
class Asked:
    """Questions of one set, with what is right for each, and the index of its documents."""

    index: str
    questions: Sequence[Question]
    right: Sequence[Judgements]

    @classmethod
    def of(cls, benchmark: Benchmark, index: str, count: int) -> "Asked":
        """Index the documents, and choose the questions, evenly from the whole file."""
        questions = [question for question in read_questions(benchmark.questions).questions if question.gold]
        count = min(count, len(questions))
        chosen = [questions[place * len(questions) // count] for place in range(count)]
        with open_retriever([benchmark.docs], index) as retriever:
            sections = Sections(retriever.nodes())
        return cls(index, chosen, [sections.find_right(question.gold) for question in chosen])


@dataclass(slots=True)
class Outcome:
    """What came of one way, a question after the other."""

    values: list[dict[str, float]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """How much the model read or wrote for each; why it was left out, where it was."""

    def mean(self, measure: str) -> float:
        """Average a measure over the questions."""
        return fmean(value[measure] for value in self.values)

    def compare(self, plain: "Outcome") -> tuple[int, int]:
        """Count the questions whose nDCG@10 is better, and worse, than without the model."""
        pairs = list(zip(self.values, plain.values, strict=True))
        better = sum(own["nDCG@10"] > other["nDCG@10"] for own, other in pairs)
        return better, sum(own["nDCG@10"] < other["nDCG@10"] for own, other in pairs)


def ask(way: Way, sets: Sequence[Asked], settings: Mapping[str, Any]) -> Outcome:
    """Ask every question this way."""
    outcome = Outcome()
    for asked in sets:
        with open_retriever([], asked.index, DEFAULT_PROFILE, settings=merge(settings, way.settings)) as retriever:
            for question, right in zip(asked.questions, asked.right, strict=True):
                started = time.perf_counter()
                answer = retriever.search(question.question)
                outcome.seconds.append(time.perf_counter() - started)
                outcome.values.append(measure_ranking([hit.node_id for hit in answer.hits], right))
                stages = {stage.name: stage.note for stage in answer.trace.stages}
                used = [stages[name] for name in (StageName.EXPAND, StageName.RERANK) if stages.get(name)]
                outcome.notes.append("; ".join(map(str, answer.degraded)) or "; ".join(used))
                print(".", end="", file=sys.stderr, flush=True)
    return outcome


def list_abilities(generator: Generator) -> Iterator[str]:
    """Yield the table of what the model was seen to do."""
    started = time.monotonic()
    abilities = probe.probe(generator)
    seconds = time.monotonic() - started
    yield f"{generator.name}: {generator.speed or 'no speed is known'}"
    yield f"\n| the probe, {seconds:.0f} s | |\n|---|---|"
    for name, (what, _) in probe.SAYS.items():
        asks = "yes" if getattr(abilities, name) else "not asked" if name == "odds" and abilities.lists else "no"
        yield f"| {name}: {what} | {asks} |"


def list_outcomes(outcomes: Mapping[str, Outcome]) -> Iterator[str]:
    """Yield the table of what each way gives and takes, and what it used most often."""
    plain = outcomes[PLAIN]
    yield f"\n| {len(plain.values)} questions | {' | '.join(MEASURES)} | better | worse | s a question | mostly |"
    yield f"|---|{'---|' * (len(MEASURES) + 4)}"
    for name, outcome in outcomes.items():
        means = " | ".join(f"{outcome.mean(measure):.3f}" for measure in MEASURES)
        better, worse = outcome.compare(plain)
        usual = max(outcome.notes, key=outcome.notes.count)
        yield f"| {name} | {means} | {better} | {worse} | {median(outcome.seconds):.1f} | {usual} |"


def read_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="of the server, with /v1 unless it is Ollama")
    parser.add_argument("sets", nargs="+", metavar="QUESTIONS:DOCS")
    parser.add_argument("--model", default=LlmSettings().model, help="its name; by default the only one there is")
    parser.add_argument("--count", type=int, default=60, help="questions, of all sets together")
    parser.add_argument("--ways", default="odds", help="some of odds,lists,texts")
    parser.add_argument(
        "--seconds", type=float, default=LlmSettings().seconds, help="llm.seconds; raise it on a busy machine"
    )
    parser.add_argument("--candidates", type=int, default=rerank_llm.SMALL_READS, help="that are reranked at most")
    parser.add_argument("--no-probe", action="store_true", help="leave the probe out")
    parser.add_argument("--indexes", help="folder that keeps the indexes; by default they are thrown away")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> None:
    """Print the tables."""
    given = read_arguments(arguments)
    llm = LlmSettings(url=given.url, model=given.model, seconds=given.seconds)
    rerank_llm.SMALL_READS = given.candidates
    probe.SECONDS = max(probe.SECONDS, 2 * given.seconds)  # a slow machine is no fault of the model
    with ExitStack() as stack:
        os.environ["XDG_CACHE_HOME"] = stack.enter_context(TemporaryDirectory())
        indexes = Path(given.indexes or stack.enter_context(TemporaryDirectory()))
        generator = Generator(Profile(llm=llm))
        if not given.no_probe:
            print("\n".join(list_abilities(generator)), flush=True)
        sets = []
        for argument in given.sets:
            benchmark = Benchmark.named(argument)
            index = str(indexes / benchmark.questions.stem)
            sets.append(Asked.of(benchmark, index, max(1, given.count // len(given.sets))))
        settings = {"llm": {"url": llm.url, "model": llm.model, "seconds": llm.seconds}, "top_k": DEPTH}
        outcomes = {}
        for name in (PLAIN, *given.ways.split(",")):
            generator.remember(WAYS[name].abilities)
            outcomes[name] = ask(WAYS[name], sets, settings)
        print("\n".join(list_outcomes(outcomes)))


if __name__ == "__main__":
    main(sys.argv[1:])
