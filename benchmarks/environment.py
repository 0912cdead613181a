"""How large the installed program is, and what of it each library brings alone: the table of docs/speed.md.

    uv run python benchmarks/environment.py

Counts the distributions that the program needs, as they lie in this environment; others in it are left out.
"""

import re
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement

PROGRAM = "hybrid-retrieve"
SHOWN = 8


def normalize(name: str) -> str:
    """The name as packages are compared by it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def needed(installed: dict[str, Distribution], without: str = "") -> set[str]:
    """The distributions that the program needs, by name, as if one did not need its own."""
    found: set[str] = set()
    pending: list[tuple[str, frozenset[str]]] = [(PROGRAM, frozenset())]
    while pending:
        name, extras = pending.pop()
        if name == without or name in found or name not in installed:
            continue
        found.add(name)
        for line in installed[name].requires or ():
            wanted = Requirement(line)
            if wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
                pending.append((normalize(wanted.name), frozenset(wanted.extras)))
    return found


def size_of(distribution: Distribution) -> int:
    """Bytes of its files."""
    places = (Path(str(file.locate())) for file in distribution.files or ())
    return sum(place.stat().st_size for place in places if place.is_file())


def main() -> None:
    """Prints the whole, and the libraries that bring most of it."""
    installed = {normalize(str(item.metadata["Name"])): item for item in distributions()}
    whole = needed(installed)
    sizes = {name: size_of(installed[name]) for name in whole}
    print(f"{len(whole)} distributions, {sum(sizes.values()) / 1e6:.0f} MB")
    alone = {name: sum(sizes[item] for item in whole - needed(installed, name)) for name in whole - {PROGRAM}}
    for name in sorted(alone, key=lambda item: -alone[item])[:SHOWN]:
        print(f"{alone[name] / 1e6:>6.0f} MB  {name}, with what nothing else here needs")


if __name__ == "__main__":
    main()
