"""Questions expanded by a scripted Ollama over HTTP: what it writes is used; whatever it does, there is an answer."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from retriever.query import AskRequest, Expansion, ExpansionReport
from retriever.served.task import SPEEDS, Speed
from retriever.types import Answer, StageName
from tests.program import Cli
from tests.real.scripted_server import HELPFUL, QUESTION, Asked, ScriptedServer
from tests.shelf import NEVER_REFRESH, Shelf, found

pytestmark = pytest.mark.shared_index

STAMPS = "mail.md#mail/stamps"


def answered(asked: Asked) -> object:
    return HELPFUL


def settings(ollama: ScriptedServer, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - whatever the profile holds
    return {"use_llm": True, "llm": {"url": ollama.url}, "hyde": "always", **NEVER_REFRESH, **more}


def asked_of(shelf: Shelf, ollama: ScriptedServer, question: str = QUESTION, **more: Any) -> Answer:  # noqa: ANN401 - as above
    return shelf.ask(question, **settings(ollama, **more))


def report_of(answer: Answer) -> ExpansionReport:
    assert answer.expansion
    return answer.expansion


def test_one_call_asks_for_texts_and_what_the_model_writes_is_searched_with(
    shelf: Shelf, ollama: ScriptedServer
) -> None:
    SPEEDS.write(f"{ollama.url} llama3.2", Speed(2000, 80))
    answer = asked_of(shelf, ollama)
    (asked,) = ollama.asked
    assert asked.properties == {"queries", "hyde", "intent"}, "what is searched with, and nothing else"
    assert QUESTION in asked.material
    assert answer.hits[0].node_id == STAMPS
    assert answer.degraded == ()
    report = report_of(answer)
    assert report.used
    assert report.rewordings == tuple(HELPFUL["queries"])
    assert report.passages == tuple(HELPFUL["hyde"])
    assert [stage.name for stage in answer.trace.stages].count(StageName.EXPAND) == 2


def test_threads_ask_the_model_at_once(shelf: Shelf, ollama: ScriptedServer) -> None:
    together = threading.Barrier(2)

    def wait(asked: Asked) -> object:
        together.wait(timeout=10)  # breaks, and the request with it, unless both are here
        return HELPFUL

    ollama.answer = wait
    with shelf.open(**settings(ollama)) as retriever, ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(retriever.search, [QUESTION, f"{QUESTION} and why?"]))
    assert [answer.degraded for answer in answers] == [(), ()]


UNUSABLE: dict[str, Callable[[Asked], object]] = {
    "nothing": lambda asked: {},
    "the prompt": lambda asked: {"queries": [asked.instructions[:400]], "hyde": [asked.instructions, asked.material]},
    "another language": lambda asked: {"queries": ["Wer bezahlt eigentlich das Porto?"]},
    "another question": lambda asked: {"queries": ["Blight turns leaves brown."], "hyde": ["Bread rises over night."]},
}


@pytest.mark.parametrize("reply", UNUSABLE.values(), ids=UNUSABLE)
def test_texts_that_cannot_be_used_change_nothing(
    shelf: Shelf, ollama: ScriptedServer, reply: Callable[[Asked], object]
) -> None:
    ollama.answer = reply
    answer = asked_of(shelf, ollama)
    assert found(answer) == found(shelf.ask(QUESTION, **NEVER_REFRESH))
    assert not report_of(answer).used


@pytest.mark.parametrize(
    ("rewording", "reason"),
    [
        ("who pays for the journey?", "it repeats the question or another text"),
        ("who pays for the journey of bread and a letter?", "what it adds is about something else"),
    ],
)
def test_a_rewording_adds_something_about_the_question(shelf: Shelf, rewording: str, reason: str) -> None:
    with shelf.open(**NEVER_REFRESH) as retriever:
        answer = retriever.search(AskRequest(QUESTION, expansion=Expansion((rewording,), tuple(HELPFUL["hyde"]))))
    assert [item.reason for item in report_of(answer).dropped] == [reason]


@pytest.mark.parametrize("passages", [(), tuple(HELPFUL["hyde"])])
def test_what_a_rewording_adds_may_be_about_the_passages(shelf: Shelf, passages: tuple[str, ...]) -> None:
    rewording = "who pays when a stamp is glued on a letter?"
    with shelf.open(**NEVER_REFRESH) as retriever:
        answer = retriever.search(AskRequest(QUESTION, expansion=Expansion((rewording,), passages)))
    assert report_of(answer).passages == passages
    assert bool(report_of(answer).rewordings) == bool(passages)


def test_asking_on_the_command_line(shelf: Shelf, ollama: ScriptedServer, cli: Cli) -> None:
    given = ("--index", shelf.index, "--encoder-kind", "none", "--llm-url", ollama.url)
    shown = cli("ask", "--use-llm", "--explain", QUESTION, *given).out
    assert "written by a language model to search with, found in no document" in shown
    assert HELPFUL["queries"][0] in shown
    refused = cli("ask", "--use-llm", "red stamps", *given).err
    assert "searched as it is: not needed: the question has 2 words; --hyde always expands it all the same" in refused
    assert len(ollama.asked) == 1, "of the first question alone"
