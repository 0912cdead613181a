"""Imports: heavy packages wait until they are needed, and which part may use which."""

import ast
import re
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from retriever.api import index_folders
from tests.program import PROJECT, run_command, run_python
from tests.shelf import wait_until_trusted, write_pages

HEAVY = (
    "chromadb", "numpy", "networkx", "onnxruntime", "pydantic", "rich",
    "tokenizers", "httpx", "jinja2",
)  # fmt: skip
DISTRIBUTIONS = {"markdown_it": "markdown-it-py", "Stemmer": "pystemmer", "yaml": "pyyaml"}
"""Packages whose distributions have other names."""


LIGHT = (
    "import hybrid_retrieve, pageindex, retriever",
    "import pageindex.corpus, pageindex.document",
    "import retriever.errors, retriever.types, retriever.settings, retriever.indexing.request",
    "import retriever.display",
    *(f"assert hybrid_retrieve.main({words}) in (0, 2)" for words in (["--version"], ["--help"])),
    *(f"assert hybrid_retrieve.main({words}) == 0" for words in (["ask", "--help"], ["index", "--help"])),
)


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    heavy = f"sorted({set(HEAVY)} & {{name.partition('.')[0] for name in sys.modules}})"
    done = run_python("import sys\n" + "".join(f"{code}\nassert not {heavy}, {code!r}\n" for code in LIGHT))
    assert (done.returncode, done.stderr) == (0, "")


def test_a_plain_question_loads_no_trees_models_or_parsers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A third of a question's time in a process of its own, for trees, language models, profiles and Markdown."""
    text = "---\ntitle: Keys\n---\n# Keys\n\nKeys are rotated [weekly](#weekly).\n\n## Weekly\n\nYes.\n"
    index = str(tmp_path / "index")
    wait_until_trusted(monkeypatch)  # of a younger file, a question renews the row
    index_folders([write_pages(tmp_path / "docs", {"a.md": text})], index)
    code = (
        f"import sys, hybrid_retrieve; code = hybrid_retrieve.main({['how are keys rotated?', '--index', index]})\n"
        "print(*sys.modules, file=sys.stderr); sys.exit(code)"
    )
    asked = run_python(code)
    assert "a.md:4-7" in asked.stdout
    loaded = set(asked.stderr.splitlines()[-1].split())
    assert {"networkx", "pydantic", "yaml", "numpy.ma", "chromadb", "markdown_it"} & loaded == set()


def sources() -> list[Path]:
    files = [PROJECT / "hybrid_retrieve.py", *PROJECT.glob("pageindex/**/*.py"), *PROJECT.glob("retriever/**/*.py")]
    return sorted(files)


def imports(path: Path, *, for_types: bool = False) -> Iterator[str]:
    """Yield each import with the name that is taken from it; also those of types alone, when asked for."""
    pending: list[ast.AST] = [ast.parse(path.read_text("utf-8"))]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif not for_types and isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            pending.extend(node.orelse)
        else:
            pending.extend(ast.iter_child_nodes(node))


def test_every_package_that_is_imported_is_declared() -> None:
    """A package that comes only because another one needs it may go with the next version of that one."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    requirements = [*project["dependencies"], *(requirement for extra in extras for requirement in extra)]
    declared = {re.split(r"[<>=~! \[]", requirement)[0] for requirement in requirements}
    imported = {module.partition(".")[0] for path in sources() for module in imports(path)}
    foreign = imported - sys.stdlib_module_names - {"", "pageindex", "retriever", "hybrid_retrieve"}
    assert {DISTRIBUTIONS.get(name, name.replace("_", "-")) for name in foreign} - declared == set()


LAYERS = {
    "pageindex": [
        "plain_yaml",
        "formats front_matter markers",
        "corpus",
        "rules text",
        "dialects links",
        "blocks",
        "node",
        "units",
        "summary",
        "outline",
        "document",
    ],
    "retriever": [
        "errors types query text trace",
        "settings",
        "store",
        "served",
        "embedding lexical",
        "places",
        "display",
        "indexing",
        "searching",
        "expansion",
        "rerank",
        "models search",
        "looking",
        "answering",
        "retriever upkeep",
        "api",
        "evaluation serving",
        "command_line",
        "postgres",
    ],
}
"""The parts of each package: a part imports those of its own line and of the lines above, for its types as well."""


def test_the_parts_of_a_package_import_one_another_in_one_order() -> None:
    upwards = set()
    for package, lines in LAYERS.items():
        layer = {part: number for number, line in enumerate(lines) for part in line.split()}
        for path in PROJECT.glob(f"{package}/**/*.py"):
            part = path.relative_to(PROJECT / package).parts[0].removesuffix(".py")
            for module in imports(path, for_types=True):
                root, _, inside = module.partition(".")
                used = inside.partition(".")[0]
                assert (package, root) != ("pageindex", "retriever"), f"{part} knows nothing of searching"
                if part != "__init__" and root == package and used in layer:
                    assert part in layer, f"{part} has no place in LAYERS"
                    upwards |= {f"{part} -> {used}"} if layer[used] > layer[part] else set()
    assert upwards == set()


WITHOUT_POSTGRES = """if True:
    import importlib, pathlib, sys
    sys.path.insert(0, "")
    for file in sorted(pathlib.Path("retriever").rglob("*.py")):
        module = ".".join(file.with_suffix("").parts).removesuffix(".__init__")
        assert module == "retriever.__main__" or importlib.import_module(module).__file__ == str(file.resolve())
    import hybrid_retrieve
    assert hybrid_retrieve.main(["index", "docs", "--index", "./index", "--encoder-kind", "none"]) == 0
    hybrid_retrieve.main(["x", "--index", "postgresql://x"])
    hybrid_retrieve.main(["postgres", "init", "--index", "postgresql://x"])
    sys.exit(hybrid_retrieve.main(["how are keys rotated?", "--index", "./index"]))
"""


def test_an_index_in_a_folder_needs_nothing_of_the_room_for_postgresql(tmp_path: Path) -> None:
    without = shutil.ignore_patterns("postgres")  # what is compiled stays: it takes longer than the rest
    for name in ("pageindex", "retriever", "configs"):
        shutil.copytree(PROJECT / name, tmp_path / name, ignore=without)
    shutil.copy(PROJECT / "hybrid_retrieve.py", tmp_path)
    write_pages(tmp_path / "docs", {"a.md": "# Keys\n\nKeys are rotated weekly.\n"})
    done = run_python(WITHOUT_POSTGRES, cwd=tmp_path)
    assert (done.returncode, "a.md:1-3" in done.stdout) == (0, True), done.stderr
    assert "no retriever.postgres, which an index at postgresql: needs" in done.stderr
    assert "no retriever.postgres, which `postgres` needs" in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_other_tests_pass_without_the_room_for_postgresql(tmp_path: Path) -> None:
    tree = shutil.copytree(PROJECT, tmp_path / "tree", ignore=shutil.ignore_patterns("postgres", ".*"))
    tests = run_command([sys.executable, "-m", "pytest", "-q", "tests/unit", "tests/real"], tree)
    assert tests.returncode == 0, tests.stdout
