"""Fixtures of all tests."""

import contextlib
import os
import signal
from collections.abc import Collection, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

# A shell that starts the tests in the background has them ignore Ctrl-C, and with them every program that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Everything works without that room, but its own tests.
collect_ignore_glob = [] if find_spec("retriever.postgres") else ["real/test_postgres*", "real/test_citus*"]

if TYPE_CHECKING:
    from tests.postgres import Server
    from tests.program import Cli
    from tests.sample_library import Sample
    from tests.shelf import Shelf

# Machines that run tests are shared and slow at times: an example's time is no property of the code. The same code is
# tried with the same examples, so that a change is not blamed for what it did not do.
settings.register_profile("shared", deadline=None, derandomize=True)
settings.load_profile("shared")


@pytest.fixture(autouse=True, scope="session")
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Folders for the tests alone: of data, which remembers the folders of an index, and of what a model wrote."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME"):
            patch.setenv(name, str(tmp_path_factory.mktemp("home")))
        # By the last the program knows that `uv run` started it; without the one before, each process that is started
        # would compile all modules again, for a quarter of a second.
        left_out = ("HYBRID_RETRIEVE_", "OPENAI_API_KEY", "PYTHONDONTWRITEBYTECODE", "UV_RUN_RECURSION_DEPTH")
        for name in [name for name in os.environ if name.startswith(left_out)]:
            patch.delenv(name)
        yield


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> "Cli":
    from hybrid_retrieve import main
    from tests.program import Printed

    def run(*arguments: str | Path, code: int | Collection[int] = 0) -> Printed:
        capsys.readouterr()
        ended = main([str(argument) for argument in arguments])
        printed = Printed(*capsys.readouterr())
        assert ended in ({code} if isinstance(code, int) else code), printed
        return printed

    return run


@pytest.fixture(scope="session")
def sample_docs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents, and beside them their index without vectors; only read."""
    from retriever.api import index_folders
    from tests.sample_library import PAGES
    from tests.shelf import WORDS_ALONE, write_pages

    docs = write_pages(tmp_path_factory.mktemp("sample") / "docs", PAGES)
    index_folders([docs], docs.parent / "index", settings=WORDS_ALONE)
    return docs


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch, sample_docs: Path) -> "Sample":
    """For tests of what a command line means and says."""
    from tests.sample_library import Sample  # it imports most of the program

    library = Sample(sample_docs, sample_docs.parent / "index")
    library.install(monkeypatch)
    return library


@pytest.fixture
def shelf(request: pytest.FixtureRequest, made_shelf: "Shelf", tmp_path: Path) -> "Shelf":
    """Four pages and their index; one for all the tests that are marked `shared_index`."""
    if request.node.get_closest_marker("shared_index"):
        shared: Shelf = request.getfixturevalue("shared_shelf")
        return shared
    return made_shelf.cloned(tmp_path)


@pytest.fixture(scope="session")
def shared_shelf(made_shelf: "Shelf", tmp_path_factory: pytest.TempPathFactory) -> "Shelf":
    return made_shelf.cloned(tmp_path_factory.mktemp("shared"))


@pytest.fixture(scope="session")
def postgres_server() -> "Iterator[Server]":
    """A PostgreSQL with pgvector for all tests of this process; skipped, with the reason, where none can start."""
    from tests.postgres import NoServerError, running_server

    pytest.importorskip("retriever.postgres")  # everything else works without that room
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(running_server())
        except NoServerError as error:
            pytest.skip(str(error))
        yield server


@pytest.fixture
def postgres(postgres_server: "Server") -> Iterator[str]:
    """The address of a database of its own, with the tables of an index."""
    with postgres_server.new_index() as address:
        yield address


@pytest.fixture(scope="module", params=["folder", "postgres"])
def any_place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str | Path]:
    """Where a module makes its index: in a folder, and again in a database."""
    if request.param == "folder":
        yield tmp_path_factory.mktemp("place") / "index"
        return
    server: Server = request.getfixturevalue("postgres_server")
    with server.new_index() as address:
        yield address


@pytest.fixture(scope="session")
def made_shelf(tmp_path_factory: pytest.TempPathFactory) -> "Shelf":
    """To be cloned, never opened: made once."""
    from tests.shelf import PAGES, Shelf

    shelf = Shelf(tmp_path_factory.mktemp("made"), PAGES)
    shelf.update()
    return shelf
