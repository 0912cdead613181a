"""README.md and docs/ are true of the code: links, file names, commands and examples."""

import ast
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from pageindex.document import parse_document
from tests.program import PROJECT
from tests.trees import build_tree

PAGES = [
    *(PROJECT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    *sorted(path for path in PROJECT.glob("docs/**/*.md") if not {"tutorial-notes", "cli.md"} & {*path.parts}),
]
NAMES = [page.relative_to(PROJECT).as_posix() for page in PAGES]
TEXTS = {name: page.read_text(encoding="utf-8") for name, page in zip(NAMES, PAGES, strict=True)}


@pytest.mark.parametrize("name", NAMES)
def test_every_link_leads_to_a_file_and_a_heading_of_it(name: str) -> None:
    for _, link in parse_document(name, TEXTS[name]).links:
        target = (PROJECT / name).parent / link.target_path if link.target_path else PROJECT / name
        assert target.exists(), f"{name}:{link.line}"
        if link.anchor:
            text = target.read_text(encoding="utf-8")
            anchors = {placed.node.anchor for placed in parse_document(target.name, text).nodes}
            assert link.anchor in anchors, f"{name}:{link.line}"


@pytest.mark.parametrize("name", NAMES)
def test_every_file_that_is_named_exists(name: str) -> None:
    known = {
        path.name for folder in ("pageindex", "retriever", "scripts", "benchmarks", "tests") for path in _files(folder)
    }
    known |= {path.name for path in PROJECT.iterdir()}
    text = TEXTS[name]
    if not find_spec("retriever.postgres"):  # the one package that may be missing
        text = re.sub(r"retriever/postgres[\w./-]*", "", text)
    for mentioned in re.findall(r"`([\w./-]+\.py)`", text):
        whole = (PROJECT / mentioned).is_file() if "/" in mentioned else mentioned in known
        assert whole, f"{name} speaks of {mentioned}"
    for mentioned in re.findall(r"(?<![\w/.])((?:pageindex|retriever|scripts|benchmarks|configs)/[\w./-]*\w)", text):
        assert (PROJECT / mentioned).exists() or (PROJECT / f"{mentioned}.py").exists(), f"{name} speaks of {mentioned}"


@pytest.mark.parametrize("folder", ["pageindex", "retriever", "scripts", "benchmarks"])
def test_every_page_that_the_code_names_exists(folder: str) -> None:
    for path in _files(folder):
        for page in re.findall(r"docs/(?:guide|internals|reference)/[\w-]+\.md", path.read_text(encoding="utf-8")):
            assert (PROJECT / page).is_file(), f"{path} names {page}"


def _files(folder: str) -> list[Path]:
    return [path for path in (PROJECT / folder).rglob("*.py") if "__pycache__" not in path.parts]


def test_the_index_leads_to_every_page() -> None:
    links = {link.target_path for _, link in parse_document("index.md", TEXTS["docs/index.md"]).links}
    assert {name.removeprefix("docs/") for name in NAMES if name.startswith("docs/")} - {"index.md"} <= links


@pytest.mark.parametrize("name", NAMES)
def test_every_python_example_uses_what_there_is(name: str) -> None:
    for block in re.findall(r"```python\n(.*?)```", TEXTS[name], re.DOTALL):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("retriever", "pageindex")):
                module = __import__(node.module or "", fromlist=["*"])
                assert all(hasattr(module, alias.name) for alias in node.names), f"{name}: {ast.unparse(node)}"


def test_the_python_page_runs(sample_docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(sample_docs.parent)
    monkeypatch.setenv("HYBRID_RETRIEVE_INDEX", str(sample_docs.parent / "index"))
    for example in re.findall(r"```python\n(.*?)```", TEXTS["docs/guide/python.md"], re.DOTALL):
        if "langchain" not in example:
            exec(compile(example, "docs/guide/python.md", "exec"), {"__name__": "__main__"})


def test_the_example_of_a_tree() -> None:
    page = TEXTS["docs/internals/tree.md"]
    blocks = dict(re.findall(r"^```(markdown|text)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE))
    documents = [parse_document("guide/install.md", blocks["markdown"]), parse_document("use.md", "## Use\n")]
    tree = build_tree(*documents)
    assert tree.pretty() + "\n" == blocks["text"]
    linux = tree.node("guide/install.md#install/linux")
    assert linux.anchor == "on-linux"
    assert [(holder, link.target_path, link.anchor) for holder, link in documents[0].links] == [
        (linux.id, "../use.md", "use")
    ]
