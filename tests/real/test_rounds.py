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
    """Searches in the first round, walks in the second."""
    sections = asked.shown("section")
    if "other questions" in asked.instructions or not sections:
        return {}
    by_title = {item.get("titles", "").rpartition(" > ")[2]: item["section"] for item in sections}
    if "at most 2\n" in asked.instructions:
        return {"actions": [{"action": "search", "question": "how does bread rise?"}]}
    return {"actions": [{"action": "children", "section": by_title["Tomatoes"]}, {"action": "outline", "section": 99}]}


def ask(shelf: Shelf, url: str, *, scope: Scope | None = None, **settings: Any) -> Answer:  # noqa: ANN401 - as a profile
    wishes: dict[str, Any] = {"llm": {"url": url}, "rounds": 2, "hyde": "never", **NEVER_REFRESH, **settings}
    with shelf.open(**{"use_llm": True, **wishes}) as retriever:
        return retriever.search(AskRequest(QUESTION, scope=scope or Scope()))


def plain(shelf: Shelf) -> Answer:
    return ask(shelf, "", use_llm=False)


def test_what_the_model_asks_for_joins_what_was_found(shelf: Shelf, ollama: ScriptedServer) -> None:
    answer = ask(shelf, ollama.url, top_k=3)
    assert answer.notes == (
        'the language model also looked for: search "how does bread rise?", children of "Tomatoes"',
    )
    assert answer.degraded == ()
    by_id = {hit.node_id: hit for hit in answer.hits}
    assert 'found by search "how does bread rise?"' in by_id["kitchen.md#kitchen/bread"].reasons
    assert found(answer) != found(ask(shelf, "", use_llm=False, top_k=3))
    first, second = ollama.asked
    assert first.properties == {"actions"}
    assert QUESTION in first.material
    assert QUESTION not in first.instructions
    assert "at most 1\n" in second.instructions, "of the searches, one is left"
    (stage,) = [stage for stage in answer.trace.stages if stage.name == "rounds"]
    assert stage.note == 'search "how does bread rise?", children of "Tomatoes"'
    assert any(item.source is Source.ROUNDS for hit in answer.hits for item in hit.evidence)


def test_a_reranker_reads_what_the_rounds_found_in_the_scope(shelf: Shelf, ollama: ScriptedServer) -> None:
    ask(shelf, ollama.url, rerank={"kind": "llm"}, candidate_cap=5)
    assert "rises over night" in ollama.asked[-1].material
    ollama.answer = lambda asked: {
        "actions": [{"action": "related", "section": 1}, {"action": "outline", "section": 1}]
    }
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


def test_it_may_open_a_document_of_which_nothing_was_found(ships: Shelf, ollama: ScriptedServer) -> None:
    opened: list[str] = []

    def open_first(asked: Asked) -> object:
        sections = asked.shown("section")
        documents = [item for item in sections if "document" in item]
        assert len(documents) == 10
        assert all(item["sections"] == 1 and item["about"] for item in documents)
        opened.append(documents[0]["document"])
        return {"actions": [{"action": "outline", "section": documents[0]["section"]}]}

    ollama.answer = open_first
    settings: dict[str, Any] = {"llm": {"url": ollama.url}, "rounds": 1, "hyde": "never", "use_llm": True, "top_k": 30}
    answer = ships.ask("which ship sails with the wind?", **settings, **NEVER_REFRESH)
    assert answer.notes == (f'the language model also looked for: outline of "{opened[0]}"',)
    assert answer.degraded == ()
    assert any(item.source is Source.ROUNDS for hit in answer.hits for item in hit.evidence), "fused with the others"
