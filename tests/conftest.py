"""What all tests share."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from tests.fake_library import FakeLibrary

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
