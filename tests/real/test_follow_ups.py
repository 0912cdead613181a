"""A follow-up on every face: with words of the questions before, which is said."""

import re
from pathlib import Path
from typing import Any

import pytest

from retriever.query import AskRequest
from retriever.types import Answer
from tests.real.scripted_server import Asked, ScriptedServer
from tests.real.served import faces_of
from tests.shelf import NEVER_REFRESH, Shelf

pytestmark = pytest.mark.shared_index

BEFORE = ["what turns the leaves of tomatoes brown?"]
QUESTION = "and when is that?"
BLIGHT = "garden/tomatoes.md#tomatoes/blight"


def answered(asked: Asked) -> object:
    """Puts the last candidate first."""
    return {"best_first": [item["number"] for item in reversed(asked.candidates)]}


def ask(shelf: Shelf, question: str = QUESTION, **settings: Any) -> Answer:  # noqa: ANN401 - as a profile
    with shelf.open(**NEVER_REFRESH, **settings) as retriever:
        return retriever.search(AskRequest(question, BEFORE))


def test_words_of_the_question_before_join_without_a_model(shelf: Shelf, ollama: ScriptedServer) -> None:
    answer = ask(shelf)
    assert shelf.ask(QUESTION).follow_up is None
    assert ask(shelf, "how are letters paid?").follow_up is None, "it stands alone"
    assert answer.follow_up is not None
    assert {"leaves", "brown"} <= set(answer.follow_up.words)
    assert answer.follow_up.question == " ".join([QUESTION, *answer.follow_up.words])
    assert answer.question == QUESTION
    assert answer.hits[0].node_id == BLIGHT
    assert answer.hits[0].words == ("turns leaves tomatoes brown",)
    assert answer.degraded == ()
    assert [stage.note for stage in answer.trace.stages if stage.name == "follow_up"] == [
        f"understood as: {answer.follow_up.question}"
    ]
    assert ollama.requests == []


@pytest.mark.parametrize("stage", [{"rerank": {"kind": "llm"}}, {"hyde": "always"}], ids=["rerank", "expand"])
def test_the_model_is_asked_the_question_as_it_is_understood(
    shelf: Shelf, ollama: ScriptedServer, stage: dict[str, Any]
) -> None:
    answer = ask(shelf, use_llm=True, llm={"url": ollama.url}, **{"hyde": "never", **stage})
    (asked,) = ollama.asked
    assert answer.follow_up is not None
    assert answer.follow_up.question in asked.material


def test_agents_give_the_conversation(index: Path) -> None:
    with faces_of(index) as faces:
        text = faces.tell("search", question=QUESTION, conversation=BEFORE)
        refused = faces.tell("search", question=QUESTION, conversation=[1])
    assert f"note: understood as: {QUESTION}" in text
    assert re.search(r"^1\. `.*Blight`", text, re.MULTILINE)
    assert "conversation" in refused
