"""`index` is told to end at any moment: it does so at once, with its own exit status, and nothing is lost by it."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from retriever.api import index_folders, open_retriever
from retriever.places import open_store
from retriever.upkeep.doctor import examine_index
from tests.program import command, slow
from tests.scenarios import pages
from tests.shelf import NEVER_REFRESH, PAGES, QUESTIONS, write_pages

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="signals of POSIX"),
    pytest.mark.timeout(240),  # ten seconds alone; others may be at work on the machine
]


def answers(index: Path) -> list[list[tuple[str, int, int]]]:
    with open_retriever(index=index, settings=NEVER_REFRESH) as retriever:
        found = [retriever.search(question) for question in QUESTIONS]
    return [[(hit.node_id, hit.span.first, hit.span.last) for hit in answer.hits] for answer in found]


class Run(NamedTuple):
    docs: Path
    before: Path
    changed: Path
    command: list[str]
    seconds: float
    after: list[list[tuple[str, int, int]]]  # the answers


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One that nobody ends."""
    place = tmp_path_factory.mktemp("signals")
    docs, index, before = place / "docs", place / "index", place / "before"
    index_again = command("index", docs, "--index", index, "-q")
    write_pages(docs, PAGES | pages(12, "first"))
    index_folders([docs], index)
    shutil.copytree(index, before)
    write_pages(docs, pages(40, "second") | {"kitchen.md": "# Kitchen\n\nStamps and bread over night.\n"})
    begun = time.perf_counter()
    subprocess.run(index_again, check=True, capture_output=True)
    return Run(docs, before, index, index_again, time.perf_counter() - begun, answers(index))


@pytest.mark.parametrize(
    ("number", "share"),
    [(signal.SIGINT, 0.4), (signal.SIGTERM, 0.4), *slow([(signal.SIGINT, 0.7), (signal.SIGTERM, 0.1)])],
)
def test_it_ends_and_nothing_is_lost(whole: Run, share: float, number: signal.Signals) -> None:
    """By a signal after this share of the time that a whole run takes."""
    index = whole.changed
    shutil.rmtree(index)
    shutil.copytree(whole.before, index)
    with subprocess.Popen(whole.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        time.sleep(share * whole.seconds)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    # 0 where it came to its end before; 1 where a native module was interrupted while it was loaded.
    assert process.returncode in ({0, 1, 130, -number} if number == signal.SIGINT else {0, -number}), err
    if process.returncode == 130:
        assert err == b"interrupted\n"
    # It answers, of the documents as they were or by words of those that it has read; what it says is done, is done.
    assert all(answers(index))
    assert not out or answers(index) == whole.after
    index_folders([whole.docs], index)
    assert answers(index) == whole.after
    assert [found.says for found in examine_index(open_store(index)) if found.level != "well"] == []
