"""Whether the packages that run here are ours: `pageindex` and `retriever` are names of other distributions too.

Python's own library alone, and none of our modules: where these are hidden, hybrid_retrieve.py loads this by its path.
"""

import importlib.util
import re
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path

OURS = "hybrid-retrieve"
PACKAGES = ("pageindex", "retriever")
HOME = Path(__file__).resolve().parents[2]  # the folder that holds both packages
CURE = (
    "keep this program in an environment of its own (uv tool install .), "
    "or uninstall the other one and install this one again"
)


def find_conflicts(home: Path = HOME) -> Iterator[tuple[str, bool]]:
    """Yield what bears a name of ours and is not ours, as sentences, and whether it is in our way.

    Args:
        home: the folder that holds our packages.
    """
    named: set[str] = set()
    for found in distributions():
        name = str(found.metadata["Name"])
        if re.sub(r"[-_.]+", "-", name).lower() != OURS:
            for package in sorted(_packages_of(found) & set(PACKAGES)):
                place = Path(str(found.locate_file(package))).resolve()
                mixed = place == home / package
                what = "was written into ours" if mixed else "is hidden by ours"
                if _origin(package) == place and not mixed:
                    what = "hides ours"
                named.add(package)
                yield (
                    f"the distribution {name} {found.version} has a package `{package}` too, in {place}: it {what}",
                    what != "is hidden by ours",
                )
    for package in PACKAGES:
        origin = _origin(package)
        if package not in named and origin is not None and origin != home / package:
            yield f"the package `{package}` in {origin} hides ours, in {home / package}", True


def _packages_of(found: Distribution) -> set[str]:
    """Return the top-level packages of a distribution."""
    listed = found.read_text("top_level.txt")
    if listed is not None:
        return set(listed.split())
    return {file.parts[0] for file in found.files or () if len(file.parts) > 1}


def _origin(package: str) -> Path | None:
    """Return the folder that Python takes a package from; None without one."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    return Path(spec.origin).resolve().parent if spec and spec.origin else None
