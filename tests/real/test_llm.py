"""The generator and the real `ollama` client against a scripted Ollama: what is asked, and what follows a failure."""

import os
import signal
import socket
import threading
from contextlib import suppress
from dataclasses import replace

import pytest

from retriever.errors import (
    CutAnswerError,
    LanguageModelError,
    LanguageModelTimeoutError,
    NoGeneratorError,
    NoModelError,
    TaskTooLongError,
    WrongAnswerError,
)
from retriever.llm import open_generator
from retriever.llm.check import check_llm
from retriever.llm.task import Generator
from retriever.settings.schema import LlmSettings
from tests.real.llm_task import TASK, Answer, failure
from tests.real.scripted_ollama import (
    Asked,
    Fault,
    Model,
    OllamaHandler,
    ScriptedOllama,
    bad_gateway,
    busy,
    closed,
    cut_stream,
    delayed,
    endless,
    error_line,
    hang_up,
    killed,
    last_line,
    lines,
    redirect,
    scripted_ollama,
    silence,
    status,
    trickle,
    trickled_headers,
    written,
)

SECONDS = 0.3
"""The longest wait of the tests that wait for its end."""
GOOD = {"queries": ["a boat is"]}


def answered(asked: Asked) -> object:
    return GOOD


def settings(ollama: ScriptedOllama, **changes: object) -> LlmSettings:
    return LlmSettings(**{"url": ollama.url, **changes})  # type: ignore[arg-type] # the tests' own names


def opened(ollama: ScriptedOllama, **changes: object) -> Generator:
    return open_generator(settings(ollama, **changes))


def test_the_task_is_asked_as_it_should_be(ollama: ScriptedOllama) -> None:
    generator = opened(ollama, num_ctx=4096, keep_alive_seconds=60)
    assert generator.write(replace(TASK, temperature=0.3)) == Answer(queries=("a boat is",))
    assert generator.name == "llama3.2"
    (asked,) = ollama.asked
    assert asked.path == "/api/chat"
    assert (asked.instructions, asked.material) == (TASK.instructions, TASK.material)
    assert asked.body["format"] == Answer.model_json_schema()
    assert asked.body["options"] == {"num_ctx": 4096, "num_predict": 100, "temperature": 0.3, "seed": 7}
    assert (asked.body["stream"], asked.body["think"], asked.body["keep_alive"]) == (True, False, 60)


def test_the_server_is_looked_at_once_and_asked_many_times(ollama: ScriptedOllama) -> None:
    generator = opened(ollama)
    for _ in range(3):
        generator.write(TASK)
    assert ollama.paths == ["/api/tags", "/api/ps", "/api/show", *["/api/chat"] * 3]


def test_nothing_of_the_environment_leads_elsewhere(ollama: ScriptedOllama, monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted_ollama() as elsewhere:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, elsewhere.url)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("OLLAMA_API_KEY", "secret")
        monkeypatch.setenv("OLLAMA_HOST", elsewhere.url)
        generator = opened(ollama)
        generator.write(TASK)
        ollama.once.append(redirect(elsewhere.url))
        error = failure(generator)
        assert len(check_llm(LlmSettings(url=ollama.url))) == 4
        assert not elsewhere.requests
    assert isinstance(error, NoGeneratorError)
    assert "another address" in str(error)
    assert not any("authorization" in headers for _, _, headers in ollama.requests)


