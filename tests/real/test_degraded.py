"""Each stage that is skipped or fails is named: in text, in JSON and to an agent alike."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from retriever.api import index_folders
from retriever.serving.mcp_server import SearchTool
from retriever.serving.pool import ServedIndex
from tests.program import Cli
from tests.shelf import PAGES, Shelf

QUESTION = "which stamp pays for the journey of a letter?"
NOBODY: Mapping[str, Any] = {"use_llm": True, "llm": {"url": "http://127.0.0.1:9"}}
"""A language model that does not answer."""
CASES: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
    ("question: only its first", "stamp " * 2000, {}),
    ("embed: the last", "stamp " * 400, {}),
    ("refresh: ", QUESTION, {}),
    ("expand: ", QUESTION, {**NOBODY, "hyde": "always"}),
    ("expand: the language model is switched off", QUESTION, {"use_llm": False, "hyde": "always"}),
    ("rerank: ", QUESTION, {**NOBODY, "rerank": {"kind": "llm"}}),
    ("rerank: the language model is switched off", QUESTION, {"use_llm": False, "rerank": {"kind": "llm"}}),
)
"""What is said, of which question, and with which settings."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    shelf = Shelf(tmp_path_factory.mktemp("made"), PAGES)
    index_folders([shelf.docs], shelf.index)
    return shelf


@pytest.mark.parametrize(("said", "question", "settings"), CASES, ids=[case[0] for case in CASES])
def test_text_json_and_agents_name_it_alike(
    made: Shelf, tmp_path: Path, cli: Cli, said: str, question: str, settings: Mapping[str, Any]
) -> None:
    shelf = made.cloned(tmp_path)
    if said == "refresh: ":
        shelf.docs.rename(shelf.place / "elsewhere")
    profile = tmp_path / "profile.yaml"
    profile.write_text(yaml.safe_dump(dict(settings)), encoding="utf-8")
    asked = ["ask", question, "--index", str(shelf.index), "--profile", str(profile)]

    text = cli(*asked).err
    content = cli(*asked, "--json").json
    with ServedIndex(index=str(shelf.index), profile=str(profile)) as library:
        reply = SearchTool.model_construct(question=question, profile=str(profile)).answer(library)

    notes = [line.removeprefix("note: ") for line in text.splitlines() if line.startswith("note: ")]
    assert [sentence for sentence in notes if sentence.startswith(said)]
    assert [sentence for sentence in content["degraded"] if sentence.startswith(said)]
    assert f"note: {said}" in reply
