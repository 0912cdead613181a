"""Every command of a --help page and of README.md runs in a clone; docs/guide and README.md show what they print."""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from hybrid_retrieve import main
from retriever.command_line import GROUPS
from retriever.command_line.options import WithHelp
from retriever.command_line.program import command_line, load_command
from tests.program import PROJECT, run_command
from tests.shelf import write_pages

LASTS = ("serve", "mcp")  # until it is ended
NEEDS_MORE = ("doctor --llm", "read ranking.md --similar", "pick", "postgres")  # a model, vectors, a terminal, a server


def examples_of(name: str) -> list[str]:
    command = load_command(name) if name else command_line
    assert isinstance(command, WithHelp)
    return list(command.examples)


def commands_of_readme() -> list[str]:
    text = (PROJECT / "README.md").read_text(encoding="utf-8")
    blocks = "".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL))
    lines = re.findall(r"^(?:uv run hybrid_retrieve\.py|hybrid-retrieve) (.*)$", blocks, re.MULTILINE)
    return [line for line in lines if not line.startswith(NEEDS_MORE)]


@pytest.fixture(scope="module")
def shared_clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder that examples name, and its index: by words alone, of a few pages, so that it takes little time."""
    place = tmp_path_factory.mktemp("around") / "clone"
    guide = "# Install\n\n## On Linux\n\n" + "Run it.\n" * 30
    named = ("docs/guide/install.md", "docs/guide/mail.md", "docs/plans.md", "docs/drafts/a.md")
    write_pages(place, dict.fromkeys((*named, "../notes/a.md", "../work/a.md"), guide))
    shutil.copytree(PROJECT / "docs/tutorial-notes", place / "docs" / "tutorial-notes")
    for name in ("internals/ranking.md", "internals/storage.md", "guide/asking.md"):
        shutil.copy(PROJECT / "docs" / name, place / "docs")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"):
            patch.setenv(name, str(place / name))
        patch.setenv("HYBRID_RETRIEVE_ENCODER_KIND", "none")
        patch.setenv("HYBRID_RETRIEVE_LLM_URL", "http://127.0.0.1:9")  # nobody answers there
        patch.chdir(place)
        assert main(["index", "docs", "-q"]) == 0
        question = {
            "id": "1",
            "question": "run it",
            "gold": [{"file": "guide/mail.md", "start_line": 5, "end_line": 5}],
        }
        (place / "questions.jsonl").write_text(json.dumps(question), encoding="utf-8")
        shutil.copytree(place, place.parent / "made", ignore=shutil.ignore_patterns("docs"))
        yield place


@pytest.fixture
def clone(shared_clone: Path) -> Path:
    """As new, with an index of docs and of nothing else."""
    for path in shared_clone.iterdir():
        if path.is_file():
            path.unlink()
        elif path.name != "docs":
            shutil.rmtree(path)
    return Path(shutil.copytree(shared_clone.parent / "made", shared_clone, dirs_exist_ok=True))


def run_as_it_stands(line: str, capfd: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(line, comments=True)
    name = next((word for word in words if not word.startswith("-")), "")
    if name in LASTS or "--watch" in words:
        free = ["--port", "0"] if name == "serve" else []  # another program may listen at the one of the example
        command = [sys.executable, str(PROJECT / "hybrid_retrieve.py"), *words, *free]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if name != "mcp":  # which ends with its standard input
            assert process.stderr is not None
            assert process.stderr.readline(), line  # it says what it serves, or what it has indexed
            interrupt(process)
        _, said = process.communicate(timeout=30)
        assert process.returncode in (0, 130), f"{line}\n{said.decode()}"
        return
    target = words[words.index(">") + 1] if ">" in words else ""
    ends = min(words.index(sign) if sign in words else len(words) for sign in "<>")
    source = Path(words[words.index("<") + 1] if "<" in words else os.devnull)
    with pytest.MonkeyPatch.context() as patch, source.open(encoding="utf-8") as stdin:
        patch.setattr(sys, "stdin", stdin)
        code = main(words[:ends])
    out, err = capfd.readouterr()
    assert code == 0, f"{line}\n{err}"
    if target:
        Path(target).write_text(out, encoding="utf-8")


def interrupt(process: subprocess.Popen[bytes]) -> None:
    """Presses Ctrl-C, and again after some seconds: Python drops one that comes in a callback of its own."""
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=10)
            return


@pytest.mark.parametrize("name", ["", *chain.from_iterable(GROUPS.values())])
def test_every_example_of_a_help_page_runs(name: str, clone: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for line in examples_of(name):
        if not line.startswith(NEEDS_MORE):
            run_as_it_stands(line, capfd)


def test_every_command_of_the_readme_runs(clone: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for line in commands_of_readme():
        run_as_it_stands(line, capfd)


@pytest.mark.timeout(400)  # some twenty commands, on a busy machine
def test_what_the_pages_show_is_what_the_program_prints() -> None:
    checked = run_command([sys.executable, PROJECT / "scripts/write_tutorial.py", "--check"])
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
