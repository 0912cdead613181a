"""Rounds with a scripted Ollama over HTTP: what it asks for is found or passed over; faults change nothing."""

import json
from typing import Any

import pytest

from retriever.query import AskRequest, Scope
from retriever.types import Answer, Source
from tests.program import Cli
from tests.real.scripted_server import Asked, ScriptedServer, hang_up, status
from tests.shelf import NEVER_REFRESH, Shelf, found

pytestmark = pytest.mark.shared_index

QUESTION = "what pays for a letter, and what is soup made of?"


def answered(asked: Asked) -> object:
    """Searches in every round for the same, and for nothing."""
    return {"searches": [" how does bread  rise? ", QUESTION.upper(), " "], "open": [0, 99]}


def open_tomatoes(asked: Asked) -> object:
    """Opens a document twice, by two of its sections."""
    places = {item["titles"].rpartition(" > ")[2]: item["section"] for item in asked.shown("section")}
    return {"open": [places["Blight"], places["Tomatoes"]]}


def ask(shelf: Shelf, url: str, *, scope: Scope | None = None, **settings: Any) -> Answer:  # noqa: ANN401 - as a profile
    wishes: dict[str, Any] = {"llm": {"url": url}, "rounds": 2, "hyde": "never", **NEVER_REFRESH, **settings}
    with shelf.open(**{"use_llm": True, **wishes}) as retriever:
        return retriever.search(AskRequest(QUESTION, scope=scope or Scope()))


def plain(shelf: Shelf) -> Answer:
    return ask(shelf, "", use_llm=False)


def test_what_the_model_asks_for_joins_what_was_found(shelf: Shelf, ollama: ScriptedServer) -> None:
    ollama.once.extend([answered, open_tomatoes])
    answer = ask(shelf, ollama.url, top_k=3)
    done = 'search "how does bread rise?", sections of garden/tomatoes.md'
    assert answer.notes == (f"the language model also looked for: {done}",)
    assert answer.degraded == ()
    by_id = {hit.node_id: hit for hit in answer.hits}
    assert 'found by search "how does bread rise?"' in by_id["kitchen.md#kitchen/bread"].reasons
    assert found(answer) != found(ask(shelf, "", use_llm=False, top_k=3))
    first, _ = ollama.asked
    assert first.properties == {"searches", "open"}
    assert QUESTION in first.material
    assert QUESTION not in first.instructions
    (stage,) = [stage for stage in answer.trace.stages if stage.name == "rounds"]
    assert stage.note == done
    assert any(item.source is Source.ROUNDS for hit in answer.hits for item in hit.evidence)


def test_a_round_that_asks_for_nothing_new_is_the_last(shelf: Shelf, ollama: ScriptedServer) -> None:
    answer = ask(shelf, ollama.url, rounds=9)
    assert answer.notes == ('the language model also looked for: search "how does bread rise?"',)
    assert len(ollama.asked) == 2


def test_a_reranker_reads_what_the_rounds_found_in_the_scope(shelf: Shelf, ollama: ScriptedServer) -> None:
    ask(shelf, ollama.url, rerank={"kind": "llm"}, candidate_cap=5)
    assert "rises over night" in ollama.asked[-1].material
    ollama.answer = lambda asked: {"open": [1]}
    answer = ask(shelf, ollama.url, scope=Scope(folders=("garden",)), top_k=30)
    assert answer.hits
    assert {hit.file.partition("/")[0] for hit in answer.hits} == {"garden"}


@pytest.mark.parametrize(("reply", "reason"), [(status(500), "500"), (hang_up(), ""), ("no object", "no JSON object")])
def test_what_fails_changes_nothing(shelf: Shelf, ollama: ScriptedServer, reply: object, reason: str) -> None:
    ollama.answer = lambda asked: reply
    answer = ask(shelf, ollama.url)
    assert found(answer) == found(plain(shelf))
    (degraded,) = answer.degraded
    assert degraded.stage == "rounds"
    assert reason in degraded.reason


def test_what_was_found_before_a_failure_counts(shelf: Shelf, ollama: ScriptedServer) -> None:
    ollama.once.extend([answered, status(500)])
    answer = ask(shelf, ollama.url)
    assert answer.notes == ('the language model also looked for: search "how does bread rise?"',)
    assert [item.stage for item in answer.degraded] == ["rounds"]


@pytest.mark.parametrize("settings", [{"rounds": 0}, {"use_llm": False}])
def test_nothing_is_asked_where_it_is_off(shelf: Shelf, ollama: ScriptedServer, settings: dict[str, Any]) -> None:
    assert found(ask(shelf, ollama.url, **settings)) == found(plain(shelf))
    assert ollama.requests == []


def test_the_command_line_switches_them_on_and_says_so(shelf: Shelf, ollama: ScriptedServer, cli: Cli) -> None:
    arguments = ["--index", str(shelf.index), "--encoder-kind", "none", "--rounds", "1", "--llm-url", ollama.url]
    printed = cli("ask", QUESTION, *arguments)
    assert 'note: the language model also looked for: search "how does bread rise?"' in printed.err
    answer = json.loads(cli("ask", QUESTION, "--json", *arguments).out)
    assert answer["notes"] == ['the language model also looked for: search "how does bread rise?"']
    assert any(item["source"] == "rounds" for hit in answer["hits"] for item in hit["evidence"])
    assert answer["expansion"] is None, "nobody spoke of other texts"
