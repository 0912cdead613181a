"""Writes tests/index_formats/format-N.sql: a small index of today's format, for the migration tests of later ones."""

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from retriever.store.migrating import newest_format
from tests.shelf import PAGES, Shelf

FOLDER = Path(__file__).resolve().parents[1] / "tests" / "index_formats"
DOCS = "/DOCS"
"""Stands for the folder of the documents."""


def dump(index: Path, docs: Path) -> str:
    """The SQL that makes index.sqlite again, its format included."""
    with closing(sqlite3.connect(index / "index.sqlite")) as connection:
        lines = [line.replace(str(docs), DOCS) for line in connection.iterdump()]
    return "\n".join([*lines, f"PRAGMA user_version = {newest_format()};", ""])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        shelf = Shelf(Path(place).resolve(), PAGES)
        shelf.update()
        (FOLDER / f"format-{newest_format()}.sql").write_text(dump(shelf.index, shelf.docs), encoding="utf-8")
