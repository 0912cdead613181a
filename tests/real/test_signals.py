"""`index` is told to end at any moment: it does so at once, with its own exit status, and nothing is lost by it."""

import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from retriever.api import index_folders, open_retriever
from retriever.store.store import open_store
from retriever.upkeep.doctor import examine_index
from tests.program import command, environment, slow
from tests.scenarios import pages
from tests.shelf import NEVER_REFRESH, PAGES, QUESTIONS, write_pages

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="signals of POSIX"),
    pytest.mark.timeout(240),  # ten seconds alone; others may be at work on the machine
]

STATUS = {signal.SIGINT: {130, -signal.SIGINT}, signal.SIGTERM: {-signal.SIGTERM}}
"""What `wait` says: to a shell 130 and 143. Python itself ends by SIGINT until it has begun to run the program."""
OF_PYTHON = b"Fatal Python error: init"
"""So it ends when it is told before it can run any program, with the status 1."""
Answers = list[list[tuple[str, int, int]]]


@dataclass(frozen=True)
class Interruptible:
    """A folder that is indexed, and what is known of doing it in one go."""

    place: Path
    before: Answers
    after: Answers
    seconds: float
    """From the start of the process to its end."""

    @property
    def index(self) -> Path:
        return self.place / "index"


def answers(index: Path) -> Answers:
    with open_retriever(index=index, settings=NEVER_REFRESH) as retriever:
        found = [retriever.search(question) for question in QUESTIONS]
    assert not [answer.degraded for answer in found if answer.degraded]
    return [[(hit.node_id, hit.span.first, hit.span.last) for hit in answer.hits] for answer in found]


def prepared(place: Path) -> Interruptible:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts with `&` ignores it, and all below
    docs, index = place / "docs", place / "index"
    write_pages(docs, PAGES | pages(12, "first"))
    index_folders([docs], index)
    before = answers(index)
    shutil.copytree(index, place / "before")
    write_pages(docs, pages(40, "second") | {"kitchen.md": "# Kitchen\n\nStamps and bread over night.\n"})
    begun = time.perf_counter()
    subprocess.run(started(place), env=environment(), check=True, capture_output=True)
    return Interruptible(place, before, answers(index), time.perf_counter() - begun)


def started(place: Path) -> list[str]:
    return command("index", place / "docs", "--index", place / "index", "-q")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Interruptible:
    return prepared(tmp_path_factory.mktemp("signals"))


@pytest.mark.parametrize("number", STATUS)
@pytest.mark.parametrize("share", [0.15, *slow([0.7])])
def test_it_ends_and_nothing_is_lost(stage: Interruptible, share: float, number: signal.Signals) -> None:
    """By a signal after this share of its time."""
    shutil.rmtree(stage.index)
    shutil.copytree(stage.place / "before", stage.index)
    with subprocess.Popen(
        started(stage.place), env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        time.sleep(share * stage.seconds)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    if process.returncode and OF_PYTHON not in err:  # otherwise it came to its own end before, or had not begun
        assert err == (b"interrupted\n" if process.returncode > 0 else b"")
        assert process.returncode in STATUS[number]
    # What has told on standard output that it is done, is done, and was on its way out.
    assert answers(stage.index) in ((stage.after,) if out else (stage.before, stage.after))
    index_folders([stage.place / "docs"], stage.index)
    assert answers(stage.index) == stage.after
    assert [found.says for found in examine_index(open_store(stage.index)) if found.level != "well"] == []
