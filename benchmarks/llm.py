r"""The effect of a language model on hits and answers, and its time: a real one and its server.

    llama-server -m model.gguf -c 4096 -np 1 --port 8080
    uv run python benchmarks/llm.py http://127.0.0.1:8080/v1 --first 4 \
        ../shared/eval/fastapi.jsonl:../shared/eval/corpora/fastapi \
        ../shared/eval/rustbook.jsonl:../shared/eval/corpora/rustbook
    uv run python benchmarks/llm.py http://127.0.0.1:8080/v1 --lines ../shared/eval/lines.jsonl:../shared/eval/corpora

First comes the probe of `doctor --llm`: what the model was seen to do. Then, of QUESTIONS:DOCS for each set, `--count`
questions are asked in each way, whatever the probe says: `lists` reranks the hits of `balanced`, `texts` searches with
what the model writes. With `--first N` they are those whose first N hits hold right and wrong ones, for reranking
changes no others. `--lines` compares the short answers that it writes with quoted ones.

What is asked is what a laptop would ask: tasks are planned for `--speed`, whatever the machine, and it is waited
longer. Seconds are medians. Ctrl-C ends a run, and what is done is printed; with `--results FILE` it is kept, and the
next run goes on. What is learnt of the model is forgotten afterwards; `--indexes` keeps the indexes.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from statistics import fmean, median
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.lines import overlaps
from benchmarks.quality import Benchmark
from retriever import Retriever, open_retriever, upkeep
from retriever.evaluation import DEPTH, Question, find_right, measure_ranking, read_questions
from retriever.served.generator import Generator
from retriever.served.task import Abilities, ModelRecords, Speed
from retriever.settings import DEFAULT_PROFILE, LlmSettings, Profile, merge
from retriever.types import ShortAnswer, StageName

MEASURES = ("hit@1", "hit@5", "nDCG@10")
NOTHING = Abilities(lists=False, rewordings=False, passages=False, intents=False)
PLAIN, QUOTED, WRITTEN = "no model", "quoted", "written"
PATIENCE = 20  # times as long as the program waits: that this machine is busy is no fault of the model
FOREVER = 1e12  # seconds since 1970: a speed that is never old

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Way:
    """One use of the model, and the abilities that the program needs to see for it."""

    abilities: Abilities
    settings: Mapping[str, Any]


RERANKED = {"use_llm": True, "hyde": "never", "rerank": {"kind": "llm"}}
WAYS = {
    PLAIN: Way(NOTHING, {}),
    "lists": Way(Abilities(), RERANKED),
    "texts": Way(Abilities(), {"use_llm": True, "hyde": "always"}),
}


@dataclass(frozen=True, slots=True)
class Asked:
    """Questions of one set, with what is right for each, and the index of its documents."""

    index: str
    questions: Mapping[str, tuple[Question, set[str]]]

    @classmethod
    def of(cls, benchmark: Benchmark, index: str) -> "Asked":
        """Index the documents, and read the questions that they answer."""
        with open_retriever([benchmark.docs], index) as retriever:
            sections = retriever.nodes()
        questions = [question for question in read_questions(benchmark.questions).questions if question.gold]
        return cls(index, {one.id: (one, find_right(sections, one.gold)) for one in questions})

    def choose(self, ids: Sequence[str]) -> "Asked":
        """Return those of these ids alone."""
        return Asked(self.index, {name: self.questions[name] for name in ids})


@dataclass(slots=True)
class Results:
    """The result of each way, by question; kept in a file where there is one, unless it failed."""

    path: Path | None
    rows: dict[tuple[str, str], Row] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.path and self.path.exists():
            lines = map(json.loads, self.path.read_text(encoding="utf-8").splitlines())
            self.rows = {(row["way"], row["id"]): row for row in lines}

    def add(self, way: str, name: str, ask: Callable[[], Row]) -> None:
        """Ask the question, unless its outcome is known."""
        if (way, name) in self.rows:
            return
        started = time.perf_counter()
        seen = ask()
        row = {"way": way, "id": name, "seconds": round(time.perf_counter() - started, 2), **seen}
        self.rows[way, name] = row
        print(".", end="", file=sys.stderr, flush=True)
        if self.path and not row["failed"]:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")

    def list_done(self, ways: Sequence[str], ids: Sequence[str]) -> list[str]:
        """Return the questions that were asked in all these ways."""
        return [name for name in ids if all((way, name) in self.rows for way in ways)]


class HeldSpeeds(ModelRecords[Speed]):
    """The first speed of a model stays, whatever is measured."""

    def write(self, key: str, record: Speed) -> None:
        """Take over what is no speed."""
        held = self.read().get(key, replace(record, measured_at=FOREVER))
        super().write(key, replace(held, has_schema=record.has_schema))


# Hits


def ask(name: str, sets: Sequence[Asked], settings: Mapping[str, Any], results: Results) -> None:
    """Ask every question this way, in an order that mixes sets and kinds: one that is broken off says something too."""
    with ExitStack() as stack:
        asked = []
        for one in sets:
            retriever = open_retriever([], one.index, DEFAULT_PROFILE, settings=merge(settings, WAYS[name].settings))
            asked += [(stack.enter_context(retriever), *item) for item in one.questions.values()]
        for retriever, question, right in Random(len(asked)).sample(asked, len(asked)):
            results.add(name, question.id, lambda: search(retriever, question.question, right))  # noqa: B023 - at once


def search(retriever: Retriever, question: str, right: set[str]) -> Row:
    """Return which hits are right, and what the model did."""
    answer = retriever.search(question)
    ranking = [hit.node_id for hit in answer.hits]
    stages = {stage.name: stage.note for stage in answer.trace.stages}
    used = [stages[name] for name in (StageName.EXPAND, StageName.RERANK) if stages.get(name)]
    note = "; ".join(map(str, answer.degraded)) or "; ".join(used)
    is_right = [node_id in right for node_id in ranking]
    values = measure_ranking(ranking, right)
    return {"values": values, "right": is_right, "note": note, "failed": bool(answer.degraded)}


def choose(asked: Sequence[Asked], results: Results, count: int, first: int) -> list[Asked]:
    """Return the questions to ask, evenly from the files; those whose first hits can change where `first` is not 0."""
    chosen = []
    for left, one in zip(range(len(asked), 0, -1), asked, strict=True):
        able = list(one.questions)
        if first:
            able = [name for name in able if 0 < sum(results.rows[PLAIN, name]["right"][:first]) < first]
        share = min(len(able), count // left)
        count -= share
        chosen.append(one.choose([able[place * len(able) // share] for place in range(share)]))
        print(f"{share} of {len(able)} questions of {len(one.questions)}", file=sys.stderr)
    return chosen


def list_outcomes(ways: Sequence[str], ids: Sequence[str], results: Results) -> Iterator[str]:
    """Yield the table of what each way gives and takes, and what it used most often."""
    yield f"\n| {len(ids)} questions | {' | '.join(MEASURES)} | better | worse | s a question | mostly |"
    yield f"|---|{'---|' * (len(MEASURES) + 4)}"
    for way in ways:
        rows = [results.rows[way, name] for name in ids]
        means = " | ".join(f"{fmean(row['values'][measure] for row in rows):.3f}" for measure in MEASURES)
        gains = [row["values"]["nDCG@10"] - results.rows[PLAIN, row["id"]]["values"]["nDCG@10"] for row in rows]
        better, worse = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
        notes = [row["note"] for row in rows]
        seconds = median(row["seconds"] for row in rows)
        yield f"| {way} | {means} | {better} | {worse} | {seconds:.1f} | {max(notes, key=notes.count)} |"


# Short answers


def judge(item: Row, short: ShortAnswer) -> Row:
    """Return which of an answer's sentences cite a line that answers, and who wrote them."""
    places = [(one["file"], *one["lines"]) for one in (item, *item["also"]) if one["file"]]
    cites = [any(overlaps(sentence, sentence.span, place) for place in places) for sentence in short.sentences]
    return {
        "kind": "none" if item["kind"] == "none" else "some", "cites": cites, "writer": short.writer,
        "texts": [sentence.text for sentence in short.sentences], "verdict": short.answer.verdict,
        "dropped": [f"{one.text}: {one.reason}" for one in short.dropped],
        "failed": [*map(str, short.answer.degraded)],
    }  # fmt: skip


