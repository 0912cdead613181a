"""Reranking by a language model behind a real HTTP server: it can reorder, and nothing that goes wrong costs a hit."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from retriever.rerank.stage import rank_value
from retriever.served.task import SPEEDS, Abilities, Speed
from retriever.types import Answer
from tests.real.scripted_server import Asked, Model, ScriptedServer, status
from tests.shelf import Shelf

pytestmark = pytest.mark.shared_index

QUESTION = "tomatoes in a wet summer"


def preferring(*titles: str) -> Callable[[Asked], object]:
    """A model that puts candidates first whose titles end in these, and names the others only where none of them is."""

    def answer(asked: Asked) -> object:
        numbers = {item["titles"].rpartition(" > ")[2]: item["number"] for item in asked.candidates}
        return {"best_first": [numbers[title] for title in titles if title in numbers] or list(numbers.values())}

    return answer


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order is the reranker's alone."""
    monkeypatch.setattr("retriever.rerank.stage.BLEND", 0.0)


def ask(shelf: Shelf, ollama: ScriptedServer, **settings: Any) -> Answer:  # noqa: ANN401 - settings of any kind
    llm = {"url": ollama.url, **settings.pop("llm", {})}
    # No passages and rewordings: the reranking alone asks the model.
    wishes = {"use_llm": True, "hyde": "never"}
    return shelf.ask(
        QUESTION,
        **{**wishes, "llm": llm, "rerank": {"kind": "llm"}, **settings},
    )


def test_the_models_order_is_the_order_of_the_hits(shelf: Shelf, ollama: ScriptedServer) -> None:
    plain = shelf.ask(QUESTION, top_k=8)
    ollama.answer = preferring("Bread", "Blight")
    answer = ask(shelf, ollama, top_k=8)
    assert answer.degraded == ()
    others = [hit.node_id for hit in plain.hits if hit.title not in {"Bread", "Blight"}]
    assert [hit.title for hit in answer.hits[:2]] == ["Bread", "Blight"]
    assert [hit.node_id for hit in answer.hits[2:]] == others
    assert {hit.scale for hit in answer.hits} == {"reranked"}
    assert [hit.score for hit in answer.hits] == pytest.approx([rank_value(rank) for rank in range(1, 9)])
    (evidence,) = [item for item in answer.hits[0].evidence if item.source == "rerank"]
    assert (evidence.rank, evidence.score, evidence.scale) == (1, 1.0, "1 / log2(1 + the model's rank)")
    (stage,) = [stage for stage in answer.trace.stages if stage.name == "rerank"]
    assert stage.note == "8 candidates, 1 call"


def test_the_pool_is_reranked_and_what_is_behind_it_stays_there(
    shelf: Shelf, ollama: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retriever.rerank.stage.BLEND", 0.25)
    plain = shelf.ask(QUESTION, top_k=8)
    last = plain.hits[2].title
    ollama.answer = preferring(last)
    answer = ask(shelf, ollama, top_k=8, candidate_cap=3)
    assert [hit.node_id for hit in answer.hits] == [
        plain.hits[place].node_id for place in (2, 0, 1, *range(3, len(plain.hits)))
    ]
    assert len(ollama.asked[0].candidates) == 3


def test_a_section_that_names_an_entity_of_the_question_gains(shelf: Shelf, ollama: ScriptedServer) -> None:
    ollama.answer = lambda asked: {"best_first": list(range(1, 9))}
    wishes: dict[str, Any] = {"use_llm": True, "hyde": "always", "llm": {"url": ollama.url}, "top_k": 8}
    rerank = {"kind": "llm"}
    scores = []
    for boost in (0.0, 0.05):
        with shelf.open(**wishes, rerank=rerank, entity_boost=boost) as retriever:
            scores.append({hit.node_id: hit for hit in retriever.search("is a wet Summer good for the Bees?").hits})
    gains = {node_id: hit.score - scores[0][node_id].score for node_id, hit in scores[1].items()}
    gained = {node_id: gain for node_id, gain in gains.items() if gain > 1e-9}
    # The question's "Summer" and "Bees".
    assert gained == pytest.approx({"garden/bees.md#bees": 0.05, "garden/tomatoes.md#tomatoes/blight": 0.05})
    (evidence,) = [item for item in scores[1]["garden/bees.md#bees"].evidence if item.source == "rerank"]
    assert evidence.note == "1 of 2 entities"


@pytest.fixture(params=["ollama", "openai"])
def small(request: pytest.FixtureRequest, ollama: ScriptedServer) -> dict[str, Any]:
    """A model that was seen to fail with lists, on a server of either kind, whose speed is known."""
    ollama.models["small:1b"] = Model()
    ollama.listed = [{"id": "small:1b", "max_model_len": 8192}]
    url = ollama.url if request.param == "ollama" else ollama.v1
    SPEEDS.write(f"{url} small:1b", Speed(2000, 80))
    ollama.remember(Abilities(lists=False), "small:1b")
    return {"url": url, "model": "small:1b"}


def likely(asked: Asked) -> float:
    return 0.9 if "Bread" in asked.material else 0.1


def test_a_small_model_judges_each_candidate_by_the_odds_of_yes(
    shelf: Shelf, ollama: ScriptedServer, small: dict[str, Any]
) -> None:
    ollama.judge = likely
    answer = ask(shelf, ollama, top_k=8, llm=small)
    assert answer.degraded == ()
    before = [hit.title for hit in shelf.ask(QUESTION, top_k=8).hits]
    after = [hit.title for hit in answer.hits]
    assert after.index("Bread") < before.index("Bread")
    (stage,) = [stage for stage in answer.trace.stages if stage.name == "rerank"]
    assert stage.note == "8 candidates, each by itself"
    assert len(ollama.of_kind("judge")) == 8
    assert ollama.asked == []


def test_a_judge_reads_the_passage_then_the_question_then_the_task(
    shelf: Shelf, ollama: ScriptedServer, small: dict[str, Any]
) -> None:
    ollama.judge = likely
    ask(shelf, ollama, llm=small)
    first, passage, question, last, task = ollama.of_kind("judge")[0].material.split("\n")
    assert last == first.replace("<", "</"), "the task alone stands outside the data"
    assert list(json.loads(passage)) == ["titles", "passage"]
    assert json.loads(question) == {"question": QUESTION}
    assert task.endswith("Write yes or no.")


@pytest.mark.parametrize("silent", [None, status(400, {"error": "logprobs is not supported"})])
def test_a_server_without_odds_costs_no_hit(
    shelf: Shelf, ollama: ScriptedServer, small: dict[str, Any], silent: object
) -> None:
    ollama.judge = lambda asked: silent
    (line,) = map(str, ask(shelf, ollama, llm=small).degraded)
    assert line.startswith("rerank: ")


def test_flat_odds_leave_the_order(shelf: Shelf, ollama: ScriptedServer, small: dict[str, Any]) -> None:
    ollama.judge = lambda asked: 0.3
    reranked, plain = ask(shelf, ollama, llm=small), shelf.ask(QUESTION)
    assert [hit.node_id for hit in reranked.hits] == [hit.node_id for hit in plain.hits]
