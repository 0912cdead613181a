"""Questions, numbers, profiles and places that cannot be meant: a clear line and the right exit code, never a trace."""

import json
import os
import re
from pathlib import Path

import pytest

from tests.program import Cli
from tests.real.served import indexed

PAGE = "# Zebras\n\nA zebra is a striped animal of the savanna.\n\n## Caf\xe9 \u6771\u4eac\n\nNEAR the tower, 100 %.\n"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return indexed(tmp_path_factory.mktemp("bad"), {"zebra.md": PAGE})


@pytest.fixture(autouse=True)
def quiet_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No index but the one that a test names, and an empty folder to work in."""
    for name in [name for name in os.environ if name.startswith("HYBRID_RETRIEVE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)


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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"top_k: [", "not YAML"),
        (b"\xff\xfe\x00", "not YAML"),
        (b"vector_topn: 40\n", "did you mean vector_top_n?"),
        (b"encoder:\n  knid: onnx\n", "did you mean encoder.kind?"),
        (b"!!python/object/apply:os.system ['touch owned']\n", "not YAML"),
    ],
    ids=lambda value: ascii(value)[:24],
)
@pytest.mark.parametrize("command", [["ask", "zebra"], ["profiles"]])
def test_a_wrong_profile_is_named(index: Path, cli: Cli, command: list[str], content: bytes, message: str) -> None:
    Path("mine.yaml").write_bytes(content)
    place = ["mine.yaml"] if command == ["profiles"] else ["--profile", "mine.yaml", "--index", str(index)]
    out, err = cli(*command, *place, code=2)
    assert out == ""
    assert all(line.startswith("error: mine.yaml: ") for line in err.splitlines())
    assert message in err
    assert not Path("owned").exists()


@pytest.mark.parametrize(
    ("flag", "value"),
    [("--top-k", "0"), ("--rrf-k", "nan"), ("--semantic-weight", "inf"), ("--parent-decay", "1.5")],
)
def test_a_number_out_of_range_is_named(index: Path, cli: Cli, flag: str, value: str) -> None:
    out, err = cli("--index", index, flag, value, "zebra", code=2)
    assert out == ""
    assert re.fullmatch(rf"error: settings: {flag[2:].replace('-', '_')}: input should be .*, got .*\n", err)


@pytest.mark.parametrize("command", [["zebra"], ["tree"], ["status"], ["read", "zebra.md"]])
def test_no_index_yet_says_which_command_makes_one(cli: Cli, command: list[str]) -> None:
    for place in ([], ["--index", "nowhere"]):
        out, err = cli(*command, *place, code=1)
        assert out == ""
        assert "python -m retriever index" in err
        assert not Path("nowhere").exists()


def test_an_index_that_is_a_file(cli: Cli) -> None:
    Path("docs").mkdir()
    Path("docs/a.md").write_text(PAGE, encoding="utf-8")
    Path("file").write_text("mine", encoding="utf-8")
    assert cli("index", "docs", "--index", "file", code=1).err.startswith("error: ")
    assert Path("file").read_text(encoding="utf-8") == "mine"


def test_names_that_look_alike_are_documents_of_their_own(cli: Cli) -> None:
    """They differ in case, or in how an accent is written; where the file system takes them for one, they are one."""
    Path("docs").mkdir()
    for name in ("zebra.md", "Zebra.md", "caf\xe9.md", "cafe\u0301.md"):
        Path("docs", name).write_text(PAGE, encoding="utf-8")
    written = sorted(path.name for path in Path("docs").iterdir())
    found = []
    for _ in range(2):
        cli("index", "docs", "--index", "index", "--encoder-kind", "none", "-q")
        found.append(
            [
                hit["node_id"]
                for hit in json.loads(cli("zebra", "--index", "index", "--json", "--top-k", "100").out)["hits"]
            ]
        )
    assert found[0] == found[1]
    assert len(set(found[0])) == len(found[0])
    assert sorted({node_id.partition("#")[0] for node_id in found[0]}) == written


def test_an_index_in_the_folder_of_its_documents_is_none_of_them(cli: Cli) -> None:
    Path("docs").mkdir()
    Path("docs", "a.md").write_text(PAGE, encoding="utf-8")
    for counts in ("1 added, 0 changed, 0 moved, 0 removed, 0 unchanged, 0 skipped", "0 skipped"):
        assert counts in cli("index", "docs", "--index", "docs", "--encoder-kind", "none").out
    assert json.loads(cli("status", "--index", "docs", "--json").out)["index"]["documents"] == 1
