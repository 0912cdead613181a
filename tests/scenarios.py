"""The commands that are interrupted, each with what it finds and does."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retriever.api import open_retriever
from retriever.embedding import open_encoder
from retriever.indexing.forget import forget
from retriever.indexing.request import IndexRequest
from retriever.indexing.update import update_index
from retriever.protocols import Encoder
from retriever.retriever import Retriever
from retriever.settings.layers import DEFAULT_PROFILE, collect_settings
from retriever.store.store import open_store
from retriever.trace import NoProgress
from retriever.types import FloatMatrix
from retriever.upkeep.doctor import check_up
from tests.shelf import CountingEncoder, Shelf


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    prepare: Callable[[Shelf], object]
    """Makes the documents and the index as they are before."""
    act: Callable[[Shelf], object]
    """The command; run again, it finishes what was interrupted."""
    shelf: type[Shelf] = Shelf


class SlowEncoder(CountingEncoder):
    """Slow enough that a kill often meets it."""

    def encode_documents(self, texts: Sequence[str]) -> FloatMatrix:
        time.sleep(0.01)
        return super().encode_documents(texts)


OTHER_MODEL: Mapping[str, Any] = {"encoder": {"document_prefix": "passage: ", "query_prefix": "query: "}}
"""The bundled model with prefixes: as many numbers in a vector, and other ones."""


class TwoModels(Shelf):
    """Asked by the models that its index remembers; both are loaded once, for all processes that are forked later.

    That is safe because neither has a thread of its own: ONNX Runtime is given none, and the tokenizers' are switched
    off by a variable.
    """

    def __init__(self, place: Path, pages: Mapping[str, str] | None = None) -> None:
        super().__init__(place, pages)
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        for model in ({}, OTHER_MODEL):
            encoder = open_encoder(collect_settings(DEFAULT_PROFILE, model, None, {}).profile().encoder)
            assert encoder is not None, "the bundled model"
            encoder.encode_documents(["a text"])

    def open(self, *, index: Path | None = None, encoder: Encoder | None = None, **settings: object) -> Retriever:
        wishes = {"vector_search": "chroma", **settings}
        return open_retriever((), index or self.index, settings=wishes, encoder=encoder)


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


def _edited(shelf: Shelf) -> None:
    shelf.update()
    shelf.write("part-3.md", "# Part 3\n\nAnother text 3 of 9.\n")


def _deleted(shelf: Shelf) -> None:
    shelf.update()
    for number in range(7):
        (shelf.docs / f"part-{number}.md").unlink()


def _without_snapshot(shelf: Shelf) -> None:
    shelf.update()
    (shelf.index / "snapshot-1" / "manifest.json").unlink()


def _damaged(shelf: Shelf) -> None:
    shelf.update()
    with shelf.rows() as rows:
        rows.execute("UPDATE nodes SET breadcrumb = '[oops'")
        rows.execute("UPDATE vectors SET vector = zeroblob(256) WHERE rowid <= 5")


def _update(shelf: Shelf) -> object:
    return shelf.update()


def _read_by(shelf: Shelf, model: Mapping[str, Any]) -> int:
    given = collect_settings(DEFAULT_PROFILE, model, None, {})
    request = IndexRequest(open_store(shelf.index), (shelf.docs,), given.profile(), given.for_index(), None, 0.0)
    report = update_index(request, NoProgress())
    shelf.encoder.encoded += report.embedded
    return report.embedded


SCENARIOS = (
    Scenario("first indexing", lambda _: None, _update),
    Scenario("re-indexing", _changed, _update),
    Scenario("a small edit", _edited, _update),
    Scenario("deleting", _deleted, _update),
    Scenario("rebuilding", _without_snapshot, _update),
    Scenario(
        "forgetting", lambda shelf: shelf.update(), lambda shelf: forget(shelf.request(), ["garden", "part-2.md"])
    ),
    Scenario(
        "repairing", _damaged, lambda shelf: (check_up(shelf.index, repair=True, encoder=shelf.encoder), shelf.update())
    ),
    Scenario(
        "changing the model", lambda shelf: _read_by(shelf, {}), lambda shelf: _read_by(shelf, OTHER_MODEL), TwoModels
    ),
)
