"""Whatever goes wrong with the language model, in expansion and reranking: the answer is the one without it.

Asked as people ask, by the command line; what each fault is to the client alone is in test_served_generate.py.
"""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.program import Cli, slow
from tests.real.scripted_server import QUESTION, Fault, ScriptedServer, help_and_reverse, scripted_server
from tests.real.test_served_generate import FAULTS, SLOW

MODES = {name: fault for name, (fault, *_) in FAULTS.items()} | SLOW
LIMITS = [word for limit in ("--llm-seconds", "--llm-load-seconds", "--llm-idle-seconds") for word in (limit, "0.5")]
"""The longest waits for a model that does not come to an end."""


def ask(cli: Cli, index: Path, *arguments: str) -> Any:  # noqa: ANN401 - JSON
    return json.loads(cli(QUESTION, "--json", "--index", index, "--encoder-kind", "none", *arguments).out)


def hits(content: Any) -> list[tuple[str, float]]:  # noqa: ANN401 - JSON
    return [(hit["node_id"], hit["score"]) for hit in content["hits"]]


def model(ollama: ScriptedServer) -> list[str]:
    return ["--use-llm", "--llm-url", ollama.url, "--hyde", "always", "--rerank-kind", "llm"]


def check(cli: Cli, index: Path, fault: Fault, *limits: str) -> None:
    """The list without the model, and both stages say why it took no part in them."""
    plain = ask(cli, index, "--no-use-llm")
    with scripted_server(lambda asked: fault) as ollama:
        content = ask(cli, index, *model(ollama), *limits)
    assert limits or ollama.asked
    assert hits(content) == hits(plain)
    named = {sentence.partition(":")[0] for sentence in content["degraded"]}
    assert named | ({"expand"} if "nothing to search with" in content["expansion"]["note"] else set()) == {
        "expand",
        "rerank",
    }


OFTEN = ("cut stream", "killed", "model gone", "nothing", "silence")
"""One of each kind of error; to the stages, the others are the same."""


@pytest.mark.parametrize("name", [*OFTEN, *slow(name for name in MODES if name not in OFTEN)])
def test_the_answer_is_the_one_without_the_model(index: Path, cli: Cli, name: str) -> None:
    check(cli, index, MODES[name], *(LIMITS if name in SLOW else ()))


@pytest.mark.parametrize("name", ["silence", "one word each 50 ms"])
def test_a_budget_is_kept(index: Path, cli: Cli, name: str) -> None:
    """The model's own settings give it longer: the budget ends it."""
    started = time.monotonic()
    check(cli, index, SLOW[name], "--budget", "400ms")
    assert time.monotonic() - started < 30


def test_a_model_that_works_changes_the_list(index: Path, cli: Cli) -> None:
    """Otherwise the tests above would show nothing."""
    with scripted_server(help_and_reverse) as ollama:
        content = ask(cli, index, *model(ollama))
    assert hits(content) != hits(ask(cli, index, "--no-use-llm"))
    assert content["degraded"] == []