def list_answers(ids: Sequence[str], results: Results) -> Iterator[str]:
    """Yield the table of quoted and written answers."""
    yield "\n| answers | cite a line that answers | the first does | sentences | by the model | better | worse | s |"
    yield "|---|---|---|---|---|---|---|---|"
    for kind in ("some", "none"):
        for way in (QUOTED, WRITTEN):
            pairs = [(results.rows[way, name], results.rows[QUOTED, name]) for name in ids]
            rows = [row for row, _ in pairs if row["kind"] == kind]
            if not rows:
                continue
            right = sum(any(row["cites"]) for row in rows)
            first = sum(row["cites"][:1] == [True] for row in rows)
            sentences = sum(bool(row["cites"]) for row in rows)
            own = sum(bool(row["writer"]) for row in rows)
            goods = [(is_good(row), is_good(quoted)) for row, quoted in pairs if row["kind"] == kind]
            better, worse = sum(one > other for one, other in goods), sum(one < other for one, other in goods)
            seconds = median(row["seconds"] for row in rows)
            name = f"{way}, {len(rows)} {'without an answer' if kind == 'none' else 'with one'}"
            yield f"| {name} | {right} | {first} | {sentences} | {own} | {better} | {worse} | {seconds:.1f} |"


def is_good(row: Row) -> bool:
    """Return whether an answer cites a line that answers, or says nothing where nothing does."""
    return not row["cites"] if row["kind"] == "none" else any(row["cites"])


