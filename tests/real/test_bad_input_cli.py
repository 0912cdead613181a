"""Questions, numbers, profiles and places that cannot be meant: a clear line and the right exit code, never a trace."""

import json
import os
from pathlib import Path

import pytest

from hybrid_retrieve import main

PAGE = "# Zebras\n\nA zebra is a striped animal of the savanna.\n\n## Caf\xe9 \u6771\u4eac\n\nNEAR the tower, 100 %.\n"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bad")
    (folder / "docs").mkdir()
    (folder / "docs" / "zebra.md").write_text(PAGE, encoding="utf-8")
    assert main(["index", str(folder / "docs"), "--index", str(folder / "index"), "-q"]) == 0
    return folder / "index"


@pytest.fixture(autouse=True)
def quiet_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No index but the one that a test names, and an empty folder to work in."""
    for name in [name for name in os.environ if name.startswith("HYBRID_RETRIEVE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("question", ["", " ", "\t\n", "\u2003", "\ud800"])
def test_a_question_with_nothing_to_read(index: Path, capsys: pytest.CaptureFixture[str], question: str) -> None:
    assert main(["--index", str(index), question]) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "question",
    [
        "zebra " * 20_000,
        "x" * 100_000,
        "\x1b[31m\x07\x00zebra",
        "what is the of and",
        "?!... --- ***",
        "\ufffd\udcff\udcfe zebra",
        "\U0001f993",
        "\u05d6\u05d1\u05e8\u05d4 \u202ezebra",
        '"zebra" AND -striped OR NEAR(a, b) *',
        "$where {{}} ' OR 1=1; DROP TABLE nodes --",
        "(((((((",
        "a:b^2~ [x TO y]",
    ],
    ids=lambda question: ascii(question)[:20],
)
def test_any_question_is_text(index: Path, capsys: pytest.CaptureFixture[str], question: str) -> None:
    assert main(["--index", str(index), "--json", "--", question]) == 0
    out, _ = capsys.readouterr()
    content = json.loads(out)
    assert len(content["hits"]) <= 2
    assert main(["--index", str(index), "--", question]) == 0
    out, err = capsys.readouterr()
    assert not set(out + err) & set("\x00\x07\x1b\u202e")


def test_a_question_of_a_megabyte_in_a_batch(index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = json.dumps({"id": "long", "question": "zebra " * 170_000})
    Path("questions.jsonl").write_text(line, encoding="utf-8")
    assert main(["--index", str(index), "--batch", "questions.jsonl"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["hits"][0]["file"] == "zebra.md"
    assert err.startswith("note: ")  # that the question was cut is said


def test_more_than_there_is_gives_all_there_is(index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--top-k", "1000000000"], ["--top-k", "1000000000", "--candidate-cap", "1000000000"]):
        assert main(["--index", str(index), "--json", "--vector-top-n", "1000000000", *arguments, "zebra tower"]) == 0
        assert len(json.loads(capsys.readouterr().out)["hits"]) == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"top_k: [", "not YAML"),
        (b"- a\n- b\n", "must be a mapping"),
        (b"\xff\xfe\x00", "not YAML"),
        (b"[" * 50_000, "not YAML"),
        (b"top_k: ten\n", "top_k"),
        (b"top_k: 0\n", "top_k"),
        (b"top_k: true\n", "top_k"),
        (b"rrf_k: .nan\n", "rrf_k"),
        (b"vector_topn: 40\n", "did you mean vector_top_n?"),
        (b"encoder:\n  knid: onnx\n", "did you mean encoder.kind?"),
        (b"x: " + b"y" * 10_000_000, "larger than 64 KB"),
        (b"!!python/object/apply:os.system ['touch owned']\n", "not YAML"),
    ],
    ids=lambda value: ascii(value)[:24],
)
@pytest.mark.parametrize("command", [["ask", "zebra"], ["profiles"]])
def test_a_wrong_profile_is_named(
    index: Path, capsys: pytest.CaptureFixture[str], command: list[str], content: bytes, message: str
) -> None:
    Path("mine.yaml").write_bytes(content)
    place = ["mine.yaml"] if command == ["profiles"] else ["--profile", "mine.yaml", "--index", str(index)]
    assert main([*command, *place]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert all(line.startswith("error: mine.yaml: ") for line in err.splitlines())
    assert message in err
    assert not Path("owned").exists()


def test_all_mistakes_of_all_layers_at_once(
    index: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("mine.yaml").write_text("top_k: 0\nno_such: 1\nencoder: {threads: -1}\n", encoding="utf-8")
    assert main(["--index", str(index), "--profile", "mine.yaml", "zebra"]) == 2
    err = capsys.readouterr().err
    assert [line.split(":")[2].strip() for line in sorted(err.splitlines())] == ["encoder.threads", "no_such", "top_k"]
    monkeypatch.setenv("HYBRID_RETRIEVE_TOP_K", "0")
    assert main(["--index", str(index), "zebra"]) == 2
    assert capsys.readouterr().err.startswith("error: HYBRID_RETRIEVE_TOP_K: top_k: ")


def test_a_profile_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    for name, message in (("fsat", "there are balanced"), ("no/such.yaml", "cannot be read")):
        assert main(["profiles", name]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize("command", [["zebra"], ["tree"], ["status"], ["read", "zebra.md"]])
def test_no_index_yet_says_which_command_makes_one(capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
    for place in ([], ["--index", "nowhere"]):
        assert main([*command, *place]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert "hybrid_retrieve.py index" in err
        assert not Path("nowhere").exists()


@pytest.mark.parametrize("command", [["--docs", "{}", "zebra"], ["index", "{}"]])
def test_folders_that_hold_no_documents(capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
    Path("empty").mkdir()
    Path("file.md").write_text(PAGE, encoding="utf-8")
    for folder in ("no\x1b[31msuch", "empty", "file.md"):
        assert main([word.format(folder) for word in command]) in {1, 2}
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("error: ")
        assert "\x1b" not in err
        assert len(err.splitlines()) == 1


def test_an_index_that_is_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    Path("docs").mkdir()
    Path("docs/a.md").write_text(PAGE, encoding="utf-8")
    Path("file").write_text("mine", encoding="utf-8")
    assert main(["index", "docs", "--index", "file"]) == 1
    assert capsys.readouterr().err.startswith("error: ")
    assert Path("file").read_text(encoding="utf-8") == "mine"


def test_references_to_nothing(index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for reference in ("", "nothing.md", "zebra.md:0-3", "zebra.md:3-1", "zebra.md:900", "../../etc/passwd", "a\x00b"):
        assert main(["read", "--index", str(index), "--", reference]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("error: ")


def test_names_that_look_alike_are_documents_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    """They differ in case, or in how an accent is written; where the file system takes them for one, they are one."""
    Path("docs").mkdir()
    for name in ("zebra.md", "Zebra.md", "caf\xe9.md", "cafe\u0301.md"):
        Path("docs", name).write_text(PAGE, encoding="utf-8")
    written = sorted(path.name for path in Path("docs").iterdir())
    found = []
    for _ in range(2):
        assert main(["index", "docs", "--index", "index", "--encoder-kind", "none", "-q"]) == 0
        capsys.readouterr()
        assert main(["zebra", "--index", "index", "--json", "--top-k", "100"]) == 0
        found.append([hit["node_id"] for hit in json.loads(capsys.readouterr().out)["hits"]])
    assert found[0] == found[1]
    assert len(set(found[0])) == len(found[0])
    assert sorted({node_id.partition("#")[0] for node_id in found[0]}) == written


def test_an_index_in_the_folder_of_its_documents_is_none_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    Path("docs").mkdir()
    Path("docs", "a.md").write_text(PAGE, encoding="utf-8")
    for counts in ("1 added, 0 changed, 0 moved, 0 removed, 0 unchanged, 0 skipped", "0 skipped"):
        assert main(["index", "docs", "--index", "docs", "--encoder-kind", "none"]) == 0
        assert counts in capsys.readouterr().out
    assert main(["status", "--index", "docs", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["index"]["documents"] == 1
