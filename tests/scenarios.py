"""The commands that are interrupted, each with what it finds and does."""

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from retriever.indexing.forget import forget
from retriever.types import FloatMatrix
from retriever.upkeep import check_up
from tests.shelf import CountingEncoder, Shelf


@dataclass(frozen=True, slots=True)
class Scenario:
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


def chapter_pages(number: int) -> dict[str, str]:
    return {
        f"chapter-{n}.md": "".join(
            f"{'##' if part else '#'} Chapter {n} part {part}\n\nIt speaks of topic{n * 7 + part} alone.\n\n"
            for part in range(8)
        )
        for n in range(number)
    }


def _changed(shelf: Shelf) -> None:
    shelf.update()
    for name, text in pages(9, "second").items():
        shelf.write(name, text)
    (shelf.docs / "part-11.md").unlink()
    (shelf.docs / "part-10.md").rename(shelf.docs / "moved.md")


def _without_chroma(shelf: Shelf) -> None:
    shelf.update()
    shutil.rmtree(shelf.chroma)


def _damaged(shelf: Shelf) -> None:
    shelf.update()
    with shelf.rows() as rows:
        rows.execute("UPDATE chunks SET node_key = 7")
        rows.execute("DELETE FROM vectors WHERE rowid <= 5")


def _update(shelf: Shelf) -> object:
    return shelf.update()


SCENARIOS = (
    Scenario("first indexing", lambda _: None, _update),
    Scenario("re-indexing", _changed, _update),
    Scenario("rebuilding", _without_chroma, _update),
    Scenario(
        "forgetting", lambda shelf: shelf.update(), lambda shelf: forget(shelf.request(), ["garden", "part-2.md"])
    ),
    Scenario(
        "repairing", _damaged, lambda shelf: (check_up(shelf.index, repair=True, encoder=shelf.encoder), shelf.update())
    ),
)
