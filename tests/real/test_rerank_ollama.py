"""Reranking by a language model behind a real HTTP server: it can reorder, and nothing that goes wrong costs a hit."""

from collections.abc import Callable
from typing import Any

import pytest

from retriever.served.task import SPEEDS, Abilities, Speed
from retriever.types import Answer
from tests.real.scripted_server import Asked, Model, ScriptedServer
from tests.shelf import Shelf

pytestmark = pytest.mark.shared_index

QUESTION = "tomatoes in a wet summer"
SMALL = "small:1b"


def preferring(*titles: str) -> Callable[[Asked], object]:
    """A model that puts candidates first whose titles end in these, and names the others only where none of them is."""

    def answer(asked: Asked) -> object:
        numbers = {item["titles"].rpartition(" > ")[2]: item["number"] for item in asked.candidates}
        return {"best_first": [numbers[title] for title in titles if title in numbers] or list(numbers.values())}

    return answer


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order is the reranker's alone."""
    monkeypatch.setattr("retriever.rerank.BLEND", 0.0)


def ask(
    shelf: Shelf,
    server: ScriptedServer,
    question: str = QUESTION,
    model: str = "llama3.2",
    kind: str = "llm",
    **settings: Any,  # noqa: ANN401 - settings of any kind
) -> Answer:
    """No passages and rewordings: the reranking alone asks the model."""
    llm = {"url": server.url, "model": model}
    return shelf.ask(question, use_llm=True, hyde="never", llm=llm, rerank={"kind": kind}, top_k=8, **settings)


def test_the_models_order_is_the_order_of_the_hits(shelf: Shelf, ollama: ScriptedServer) -> None:
    plain = shelf.ask(QUESTION, top_k=8)
    ollama.answer = preferring("Bread", "Blight")
    answer = ask(shelf, ollama)
    assert answer.degraded == ()
    others = [hit.title for hit in plain.hits if hit.title not in {"Bread", "Blight"}]
    assert [hit.title for hit in answer.hits] == ["Bread", "Blight", *others]
    assert {hit.scale for hit in answer.hits} == {"reranked"}
    (evidence,) = [item for item in answer.hits[0].evidence if item.source == "rerank"]
    assert (evidence.rank, evidence.score, evidence.scale) == (1, 1.0, "1 / log2(1 + the model's rank)")
    (stage,) = [stage for stage in answer.trace.stages if stage.name == "rerank"]
    assert stage.note == "8 candidates"


def test_a_section_that_names_an_entity_of_the_question_gains(shelf: Shelf, ollama: ScriptedServer) -> None:
    ollama.answer = lambda asked: {"best_first": list(range(1, 9))}
    answer = ask(shelf, ollama, "is a wet Summer good for the Bees?", entity_boost=0.05)
    ranked = {hit.node_id: item for hit in answer.hits for item in hit.evidence if item.source == "rerank"}
    gained = {node_id: item.note for node_id, item in ranked.items() if item.share == pytest.approx(item.score + 0.05)}
    assert gained == dict.fromkeys(["garden/bees.md#bees", "garden/tomatoes.md#tomatoes/blight"], "1 of 2 entities")


@pytest.fixture
def small(served: ScriptedServer) -> ScriptedServer:
    """It has a model that was seen to fail with lists, and whose speed is known."""
    served.models[SMALL] = Model()
    served.listed = [{"id": SMALL, "max_model_len": 8192}]
    SPEEDS.write(f"{served.url} {SMALL}", Speed(2000, 80))
    served.remember(Abilities(lists=False), SMALL)
    return served


def test_of_a_small_model_no_list_is_asked_for(shelf: Shelf, small: ScriptedServer) -> None:
    answer = ask(shelf, small, model=SMALL, kind="auto")
    assert f"{SMALL} was not seen to find a right passage" in answer.notes[0]
    assert small.asked == []
