r"""What several rounds find of questions that need two or three sections, against one search.

    uv run python benchmarks/rounds.py [--verbose]

benchmarks/rounds.jsonl has 30 questions to this project's documentation and the test corpus larder, each with a line of
every section that it needs, and the actions of each round as a language model would give them; a section is named by
its title there. They are played by a scripted Ollama over HTTP, with the profile `research` but for its other models.
"""

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.follow_ups import DOCS, count_found, read_asked
from retriever import Answer, open_retriever
from tests.real.scripted_server import Asked, scripted_server

QUESTIONS = Path(__file__).with_suffix(".jsonl")
WITHOUT: dict[str, Any] = {"rerank": {"kind": "none"}, "hyde": {"gate": "never"}, "refresh_seconds": 1e6}


class Player:
    """Gives the recorded actions of each question, round by round."""

    def __init__(self, asked: Sequence[dict[str, Any]]) -> None:
        self._rounds = {item["question"]: item["rounds"] for item in asked}
        self._played: Counter[str] = Counter()

    def __call__(self, asked: Asked) -> object:
        """The actions of the next round; a title as the number of the first section with it, 0 where none was shown."""
        lines = [json.loads(line) for line in asked.material.split("\n") if line.startswith("{")]
        question, *sections = lines
        rounds = self._rounds[question["question"]]
        number = self._played[question["question"]]
        self._played[question["question"]] += 1
        numbers = {title: item["section"] for item in reversed(sections) for title in item["titles"].split(" > ")}
        actions = rounds[number] if number < len(rounds) else []
        return {
            "actions": [
                {**action, "section": numbers.get(action["section"], 0)} if "section" in action else action
                for action in actions
            ]
        }


def show(name: str, asked: Sequence[dict[str, Any]], answers: Sequence[Answer]) -> None:
    """A line of the table."""
    pairs = list(zip(asked, answers, strict=True))
    print(f"{name:<14}", end="")
    for k in (5, 8, 12):
        found = [count_found(item, answer, k) / len(item["gold"]) for item, answer in pairs]
        print(f"  recall@{k} {mean(found):.3f}, all of them {mean(share == 1 for share in found):.3f}", end="")
    print()


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", help="where the index is kept; otherwise it is made for this run")
    parser.add_argument("--verbose", action="store_true", help="every question with what was done")
    given = parser.parse_args(arguments)
    asked = read_asked(QUESTIONS)
    with TemporaryDirectory() as folder, scripted_server(Player(asked)) as ollama:
        os.environ["XDG_CACHE_HOME"] = folder
        index = given.index or folder + "/index"
        with open_retriever(DOCS, index, "research", {**WITHOUT, "use_llm": False}) as retriever:
            once = [retriever.search(item["question"]) for item in asked]
        with open_retriever(DOCS, index, "research", {**WITHOUT, "llm": {"url": ollama.url}}) as retriever:
            answers = [retriever.search(item["question"]) for item in asked]
    show("one search", asked, once)
    show("several rounds", asked, answers)
    read = mean(item.prompt_tokens for item in ollama.asked)
    refused = sum(len(answer.degraded) for answer in answers)
    print(f"{len(ollama.asked)} calls, {read:,.0f} tokens of four characters read in each; {refused} actions refused")
    if given.verbose:
        for item, first, answer in zip(asked, once, answers, strict=True):
            counts = f"{count_found(item, first, 5)} {count_found(item, answer, 5)} of {len(item['gold'])}"
            print(f"{counts} | {item['question']} | {answer.notes} | {answer.degraded}")


if __name__ == "__main__":
    main()
