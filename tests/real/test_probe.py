"""The probe of a language model by tasks of the program's own, and the stages that it leaves out."""

import json
import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from retriever.api import open_retriever
from retriever.errors import LanguageModelError
from retriever.served.task import SPEEDS, Abilities, Speed
from retriever.serving import ServedIndex
from retriever.types import Answer
from retriever.upkeep import PASSAGES, REWORDED, probe
from tests.program import Cli
from tests.real.conftest import SHIPS_QUESTION
from tests.real.scripted_server import Asked, ScriptedServer
from tests.shelf import Shelf

REWORDING = "what keeps `cron.daily` and everything else from happening again?"
STATEMENT = "Something that was left alone for too long has to be done by hand, whatever happened before."


def find_answer(asked: Asked) -> int:
    """The place of the right passage among the candidates."""
    return next(place for place, item in enumerate(asked.candidates) if item["passage"] == PASSAGES[0])


def order_well(asked: Asked) -> object:
    best = find_answer(asked) + 1
    return {"best_first": [best, *(item["number"] for item in asked.candidates if item["number"] != best)]}


def give_back(asked: Asked) -> object:
    return {"best_first": [item["number"] for item in asked.candidates]}


def read_ends(asked: Asked) -> object:
    """A small model may not see what stands in the middle of a list."""
    return give_back(asked) if find_answer(asked) % 4 else order_well(asked)


def expand_well(asked: Asked) -> object:
    is_fact = REWORDED[asked.shown("question")[0]["question"]]
    return {"hyde": [STATEMENT], "queries": [REWORDING], "intent": "STUDY_DETAIL" if is_fact else "MECHANISM"}


def repeat(asked: Asked) -> object:
    question = asked.shown("question")[0]["question"]
    return {"hyde": [f"{question[:-1]} at home in the morning?"], "queries": [question.upper()], "intent": "CRITIQUE"}


def writing(order: Callable[[Asked], object], expand: Callable[[Asked], object]) -> Callable[[Asked], object]:
    return lambda asked: order(asked) if "best_first" in asked.properties else expand(asked)


MODELS: dict[str, tuple[Callable[[Asked], object], Abilities]] = {
    "perfect": (writing(order_well, expand_well), Abilities()),
    "lists alone": (writing(order_well, repeat), Abilities(rewordings=False, passages=False, intents=False)),
    "texts alone": (writing(read_ends, expand_well), Abilities(lists=False)),
    "nothing": (lambda asked: "no", Abilities(lists=False, rewordings=False, passages=False, intents=False)),
}


@pytest.mark.parametrize(("answer", "abilities"), MODELS.values(), ids=MODELS)
def test_a_model_is_seen_to_do_what_it_can(
    ollama: ScriptedServer, answer: Callable[[Asked], object], abilities: Abilities
) -> None:
    ollama.answer = answer
    SPEEDS.write(f"{ollama.url} llama3.2", Speed(60, 12))
    generator = ollama.open()
    assert probe(generator) == abilities
    assert generator.abilities == abilities


def test_other_weights_of_a_name_are_tried_again(ollama: ScriptedServer) -> None:
    generator = ollama.open()
    assert generator.abilities
    ollama.described["/api/tags"] = {"models": [{"model": "llama3.2:latest", "digest": "another"}]}
    assert ollama.open().abilities is None


def test_a_server_that_is_away_says_nothing_of_its_model(ollama: ScriptedServer) -> None:
    generator = ollama.open()
    ollama.kill()
    with pytest.raises(LanguageModelError):
        probe(generator)


def test_a_served_index_tries_the_model_in_the_background(ships: Shelf, ollama: ScriptedServer) -> None:
    ollama.answer = writing(give_back, repeat)
    ollama.described["/api/tags"] = {"models": [{"model": "llama3.2:latest", "digest": "another"}]}
    settings = {"use_llm": True, "llm": {"url": ollama.url, "seconds": 0.5}}
    generator = ollama.open()
    with ServedIndex(index=str(ships.index), settings=settings) as served:
        served.open()
        assert generator.abilities is None, "the first question does not wait"
        end = time.monotonic() + 20
        while generator.abilities is None and time.monotonic() < end:
            time.sleep(0.05)
    assert generator.abilities == Abilities(lists=False, rewordings=False, passages=False, intents=False)


def ask(ships: Shelf, ollama: ScriptedServer, **settings: Any) -> Answer:  # noqa: ANN401 - whatever the profile holds
    given = {"llm": {"url": ollama.url}} | settings
    with open_retriever((), ships.index, "full", given, encoder=ships.encoder) as retriever:
        return retriever.search(SHIPS_QUESTION)


OFF: dict[str, tuple[Abilities, str]] = {
    "reranking": (
        Abilities(lists=False),
        "llama3.2 was not seen to find a right passage: reranking is off for it; --rerank-kind llm forces it",
    ),
    "expansion": (
        Abilities(rewordings=False, passages=False),
        "llama3.2 writes nothing that helps a search: expansion is off for it; --hyde always forces it",
    ),
}


@pytest.mark.parametrize(("abilities", "line"), OFF.values(), ids=OFF)
def test_a_stage_that_the_model_fails_is_left_out(
    ships: Shelf, ollama: ScriptedServer, abilities: Abilities, line: str
) -> None:
    ollama.answer = writing(give_back, lambda asked: {})
    ollama.remember(abilities)
    answer = ask(ships, ollama)
    assert (answer.notes, answer.degraded) == ((line,), ()), "a choice, and no failure: eval counts the question"
    assert len(ollama.asked) == 1
    assert not ask(ships, ollama, hyde="always", rerank={"kind": "llm"}).notes


def test_texts_of_a_kind_that_the_model_fails_are_not_asked_for(ships: Shelf, ollama: ScriptedServer) -> None:
    ollama.answer = writing(give_back, lambda asked: {})
    ollama.remember(Abilities(rewordings=False))
    ask(ships, ollama)
    assert ollama.asked[0].properties == {"hyde", "intent"}


def test_a_model_that_was_not_tried_orders_no_lists(ships: Shelf, ollama: ScriptedServer) -> None:
    ollama.answer = writing(give_back, lambda asked: {})
    ollama.described["/api/tags"] = {"models": [{"model": "llama3.2:latest", "digest": "another"}]}
    (line,) = map(str, ask(ships, ollama).degraded)
    assert line.startswith("rerank: llama3.2 was not tried yet (doctor --llm): reranking is off for it")


def test_doctor_says_what_the_model_can_do(ollama: ScriptedServer, cli: Cli) -> None:
    ollama.answer = writing(give_back, repeat)
    shown = cli("doctor", "--llm", "--profile", "full", "--llm-url", ollama.url, "--json").out
    found = {item["name"]: item for item in json.loads(shown)["findings"]}
    assert re.match(r"tried on some tasks in \d s", found["answer"]["says"])
    assert found["passages"]["says"] == "was not seen to write statements to search with, no questions and no titles"
    assert found["passages"]["cure"] == "left out; --hyde always uses it all the same"


def test_profiles_say_how_long_the_model_may_take(
    ollama: ScriptedServer, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    ollama.remember(Abilities())
    monkeypatch.setenv("HYBRID_RETRIEVE_LLM_URL", ollama.url)
    shown = cli("profiles").out
    assert "llama3.2: up to 16 s more for a question\n" in shown, "of full, which rewords and reranks"
    assert "llama3.2: up to 8 s more for a question\n" in shown, "of precision, which does nothing but rerank"