def test_ollama_host_is_used_when_no_address_is_set(ollama: ScriptedOllama, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", ollama.url.replace("http://127.0.0.1", "0.0.0.0"))
    assert open_generator(LlmSettings()).write(TASK).queries == ("a boat is",)


@pytest.mark.parametrize(
    ("setting", "host", "message"),
    [
        ("http://192.0.2.1:11434", "", "llm.url: .*another machine.*llm.allow_remote"),
        ("", "192.0.2.1", "OLLAMA_HOST: .*another machine"),
        ("", ":99999", "OLLAMA_HOST: ':99999' is no address"),
    ],
)
def test_an_address_that_may_not_be_asked_is_not_asked(
    setting: str, host: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", host)
    with pytest.raises(NoGeneratorError, match=message):
        open_generator(LlmSettings(url=setting)).write(TASK)


def test_a_server_that_does_not_run() -> None:
    with scripted_ollama() as ended:
        pass
    error = failure(opened(ended))
    assert isinstance(error, NoGeneratorError)
    assert "start it with `ollama serve`" in str(error)


def test_a_server_that_never_accepts() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=1) as full:
        address = full.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        try:
            for one in waiting:
                one.setblocking(False)
                one.connect_ex(address)
            error = failure(open_generator(LlmSettings(url=f"http://127.0.0.1:{address[1]}")))
        finally:
            for one in waiting:
                one.close()
    assert isinstance(error, NoGeneratorError)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("qwen3:8b", "run: ollama pull qwen3:8b; it has llama3.2:latest, nomic-embed-text:latest"),
        ("nomic-embed-text", "cannot chat"),
    ],
)
def test_a_model_that_cannot_answer_is_named_and_not_asked(ollama: ScriptedOllama, model: str, message: str) -> None:
    error = failure(opened(ollama, model=model))
    assert isinstance(error, NoModelError)
    assert message in str(error)
    assert not ollama.asked


SAYS_NO = {"error": '"llama3.2" does not support chat'}
LONG = {"error": "the input length exceeds the context length"}
MEMORY = {"error": "model requires more system memory (5.6 GiB) than is available (2.1 GiB)"}
HTML = "<html><body><p>{{ answer }}</p></body></html>"

