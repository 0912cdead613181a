"""A real model server, llama.cpp's, under the contract of the scripted ones: embed, write, rerank, list.

Its models are small (scripts/llama_server.py): vectors are real, and what writes follows instructions badly.
"""

import contextlib
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pydantic import BaseModel, Field

from retriever.embedding import open_encoder
from retriever.errors import LanguageModelError
from retriever.rerank import EndpointReranker, RerankInput
from retriever.served.generator import Generator
from retriever.served.task import Task
from retriever.settings import EncoderSettings, LlmSettings, Profile, RerankSettings
from retriever.upkeep import REWORDED, examine_language_model
from scripts.llama_server import MissingServerError, running_server
from tests.program import PROJECT, Cli
from tests.shelf import Shelf


class Queries(BaseModel):
    queries: list[str] = Field(max_length=3)


TASK = Task("Reword the question three times.", "How are two rankings fused?", Queries, 120, 40, temperature=0.3)


@contextlib.contextmanager
def llama(model: str, *options: str) -> Iterator[str]:
    """The address of a server of that model; skipped, with the reason, where there is none."""
    with contextlib.ExitStack() as stack:
        try:
            url, _ = stack.enter_context(running_server(model, *options))
        except MissingServerError as error:
            pytest.skip(str(error))
        yield url


@pytest.fixture(scope="module")
def writer() -> Iterator[str]:
    with llama("smollm2", "-c", "16384", "-np", "4") as url:
        yield url


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def open_generator(url: str, **changes: object) -> Generator:
    return Generator(Profile(llm=replace(LlmSettings(url=url), **changes)))  # type: ignore[arg-type]


def test_it_is_found_and_its_model_needs_no_name(writer: str) -> None:
    model = next(examine_language_model(Profile(llm=LlmSettings(url=writer))))
    assert model.level == "well"
    assert "smollm2.gguf is there" in model.says
    assert "4096" in model.says, "each of four slots has a quarter"
    with pytest.raises(LanguageModelError, match=r"it has .*smollm2\.gguf"):
        open_generator(writer, model="another").write(TASK)


def test_it_writes_under_a_schema(writer: str) -> None:
    assert 1 <= len(open_generator(writer).write(TASK).queries) <= 3


class Numbers(BaseModel):
    numbers: list[int]


def test_what_is_whole_of_a_list_without_end_is_kept(writer: str) -> None:
    generator = open_generator(writer)
    numbers = generator.write(Task("Count.", "How many?", Numbers, 100, 30)).numbers
    assert 10 < len(numbers) < 100


@pytest.mark.parametrize("options", [(), ("-ub", "2048", "-b", "2048")], ids=["defaults", "a large batch"])
def test_it_reranks_texts_of_any_length(options: tuple[str, ...]) -> None:
    texts = ["a boat", "boats " * 3000, "How letters leave the house. " * 300, "ships"]
    with llama("rerank", *options) as url:
        settings = RerankSettings(kind="endpoint", url=url)
        profile = Profile(final_text_chars=8000, rerank=settings, llm=LlmSettings(seconds=180))
        reranker = EndpointReranker(profile)
        scores = reranker.score("where do boats come in?", [RerankInput("A > B", text) for text in texts])
        assert len(set(scores)) > 2
        assert all(0 < score < 1 for score in scores), "logits become scores"


def test_its_vectors_are_those_of_the_bundled_model() -> None:
    texts = ["how are rankings fused?", "A stamp pays for the journey of a letter.", "boats " * 150]
    with llama("embed") as url:
        served = open_encoder(EncoderSettings(kind="openai", url=url, model="embed", max_tokens=256))
        assert served
        vectors = served.encode_documents(texts)
    bundled = open_encoder(EncoderSettings())
    assert bundled
    own = bundled.encode_documents(texts)
    assert np.einsum("nd,nd->n", vectors, own).min() > 0.97


@pytest.mark.timeout(240)  # `doctor --llm` looks at a real model, which alone may take a minute
def test_the_three_commands_of_the_guide(writer: str, shelf: Shelf, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retriever.upkeep.REWORDED", dict([*REWORDED.items()][1:]))  # each takes it six seconds
    page = (PROJECT / "docs/guide/language-model.md").read_text(encoding="utf-8")
    block = page.partition("or with llama.cpp:")[2].split("```")[1]
    first, *commands = block.strip().split("\n")[1:]
    assert first.startswith("llama-server -m model.gguf ")
    for command in commands:
        arguments = shlex.split(command.replace("http://127.0.0.1:8080/v1", writer))[1:]
        said = cli(*arguments, "--index", shelf.index, code=(0, 1))
        assert "tokens a second read" in said.out or "searched" in said.err
        assert "expand:" not in said.err, "nothing was lost"
        assert "rerank:" not in said.err
    assert "expansion is off for it" in said.err, "and nothing is asked of it in vain"
