"""Prompts of any size: what is sent fits the window, and what does not fit is shortened by us, who say so.

A token is three bytes here, however many characters these are.
"""

import random
from pathlib import Path

from retriever.served.speed import size
from tests.real.scripted_server import Asked, scripted_server
from tests.shelf import NEVER_REFRESH, Shelf

SCRIPTS = ("word ", "\u6f22\u5b57", "\u0434\u043e\u043c ", "0f3a9c", "\U0001f6a4", '"\\<', "x")
LONGEST = 20_000
"""Characters of a section: none is shortened but to fit the window."""


def passage(chance: random.Random, length: int) -> str:
    text = chance.choice(SCRIPTS)
    return (text * (length // len(text) + 1))[:length]


def answered(asked: Asked) -> object:
    if "queries" in asked.properties:
        return {"queries": ["which ship sails with the wind?"]}
    return {"best_first": [item["number"] for item in asked.candidates]}


def test_no_prompt_is_longer_than_its_window(tmp_path: Path) -> None:
    """Sections, questions and windows of random sizes."""
    chance = random.Random(11)
    lengths = [round(LONGEST ** chance.random()) for _ in range(40)]
    ships = [f"## Ship {number}\n\nShip. {passage(chance, length)}\n" for number, length in enumerate(lengths)]
    shelf = Shelf(tmp_path, {"ships.md": "# Ships\n\n" + "\n".join(ships)})
    shelf.update()
    prompts = 0
    for number in range(15):
        question = f"which ship {number} {passage(chance, round(10 ** chance.uniform(0, 3.9)))}"
        with scripted_server(answered) as ollama:
            answer = shelf.ask(
                question, use_llm=True, llm={"num_ctx": chance.choice((2048, 2500, 4096, 8192)), "url": ollama.url},
                hyde="always", rerank={"kind": "llm", "passage_chars": LONGEST},
                **NEVER_REFRESH,
            )  # fmt: skip
        for asked in ollama.asked:
            assert -(-size(asked.instructions + asked.material) // 3) + asked.num_predict <= asked.num_ctx
        assert answer.hits
        assert ollama.asked or answer.degraded, "nothing was asked, and it is not said"
        if any(item["passage"].endswith("\u2026") for asked in ollama.asked for item in asked.candidates):
            assert answer.degraded or any("shortened to fit" in stage.note for stage in answer.trace.stages)
        prompts += bool(ollama.asked)
    assert prompts >= 10
