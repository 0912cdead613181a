"""The program, run in this process or in one of its own, and what tests of it need."""

import io
import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pytest

PROJECT = Path(__file__).parents[1]
PROGRAM = PROJECT / "hybrid_retrieve.py"
LARDER = PROJECT / "tests/eval_corpus/larder"
"""Twelve documents, and questions beside them."""


def slow(cases: Iterable[Any]) -> list[Any]:
    """These cases, marked slow; a tuple is one value for each parameter."""
    return [pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow) for case in cases]


def wait_for(is_so: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


class Printed(NamedTuple):
    out: str
    err: str

    @property
    def json(self) -> Any:  # noqa: ANN401 - JSON
        """The value that `--json` printed."""
        return json.loads(self.out)


class Cli(Protocol):
    """The fixture `cli`: a command line in this process has to end with that code, or one of these."""

    def __call__(self, *arguments: str | Path, code: int | Collection[int] = 0) -> Printed: ...


ALL_IN_ONE = """
import json, sys
from hybrid_retrieve import main
for words in json.loads(sys.argv[1]):
    assert main(words) == 0, words
"""


def run_all(
    *lines: Sequence[str], cwd: Path, env: Mapping[str, str], before: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Command lines in one process, each of which has to end well: it imports the program once."""
    return run_command([*before, sys.executable, "-c", ALL_IN_ONE, json.dumps(lines, ensure_ascii=False)], cwd, env)


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def environment(*left_out: str, **variables: str) -> dict[str, str]:
    """Of a process without settings, and without what begins with these words."""
    names = ("HYBRID_RETRIEVE_", *left_out)
    return {name: value for name, value in os.environ.items() if not name.startswith(names)} | variables


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, str(PROGRAM), *map(str, arguments)]


def run_command(
    command: Sequence[str | Path], cwd: Path = PROJECT, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Waits for its end, whatever that is."""
    return subprocess.run(
        [str(word) for word in command], check=False, cwd=cwd, env=env, capture_output=True, stdin=subprocess.DEVNULL,
        encoding="utf-8", errors="surrogateescape",
    )  # fmt: skip


def run_python(
    script: str, *arguments: str | Path, cwd: Path = PROJECT, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return run_command([sys.executable, "-c", script, *arguments], cwd, env)


def in_terminal(
    command: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    watch: Callable[[subprocess.Popen[bytes], bytes], None] = lambda process, output: None,
    typed: Iterable[tuple[bytes, bytes]] = (),
) -> tuple[int, bytes]:
    """Its exit status, and what a terminal gets: both streams in the order of their coming.

    `watch` is called with the process and all that it has written, whenever it has written something. `typed` are what
    to wait for, in what is written since the last of them, and what to type then.
    """
    ours, theirs = pty.openpty()
    output, seen, waiting = b"", 0, list(typed)
    with subprocess.Popen(command, cwd=cwd, env=env, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        try:
            while part := os.read(ours, 65536):
                output += part
                watch(process, output)
                if waiting and waiting[0][0] in output[seen:]:
                    seen = len(output)
                    os.write(ours, waiting.pop(0)[1])
        except OSError:  # Linux says EIO at the end of a terminal
            pass
        except BaseException:  # a test that gives up, as after its timeout, leaves no process behind
            process.kill()
            raise
        os.close(ours)
    return process.returncode, output
