"""The profile `research` as a whole: a scripted Ollama expands, a tiny cross-encoder reranks; skipped without torch."""

from pathlib import Path
from typing import Any

from retriever.api import open_retriever
from retriever.rerank.cross_encoder import LOAD_SECONDS
from retriever.types import Answer
from tests.real.scripted_server import Asked, killed, scripted_server
from tests.shelf import ALWAYS_LOOK, Shelf, found

QUESTION = "who pays for the journey when I put something into the red box?"
WRITTEN = {
    "queries": ["who pays for the journey of a letter?"],
    "hyde_answer": "A stamp pays for the journey of a letter.",
    "entities": ["journey", "bread"],
}


def answered(asked: Asked) -> object:
    return WRITTEN


def ask(shelf: Shelf, url: str, model: Path, **settings: Any) -> Answer:  # noqa: ANN401 - whatever the profile holds
    rerank = {"kind": "cross-encoder", "model": str(model), **settings.pop("rerank", {})}
    wishes = {**ALWAYS_LOOK, "llm": {"url": url}, "rerank": rerank, **settings}
    with open_retriever((), shelf.index, "research", wishes, encoder=shelf.encoder) as retriever:
        return retriever.search(QUESTION)


def test_expansion_cross_encoder_and_entities(shared_shelf: Shelf, tiny_model: Path) -> None:
    with scripted_server(answered) as ollama:
        answer = ask(shared_shelf, ollama.url, tiny_model, entity_boost=10.0)
    assert answer.degraded == ()
    assert [sorted(asked.properties)[0] for asked in ollama.asked] == ["entities", "actions"]
    assert {hit.scale for hit in answer.hits} == {"reranked"}
    assert answer.hits[0].title == "Stamps", "a name of the question outweighs every score"
    assert len(answer.hits) == 8


def test_a_server_that_dies_leaves_the_cross_encoder(shared_shelf: Shelf, tiny_model: Path) -> None:
    with scripted_server(answered) as ollama:
        ollama.once.append(killed())
        answer = ask(shared_shelf, ollama.url, tiny_model)
    assert [item.stage for item in answer.degraded] == ["expand", "rounds"]
    assert found(answer) == found(ask(shared_shelf, ollama.url, tiny_model, use_llm=False))
    assert {hit.scale for hit in answer.hits} == {"reranked"}


def test_a_budget_shorter_than_the_model_takes_to_load(shared_shelf: Shelf, tiny_model: Path) -> None:
    plain = ask(shared_shelf, "", tiny_model, use_llm=False, rerank={"kind": "none"})
    hurried = ask(shared_shelf, "", tiny_model, use_llm=False, budget="5s")
    (reason,) = map(str, hurried.degraded)
    assert reason.startswith("rerank: skipped, ")
    assert "of the budget of 5,000 ms were left" in reason
    assert found(hurried) == found(plain)
    patient = ask(shared_shelf, "", tiny_model, use_llm=False, budget=f"{3 * LOAD_SECONDS:.0f}s")
    assert patient.degraded == ()
    assert {hit.scale for hit in patient.hits} == {"reranked"}
