"""The program runs inside a folder that somebody prepared: nothing in it configures it or becomes a part of it."""

import json
import sqlite3
import subprocess
import sys
import sysconfig
from contextlib import closing
from pathlib import Path

import pytest

from retriever.api import open_retriever
from retriever.errors import RetrieverError, UsageError
from retriever.indexing.request import check_folders, check_server
from retriever.places import open_store
from retriever.settings import GivenSettings
from tests.program import PROGRAM, Cli, environment, run_command, slow
from tests.real.served import indexed
from tests.shelf import WORDS_ALONE, write_pages

CONSOLE_SCRIPT = Path(sysconfig.get_path("scripts")) / "hybrid-retrieve"
SHADOWED = (
    "sitecustomize", "usercustomize", "chromadb", "yaml", "networkx", "click", "rich", "numpy", "onnxruntime",
    "markdown_it", "ollama", "httpx", "pydantic_settings", "platformdirs", "retriever", "pageindex", "hybrid_retrieve",
)  # fmt: skip
PAGE = "# Zebras\n\nA zebra is a striped animal of the savanna.\n"
QUESTION = "which animal has stripes?"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Documents beside modules that leave a mark when they are imported, and files that would like to configure."""
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "zebra.md").write_text(PAGE, encoding="utf-8")
    for name in SHADOWED:
        mark = f"open({str(tmp_path / f'imported-{name}')!r}, 'w').close()\n"
        (docs / f"{name}.py").write_text(mark, encoding="utf-8")
        (docs / name).mkdir()
        (docs / name / "__init__.py").write_text(mark, encoding="utf-8")
    (docs / "payload.py").write_text(f"open({str(tmp_path / 'imported-payload')!r}, 'w')\nclass X: pass\n")
    for name in (
        "balanced.yaml",
        "config.yaml",
        ".hybrid-retrieve.yaml",
        "hybrid-retrieve.toml",
        "configs/balanced.yaml",
    ):
        (docs / name).parent.mkdir(exist_ok=True)
        (docs / name).write_text("top_k: 0\nno_such_setting: 1\n", encoding="utf-8")
    return docs


def variables_of(port: str) -> dict[str, str]:
    return {
        "CHROMA_API_IMPL": "chromadb.api.fastapi.FastAPI", "CHROMA_SERVER_HOST": "127.0.0.1",
        "CHROMA_SERVER_HTTP_PORT": port, "CHROMA_HOST": f"http://127.0.0.1:{port}",
        "CHROMA_PRODUCT_TELEMETRY_IMPL": "payload.X", "CHROMA_TELEMETRY_IMPL": "payload.X",
        "CHROMA_SYSDB_IMPL": "payload.X", "ANONYMIZED_TELEMETRY": "True", "MIGRATIONS": "none", "ALLOW_RESET": "true",
        "PERSIST_DIRECTORY": "elsewhere",
    }  # fmt: skip


def run_inside(docs: Path, command: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    homes = {"XDG_DATA_HOME": str(docs.parent / "data"), "XDG_CACHE_HOME": str(docs.parent / "cache")}
    return run_command(command, docs, environment("PYTHONPATH", "CHROMA", **homes, **variables))


def ways() -> list[list[str]]:
    return [[sys.executable, str(PROGRAM)], *([[str(CONSOLE_SCRIPT)]] if CONSOLE_SCRIPT.exists() else [])]


@pytest.mark.parametrize("source", [".env", *slow(["environment"])])
def test_nothing_in_the_current_folder_is_obeyed(folder: Path, trap: tuple[str, list[str]], source: str) -> None:
    url, visits = trap
    variables = variables_of(url.rpartition(":")[2])
    if source == ".env":
        lines = "".join(f"{name}={value}\n" for name, value in variables.items())
        (folder / ".env").write_text(lines)
        variables = {}
    command = ways()[-1 if source == "environment" else 0]
    assert run_inside(folder, [*command, "index", "."], **variables).returncode == 0  # with ChromaDB
    finished = run_inside(
        folder, [*command, "--docs", ".", "--json", "--vector-search", "chroma", QUESTION], **variables
    )
    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout)["hits"][0]["file"] == "zebra.md"
    assert list(folder.parent.glob("data/*/indexes/*/chroma-*/chroma.sqlite3")) != []
    assert visits == []
    assert list(folder.parent.glob("imported-*")) == []
    assert not (folder / "elsewhere").exists()


@pytest.fixture
def ready_made(tmp_path: Path) -> Path:
    """An index beside documents, as somebody may give both away."""
    return indexed(tmp_path, {"zebra.md": PAGE}, WORDS_ALONE)


def put_settings(index: Path, text: str) -> None:
    with closing(sqlite3.connect(index / "index.sqlite", isolation_level=None)) as rows:
        rows.execute("UPDATE meta SET value = ? WHERE key = 'settings'", (text,))
        assert rows.execute("SELECT changes()").fetchone() == (1,)


def test_an_index_cannot_send_texts_to_another_machine(
    ready_made: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked_of = {"kind": "openai", "model": "m", "url": "http://192.0.2.1/v1"}
    put_settings(ready_made, json.dumps({"encoder": asked_of}))
    connected: list[object] = []
    monkeypatch.setattr("socket.create_connection", lambda *where, **_: connected.append(where))
    with pytest.raises(UsageError, match=r"names the server http://192\.0\.2\.1/v1.*--encoder-url"):
        open_retriever(index=ready_made)
    assert connected == []
    agreed = {"encoder": {"url": "http://192.0.2.1/v1"}}
    layers = GivenSettings((("index", {"encoder": asked_of}), ("settings", agreed)))
    check_server(open_store(ready_made), layers)
    check_server(
        open_store(tmp_path), GivenSettings((("index", {"encoder": asked_of | {"url": "http://127.0.0.1:9/v1"}}),))
    )
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    own = tmp_path / "hybrid-retrieve" / "indexes" / "docs-1"
    check_server(open_store(own), GivenSettings((("index", {"encoder": asked_of}),)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((text, r"is damaged .*doctor --repair") for text in ("[1]", '"x"', "{", "[" * 100_000, "\x00")),
        ('{"encoder": {"kind": "none", "run": "touch owned"}}', r"index: encoder\.run: no such setting"),
    ],
)
def test_settings_of_an_index_that_are_none_are_refused(ready_made: Path, text: str, message: str) -> None:
    put_settings(ready_made, text)
    with pytest.raises(RetrieverError, match=message):
        open_retriever(index=ready_made)


def test_the_whole_home_folder_must_be_meant(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home" / "me"
    notes = write_pages(home / "notes", {"zebra.md": PAGE})
    monkeypatch.setenv("HOME", str(home))
    for folder in (home, home.parent, Path("/")):
        with pytest.raises(UsageError, match=r"holds everything that is yours.* --yes "):
            check_folders([notes, folder])
    check_folders([notes, tmp_path / "elsewhere"])
    monkeypatch.chdir(notes)
    cli("--docs", "..", QUESTION, "--index", tmp_path / "index", code=2)
    assert not (tmp_path / "index").exists()
    cli("index", "--yes", "..", "--index", tmp_path / "index", "--encoder-kind", "none")
