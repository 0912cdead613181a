"""Each stage that is skipped or fails is named: in text, in JSON and to an agent alike."""

from pathlib import Path

import pytest

from retriever.api import index_folders
from retriever.serving import ServedIndex
from retriever.serving.mcp_server import SearchTool
from tests.program import Cli
from tests.shelf import PAGES, Shelf
from tests.tables import read_table

QUESTION = "which stamp pays for the journey of a letter?"
LONG = [("question: only its first", "{}", "stamp " * 2000), ("embed: the last", "{}", "stamp " * 400)]
CASES = [*((*row, QUESTION) for row in read_table("degraded", "What is said of a profile")), *LONG]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    shelf = Shelf(tmp_path_factory.mktemp("made"), PAGES)
    index_folders([shelf.docs], shelf.index)
    return shelf


@pytest.mark.parametrize(("said", "settings", "question"), CASES)
def test_text_json_and_agents_name_it_alike(
    made: Shelf, tmp_path: Path, cli: Cli, said: str, settings: str, question: str
) -> None:
    shelf = made.cloned(tmp_path)
    if said == "refresh: ":
        shelf.docs.rename(shelf.place / "elsewhere")
    profile = tmp_path / "profile.yaml"
    profile.write_text(settings, encoding="utf-8")
    asked = ["ask", question, "--index", str(shelf.index), "--profile", str(profile)]
    with ServedIndex(index=str(shelf.index), profile=str(profile)) as library:
        reply = SearchTool.model_construct(question=question, profile=str(profile)).answer(library)
    for told in (cli(*asked).err, reply):
        assert f"note: {said}" in told
    assert [sentence for sentence in cli(*asked, "--json").json["degraded"] if sentence.startswith(said)]