FAULTS: dict[str, tuple[Fault, type[LanguageModelError], str, int]] = {
    "cut stream": (cut_stream(), CutAnswerError, "ended its answer in the middle", 1),
    "cut whole object": (cut_stream('{"queries": ["x"]}'), CutAnswerError, "ended its answer in the middle", 1),
    "empty stream": (lines(), CutAnswerError, "ended its answer in the middle", 1),
    "closed in the middle": (closed(), CutAnswerError, "connection .* broke", 2),
    "hung up": (hang_up(), CutAnswerError, "connection .* broke", 2),
    "killed": (killed(), NoGeneratorError, "ollama serve", 1),
    "model gone": (status(404, {"error": "model 'llama3.2' not found"}), NoModelError, "ollama pull llama3.2", 1),
    "cannot chat": (status(400, SAYS_NO), NoModelError, "cannot chat", 1),
    "says too long": (status(400, LONG), TaskTooLongError, "llm.num_ctx", 1),
    "no memory": (status(500, MEMORY), LanguageModelError, r"status 500: model requires more system memory", 1),
    "busy": (busy(), NoGeneratorError, "is busy", 2),
    "bad gateway": (bad_gateway(), LanguageModelError, "status 502", 1),
    "error is a list": (status(500, "[1]"), WrongAnswerError, "otherwise than Ollama", 1),
    "error line": (error_line("llama runner process has terminated"), CutAnswerError, "runner process has term", 1),
    "a line of HTML": (lines(HTML.encode() + b"\n"), WrongAnswerError, "otherwise than Ollama", 1),
    "a line is half": (lines(b'{"message": {"role"\n'), WrongAnswerError, "otherwise than Ollama", 1),
    "a line is a list": (lines([1, 2]), WrongAnswerError, "otherwise than Ollama", 1),
    "a line is deep": (lines(b"[" * 60_000 + b"\n"), WrongAnswerError, "otherwise than Ollama", 1),
    "no message": (lines({"done": True, "done_reason": "stop"}), WrongAnswerError, "otherwise than Ollama", 1),
    "no bytes of UTF-8": (lines(b"\xff\xfe\n"), WrongAnswerError, "otherwise than Ollama", 1),
    "100 KB line": (lines(b" " * 100_000), WrongAnswerError, "writes without end", 1),
    "endless blanks": (endless(" "), WrongAnswerError, "writes without end", 1),
    "endless tokens": (endless("boat "), WrongAnswerError, "writes without end", 1),
    "100 KB answer": (written("boat " * 20_000), CutAnswerError, "wrote more than it may", 1),
    "unloaded": (written('{"queries": ["x"]}', reason="unload"), CutAnswerError, r"before .* complete \(unload\)", 1),
    "nothing": (written(""), WrongAnswerError, "wrote nothing, and so it did when asked again", 2),
    "blanks": (written(" \n" * 20), WrongAnswerError, "wrote nothing", 2),
    "the prompt": (written(TASK.material), WrongAnswerError, "wrote no JSON object", 2),
    "HTML": (written(HTML), WrongAnswerError, "wrote no JSON object", 2),
    "another language": (written("Ein Boot ist ein Wasserfahrzeug."), WrongAnswerError, "wrote no JSON object", 2),
    "half a JSON": (written('{"queries": ["a", "b'), WrongAnswerError, "wrote no JSON object", 2),
    "wrong shape": (written('{"passages": []}'), WrongAnswerError, r"wrote a wrong shape \(queries", 2),
    "only thoughts": (written("", thinking="Hm. What is a boat?"), WrongAnswerError, "wrote no JSON object", 2),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_has_its_error_and_is_tried_again_only_where_that_may_help(
    ollama: ScriptedOllama, name: str
) -> None:
    fault, kind, message, tries = FAULTS[name]
    ollama.once.extend([fault, fault, fault])
    error = failure(opened(ollama))
    assert type(error) is kind
    assert error.args[0] == str(error)
    assert len(str(error)) < 600
    with pytest.raises(kind, match=message):
        raise error
    assert len(ollama.asked) == tries


@pytest.mark.parametrize("fault", [closed(), hang_up(), busy()])
def test_a_connection_that_breaks_once_does_no_harm(ollama: ScriptedOllama, fault: Fault) -> None:
    ollama.once.append(fault)
    assert opened(ollama).write(TASK).queries == ("a boat is",)
    assert ollama.asked[0].body == ollama.asked[1].body


SLOW: dict[str, Fault] = {
    "silence": silence(),
    "one byte each 50 ms": trickle(0.05),
    "one byte of a header each 50 ms": trickled_headers(0.05),
    "one word each 50 ms": endless(" ", 0.05),
    "too late": delayed(60, GOOD),
}


@pytest.mark.parametrize("name", SLOW)
def test_an_ollama_that_is_healthy_and_does_not_come_to_an_end(ollama: ScriptedOllama, name: str) -> None:
    ollama.once.extend([SLOW[name]] * 2)
    error = failure(opened(ollama, seconds=SECONDS))
    assert type(error) is LanguageModelTimeoutError
    assert "llm.seconds" in str(error)
    assert len(ollama.asked) == 1


def test_a_silence_in_the_middle_ends_before_the_total_time(ollama: ScriptedOllama) -> None:
    def stuck(handler: OllamaHandler, asked: Asked) -> None:
        handler.begin()
        handler.line({**last_line(asked), "done": False})
        silence().do(handler, asked)

    ollama.once.append(Fault(stuck))
    error = failure(opened(ollama, idle_seconds=SECONDS, seconds=600))
    assert type(error) is LanguageModelTimeoutError
    assert "llm.idle_seconds" in str(error)


def test_a_silence_before_the_first_word_is_a_model_that_reads(ollama: ScriptedOllama) -> None:
    ollama.once.append(delayed(3 * SECONDS, GOOD))
    assert opened(ollama, idle_seconds=SECONDS).write(TASK).queries == ("a boat is",)


def test_both_tries_share_the_time(ollama: ScriptedOllama) -> None:
    ollama.once.extend([delayed(2 * SECONDS, "no"), delayed(2 * SECONDS, GOOD)])
    assert type(failure(opened(ollama, seconds=3 * SECONDS))) is LanguageModelTimeoutError


def test_a_second_connection_has_what_is_left_of_the_time(ollama: ScriptedOllama) -> None:
    ollama.once.extend([hang_up(), silence()])
    assert type(failure(opened(ollama, seconds=3 * SECONDS))) is LanguageModelTimeoutError
    assert len(ollama.asked) == 2


def test_a_model_that_is_not_loaded_gets_longer_but_not_longer_than_the_task_allows(ollama: ScriptedOllama) -> None:
    ollama.loaded.clear()
    ollama.once.append(delayed(3 * SECONDS, GOOD))
    assert opened(ollama, seconds=SECONDS).write(TASK).queries == ("a boat is",)
    ollama.once.append(silence())
    error = failure(opened(ollama, load_seconds=600), replace(TASK, seconds=SECONDS))
    assert type(error) is LanguageModelTimeoutError


@pytest.mark.parametrize("health", [silence(), trickle(0.05), status(500), lines(b"no\n"), lines([]), hang_up()])
def test_a_server_that_cannot_say_what_it_has_is_not_asked(ollama: ScriptedOllama, health: Fault) -> None:
    ollama.health = health
    error = failure(opened(ollama))
    assert type(error) in {NoGeneratorError, LanguageModelError}
    assert not ollama.asked


def test_a_wrong_answer_is_asked_for_again_with_the_shape_in_words(ollama: ScriptedOllama) -> None:
    ollama.once.append(lambda asked: "Sure! Which question?")
    assert opened(ollama).write(TASK).queries == ("a boat is",)
    first, second = ollama.asked
    assert first.instructions == TASK.instructions
    assert second.instructions.startswith(TASK.instructions)
    assert '"queries"' in second.instructions
    assert first.material == second.material


def test_a_model_that_cannot_be_told_not_to_think_is_asked_without_a_word_of_it(ollama: ScriptedOllama) -> None:
    refusal = status(400, {"error": '"llama3.2" does not support thinking'})
    ollama.answer = lambda asked: refusal if "think" in asked.body else GOOD
    generator = opened(ollama)
    assert generator.write(TASK).queries == ("a boat is",)
    generator.write(TASK)
    assert ["think" in asked.body for asked in ollama.asked] == [True, False, False]


def test_material_that_fills_the_room_fits_the_window_and_one_byte_more_is_refused(ollama: ScriptedOllama) -> None:
    generator = opened(ollama, num_ctx=2048)
    room = generator.room(TASK.instructions, TASK.max_tokens)
    generator.write(replace(TASK, material="x" * room))
    (asked,) = ollama.asked
    assert asked.prompt_tokens + asked.num_predict < asked.num_ctx
    assert room > 1000
    with pytest.raises(TaskTooLongError, match=r"llm\.num_ctx"):
        generator.write(replace(TASK, material="x" * (room + 3)))
    with pytest.raises(TaskTooLongError):
        generator.write(replace(TASK, material="船" * room))
    assert len(ollama.asked) == 1
    assert generator.room("x" * 10_000, 10) == 0


def test_a_prompt_that_the_server_cut_is_not_answered(ollama: ScriptedOllama) -> None:
    cut = lines(
        {
            "message": {"role": "assistant", "content": '{"queries": ["x"]}'},
            "done": True,
            "done_reason": "stop",
            "prompt_eval_count": 8192,
        }
    )
    ollama.once.append(cut)
    error = failure(opened(ollama))
    assert type(error) is TaskTooLongError
    assert "first 8192 tokens" in str(error)


def test_a_model_with_a_smaller_window_than_the_settings_say(ollama: ScriptedOllama) -> None:
    ollama.models["llama3.2:latest"] = Model(context_length=2048)
    generator = opened(ollama, num_ctx=8192)
    room = generator.room(TASK.instructions, TASK.max_tokens)
    assert room < 2048 * 3, "what is planned is what the model reads"
    assert type(failure(generator, replace(TASK, material="x" * (room + 3)))) is TaskTooLongError
    assert not ollama.asked
    assert generator.write(replace(TASK, material="x" * room)).queries == ("a boat is",)


def test_a_task_without_time_does_not_speak_against_the_server(ollama: ScriptedOllama) -> None:
    generator = opened(ollama)
    ollama.once.extend([silence()] * 3)
    for _ in range(3):
        assert type(failure(generator, replace(TASK, seconds=0.1))) is LanguageModelTimeoutError
    ollama.health = silence()
    assert type(failure(generator, replace(TASK, seconds=0.1))) is LanguageModelTimeoutError
    ollama.health = None
    assert generator.write(TASK).queries == ("a boat is",)


def test_half_of_a_surrogate_pair_is_not_sent(ollama: ScriptedOllama) -> None:
    opened(ollama).write(replace(TASK, material="caf\udce9 🚤"))
    assert ollama.asked[0].material == "caf? 🚤"


def test_after_two_failures_nothing_is_asked_and_wrong_answers_are_none(ollama: ScriptedOllama) -> None:
    generator = opened(ollama)
    ollama.once.extend([written("no")] * 6)
    for _ in range(3):
        assert type(failure(generator)) is WrongAnswerError
    ollama.once.extend([cut_stream(), cut_stream()])
    first, second = failure(generator), failure(generator)
    count = len(ollama.requests)
    third = failure(generator)
    assert [type(error) for error in (first, second, third)] == [CutAnswerError] * 3
    assert str(third).startswith(str(second))
    assert "asked again in" in str(third)
    assert len(ollama.requests) == count
    assert opened(ollama).write(TASK).queries == ("a boat is",)


def test_a_server_that_is_started_later_is_found(ollama: ScriptedOllama) -> None:
    ollama.models.clear()
    generator = opened(ollama)
    assert type(failure(generator)) is NoModelError
    ollama.models["llama3.2:latest"] = Model()
    assert generator.write(TASK).queries == ("a boat is",)


def test_an_interrupt_closes_the_connection(ollama: ScriptedOllama) -> None:
    was_closed = threading.Event()

    def interrupted(handler: OllamaHandler, asked: Asked) -> None:
        handler.begin()
        handler.connection.settimeout(20)
        os.kill(os.getpid(), signal.SIGINT)
        with suppress(ConnectionError):
            assert handler.connection.recv(1) == b""
        was_closed.set()
        handler.close_connection = True

    ollama.once.append(Fault(interrupted))
    with pytest.raises(KeyboardInterrupt):
        opened(ollama).write(TASK)
    assert was_closed.wait(20)


def test_the_check_of_a_model_that_works(ollama: ScriptedOllama) -> None:
    ollama.answer = lambda asked: {"ready": "yes"}
    findings = check_llm(LlmSettings(url=ollama.url))
    assert [finding.what for finding in findings] == ["server", "model", "context window", "answer"]
    assert all(finding.is_well for finding in findings)
    server, model, window, answer = (finding.says for finding in findings)
    assert server == f"Ollama 0.13.5 at {ollama.url}"
    assert model == "llama3.2:latest is there, loaded"
    assert window == "8192 of the 131072 tokens that llama3.2:latest can read"
    assert "first word after" in answer


def test_the_check_says_what_is_amiss(ollama: ScriptedOllama) -> None:
    def require(what: str, said: str, **changes: object) -> None:
        finding = check_llm(settings(ollama, **changes))[-1]
        assert (finding.what, finding.is_well) == (what, False)
        assert said in finding.says

    require("model", "ollama pull mistral", model="mistral")
    require("model", "cannot chat", model="nomic-embed-text")
    ollama.answer = lambda asked: "yes!"
    require("answer", "wrote no JSON object")
    ollama.answer = lambda asked: silence()
    require("answer", "llm.seconds", seconds=SECONDS)
    ollama.health = status(200, "<html>a router</html>")
    require("server", "llm.url")
    ollama.kill()
    require("server", "ollama serve")


def test_the_check_tells_of_a_model_that_is_not_loaded_or_reads_less(ollama: ScriptedOllama) -> None:
    ollama.loaded.clear()
    ollama.models["llama3.2:latest"] = Model(context_length=2048)
    ollama.answer = lambda asked: {"ready": "yes"}
    _, model, window, answer = check_llm(LlmSettings(url=ollama.url))
    assert "not loaded yet" in model.says
    assert (window.is_well, window.says) == (
        True,
        "llama3.2:latest reads 2048 tokens, fewer than llm.num_ctx (8192): every task is cut to that",
    )
    assert answer.is_well


def test_a_model_that_writes_its_answer_into_its_thoughts_is_read(ollama: ScriptedOllama) -> None:
    ollama.once.append(written("", thinking='A boat? {"queries": ["x"]}'))
    assert opened(ollama).write(TASK).queries == ("x",)
