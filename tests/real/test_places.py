"""Where the program runs: a container without a user, another locale, odd names, wrong types from Python."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from retriever.api import forget_documents, open_retriever
from retriever.looking.indexes import list_indexes
from retriever.query import AskRequest, Scope
from tests.shelf import PAGES as DOCUMENTS
from tests.shelf import QUESTIONS, Shelf, found, same_hits, write_pages

ROOT = Path(__file__).parents[2]
PAGES = {"\u00c4pfel.md": "# \u00c4pfel\n\nApples are fruit.\n", "~.md": "# Tilde\n\nA name of fruit.\n"}


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("HYBRID_RETRIEVE_ENCODER_KIND", "none")
    return write_pages(tmp_path / "docs", PAGES)


def run(*command: str | Path, folder: Path, **variables: str) -> subprocess.CompletedProcess[bytes]:
    kept = {key: value for key, value in os.environ.items() if key not in ("LANG", "LC_ALL", "PYTHONUTF8")}
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=kept | variables, capture_output=True, timeout=60, check=False
    )


@pytest.mark.parametrize("encoder", ["none", "onnx"])
def test_a_user_without_home_and_name_indexes_and_asks(docs: Path, tmp_path: Path, encoder: str) -> None:
    commands = (("index", "docs"), ("fruit",), ("--docs", "docs", "fruit"), ("status",), ("read", "~.md:1"))
    script = (
        "import os, pwd, sys\n"
        "def gone(*_): raise KeyError\n"
        "pwd.getpwuid = gone\n"
        "for name in ('HOME', 'XDG_DATA_HOME', 'XDG_CACHE_HOME'): os.environ.pop(name, None)\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from hybrid_retrieve import main\n"
        f"for words in {commands}:\n"
        "    assert main([*words, '--index', 'index']) == 0, words\n"
        "sys.exit(main(['index', 'docs']))\n"
    )
    ended = run("-c", script, folder=tmp_path, HYBRID_RETRIEVE_ENCODER_KIND=encoder)
    assert ended.returncode == 2, ended.stderr
    assert b"error: this user has no home folder; name the index with --index" in ended.stderr


def test_one_text_is_as_good_as_a_list(docs: Path) -> None:
    with open_retriever(str(docs)) as retriever:
        for folders in ("~.md", ["~.md"]):
            scope = Scope(folders)  # type: ignore[arg-type]
            assert [hit.file for hit in retriever.search(AskRequest("fruit", scope=scope)).hits] == ["~.md"]
        assert retriever.search(AskRequest("fruit", conversation="apples?")).hits
    assert forget_documents("~.md", list_indexes()[0].path).forgotten == ("~.md",)


def test_a_copied_folder_is_an_index_of_documents_that_are_elsewhere(shelf: Shelf, tmp_path: Path) -> None:
    truth = [found(answer) for answer in shelf.ask_all()]
    copied, before = tmp_path / "copied", shelf.docs
    shutil.copytree(shelf.index, copied)
    answer = shelf.ask(QUESTIONS[0], index=copied)
    assert same_hits(found(answer), truth[0])
    assert {hit.citation_state for hit in answer.hits} == {"unchecked"}
    shelf.docs = before.rename(tmp_path / "elsewhere")
    assert shelf.update(index=copied).embedded == 0
    forget_documents([str(before)], copied)
    answer = shelf.ask(QUESTIONS[0], index=copied)
    assert [(hit.file, hit.citation_state) for hit in answer.hits[:1]] == [("mail.md", "exact")]
    assert answer.index.documents == len(DOCUMENTS)
