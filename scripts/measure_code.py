"""Print how large the project is, each measure beside its limit, and how the code is cut.

    uv run scripts/measure_code.py               # this tree
    uv run scripts/measure_code.py ../other      # another one beside it, such as a checkout of an earlier version
    uv run scripts/measure_code.py --names       # and which names are borne by several, which modules form a circle

Exits with 1 when this tree is beyond one of the limits in the last column, and names those.
"""

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from statistics import median, quantiles

import networkx

HERE = Path(__file__).resolve().parents[1]
PARTS = ("hybrid_retrieve.py", "pageindex", "retriever")
EVERYWHERE = (*PARTS, "tests", "benchmarks", "scripts")
SMALL_LINES = 30  # a shorter module should have two importers, or be part of another one

# Tokens that nobody reads: how lines are broken says nothing of how much there is to take in.
LAYOUT = {
    tokenize.ENCODING,
    tokenize.NEWLINE,
    tokenize.NL,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
PATTERN = re.compile(r"\bre\.(?:compile|match|search|fullmatch|subn?|split|findall|finditer)\(")

Function = ast.FunctionDef | ast.AsyncFunctionDef
Import = ast.Import | ast.ImportFrom


@dataclass(frozen=True)
class Module:
    """One parsed file."""

    name: str
    """Dotted."""
    text: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        """Of the file."""
        return self.text.count("\n")

    # To walk through a tree is most of the work, so it is done once.

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All of the tree."""
        return list(ast.walk(self.tree))

    @cached_property
    def functions(self) -> list[Function]:
        """Every function and method, nested ones too."""
        return [node for node in self.nodes if isinstance(node, Function)]

    @cached_property
    def imports(self) -> set[Import]:
        """At its top, for types alone, and inside functions."""
        return {node for node in self.nodes if isinstance(node, Import)}

    @cached_property
    def late_imports(self) -> set[Import]:
        """Those inside functions."""
        inside = chain.from_iterable(map(ast.walk, self.functions))
        return {node for node in inside if isinstance(node, Import)}


@dataclass(frozen=True, slots=True)
class Size:
    """How much there is to read."""

    tokens: int
    """Names, numbers, strings and operators. An f-string is one; comments and docstrings are none."""
    lines: int
    """Those with tokens."""
    comments: int
    patterns: int
    """Calls that take a regular expression."""


def read_modules(root: Path, parts: tuple[str, ...] = PARTS) -> list[Module]:
    """Return the modules of some files and folders: of the product, what a user installs."""
    files = chain.from_iterable(
        [root / part] if part.endswith(".py") else (root / part).rglob("*.py") for part in parts
    )
    modules = []
    for file in sorted(files):
        text = file.read_text(encoding="utf-8")
        dotted = ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        modules.append(Module(dotted, text, ast.parse(text)))
    return modules


def measure_size(modules: list[Module]) -> Size:
    """Count the tokens of modules, however their lines are broken."""
    tokens, lines, comments = 0, 0, 0
    for module in modules:
        filled = set()
        for token in read_tokens(module):
            if token.type == tokenize.COMMENT:
                comments += 1
            else:
                tokens += 1
                filled.add(token.start[0])
        lines += len(filled)
    return Size(tokens, lines, comments, sum(len(PATTERN.findall(module.text)) for module in modules))


def read_tokens(module: Module) -> Iterator[tokenize.TokenInfo]:
    """Yield the tokens of a module without layout and docstrings, those below fields included."""
    docstrings = {
        (node.lineno, node.col_offset)
        for node in module.nodes
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }
    depth = 0  # in f-strings, which newer Pythons cut into tokens
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        name = tokenize.tok_name[token.type]
        depth -= name == "FSTRING_END"
        is_inside = depth > 0 or name == "FSTRING_END"
        depth += name == "FSTRING_START"
        is_docstring = token.type == tokenize.STRING and token.start in docstrings
        if token.type not in LAYOUT and not is_inside and not is_docstring:
            yield token


def find_imports(nodes: set[Import], known: set[str]) -> set[str]:
    """Return the product's modules that these imports name."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                found.add(full if full in known else node.module)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
    return found & known


def find_circles(modules: list[Module]) -> list[list[str]]:
    """Return the groups of modules that import one another, for types alone included."""
    known = {module.name for module in modules}
    graph: networkx.DiGraph[str] = networkx.DiGraph()
    for module in modules:
        imports = find_imports(module.imports - module.late_imports, known)
        graph.add_edges_from((module.name, other) for other in imports - {module.name})
    return [sorted(group) for group in networkx.strongly_connected_components(graph) if len(group) > 1]


def find_namesakes(modules: list[Module]) -> dict[str, dict[str, list[str]]]:
    """Return the modules, classes and public functions of one name, by what they are and by the name."""
    found: dict[str, dict[str, list[str]]] = {"modules": {}, "classes": {}, "functions": {}}
    for module in modules:
        found["modules"].setdefault(module.name.rpartition(".")[2], []).append(module.name)
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef):
                found["classes"].setdefault(node.name, []).append(module.name)
            elif isinstance(node, Function) and not node.name.startswith("_"):
                found["functions"].setdefault(node.name, []).append(module.name)
    return {kind: {name: at for name, at in named.items() if len(at) > 1} for kind, named in found.items()}


def find_thin(modules: list[Module]) -> list[str]:
    """Return the short modules with one importer; those that a user starts and packages may be short."""
    known = {module.name for module in modules}
    importers = Counter(name for module in modules for name in find_imports(module.imports, known) - {module.name})
    return [
        module.name
        for module in modules
        if module.lines < SMALL_LINES
        and importers[module.name] == 1
        and f"{module.name}.py" not in PARTS
        and f"{module.name}." not in " ".join(known)
    ]


