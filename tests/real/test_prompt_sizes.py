"""Prompts of any size: what is sent fits the window, and what does not fit is shortened by us, who say so.

A token is three bytes here, however many characters these are.
"""

import random
from collections.abc import Iterator
from pathlib import Path

from retriever.display.phrases import pluralize
from retriever.served.speed import size
from retriever.types import Answer
from tests.real.scripted_server import Asked, ScriptedServer, scripted_server
from tests.shelf import NEVER_REFRESH, Shelf

SCRIPTS = ("word ", "\u6f22\u5b57", "\u0434\u043e\u043c ", "0f3a9c", "\U0001f6a4", '"\\<', "x")
WINDOWS = (2048, 2500, 4096, 8192)
MARK = "\u2026"
"""Where a passage was shortened."""
LONGEST = 20_000
"""Characters of a section: none is shortened but to fit the window."""


def passage(chance: random.Random, length: int) -> str:
    text = chance.choice(SCRIPTS)
    return (text * (length // len(text) + 1))[:length]


def shelf_of_sizes(place: Path, chance: random.Random) -> Shelf:
    """Sections of any length up to the longest, all about ships."""
    sections = [
        f"## Ship {number}\n\nShip. {passage(chance, round(LONGEST ** chance.random()))}\n" for number in range(40)
    ]
    shelf = Shelf(place, {"ships.md": "# Ships\n\n" + "\n".join(sections)})
    shelf.update()
    return shelf


def answered(asked: Asked) -> object:
    if "queries" in asked.properties:
        return {"queries": ["which ship sails with the wind?"]}
    return {"best_first": [item["number"] for item in asked.candidates]}


def sizes(place: Path, seed: int, count: int) -> Iterator[tuple[str, list[str]]]:
    """Questions, passages and windows of random sizes; how many tokens were asked for, and what is wrong with it."""
    chance = random.Random(seed)
    shelf = shelf_of_sizes(place, chance)
    for number in range(count):
        question = f"which ship {number} {passage(chance, round(10 ** chance.uniform(0, 3.9)))}"
        with scripted_server(answered) as ollama:
            limits = {"num_ctx": chance.choice(WINDOWS), "url": ollama.url}
            answer = shelf.ask(
                question, use_llm=True, llm=limits, hyde={"gate": "always", "cache_entries": 0},
                rerank={"kind": "llm", "passage_chars": LONGEST}, **NEVER_REFRESH,
            )  # fmt: skip
        most = max((asked.prompt_tokens for asked in ollama.asked), default=0)
        yield f"{pluralize(len(ollama.asked), 'prompt')}, at most {most} tokens", wrong_of(answer, ollama)


def wrong_of(answer: Answer, ollama: ScriptedServer) -> list[str]:
    """A prompt that does not fit, and what was shortened or left out while nobody says so."""
    needed = [
        (-(-size(asked.instructions + asked.material) // 3) + asked.num_predict, asked.num_ctx)
        for asked in ollama.asked
    ]
    wrong = [f"{tokens} tokens in a window of {window}" for tokens, window in needed if tokens > window]
    wrong += [] if answer.hits else ["nothing was found"]
    wrong += [] if ollama.asked or answer.degraded else ["nothing was asked, and it is not said"]
    cut = any(item["passage"].endswith(MARK) for asked in ollama.asked for item in asked.candidates)
    said = any("shortened to fit" in stage.note for stage in answer.trace.stages) or answer.degraded
    return wrong if said or not cut else [*wrong, "a passage was shortened, and it is not said"]


def test_no_prompt_is_longer_than_its_window(tmp_path: Path) -> None:
    """A few trials of each."""
    tried = list(sizes(tmp_path, 11, 15))
    assert [wrong for _, wrong in tried if wrong] == []
    assert sum(not how.startswith("0 prompts") for how, _ in tried) >= 10
