"""Every profile with a scripted Ollama over HTTP, also when it dies in the middle of each of its calls."""

from collections.abc import Mapping
from typing import Any

import pytest

from retriever.api import open_retriever
from retriever.retriever import Retriever
from retriever.served.task import Abilities
from retriever.settings import profile_names
from retriever.types import Answer
from tests.real.scripted_server import QUESTION, Asked, ScriptedServer, help_and_reverse, killed, scripted_server
from tests.shelf import Shelf, found

pytestmark = pytest.mark.shared_index

STAGES = {"precision": ["rerank"], "full": ["expand", "rerank"], "research": ["expand", "rerank"]}
"""The stages of a profile that ask the language model, in their order."""
answered = help_and_reverse
PLAIN = sorted({*profile_names()}.difference(STAGES))


def stage_of(asked: Asked) -> str:
    return "expand" if "intent" in asked.properties else "rerank"


def opened(shelf: Shelf, profile: str, url: str, settings: Mapping[str, Any]) -> Retriever:
    wishes = {"llm": {"url": url}, **settings}
    return open_retriever((), shelf.index, profile, wishes, encoder=shelf.encoder)


def ask(shelf: Shelf, profile: str, url: str = "http://127.0.0.1:9", **settings: Any) -> Answer:  # noqa: ANN401 - whatever the profile holds
    with opened(shelf, profile, url, settings) as retriever:
        return retriever.search(QUESTION)


def without_any(shelf: Shelf, profile: str) -> Answer:
    return ask(shelf, profile, use_llm=False, rerank={"kind": "none"})


@pytest.mark.parametrize("profile", PLAIN)
def test_a_profile_without_a_language_model_asks_none(shelf: Shelf, ollama: ScriptedServer, profile: str) -> None:
    assert ask(shelf, profile, ollama.url).degraded == ()
    assert ollama.requests == []


@pytest.mark.parametrize("profile", STAGES)
def test_each_stage_asks_the_model_and_changes_the_answer(shelf: Shelf, ollama: ScriptedServer, profile: str) -> None:
    answer = ask(shelf, profile, ollama.url)
    assert [stage_of(item) for item in ollama.asked] == STAGES[profile]
    assert answer.degraded == (), "also on a plain install"
    assert (answer.expansion is not None) == ("expand" in STAGES[profile])
    assert {hit.scale for hit in answer.hits} == {"reranked" if "rerank" in STAGES[profile] else "rrf"}
    assert [hit.node_id for hit in answer.hits] != [hit.node_id for hit in without_any(shelf, profile).hits]


@pytest.mark.parametrize("profile", STAGES)
def test_a_server_that_dies_in_the_middle_of_any_call(shelf: Shelf, ollama: ScriptedServer, profile: str) -> None:
    plain, expanded = without_any(shelf, profile), ask(shelf, profile, ollama.url, rerank={"kind": "none"})
    for place, stage in enumerate(STAGES[profile]):
        with scripted_server(answered) as dying:
            dying.remember(Abilities())
            dying.once.extend([answered] * place)
            dying.once.append(killed())
            answer = ask(shelf, profile, dying.url)
        assert found(answer) == found(plain if stage == "expand" else expanded), place
        failed = {item.stage for item in answer.degraded}
        assert failed == {*STAGES[profile][place:], "rerank"}, "and each stage behind it"
        assert len(dying.asked) == place + 1


def test_what_is_asked_for_and_cannot_be_done_is_said(shelf: Shelf) -> None:
    answer = ask(shelf, "balanced", entity_boost=0.1)
    (said,) = map(str, answer.degraded)
    assert said == "rerank: entity_boost lifts what a reranker scores: choose a rerank.kind"
