"""The machine, the packages and the bundled model."""

import os
import platform
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from retriever.display.phrases import size
from retriever.doctor.finding import Finding
from retriever.embedding.model_card import BUNDLED_MODEL, read_card
from retriever.errors import EncoderError

OLDEST_PYTHON = (3, 11)
OLDEST_SQLITE = (3, 37, 0)
"""The first with STRICT tables."""
PACKAGES = ("chromadb", "numpy", "onnxruntime", "rank-bm25", "networkx", "markdown-it-py", "ollama")
LITTLE_SPACE = 50_000_000
"""Bytes; less is not enough for any index."""


def examine_environment(index: Path | None) -> Iterator[Finding]:
    """Looks at all that an index needs around it."""
    yield _python()
    yield _sqlite()
    yield _packages()
    yield _model()
    if index is not None:
        yield Finding("environment", "location", "well", f"the index is {index}")
        yield _space(index)
        yield _writability(index)


def _python() -> Finding:
    says = f"Python {platform.python_version()} on {sys.platform} {platform.machine()}"
    if sys.version_info < OLDEST_PYTHON:
        return Finding("environment", "Python", "problem", says, "install Python 3.11 or newer")
    return Finding("environment", "Python", "well", says)


def _sqlite() -> Finding:
    says = f"SQLite {sqlite3.sqlite_version}"
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        return Finding("environment", "SQLite", "problem", says, "use a Python that comes with SQLite 3.37 or newer")
    return Finding("environment", "SQLite", "well", says)


def _packages() -> Finding:
    found = {name: _version(name) for name in PACKAGES}
    says = ", ".join(f"{name} {number or 'is missing'}" for name, number in found.items())
    if not all(found.values()):
        return Finding("environment", "packages", "problem", says, "install again: uv sync")
    return Finding("environment", "packages", "well", says)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _model() -> Finding:
    try:
        read_card(BUNDLED_MODEL).verify(BUNDLED_MODEL)
    except EncoderError as error:
        return Finding("environment", "bundled model", "problem", str(error), "install again: uv sync --reinstall")
    return Finding("environment", "bundled model", "well", f"{BUNDLED_MODEL.name} has its checksum")


def _space(index: Path) -> Finding:
    """A new generation lies beside the old one until it is in force, and a vacuum writes the database twice."""
    free = shutil.disk_usage(_existing(index)).free
    says = f"{size(free)} free"
    needed = max(LITTLE_SPACE, 2 * _size(index))
    if free < needed:
        cure = f"free {size(needed - free)}, or keep the index on another disk (--index)"
        return Finding("environment", "disk", "problem", f"{says}; an update may need {size(needed)}", cure)
    return Finding("environment", "disk", "well", says)


def _writability(index: Path) -> Finding:
    place = _existing(index)
    if os.access(place, os.W_OK | os.X_OK):
        return Finding("environment", "permissions", "well", f"{place} can be written")
    cure = "change its permissions, or name another index with --index"
    return Finding(
        "environment", "permissions", "note", f"{place} can be read only: asking works, indexing does not", cure
    )


def _existing(index: Path) -> Path:
    return next(place for place in (index, *index.absolute().parents) if place.exists())


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else 0
