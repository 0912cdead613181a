"""Where the program runs: a container without a user, another locale, odd names, wrong types from Python."""

import shutil
from pathlib import Path

import pytest

from retriever.api import forget_documents, open_retriever
from retriever.looking.indexes import list_indexes
from retriever.query import AskRequest, Scope
from tests.program import environment, run_python
from tests.shelf import PAGES as DOCUMENTS
from tests.shelf import QUESTIONS, Shelf, found, same_hits, write_pages

PAGES = {"\u00c4pfel.md": "# \u00c4pfel\n\nApples are fruit.\n", "~.md": "# Tilde\n\nA name of fruit.\n"}


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("HYBRID_RETRIEVE_ENCODER_KIND", "none")
    return write_pages(tmp_path / "docs", PAGES)


GONE = """if True:
    import os, pwd, sys
    from hybrid_retrieve import main
    def gone(*_): raise KeyError
    pwd.getpwuid = gone
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        os.environ.pop(name, None)
    for words in (["index", "docs"], ["fruit"], ["--docs", "docs", "fruit"], ["status"], ["read", "~.md:1"]):
        assert main([*words, "--index", "index"]) == 0, words
    sys.exit(main(["index", "docs"]))
"""
"""The program, for a user whom this machine knows nothing of."""


@pytest.mark.parametrize("encoder", ["none", "onnx"])
def test_a_user_without_home_and_name_indexes_and_asks(docs: Path, encoder: str) -> None:
    variables = environment("LANG", "LC_ALL", "PYTHONUTF8", HYBRID_RETRIEVE_ENCODER_KIND=encoder)
    ended = run_python(GONE, cwd=docs.parent, env=variables)
    assert ended.returncode == 2, ended.stderr
    assert "error: this user has no home folder; name the index with --index" in ended.stderr


def test_one_text_is_as_good_as_a_list(docs: Path) -> None:
    with open_retriever(str(docs)) as retriever:
        for folders in ("~.md", ["~.md"]):
            scope = Scope(folders)  # type: ignore[arg-type]
            assert [hit.file for hit in retriever.search(AskRequest("fruit", scope=scope)).hits] == ["~.md"]
    assert AskRequest("fruit", conversation="apples?").conversation == ("apples?",)
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
