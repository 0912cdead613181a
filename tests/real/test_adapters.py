"""The adapters behind the real packages' own calls: documents and nodes are sections, with their citations."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from retriever.errors import NoIndexError, ProfileError, QuestionError
from tests.program import PROJECT, run_python
from tests.real.served import indexed
from tests.shelf import PAGES, WORDS_ALONE

QUESTION = "what pays for a letter?"
EXTRAS = {"langchain": "langchain_core", "llamaindex": "llama_index.core"}
EXAMPLE_PAGE = {"fusion.md": "# Fusion\n\nThe two rankings are fused by their ranks.\n"}
"""Answers what the examples ask."""


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return indexed(tmp_path_factory.mktemp("adapted"), {**PAGES, **EXAMPLE_PAGE}, WORDS_ALONE)


@pytest.fixture
def langchain() -> Any:  # noqa: ANN401 - a module
    pytest.importorskip("langchain_core", reason="the extra `langchain` is not installed")
    import retriever.adapters.langchain

    return retriever.adapters.langchain


@pytest.fixture
def llamaindex() -> Any:  # noqa: ANN401 - a module
    pytest.importorskip("llama_index.core", reason="the extra `llamaindex` is not installed")
    import retriever.adapters.llamaindex

    return retriever.adapters.llamaindex


def check_metadata(known: dict[str, Any], index: Path) -> None:
    assert known["citation"] == "mail.md:5-8"
    assert known["source"] == str(index.parent / "docs" / "mail.md")
    assert (known["start_line"], known["end_line"]) == (5, 8)
    assert (known["title"], known["breadcrumb"]) == ("Stamps", ["Mail"])
    assert known["verdict"] in {"answered", "weak", "none"}
    assert 0 <= known["confidence"] <= 1
    assert known["degraded"] == []
    assert known["text_cut"] is False


def test_langchain_documents_are_cited(langchain: Any, index: Path) -> None:  # noqa: ANN401 - a module
    from langchain_core.documents import Document
    from langchain_core.runnables import RunnableLambda

    def citations(found: list[Document]) -> list[str]:
        return [item.metadata["citation"] for item in found]

    with langchain.SectionRetriever(index=index, top_k=2) as retriever:
        documents = retriever.invoke(QUESTION)
        chain = retriever | RunnableLambda(citations)
        assert chain.invoke(QUESTION) == citations(documents)
        assert retriever.batch([QUESTION] * 3) == [documents] * 3
        assert asyncio.run(retriever.ainvoke(QUESTION)) == documents
    assert len(documents) == 2
    assert documents[0].id == "mail.md#mail/stamps"
    assert documents[0].page_content == "## Stamps\n\nA stamp pays for the journey of a letter.\n\n"
    check_metadata(documents[0].metadata, index)


def test_llamaindex_nodes_are_cited(llamaindex: Any, index: Path) -> None:  # noqa: ANN401 - a module
    from llama_index.core.schema import MetadataMode

    with llamaindex.SectionRetriever(index=index, top_k=2) as retriever:
        nodes = retriever.retrieve(QUESTION)

        async def together() -> list[Any]:
            return await asyncio.gather(*(retriever.aretrieve(QUESTION) for _ in range(3)))

        assert asyncio.run(together()) == [nodes] * 3
    assert len(nodes) == 2
    first = nodes[0]
    assert first.score == first.node.metadata["score"] > 0
    assert first.node.node_id == "mail.md#mail/stamps"
    assert first.node.ref_doc_id == str(index.parent / "docs" / "mail.md")
    shown = first.node.get_content(MetadataMode.LLM)
    assert "citation: mail.md:5-8" in shown
    assert "A stamp pays" in shown
    assert "confidence" not in shown
    check_metadata(first.node.metadata, index)


@pytest.mark.parametrize("name", EXTRAS)
def test_profile_settings_and_errors_are_the_librarys(
    name: str, request: pytest.FixtureRequest, index: Path, tmp_path: Path
) -> None:
    made = request.getfixturevalue(name).SectionRetriever
    with made(docs=[index.parent / "docs"], index=index, profile="fast", settings={"top_k": 1}) as retriever:
        ask = retriever.retrieve if name == "llamaindex" else retriever.invoke
        assert len(ask(QUESTION)) == 1
        with pytest.raises(QuestionError):
            ask(" ")
    with pytest.raises(NoIndexError):
        made(index=tmp_path / "nowhere")
    with pytest.raises(ProfileError, match="top_k"):
        made(index=index, top_k=0)


EXAMPLES = re.findall(r"```python\n(.*?)```", (PROJECT / "docs" / "guide" / "python.md").read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: text.partition("\n")[0].split()[1])
def test_every_example_of_the_page_runs(
    example: str, index: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for package in (package for extra, package in EXTRAS.items() if f"adapters.{extra}" in example):
        pytest.importorskip(package, reason="its extra is not installed")
    monkeypatch.chdir(index.parent)
    monkeypatch.setenv("HYBRID_RETRIEVE_INDEX", str(index))
    exec(compile(example, "docs/guide/python.md", "exec"), {"__name__": "__main__"})
    assert "fusion.md:1-3" in capsys.readouterr().out


@pytest.mark.parametrize(("extra", "package"), EXTRAS.items())
def test_a_missing_extra_is_named(extra: str, package: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; import retriever.adapters.{extra}"
    finished = run_python(code)
    assert finished.returncode == 1
    last = finished.stderr.splitlines()[-1]
    assert last == f"ModuleNotFoundError: this needs the extra `{extra}`; run: uv sync --extra {extra}"
