"""Whatever goes wrong with the language model, in expansion, reranking or both: the answer is the one without it.

Asked as people ask, by the command line; what each fault is to the client alone is in test_served_generate.py.
"""

import contextlib
import io
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hybrid_retrieve import main
from tests.program import slow
from tests.real.scripted_server import QUESTION, Fault, ScriptedServer, help_and_reverse, scripted_server
from tests.real.test_served_generate import FAULTS, SLOW

STAGES = {
    "expand": ["--hyde-gate", "always"],
    "rerank": ["--hyde-gate", "never", "--rerank-kind", "llm"],
    "both": ["--hyde-gate", "always", "--rerank-kind", "llm"],
}
MODES = {name: fault for name, (fault, *_) in FAULTS.items()} | SLOW
SECONDS = "0.5"
"""The longest wait for a model that does not come to an end."""


@dataclass(frozen=True, slots=True)
class Said:
    code: int
    content: Any
    """Its JSON."""
    seconds: float

    @property
    def hits(self) -> list[tuple[str, float]]:
        return [(hit["node_id"], hit["score"]) for hit in self.content["hits"]]

    @property
    def named(self) -> set[str]:
        """The stages that say why the model took no part in them."""
        stages = {sentence.partition(":")[0] for sentence in self.content["degraded"]}
        return stages | ({"expand"} if "nothing to search with" in self.content["expansion"]["note"] else set())


def say(index: Path, *arguments: str) -> Said:
    begun = time.perf_counter()
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        code = main([QUESTION, "--json", "--index", str(index), "--encoder-kind", "none", *arguments])
    printed.seek(0)
    return Said(code, json.load(printed), time.perf_counter() - begun)


def model(ollama: ScriptedServer, *arguments: str) -> list[str]:
    return ["--use-llm", "--llm-url", ollama.url, "--hyde-cache-entries", "0", *arguments]


def faulty(index: Path, plain: Said, fault: Fault, *limits: str) -> tuple[list[str], float]:
    """What is wrong with an answer when this goes wrong in both stages, and how many seconds it took."""
    with scripted_server(lambda asked: fault) as ollama:
        said = say(index, *model(ollama, *STAGES["both"], *limits))
    wrong = [] if said.code == 0 else [f"exit status {said.code}"]
    wrong += [] if limits or ollama.asked else ["the model was not asked"]
    wrong += [] if said.hits == plain.hits else ["the list is not the one without the model"]
    return wrong + ([] if said.named == {"expand", "rerank"} else [f"{sorted(said.named)} are named"]), said.seconds


@pytest.fixture(scope="module")
def plain(index: Path) -> Said:
    return say(index, "--no-use-llm")


OFTEN = ("cut stream", "hung up", "killed", "model gone", "no memory", "nothing", "wrong shape", *SLOW)
"""One of each kind of error; to the stages, the others are the same."""


@pytest.mark.parametrize("name", [*OFTEN, *slow(name for name in MODES if name not in OFTEN)])
def test_the_answer_is_the_one_without_the_model(index: Path, plain: Said, name: str) -> None:
    limits = ("--llm-seconds", SECONDS, "--llm-load-seconds", SECONDS, "--llm-idle-seconds", SECONDS)
    assert faulty(index, plain, MODES[name], *(limits if name in SLOW else ()))[0] == []


@pytest.mark.parametrize("name", SLOW)
def test_a_budget_is_kept(index: Path, plain: Said, name: str) -> None:
    """The model's own settings give it longer: the budget ends it. How soon is measured in the long form."""
    wrong, seconds = faulty(index, plain, SLOW[name], "--budget", "400ms")
    assert wrong == []
    assert seconds < 30


def test_a_model_that_works_changes_the_list(index: Path, plain: Said) -> None:
    """Otherwise the tests above would show nothing."""
    for stage, flags in STAGES.items():
        with scripted_server(help_and_reverse) as ollama:
            said = say(index, *model(ollama, *flags))
        assert said.hits != plain.hits, stage
        assert said.content["degraded"] == []