def compare_answers(argument: str, indexes: Path, settings: Mapping[str, Any], results: Results, count: int) -> None:
    """Ask for answers, two questions with one for each without, and print the table."""
    benchmark = Benchmark.named(argument)
    items = [json.loads(line) for line in benchmark.questions.read_text(encoding="utf-8").splitlines()]
    chosen = []
    for is_none, share in ((False, count - count // 3), (True, count // 3)):
        able = [item for item in items if (item["kind"] == "none") == is_none]
        chosen += [able[place * len(able) // share] for place in range(share)]
    with ExitStack() as stack, suppress(KeyboardInterrupt):
        opened = {}
        for corpus in dict.fromkeys(item["corpus"] for item in chosen):
            docs, index = benchmark.docs / corpus, str(indexes / corpus)
            opened[corpus] = stack.enter_context(open_retriever([docs], index, DEFAULT_PROFILE, settings=settings))
        for item in Random(count).sample(chosen, len(chosen)):
            retriever = opened[item["corpus"]]
            for way in (QUOTED, WRITTEN):

                def answer() -> Row:
                    return judge(item, retriever.answer(item["question"], quoted=way == QUOTED))  # noqa: B023 - at once

                results.add(way, item["id"], answer)
    if ids := results.list_done((QUOTED, WRITTEN), [item["id"] for item in chosen]):
        print("\n".join(list_answers(ids, results)))


def list_abilities(generator: Generator) -> Iterator[str]:
    """Yield the table of what the model was seen to do."""
    started = time.monotonic()
    abilities = upkeep.probe(generator)
    seconds = time.monotonic() - started
    yield f"\n| {generator.name}: the probe, {seconds:.0f} s | |\n|---|---|"
    for name, (what, _) in upkeep.SAYS.items():
        yield f"| {name}: {what} | {'yes' if getattr(abilities, name) else 'no'} |"


def read_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="of the server, with /v1 unless it is Ollama")
    parser.add_argument("sets", nargs="*", metavar="QUESTIONS:DOCS")
    parser.add_argument("--lines", metavar="QUESTIONS:FOLDERS", help="questions as of benchmarks/lines.py, for answers")
    parser.add_argument("--model", default=LlmSettings().model, help="its name; by default the only one there is")
    parser.add_argument("--count", type=int, default=60, help="questions, of all sets together")
    parser.add_argument("--first", type=int, default=0, help="hits, of which right and wrong ones must be; 0: any")
    parser.add_argument("--ways", default="lists", help="some of lists,texts")
    parser.add_argument("--speed", default="85/20", help="tokens read and written a second, that tasks are planned for")
    parser.add_argument("--no-probe", action="store_true", help="leave the probe out")
    parser.add_argument("--indexes", type=Path, help="folder that keeps the indexes; by default they are thrown away")
    parser.add_argument("--results", type=Path, help="file that keeps what came of each question, of one model")
    return parser.parse_intermixed_args(arguments)


def main(arguments: Sequence[str]) -> None:
    """Print the tables."""
    given = read_arguments(arguments)
    llm = LlmSettings(url=given.url, model=given.model, seconds=PATIENCE * LlmSettings().seconds)
    upkeep.PROBE_SECONDS *= PATIENCE
    with ExitStack() as stack:
        os.environ["XDG_CACHE_HOME"] = stack.enter_context(TemporaryDirectory())
        indexes = given.indexes or Path(stack.enter_context(TemporaryDirectory()))
        generator = Generator(Profile(llm=llm))
        speeds = HeldSpeeds("held_speeds.json", Speed)
        stack.enter_context(patch("retriever.served.generator.SPEEDS", speeds))
        reads, writes = (float(number) / PATIENCE for number in given.speed.split("/"))
        speeds.write(generator.identity, Speed(reads, writes))
        if not given.no_probe:
            print("\n".join(list_abilities(generator)), flush=True)
        results = Results(given.results)
        settings = {"llm": {"url": llm.url, "model": llm.model, "seconds": llm.seconds}, "top_k": DEPTH}
        if given.lines:
            compare_answers(given.lines, indexes, settings | {"top_k": 5}, results, given.count)
        benchmarks = map(Benchmark.named, given.sets)
        sets = [Asked.of(benchmark, str(indexes / benchmark.questions.stem)) for benchmark in benchmarks]
        ask(PLAIN, sets, settings, results)
        chosen = choose(sets, results, given.count, given.first)
        ways = [PLAIN, *given.ways.split(",")]
        with suppress(KeyboardInterrupt):
            for name in ways:
                generator.remember(WAYS[name].abilities)
                ask(name, chosen, settings, results)
        if ids := results.list_done(ways, [name for asked in chosen for name in asked.questions]):
            print("\n".join(list_outcomes(ways, ids, results)))


if __name__ == "__main__":
    main(sys.argv[1:])
