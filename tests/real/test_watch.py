"""`index --watch` as its users run it: a process, a real folder, a real index."""

import json
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from retriever.store.files import writer_lock
from tests.program import environment
from tests.shelf import write_pages

PATIENCE_S = 40.0
MANY = 300
IMPATIENT = """if True:
    import sys
    from hybrid_retrieve import main
    from retriever import api, places
    lock = places.writer_lock
    places.writer_lock = lambda index, wait_s: lock(index, min(wait_s, 0.5))
    api.LOOK_S = 0.5
    sys.exit(main(sys.argv[1:]))
"""
"""The program, but that it waits half a second for another writer, in place of ten, and between two looks."""


class Watching:
    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._lines.put(line.rstrip("\n"))

    def line(self, patience_s: float = PATIENCE_S) -> str:
        return self._lines.get(timeout=patience_s)

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def rest(self) -> list[str]:
        self._reader.join()
        return [self._lines.get() for _ in range(self._lines.qsize())]


@contextmanager
def watch(
    place: Path,
    *arguments: str,
    index: str | Path = "index",
) -> Iterator[Watching]:
    command = [sys.executable, "-c", IMPATIENT, "index", "--watch", "docs", "--index", str(index), *arguments]
    process = subprocess.Popen(
        [*command, "--encoder-kind", "none"], cwd=place, env=environment(XDG_DATA_HOME=str(place / "data")),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        watching = Watching(process)
        try:
            assert watching.line() == "watching docs; Ctrl-C ends it"
            yield watching
        finally:
            process.kill()
            process.wait()
            watching.rest()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    pages = {name: f"# {name}\n\nFirst words.\n" for name in ("a.md", "guide/b.md")}
    write_pages(tmp_path / "docs", {**pages, ".gitignore": "drafts/\n"})
    return tmp_path


def test_a_day_of_saves(place: Path, any_place: str | Path) -> None:
    with watch(place, index=any_place) as watching:
        assert watching.line().startswith("2 added; ")

        # Says nothing: the next line is of the next file.
        write_pages(place / "docs", {"drafts/ignored.md": "# Ignored\n"})
        write_pages(place / "docs", {"a.md": "# A\n\nOther words.\n"})
        assert watching.line().startswith("1 changed, 1 unchanged; 0 texts embedded, ")

        # Saved as some editors do.
        (place / "docs" / "4913").write_text("# B\n\nOther words.\n", encoding="utf-8")
        (place / "docs" / "4913").rename(place / "docs" / "guide" / "b.md")
        assert watching.line().startswith("1 changed")

        write_pages(place / "docs", {"bad.md": "# Bad\0\n"})
        assert watching.line().startswith("skipped bad.md: ")
        assert watching.line().startswith("2 unchanged, 1 skipped; ")

        (place / "docs" / "guide").rename(place / "docs" / "drafts" / "guide")
        assert watching.line().startswith("1 removed, ")
        assert watching.end(signal.SIGTERM) == -signal.SIGTERM
        assert watching.rest() == []


def test_no_file_of_a_burst_is_missed_and_a_folder_made_again_is_followed(place: Path) -> None:
    with watch(place) as watching:
        assert watching.line().startswith("2 added; ")
        for number in range(MANY):
            write_pages(place / "docs", {f"many/{number}.md": "# One of many\n"})
        added = 0
        while added < MANY:
            added += int(watching.line().partition(" added, ")[0])
        (place / "docs").rename(place / "away")
        assert watching.line().startswith("skipped .: the folder is kept as it was: ")
        assert watching.line().startswith("302 unchanged, 1 skipped; ")
        (place / "away").rename(place / "docs")
        assert watching.line().startswith("302 unchanged; ")
        assert watching.end(signal.SIGINT) == 130
        assert watching.rest() == ["interrupted"]


def test_it_waits_for_another_writer_and_goes_on(place: Path) -> None:
    with watch(place, "--json") as watching:
        assert watching.process.stdout is not None
        assert watching.line().startswith("2 added; ")
        assert json.loads(watching.process.stdout.readline())["added"] == 2
        with writer_lock(place / "index", 0):
            write_pages(place / "docs", {"a.md": "# A\n\nWritten while another process writes.\n"})
            assert watching.line().startswith("not indexed: another process is writing to the index ")
            with pytest.raises(queue.Empty):  # it is tried again, and not said again
                watching.line(3.0)
        write_pages(place / "docs", {"guide/b.md": "# B\n\nWritten later.\n"})
        assert watching.line().startswith("2 changed; ")
