"""Fixtures of the tests that run the real things."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from pageindex.corpus import DocumentText, SourceFile, read_document
from retriever.api import index_folders
from retriever.served.task import Abilities
from tests.program import LARDER
from tests.real.loopback import LoopbackHandler, serving
from tests.real.scripted_server import ScriptedServer, scripted_server
from tests.real.served import LONG, PAGES, indexed
from tests.shelf import Shelf


@pytest.fixture(autouse=True)
def look_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A retriever that stays open looks at the folders before each question."""
    monkeypatch.setattr("retriever.looking.status.BETWEEN_LOOKS_S", 0.0)


@pytest.fixture(scope="session")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The index of the pages of tests/real/served.py, made with the bundled model; only read."""
    return indexed(tmp_path_factory.mktemp("served"), PAGES | {"long.md": LONG})


@pytest.fixture(scope="session")
def larder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The index of the documents of the larder, made with the bundled model; only read."""
    index = tmp_path_factory.mktemp("larder") / "index"
    index_folders([LARDER], index)
    return index


SHIPS_QUESTION = "which of all these ships sails with the wind when the harbour is closed for the night?"


@pytest.fixture(scope="session")
def ships(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    """Forty sections, each longer than a reranker is shown; only read."""
    text = "A ship sails with the wind when the harbour is closed, and waits for the night. " * 25
    pages = {f"ship{number}.md": f"# Ship {number}\n\n{text}\n" for number in range(40)}
    shelf = Shelf(tmp_path_factory.mktemp("ships"), pages)
    shelf.update()
    return shelf


@pytest.fixture
def ollama(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    """Answers by the function `answered` of the module, with a cache folder of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    import_module("ollama")  # half a second, and seconds on a busy machine: a look at a server waits one
    with scripted_server(getattr(request.module, "answered", lambda asked: {})) as script:
        script.remember(Abilities())
        yield script


@pytest.fixture
def openai(ollama: ScriptedServer) -> ScriptedServer:
    """The same server, asked by OpenAI's API."""
    ollama.kind = "openai"
    return ollama


@pytest.fixture(params=["ollama", "openai"])
def served(request: pytest.FixtureRequest, ollama: ScriptedServer) -> ScriptedServer:
    """The same server, asked by each API."""
    ollama.kind = request.param
    return ollama


@pytest.fixture
def trap() -> Iterator[tuple[str, list[str]]]:
    """The address of a server that nobody may ask, and the first lines of those who did."""
    visits: list[str] = []

    class Trap(LoopbackHandler):
        def handle(self) -> None:
            visits.append(self.rfile.readline(500).decode("latin-1"))

    with serving(Trap) as server:
        yield server.url, visits


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that looking for changes has read, in their order; to be emptied by the test."""
    read: list[str] = []

    def noted(file: SourceFile) -> DocumentText:
        read.append(file.path)
        return read_document(file)

    monkeypatch.setattr("retriever.indexing.changes.read_document", noted)
    return read
