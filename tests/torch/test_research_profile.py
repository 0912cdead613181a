"""The profile `research` as a whole: a scripted Ollama expands, a tiny cross-encoder reranks; skipped without torch."""

from pathlib import Path
from typing import Any

import pytest

from retriever.api import open_retriever
from retriever.rerank.cross_encoder import LOAD_SECONDS
from retriever.types import Answer
from tests.real.scripted_ollama import Asked, killed, scripted_ollama
from tests.shelf import ALWAYS_LOOK, PAGES, Shelf, found
from tests.torch.test_cross_encoder import made

QUESTION = "who pays for the journey when I put something into the red box?"
WRITTEN = {
    "queries": ["who pays for the journey of a letter?"],
    "hyde_answer": "A stamp pays for the journey of a letter.",
    "entities": ["bread"],
}


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("tiny"), "BertForSequenceClassification", num_labels=1)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    shelf = Shelf(tmp_path_factory.mktemp("research"), PAGES)
    shelf.update()
    return shelf


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def answered(asked: Asked) -> object:
    return WRITTEN


def ask(shelf: Shelf, url: str, model: Path, **settings: Any) -> Answer:  # noqa: ANN401 - whatever the profile holds
    rerank = {"model": str(model), **settings.pop("rerank", {})}
    wishes = {**ALWAYS_LOOK, "llm": {"url": url}, "rerank": rerank, **settings}
    with open_retriever((), shelf.index, "research", wishes, encoder=shelf.encoder) as retriever:
        return retriever.search(QUESTION)


def test_expansion_cross_encoder_and_entities(shelf: Shelf, tiny_model: Path) -> None:
    with scripted_ollama(answered) as ollama:
        answer = ask(shelf, ollama.url, tiny_model, entity_boost=10.0)
    assert answer.degraded == ()
    assert [sorted(asked.properties)[0] for asked in ollama.asked] == ["entities"]
    assert {hit.scale for hit in answer.hits} == {"reranked"}
    assert answer.hits[0].title == "Bread", "an entity of the expansion outweighs every score"
    assert len(answer.hits) == 8


def test_a_server_that_dies_leaves_the_cross_encoder(shelf: Shelf, tiny_model: Path) -> None:
    with scripted_ollama(answered) as ollama:
        ollama.once.append(killed())
        answer = ask(shelf, ollama.url, tiny_model)
    assert [item.stage for item in answer.degraded] == ["expand"]
    assert found(answer) == found(ask(shelf, ollama.url, tiny_model, use_llm=False))
    assert {hit.scale for hit in answer.hits} == {"reranked"}


def test_a_budget_shorter_than_the_model_takes_to_load(shelf: Shelf, tiny_model: Path) -> None:
    plain = ask(shelf, "", tiny_model, use_llm=False, rerank={"kind": "none"})
    hurried = ask(shelf, "", tiny_model, use_llm=False, budget="5s")
    (reason,) = map(str, hurried.degraded)
    assert reason.startswith("rerank: skipped, ")
    assert "of the budget of 5,000 ms were left" in reason
    assert found(hurried) == found(plain)
    patient = ask(shelf, "", tiny_model, use_llm=False, budget=f"{3 * LOAD_SECONDS:.0f}s")
    assert patient.degraded == ()
    assert {hit.scale for hit in patient.hits} == {"reranked"}
