"""The command line as its users run it: a process, with the bundled model."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.program import command, environment, run_all, run_command, slow
from tests.shelf import write_pages

PAGES = {
    "mail.md": "# Mail\n\nHow messages leave the house.\n\n## After the response\n\n"
    "Add the sending of an email to the background tasks: it goes out after the response.\n\n"
    "## Attachments\n\nPictures and other files travel as parts of a message.\n",
    "guide/fusion.md": "# Rankings\n\n## Fusing two rankings\n\n"
    "Reciprocal rank fusion adds one over k plus the rank in each list.\n",
    "hostile.md": "# Evil\x1b[2J title \x1b]0;owned\x07\n\nThe zebra \x1b[31mred\x9b31m \u202eesrever\u202c "
    "and\x08\x08\x08 a caf\xe9.\n",
    "guide/na\nme\x1b[1m.md": "# Newline\n\nA walrus lives in a strange file name.\n",
}

QUESTION = "send an email once the answer is on its way"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With docs indexed; an index of its own, far from the user's."""
    folder = tmp_path_factory.mktemp("work")
    write_pages(folder / "docs", PAGES)
    first = run(folder, "--docs", "docs", QUESTION)
    assert first.returncode == 0, first.stderr
    assert " 1  docs/mail.md:5-8\n    Mail \u203a After the response\n" in first.stdout
    return folder


def run(place: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return run_command(command(*arguments), place, surroundings(place, **variables))


def surroundings(place: Path, **variables: str) -> dict[str, str]:
    left_out = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LC_", "LANG", "PYTHONIOENCODING", "PYTHONPATH")
    return environment(*left_out, XDG_DATA_HOME=str(place / "data"), **variables)


@pytest.mark.parametrize(
    "variables",
    [
        {"LANG": "C", "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "COLUMNS": "0"},
        *slow([{"COLUMNS": "x", "TERM": "dumb"}]),
    ],
    ids=str,
)
def test_odd_surroundings(place: Path, variables: dict[str, str]) -> None:
    lines = ["caf\xe9 zebra", "--json"], ["caf\xe9 zebra"], ["tree"], ["--help"]
    result = run_all(*lines, cwd=place, env=surroundings(place, **variables))
    assert result.returncode == 0, result.stderr
    assert "Traceback" not in result.stderr
    first, _ = json.JSONDecoder().raw_decode(result.stdout)
    assert "caf\xe9" in first["hits"][0]["snippet"]


def test_a_closed_pipe_is_quiet(place: Path) -> None:
    process = subprocess.Popen(
        command("-q", QUESTION), cwd=place, env=surroundings(place), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr:
        assert process.stderr.read() == b""
    assert process.wait() == 0


@pytest.mark.parametrize(("redirect", "code"), [(">&-", 0), ("2>&-", 0), (">&- 2>&-", 0), (">/dev/full", 1)])
def test_standard_streams_that_take_nothing(place: Path, redirect: str, code: int) -> None:
    result = run_command(
        ["sh", "-c", f'exec "$@" {redirect}', "sh", *command("read", "mail.md", "-q")], place, surroundings(place)
    )
    assert result.returncode == code
    assert "Traceback" not in result.stderr
    assert result.stderr.count("\n") == code
