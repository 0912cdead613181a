"""A folder of documents, its index, and an encoder that counts: what the tests of indexing and asking work on."""

import os
import shutil
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from retriever.api import open_retriever
from retriever.errors import EncoderError
from retriever.indexing.request import IndexReport, IndexRequest, name_folders
from retriever.indexing.update import update_index
from retriever.places import open_store
from retriever.retriever import Retriever
from retriever.settings import DEFAULT_PROFILE, collect_settings
from retriever.store.database import FileConnection
from retriever.trace import NO_PROGRESS
from retriever.types import Answer, Encoder, FloatMatrix, Progress
from tests.fake_encoder import FakeEncoder

LONG_AGO_NS = 1_500_000_000_000_000_000
"""Old enough for a file's time to be trusted."""
TOO_YOUNG_NS = 4_000_000_000_000_000_000
"""Not trusted, as if the file had been written just now."""
NEVER_REFRESH: Mapping[str, Any] = {"refresh_max_files": 0}
WORDS_ALONE: Mapping[str, Any] = {"encoder": {"kind": "none"}}


def write_pages(folder: Path, pages: Mapping[str, str]) -> Path:
    """The folder, with these documents in it."""
    for name, text in pages.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def open_pages(folder: Path, pages: Mapping[str, str]) -> Retriever:
    """An index of these documents, open, by words alone."""
    return open_retriever([write_pages(folder / "docs", pages)], folder / "index", settings=WORDS_ALONE)


def read_lines(folder: str | Path, file: str, first: int, last: int) -> str:
    """These lines of a file, as they are on the disk."""
    return "".join(Path(folder, file).read_text(encoding="utf-8").splitlines(keepends=True)[first - 1 : last])


