"""Questions, numbers, profiles and places that cannot be meant: a clear line and the right exit code, never a trace."""

import json
from pathlib import Path

import pytest

from tests.program import Cli
from tests.real.served import indexed
from tests.shelf import write_pages
from tests.tables import read_table

PAGE = "# Zebras\n\nA zebra is a striped animal of the savanna.\n\n## Caf\xe9 \u6771\u4eac\n\nNEAR the tower, 100 %.\n"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return indexed(tmp_path_factory.mktemp("bad"), {"zebra.md": PAGE})


@pytest.fixture(autouse=True)
def quiet_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, index: Path) -> None:
    """A folder with odd files, and no index but the one that a test names."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    Path("half.yaml").write_text("top_k: [", encoding="utf-8")
    Path("binary.yaml").write_bytes(b"\xff\xfe\x00")
    Path("file").write_text("mine", encoding="utf-8")
    Path("questions.jsonl").write_text('{"id": "a", "question": "q", "gold": []}', encoding="utf-8")
    Path("known").symlink_to(index)
    write_pages(tmp_path / "docs", {"a.md": PAGE})


@pytest.mark.parametrize(
    "question",
    [
        "zebra " * 20_000, "x" * 100_000, "\x1b[31m\x07\x00zebra", "what is the of and", "?!... --- ***",
        "\ufffd\udcff\udcfe zebra", "\U0001f993", "\u05d6\u05d1\u05e8\u05d4 \u202ezebra",
        '"zebra" AND -striped OR NEAR(a, b) *', "$where {{}} ' OR 1=1; DROP TABLE nodes --", "(((((((", '"',
        "a:b^2~ [x TO y]",
    ],
    ids=lambda question: ascii(question)[:20],
)  # fmt: skip
def test_any_question_is_text(index: Path, cli: Cli, question: str) -> None:
    out, _ = cli("--index", index, "--json", "--", question)
    content = json.loads(out)
    assert len(content["hits"]) <= 2
    out, err = cli("--index", index, "--", question)
    assert not set(out + err) & set("\x00\x07\x1b\u202e")


@pytest.mark.parametrize(("line", "code", "says"), read_table("command_lines", "What cannot be done"))
def test_what_cannot_be_done_is_said(cli: Cli, line: str, code: int, says: str) -> None:
    before = sorted(Path().iterdir())
    out, err = cli(*line.split(), code=code)
    assert out == ""
    assert says in err
    assert all(line.startswith("error: ") for line in err.splitlines())
    assert (sorted(Path().iterdir()), Path("file").read_text(encoding="utf-8")) == (before, "mine")
