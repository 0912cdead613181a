"""What all tests share."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from tests.fake_library import FakeLibrary
    from tests.shelf import Shelf

# Machines that run tests are shared and slow at times: an example's time is no property of the code.
settings.register_profile("shared", deadline=None)
settings.load_profile("shared")


@pytest.fixture(autouse=True, scope="session")
def data_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A data folder for the tests alone: it holds which folders were named for an index."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> "FakeLibrary":
    """The library replaced by mocks, for tests of what the command line says and calls."""
    from tests.fake_library import install  # it imports most of the program

    return install(monkeypatch)


@pytest.fixture
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> "Shelf":
    """Four pages and their index; one for all the tests that are marked `shared_index`."""
    if request.node.get_closest_marker("shared_index"):
        shared: Shelf = request.getfixturevalue("shared_shelf")
        return shared
    return _index_pages(tmp_path)


@pytest.fixture(scope="session")
def shared_shelf(tmp_path_factory: pytest.TempPathFactory) -> "Shelf":
    return _index_pages(tmp_path_factory.mktemp("shared"))


def _index_pages(place: Path) -> "Shelf":
    from tests.shelf import PAGES, Shelf

    shelf = Shelf(place, PAGES)
    shelf.update()
    shelf.encoder.encoded = 0
    return shelf


@pytest.fixture(scope="session")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The index of the pages of tests/real/served.py, made with the bundled model; only read."""
    from tests.real.served import indexed

    return indexed(tmp_path_factory.mktemp("served"))
