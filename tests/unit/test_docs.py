"""What README.md and docs/ say of the code is true: links, file names, commands and examples."""

import ast
import re
import shlex
from pathlib import Path

import pytest

from hybrid_retrieve import main
from pageindex.document import parse_document
from tests.fake_library import install

PROJECT = Path(__file__).parents[2]
PAGES = [PROJECT / "README.md", PROJECT / "CHANGELOG.md", *sorted(PROJECT.glob("docs/*.md"))]
NAMES = [page.relative_to(PROJECT).as_posix() for page in PAGES]
TEXTS = {name: page.read_text(encoding="utf-8") for name, page in zip(NAMES, PAGES, strict=True)}


@pytest.mark.parametrize("name", NAMES)
def test_every_link_leads_to_a_file_and_a_heading_of_it(name: str) -> None:
    for _, link in parse_document(name, TEXTS[name]).links:
        target = (PROJECT / name).parent / link.target_path if link.target_path else PROJECT / name
        assert target.exists(), f"{name}:{link.line}"
        if link.anchor:
            text = target.read_text(encoding="utf-8")
            assert link.anchor in parse_document(target.name, text).anchors, f"{name}:{link.line}"


@pytest.mark.parametrize("name", NAMES)
def test_every_file_that_is_named_exists(name: str) -> None:
    known = {
        path.name for folder in ("pageindex", "retriever", "scripts", "benchmarks", "tests") for path in _files(folder)
    }
    known |= {path.name for path in PROJECT.iterdir()}
    for mentioned in re.findall(r"`([\w./-]+\.py)`", TEXTS[name]):
        whole = (PROJECT / mentioned).is_file() if "/" in mentioned else mentioned in known
        assert whole, f"{name} speaks of {mentioned}"
    for mentioned in re.findall(
        r"(?<![\w/.])((?:pageindex|retriever|scripts|benchmarks|configs)/[\w./-]*\w)", TEXTS[name]
    ):
        assert (PROJECT / mentioned).exists() or (PROJECT / f"{mentioned}.py").exists(), f"{name} speaks of {mentioned}"


def _files(folder: str) -> list[Path]:
    return [path for path in (PROJECT / folder).rglob("*.py") if "__pycache__" not in path.parts]


def commands(text: str) -> list[str]:
    """The lines of the ```sh blocks that run the program."""
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if "hybrid_retrieve.py" in line]


def parts_of(package: str) -> set[str]:
    """The modules and packages right inside a package."""
    modules = {path.stem for path in (PROJECT / package).glob("*.py")} - {"__init__"}
    return modules | {path.parent.name for path in (PROJECT / package).glob("*/__init__.py")}


@pytest.mark.parametrize("package", ["pageindex", "retriever"])
def test_the_layout_names_every_part_of_the_code_and_no_other(package: str) -> None:
    _, chapter = TEXTS["docs/architecture.md"].split(f": {package}/\n")
    named = re.findall(r"^\| `(\w+)` \|", chapter.split("\n## ")[0], re.MULTILINE)
    assert sorted(named) == sorted(parts_of(package))


@pytest.mark.parametrize("line", commands(TEXTS["README.md"]))
def test_every_command_of_the_readme_runs(line: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text(f"# Two rankings\n\n{'Many words. ' * 20}\n", encoding="utf-8")
    (tmp_path / "questions.jsonl").write_text('{"id": "1", "question": "q", "gold": []}\n', encoding="utf-8")
    install(monkeypatch)
    words = shlex.split(line, comments=True)
    assert main(words[words.index("hybrid_retrieve.py") + 1 :]) == 0


def test_the_two_commands_of_a_newcomer_come_first() -> None:
    blocks = re.findall(r"```sh\n(.*?)```", TEXTS["README.md"], re.DOTALL)
    assert blocks[0] == 'uv run hybrid_retrieve.py --docs docs "how are the two rankings fused?"\n'
    assert blocks[1] == "uv run pytest\n"


@pytest.mark.parametrize("name", NAMES)
def test_every_python_example_uses_what_there_is(name: str) -> None:
    for block in re.findall(r"```python\n(.*?)```", TEXTS[name], re.DOTALL):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("retriever", "pageindex")):
                module = __import__(node.module or "", fromlist=["*"])
                assert all(hasattr(module, alias.name) for alias in node.names), f"{name}: {ast.unparse(node)}"
