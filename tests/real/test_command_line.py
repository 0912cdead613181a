"""The command line as its users run it: a process, with the bundled model and ChromaDB."""

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.program import command, run_command, slow
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

FAST = {"HYBRID_RETRIEVE_VECTOR_SEARCH": "exact"}
"""For tests of the streams alone: answers without loading ChromaDB."""

QUESTION = "send an email once the answer is on its way"


@dataclass(frozen=True)
class CommandLine:
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def __call__(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return run_command(command(*arguments), self.folder, self.environment | environment)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """With docs indexed; an index of its own, far from the user's."""
    folder = tmp_path_factory.mktemp("work")
    write_pages(folder / "docs", PAGES)
    left_out = (
        "HYBRID_RETRIEVE_", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LC_", "LANG", "PYTHONIOENCODING", "PYTHONPATH",
    )  # fmt: skip
    environment = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    environment["XDG_DATA_HOME"] = str(folder / "data")
    command_line = CommandLine(folder, environment)
    first = command_line("--docs", "docs", QUESTION)
    assert first.returncode == 0, first.stderr
    assert " 1  docs/mail.md:5-8\n    Mail \u203a After the response\n" in first.stdout
    return command_line


def test_the_index_used_last_answers(run: CommandLine) -> None:
    result = run("--json", "--full", QUESTION)
    assert result.returncode == 0
    content = json.loads(result.stdout)
    best = content["hits"][0]
    lines = (Path(best["folder"]) / best["file"]).read_text(encoding="utf-8").splitlines(keepends=True)
    assert best["citation"] == "mail.md:5-8"
    assert best["text"] == "".join(lines[best["start_line"] - 1 : best["end_line"]])
    assert {item["source"] for item in best["evidence"]} >= {"semantic", "keyword"}
    assert content["degraded"] == []
    assert content["index"]["fresh"] is True
    assert content["index"]["documents"] == len(PAGES)
    assert content["timings_ms"]["total"] >= content["timings_ms"]["semantic"] > 0


def test_a_changed_file_is_found_at_once(run: CommandLine) -> None:
    page = run.folder / "docs" / "new.md"
    page.write_text("# Otters\n\nAn otter holds hands while asleep.\n", encoding="utf-8")
    try:
        result = run("otters asleep", "--top-k", "1")
        assert result.stdout.startswith(" 1  docs/new.md:1-3\n")
        assert "1 file re-indexed first" in result.stderr
    finally:
        page.unlink()
        assert run("index", "docs").returncode == 0


def test_settings_reach_the_search(run: CommandLine) -> None:
    plain = "--neighbor-depth 0 --candidate-file-roots 0 --rrf-k 10 --rank-weighting constant"
    result = run("--json", "--explain", *plain.split(), QUESTION)
    content = json.loads(result.stdout)
    assert [ranking["source"] for ranking in content["trace"]["rankings"]] == ["semantic", "keyword"]
    for hit in content["hits"]:
        dense = [item for item in hit["evidence"] if item["source"] == "semantic"]
        assert [item["share"] for item in dense] == pytest.approx([1 / (10 + item["rank"]) for item in dense])


def test_looking_inside(run: CommandLine) -> None:
    drawn = run("tree", "mail.md")
    assert "After the response" in drawn.stdout
    assert "mail.md:5-8" in drawn.stdout
    nodes = json.loads(run("tree", "mail.md", "--json").stdout)["nodes"]
    assert [node["title"] for node in nodes] == ["Mail", "Mail", "After the response", "Attachments"]
    assert run("read", "mail.md:3").stdout == "How messages leave the house.\n"
    assert run("read", nodes[3]["node_id"]).stdout.startswith("## Attachments\n")
    missing = run("read", "mial.md")
    assert (missing.returncode, missing.stdout) == (2, "")
    status = json.loads(run("status", "--json").stdout)
    assert status["index"]["documents"] == len(PAGES)
    assert status["changed_files"] == []
    assert status["coverage"] == 1.0
    assert "encoder" in run("status").stdout


@pytest.mark.parametrize(
    "environment",
    [
        {"LANG": "C", "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "COLUMNS": "0"},
        *slow([{"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"COLUMNS": "x", "TERM": "dumb"}]),
    ],
    ids=str,
)
def test_odd_surroundings(run: CommandLine, environment: dict[str, str]) -> None:
    for arguments in (["caf\xe9 zebra"], ["tree"], ["caf\xe9 zebra", "--json"], ["--help"]):
        result = run(*arguments, **FAST, **environment)
        assert result.returncode == 0, result.stderr
        assert "Traceback" not in result.stderr
    assert "caf\xe9" in json.loads(run("zebra", "--json", **FAST, **environment).stdout)["hits"][0]["snippet"]


def test_without_a_home(run: CommandLine) -> None:
    environment = {name: value for name, value in run.environment.items() if name != "HOME"}
    result = CommandLine(run.folder, environment)(QUESTION)
    assert result.returncode == 0
    assert " 1  docs/mail.md:5-8" in result.stdout


@pytest.mark.slow
def test_in_a_deleted_folder(run: CommandLine) -> None:
    gone = run.folder / "gone"
    gone.mkdir()
    script = 'rmdir "$PWD"; exec "$@"'
    result = run_command(["sh", "-c", script, "sh", *command(QUESTION)], gone, run.environment)
    assert result.returncode == 0, result.stderr
    assert f"{run.folder.resolve()}/docs/mail.md:5-8" in result.stdout
    assert "Traceback" not in result.stderr


def test_a_closed_pipe_is_quiet(run: CommandLine) -> None:
    process = subprocess.Popen(
        command("-q", QUESTION), cwd=run.folder, env=run.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr:
        assert process.stderr.read() == b""
    assert process.wait() == 0


@pytest.mark.parametrize(("redirect", "code"), [(">&-", 0), ("2>&-", 0), (">&- 2>&-", 0), (">/dev/full", 1)])
def test_standard_streams_that_take_nothing(run: CommandLine, redirect: str, code: int) -> None:
    result = run_command(
        ["sh", "-c", f'exec "$@" {redirect}', "sh", *command("tree", "-q")], run.folder, run.environment
    )
    assert result.returncode == code
    assert "Traceback" not in result.stderr
    assert result.stderr.count("\n") == code
