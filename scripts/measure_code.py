"""Print how large the project is, each measure beside its budget, and how the code is cut.

    uv run scripts/measure_code.py               # this tree
    uv run scripts/measure_code.py ../other      # another one beside it, such as a checkout of an earlier version
    uv run scripts/measure_code.py --names       # and which names are borne by several, which modules form a circle

Exits with 1 when this tree is beyond one of the limits in the last column.
"""

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

HERE = Path(__file__).resolve().parents[1]
PARTS = ("hybrid_retrieve.py", "pageindex", "retriever")
SMALL_LINES = 30  # a shorter module should have two importers, or be part of another one
LARGE_LINES = 500

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
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


def read_modules(root: Path) -> list[Module]:
    """Return the product's modules: what a user installs."""
    files = [
        file for part in PARTS for file in ([root / part] if part.endswith(".py") else (root / part).rglob("*.py"))
    ]
    modules = []
    for file in sorted(files):
        text = file.read_text(encoding="utf-8")
        dotted = ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        modules.append(Module(dotted, text, ast.parse(text)))
    return modules


def find_functions(module: Module) -> Iterator[Function]:
    """Yield every function and method, nested ones too."""
    return (node for node in ast.walk(module.tree) if isinstance(node, Function))


def count_lines_by_kind(module: Module) -> Counter[str]:
    """Count the lines of a file as `blank`, `comment` (nothing else on the line), `docstring` or `code`."""
    kinds: Counter[str] = Counter()
    documented: set[int] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            documented.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    for number, line in enumerate(module.text.splitlines(), start=1):
        if number in documented:
            kinds["docstring"] += 1
        elif not line.strip():
            kinds["blank"] += 1
        else:
            kinds["comment" if line.lstrip().startswith("#") else "code"] += 1
    return kinds


def find_imports(module: Module, known: set[str]) -> set[str]:
    """Return the product's modules that a module imports, at its top or inside functions."""
    found = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                found.add(full if full in known else node.module)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
    return (found & known) - {module.name}


def find_circles(modules: list[Module]) -> list[list[str]]:
    """Return the groups of modules that import one another while they are loaded."""
    known = {module.name for module in modules}
    loads = {}
    for module in modules:
        body: list[ast.stmt] = [node for node in module.tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        loads[module.name] = find_imports(Module(module.name, "", ast.Module(body, [])), known)
    while ended := [name for name, needs in loads.items() if not needs & loads.keys()]:
        for name in ended:
            del loads[name]
    return [[name, *sorted(needs & loads.keys())] for name, needs in loads.items()]


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


def count_lines(root: Path, pattern: str) -> int:
    """Count the lines of the files below `root` that match."""
    return sum(file.read_text(encoding="utf-8").count("\n") for file in root.glob(pattern))


def measure_size(root: Path) -> dict[str, tuple[float, str]]:
    """Return how large each part of the project below `root` is, with its budget."""
    docs = [file.read_text(encoding="utf-8") for file in root.glob("docs/**/*.md")]
    return {
        "tests, lines": (count_lines(root, "tests/**/*.py"), "at most 18000"),
        "benchmarks, lines": (count_lines(root, "benchmarks/**/*.py"), "at most 2200"),
        "docs, words": (sum(len(text.split()) for text in docs), "at most 35000"),
        "CHANGELOG.md, lines": (count_lines(root, "CHANGELOG.md"), "at most 25"),
    }


def measure(root: Path) -> dict[str, tuple[float, str]]:
    """Return each measure of the project below `root`, with its limit in words."""
    modules = read_modules(root)
    known = {module.name for module in modules}
    kinds = sum((count_lines_by_kind(module) for module in modules), Counter[str]())
    functions = [function for module in modules for function in find_functions(module)]
    lengths = [(function.end_lineno or function.lineno) - function.lineno + 1 for function in functions]
    private = [
        node
        for module in modules
        for node in module.tree.body
        if isinstance(node, Function) and node.name.startswith("_") and not node.name.startswith("__")
    ]
    constants = [
        target
        for module in modules
        for node in module.tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id.isupper()
    ]
    importers = Counter(name for module in modules for name in find_imports(module, known))
    thin = [
        module.name
        for module in modules
        if module.lines < SMALL_LINES
        and importers[module.name] == 1
        and f"{module.name}.py" not in PARTS  # where a user starts
        and f"{module.name}." not in " ".join(known)
    ]
    sizes = [module.lines for module in modules]
    late = {
        (module.name, node.lineno)
        for module in modules
        for function in find_functions(module)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    return {
        "pageindex + retriever, lines": (sum(sizes), "at most 27500"),
        "pageindex + retriever, files": (len(modules), "about 135"),
        **measure_size(root),
        "imports inside functions": (len(late), "at most 120"),
        f"files over {LARGE_LINES} lines": (sum(size > LARGE_LINES for size in sizes), "at most 0"),
        "modules in a circle of imports": (len(find_circles(modules)), "at most 0"),
        **{f"{kind} of one name": (len(named), "") for kind, named in find_namesakes(modules).items()},
        "lines of code": (kinds["code"], ""),
        "module, median lines": (median(sizes), ""),
        "module, longest": (max(sizes), f"at most {LARGE_LINES}"),
        "functions": (len(functions), ""),
        "function, median lines": (median(lengths), ""),
        "function, p90 lines": (quantiles(lengths, n=10)[-1], "15 to 40"),
        "function, longest": (max(lengths), "at most 60"),
        "private functions of modules per 1,000 lines": (1000 * len(private) / sum(sizes), "under 6"),
        "constants per 1,000 lines": (1000 * len(constants) / sum(sizes), ""),
        "comment lines per code line": (kinds["comment"] / kinds["code"], "above .03"),
        "docstring lines per code line": (kinds["docstring"] / kinds["code"], ""),
        f"modules under {SMALL_LINES} lines with one importer": (len(thin), "0"),
    }


def is_within(value: float, limit: str) -> bool:
    """Return whether a measure keeps its limit; one that says `about` is a guide."""
    numbers = [float(word) for word in limit.split() if word.replace(".", "", 1).isdigit()]
    if not numbers or limit.startswith("about"):
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
            print(f"{circle[0]} imports {', '.join(circle[1:])}, which lead back to it")
        for kind, named in find_namesakes(modules).items():
            for name, places in sorted(named.items()):
                print(f"{kind}: {name}: {', '.join(places)}")
    return 0 if all(is_within(*found) for found in columns[-1].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