def count_private_functions(modules: list[Module]) -> int:
    """Count the functions of modules whose names begin with one underscore."""
    nodes = chain.from_iterable(module.tree.body for module in modules)
    names = [node.name for node in nodes if isinstance(node, Function)]
    return sum(name.startswith("_") and not name.startswith("__") for name in names)


def count_calls(modules: list[Module], module: str, name: str) -> int:
    """Count the calls of a function by its bare name in a module."""
    nodes = chain.from_iterable(own.nodes for own in modules if own.name == module)
    return sum(isinstance(node, ast.Call) and ast.unparse(node.func) == name for node in nodes)


def count_commands(modules: list[Module]) -> int:
    """Count the entries of `GROUPS`, each of which is a pair in a mapping."""
    nodes = chain.from_iterable(own.nodes for own in modules if own.name == "retriever.command_line")
    values = chain.from_iterable(node.values for node in nodes if isinstance(node, ast.Dict))
    return sum(isinstance(value, ast.Tuple) for value in values)


def count_riddles(modules: list[Module]) -> int:
    """Count the docstrings that begin with "What" or "Who" in place of a verb or a noun."""
    texts = chain.from_iterable(own.nodes for own in modules)
    found = (node.value.value for node in texts if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    return sum(str(text).lstrip().startswith(("What ", "What's ", "Who ")) for text in found)


def measure(root: Path) -> dict[str, tuple[float, str]]:
    """Return each measure of the project below `root`, with its limit in words."""
    modules = read_modules(root)
    product, tests = measure_size(modules), measure_size(read_modules(root, ("tests",)))
    # Without the page that `build_docs.py` writes: it is there only where the site was built.
    pages = {root / "README.md", *root.glob("docs/**/*.md")} - {root / "docs/reference/cli.md"}
    words = sum(len(file.read_text(encoding="utf-8").split()) for file in pages)
    functions = list(chain.from_iterable(module.functions for module in modules))
    lengths = [(function.end_lineno or function.lineno) - function.lineno + 1 for function in functions]
    sizes = [module.lines for module in modules]
    return {
        "pageindex + retriever, tokens": (product.tokens, "at most 141990"),
        "pageindex + retriever, regular expressions": (product.patterns, "at most 54"),
        "pageindex + retriever, tokens a line": (product.tokens / product.lines, ""),
        "pageindex + retriever, files": (len(modules), "at most 112"),
        "settings": (count_calls(modules, "retriever.settings", "setting"), "at most 45"),
        "commands": (count_commands(modules), "at most 16"),
        "docstrings that begin with What or Who": (count_riddles(read_modules(root, EVERYWHERE)), "at most 0"),
        "tests, tokens": (tests.tokens, "at most 112000"),
        "tests, tokens a line": (tests.tokens / tests.lines, ""),
        "docs and README.md, words": (words, "at most 30000"),
        "CHANGELOG.md, lines": ((root / "CHANGELOG.md").read_text(encoding="utf-8").count("\n"), "at most 25"),
        "imports inside functions": (sum(len(module.late_imports) for module in modules), "at most 120"),
        "circles of imports": (len(find_circles(modules)), "at most 0"),
        **{f"{kind} of one name": (len(named), "") for kind, named in find_namesakes(modules).items()},
        f"modules under {SMALL_LINES} lines with one importer": (len(find_thin(modules)), "at most 0"),
        "module, median lines": (median(sizes), ""),
        "module, longest": (max(sizes), "at most 650"),
        "functions": (len(functions), ""),
        "function, median lines": (median(lengths), ""),
        "function, p90 lines": (quantiles(lengths, n=10)[-1], "15 to 40"),
        "function, longest": (max(lengths), "at most 61"),
        "private functions of modules per 1,000 lines": (
            1000 * count_private_functions(modules) / sum(sizes),
            "under 6",
        ),
        "comments per line of code": (product.comments / product.lines, "above .03"),
    }


def is_within(value: float, limit: str) -> bool:
    """Return whether a measure keeps its limit."""
    numbers = [float(word) for word in limit.split() if word.replace(".", "", 1).isdigit()]
    if not numbers:
        return True
    if limit.startswith("above"):
        return value > numbers[0]
    if limit.startswith("under"):
        return value < numbers[0]
    low, high = numbers if len(numbers) == 2 else (0, numbers[0])
    return low <= value <= high


def main() -> int:
    """Print the table."""
    roots = [*(Path(word) for word in sys.argv[1:] if word != "--names"), HERE]
    columns = [measure(root) for root in roots]
    print(" ".join([f"{'':46}", *(f"{root.resolve().name:>12}" for root in roots), " limit"]))
    for name, (_, limit) in columns[-1].items():
        values = (column[name][0] for column in columns)
        print(
            " ".join(
                [f"{name:46}", *(f"{value:12,.3f}".rstrip("0").rstrip(".").rjust(12) for value in values), f" {limit}"]
            )
        )
    if "--names" in sys.argv:
        modules = read_modules(HERE)
        for circle in find_circles(modules):
            print(f"circle: {', '.join(circle)}")
        for kind, named in find_namesakes(modules).items():
            for name, places in sorted(named.items()):
                print(f"{kind}: {name}: {', '.join(places)}")
    broken = [
        f"{name}: {value:,g}, {limit}" for name, (value, limit) in columns[-1].items() if not is_within(value, limit)
    ]
    for line in broken:
        print(f"beyond its limit: {line}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
