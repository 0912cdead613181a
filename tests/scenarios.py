"""The commands that are interrupted, each with what it finds and does."""

import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from retriever.indexing.forgetting import forget
from retriever.indexing.recipe import IndexRequest
from retriever.library import check_up
from retriever.settings.layers import DEFAULT_PROFILE, given_settings
from retriever.types import FloatMatrix
from tests.shelf import CountingEncoder, Shelf

FORMATS = Path(__file__).parent / "index_formats"


@dataclass(frozen=True, slots=True)
class Scenario:
    """A command that is interrupted."""

    name: str
    prepare: Callable[[Shelf], object]
    """Makes the documents and the index as they are before."""
    act: Callable[[Shelf], object]
    """The command; run again, it finishes what was interrupted."""


class SlowEncoder(CountingEncoder):
    """Slow enough that a kill often meets it."""

    def encode_documents(self, texts: Sequence[str]) -> FloatMatrix:
        time.sleep(0.01)
        return super().encode_documents(texts)


def pages(number: int, kind: str) -> dict[str, str]:
    """Documents of which each has two texts of its own."""
    return {
        f"part-{i}.md": f"# Part {i}\n\n{kind} text {i} of {number}.\n\n## More\n\nAnd {i * i}.\n"
        for i in range(number)
    }


def _request(shelf: Shelf) -> IndexRequest:
    given = given_settings(DEFAULT_PROFILE, None, None, {})
    return IndexRequest(shelf.index, (), given.profile(), given.for_index(), shelf.encoder, 0.0)


def _changed(shelf: Shelf) -> None:
    shelf.update()
    for name, text in pages(9, "second").items():
        shelf.write(name, text)
    (shelf.docs / "part-11.md").unlink()
    (shelf.docs / "part-10.md").rename(shelf.docs / "moved.md")


def _edited(shelf: Shelf) -> None:
    shelf.update()
    shelf.write("part-3.md", "# Part 3\n\nAnother text 3 of 9.\n")


def _deleted(shelf: Shelf) -> None:
    shelf.update()
    for number in range(7):
        (shelf.docs / f"part-{number}.md").unlink()


def _without_generation(shelf: Shelf) -> None:
    shelf.update()
    (shelf.index / "gen-1" / "manifest.json").unlink()


def _older(shelf: Shelf) -> None:
    for path in shelf.docs.glob("part-*.md"):
        path.unlink()
    shelf.index.mkdir()
    script = (FORMATS / "format-1.sql").read_text(encoding="utf-8").replace("/DOCS", str(shelf.docs))
    with closing(sqlite3.connect(shelf.index / "index.sqlite")) as rows:
        rows.execute("PRAGMA journal_mode = WAL")
        rows.executescript(script)


def _damaged(shelf: Shelf) -> None:
    shelf.update()
    with shelf.rows() as rows:
        rows.execute("UPDATE nodes SET breadcrumb = '[oops'")
        rows.execute("UPDATE vectors SET vector = zeroblob(256) WHERE rowid <= 5")


def _update(shelf: Shelf) -> object:
    return shelf.update()


SCENARIOS = (
    Scenario("first indexing", lambda _: None, _update),
    Scenario("re-indexing", _changed, _update),
    Scenario("a small edit", _edited, _update),
    Scenario("deleting", _deleted, _update),
    Scenario("rebuilding", _without_generation, _update),
    Scenario("migrating", _older, _update),
    Scenario(
        "forgetting", lambda shelf: shelf.update(), lambda shelf: forget(_request(shelf), ["garden", "part-2.md"])
    ),
    Scenario(
        "repairing", _damaged, lambda shelf: (check_up(shelf.index, repair=True, encoder=shelf.encoder), shelf.update())
    ),
)
