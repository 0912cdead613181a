"""What a question takes with a language model of five speeds, and what it asks of the model then.

    uv run python benchmarks/llm_speed.py DOCS "a question" [--profile full | --answer]

A scripted Ollama reads and writes as fast as it is told, waits as long as that takes, and says so with each answer, as
Ollama does. It writes as much as it is asked for. Each speed is asked twice: by a program that knows nothing of it yet,
and by one that has measured it (`doctor --llm`). Tokens are four characters here. With `--answer` it writes the
sentences of `answer`, in the profile balanced: the seconds until the first one is shown, and until all are.
"""

import argparse
import json
import os
import re
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1]))

from retriever import open_retriever
from retriever.api import index_folders
from retriever.display.phrases import pluralize
from retriever.served.speed import FILE_NAME, Speed, SpeedFile
from retriever.text import split_sentences
from tests.real.scripted_server import Asked, ScriptedServer, scripted_server

SPEEDS = ((30, 6), (60, 12), (150, 20), (500, 45), (2000, 80))
PASSAGE = "It is written in the pages on this question that it is done by a setting, which is read when it starts. "


def count_wanted(asked: Asked) -> dict[str, int]:
    """How many texts of each kind the instructions ask for."""
    return {kind: int(count) for count, kind in re.findall(r"(\d+) (rewordings|passages)\b", asked.instructions)}


def write(asked: Asked) -> object:
    """As many and as long texts as are asked for; the candidates as they come."""
    if "best_first" in asked.properties:
        return {"best_first": [item["number"] for item in asked.candidates]}
    if "sentences" in asked.properties:
        blocks = [json.loads(line) for line in asked.material.split("\n") if line.startswith('{"block"')]
        texts = [(block["block"], text) for block in blocks for text in split_sentences(block["text"])]
        usual = [item for item in texts if 60 < len(item[1]) < 110]
        most = re.search(r"at most (\d+)", asked.instructions)
        wanted = usual[: int(most[1])] if most else []
        return {"sentences": [{"block": number, "quote": text, "text": text} for number, text in wanted]}
    count = count_wanted(asked)
    answer: dict[str, object] = {"intent": "MECHANISM"}
    if "queries" in asked.properties:
        answer["queries"] = [
            f"in which way is it done, put in other words ({n})?" for n in range(count.get("rewordings", 0))
        ]
    if "hyde" in asked.properties:
        answer["hyde"] = [f"{n}. {PASSAGE * 3}" for n in range(count.get("passages", 0))]
    return answer


def ask(ollama: ScriptedServer, index: Path, profile: str, question: str) -> str:
    """Seconds, and what was asked, of a program that has just been started."""
    ollama.requests.clear()
    settings = {"llm": {"url": ollama.url}, "hyde": {"gate": "always", "cache_entries": 0}}
    with open_retriever((), index, profile, settings) as retriever:
        retriever.status()
        begun = time.perf_counter()
        answer = retriever.search(question)
        seconds = time.perf_counter() - begun
    words = []
    for asked in ollama.asked:
        words += [f"{count} {kind[:-1]}{'s' * (count > 1)}" for kind, count in count_wanted(asked).items()]
        words += [f"{len(asked.candidates)} candidates"] if asked.candidates else []
    late = "".join(f"; {item.stage} cut" for item in answer.degraded)
    return f"{seconds:.1f} s: {', '.join(words)}{late}"


def answer(ollama: ScriptedServer, index: Path, _: str, question: str) -> str:
    """Seconds until the first sentence and until all, and what was asked."""
    ollama.requests.clear()
    told = [0.0]
    with open_retriever((), index, settings={"llm": {"url": ollama.url}}) as retriever:
        retriever.status()
        begun = time.perf_counter()
        short = retriever.answer(question, on_sentence=lambda _: told.append(time.perf_counter() - begun))
        seconds = time.perf_counter() - begun
    if not short.writer:
        return f"{seconds:.1f} s: quoted"
    read = "".join(f", {asked.prompt_tokens:,} tokens read" for asked in ollama.asked)
    return f"{told[1]:.1f} s, {seconds:.1f} s: {pluralize(len(short.sentences), 'sentence')}{read}"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("docs", type=Path)
    parser.add_argument("question")
    parser.add_argument("--profile", default="full")
    parser.add_argument("--answer", action="store_true")
    given = parser.parse_args()
    measure = answer if given.answer else ask
    with TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        index = Path(index_folders([given.docs], Path(folder) / "index").path)
        print(f"{'read':>6} {'written':>8}   {'not measured yet':<66} measured")
        for reads, writes in SPEEDS:
            with scripted_server(write) as ollama:
                ollama.reads, ollama.writes, ollama.waits = reads, writes, True
                unknown = measure(ollama, index, given.profile, given.question)
                for file in Path(folder).rglob(FILE_NAME):
                    file.unlink()
                SpeedFile.of_user().write(f"{ollama.url} llama3.2", Speed(reads, writes))
                known = measure(ollama, index, given.profile, given.question)
            print(f"{reads:>6} {writes:>8}   {unknown:<66} {known}", flush=True)


if __name__ == "__main__":
    main()
