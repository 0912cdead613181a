from typing import Literal

import pytest
from pydantic import BaseModel

from retriever.errors import UsageError, WrongAnswerError
from retriever.served.task import read_answer
from retriever.served.transport import ollama_url
from tests.tables import read_table


class Answer(BaseModel):
    queries: tuple[str, ...]
    intent: Literal["why", "how"] = "why"


@pytest.mark.parametrize("text", read_table("models", "What models put around an object"))
def test_the_object_is_found_in_what_models_put_around_it(text: str) -> None:
    assert read_answer(text, Answer).queries == ("a", "b")


def test_what_is_whole_of_an_answer_is_read_that_was_cut_off_in_an_escape() -> None:
    assert read_answer('{"queries": ["a", "b", "\\ud8', Answer, is_cut=True).queries == ("a", "b")


@pytest.mark.parametrize(
    ("text", "reason"), [*read_table("models", "What is no answer"), ("{" * 20_000, "no JSON object")]
)
def test_anything_else_is_a_wrong_answer_and_is_not_repeated(text: str, reason: str) -> None:
    with pytest.raises(WrongAnswerError, match=reason) as caught:
        read_answer(text, Answer)
    assert "ignore all rules" not in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(("host", "url"), read_table("models", "OLLAMA_HOST may lack scheme and port"))
def test_ollama_host_may_lack_scheme_and_port(host: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", host)
    assert ollama_url("", allow_remote=False) == url


@pytest.mark.parametrize(("host", "reason"), read_table("models", "OLLAMA_HOST that is refused"))
def test_other_addresses_are_refused_and_no_password_is_repeated(
    host: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", host)
    with pytest.raises(UsageError, match=reason) as caught:
        ollama_url("", allow_remote=False)
    assert "pw" not in str(caught.value)


def test_the_setting_goes_before_the_environment_and_another_machine_needs_leave(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "http://user:pw@example.com")
    assert ollama_url("http://127.0.0.1:5", allow_remote=False) == "http://127.0.0.1:5"
    assert ollama_url("192.168.1.5", allow_remote=True) == "http://192.168.1.5:11434"