def wait_until_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts the clock on by an hour: files that were written just now are old enough for their times to be trusted."""
    now_ns = time.time_ns
    monkeypatch.setattr("time.time_ns", lambda: now_ns() + 3600 * 10**9)


class CountingEncoder(FakeEncoder):
    """`encoded` is how many documents it has encoded; questions do not count."""

    def encode_queries(self, texts: Sequence[str]) -> FloatMatrix:
        before = self.encoded
        vectors = super().encode_queries(texts)
        self.encoded = before
        return vectors


class WrongEncoder(CountingEncoder):
    """Gives this for whatever documents or questions it reads, or raises it."""

    def __init__(
        self,
        documents: "FloatMatrix | EncoderError | None" = None,
        questions: "FloatMatrix | EncoderError | None" = None,
    ) -> None:
        super().__init__()
        self._documents, self._questions = documents, questions

    def encode_documents(self, texts: Sequence[str]) -> FloatMatrix:
        if isinstance(self._documents, EncoderError):
            raise self._documents
        return super().encode_documents(texts) if self._documents is None else self._documents

    def encode_queries(self, texts: Sequence[str]) -> FloatMatrix:
        if isinstance(self._questions, EncoderError):
            raise self._questions
        return FakeEncoder().encode_queries(texts) if self._questions is None else self._questions


class Interrupting:
    """Presses Ctrl-C when a stage has come so far; -1: when it is over."""

    def __init__(self, stage: str, at: int) -> None:
        self._when = stage, at

    def start(self, stage: str, total: int, unit: str) -> None:
        self.advance(stage, 0)

    def advance(self, stage: str, done: int) -> None:
        if (stage, done) == self._when:
            raise KeyboardInterrupt

    def finish(self, stage: str) -> None:
        self.advance(stage, -1)


class Shelf:
    """Documents in `docs`, their index in `index`, both below one folder; every file written has a time of its own."""

    def __init__(self, place: Path, pages: Mapping[str, str] | None = None) -> None:
        self.place = place
        self.docs = place / "docs"
        self.index = place / "index"
        self.encoder = CountingEncoder()
        self._seconds = count(1)
        self.docs.mkdir(parents=True)
        for name, text in (pages or {}).items():
            self.write(name, text)

    def write(self, name: str, text: str | bytes, *, mtime_ns: int | None = None) -> Path:
        """A document below `docs`, of long ago unless a time is given."""
        path = self.docs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        self.touch(name, mtime_ns)
        return path

    def touch(self, name: str, mtime_ns: int | None = None) -> None:
        time = LONG_AGO_NS + next(self._seconds) * 1_000_000_000 if mtime_ns is None else mtime_ns
        os.utime(self.docs / name, ns=(time, time))

    def update(self, *folders: Path, progress: Progress = NO_PROGRESS, **wishes: Any) -> IndexReport:  # noqa: ANN401 - those of a request
        """Index these folders; `docs` when none is named."""
        return update_index(self.request(*(folders or (self.docs,)), **wishes), progress)

    def request(
        self,
        *folders: Path,
        index: Path | None = None,
        encoder: Encoder | None = None,
        wait_s: float = 0.0,
        settings: Mapping[str, Any] | None = None,
    ) -> IndexRequest:
        given = collect_settings(DEFAULT_PROFILE, settings)
        return IndexRequest(
            open_store(index or self.index),
            folders,
            given.profile,
            given.for_index(),
            encoder or self.encoder,
            wait_s,
            with_chroma=True,
        )

    def open(self, *, index: Path | None = None, encoder: Encoder | None = None, **settings: object) -> Retriever:
        """A retriever that asks ChromaDB however few the chunks are, and reads no lines: that takes most of an ask."""
        wishes = {"vector_search": "chroma", "read_passages": 0, **settings}
        return open_retriever((), index or self.index, settings=wishes, encoder=encoder or self.encoder)

    def ask(
        self, question: str, *, index: Path | None = None, encoder: Encoder | None = None, **settings: object
    ) -> Answer:
        with self.open(index=index, encoder=encoder, **settings) as retriever:
            return retriever.search(question)

    def ask_all(self) -> list[Answer]:
        """Answers to all QUESTIONS by one retriever, which does not look at the documents."""
        with self.open(**NEVER_REFRESH) as retriever:
            return [retriever.search(question) for question in QUESTIONS]

    @contextmanager
    def rows(self) -> Iterator[FileConnection]:
        """index.sqlite, to look into or to hurt."""
        file = self.index / "index.sqlite"
        with closing(sqlite3.connect(file, isolation_level=None, factory=FileConnection)) as connection:
            yield connection

    def cloned(self, place: Path) -> "Shelf":
        """A copy of the documents and of their index, a tenth of the time of making one."""
        clone = Shelf(place)
        shutil.copytree(self.docs, clone.docs, dirs_exist_ok=True)
        shutil.copytree(self.index, clone.index)
        name_folders(open_store(clone.index), [clone.docs])
        with clone.rows() as rows:
            rows.execute("UPDATE folders SET path = ?", (str(clone.docs),))
        clone._seconds = count(1_000)
        return clone

    def files_with(self, content: str | bytes) -> list[str]:
        sought = content.encode() if isinstance(content, str) else content
        files = [path for path in self.index.rglob("*") if path.is_file()]
        return [path.relative_to(self.index).as_posix() for path in files if sought in path.read_bytes()]

    @property
    def chroma(self) -> Path:
        """The only folder of it."""
        (folder,) = self.index.glob("chroma-*")
        return folder


def found(answer: Answer) -> list[tuple[str, float]]:
    """(node id, score) of the hits, best first."""
    return [(hit.node_id, hit.score) for hit in answer.hits]


def same_hits(some: Sequence[tuple[str, float]], others: Sequence[tuple[str, float]]) -> bool:
    """The same nodes in the same order, with scores that are equal to 1e-9."""
    return [node_id for node_id, _ in some] == [node_id for node_id, _ in others] and all(
        abs(score - other) <= 1e-9 for (_, score), (_, other) in zip(some, others, strict=True)
    )


PAGES = {
    "mail.md": "# Mail\n\nHow letters leave the house.\n\n## Stamps\n\nA stamp pays for the journey of a letter.\n\n"
    "## Parcels\n\nA parcel is weighed before it travels by train.\n",
    "garden/tomatoes.md": "# Tomatoes\n\nTomatoes want sun, water and a stick.\n\n## Blight\n\n"
    "Blight turns the leaves brown in a wet summer.\n",
    "garden/bees.md": "# Bees\n\nBees fly to the flowers of [tomatoes](tomatoes.md#blight) and beans.\n",
    "kitchen.md": "# Kitchen\n\nSoup is made of tomatoes, salt and patience.\n\n## Bread\n\nBread rises over night.\n",
}
QUESTIONS = (
    "what pays for a letter?", "tomatoes in a wet summer", "bread over night", "who flies to the flowers of beans?",
    "weigh a parcel before the train",
)  # fmt: skip
