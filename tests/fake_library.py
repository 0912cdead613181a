"""A stand-in for retriever.library, for tests of the command line: it answers at once, and remembers what was asked."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Self

import pytest

from pageindex.node import Node, NodeKind, Span
from retriever.profile import Profile
from retriever.types import Answer, IndexReport, IndexState, Progress
from tests.answers import HIT, STATE, answer


@dataclass(frozen=True)
class FakePassage:
    node_id: str = HIT.node_id
    folder: str = HIT.folder
    file: str = HIT.file
    span: Span = HIT.span
    text: str = HIT.text
    breadcrumb: tuple[str, ...] = HIT.breadcrumb
    title: str = HIT.title


@dataclass(frozen=True)
class FakeStatus:
    index: IndexState = STATE
    encoder: str = "onnx all-MiniLM-L6-v2-int8"
    size_bytes: int = 22_900_000
    changed_files: tuple[str, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    broken_links: int = 3
    coverage: float = 1.0


REPORT = IndexReport(
    path="/index",
    folders=("/docs",),
    added=3,
    changed=1,
    moved=0,
    removed=2,
    unchanged=151,
    documents=155,
    sections=1203,
    chunks=3204,
    embedded=40,
    reused_vectors=2,
    skipped=(("bad.md", "it holds NUL bytes"),),
    seconds=4.13,
    generation=8,
)


@dataclass
class FakeLibrary:
    """What each call was given, and what it gives."""

    answers: Sequence[Answer] = (answer(HIT),)
    """Given in turn; the last one again and again."""
    error: BaseException | None = None
    """Raised by every function."""
    passage: FakePassage = FakePassage()
    status: FakeStatus = FakeStatus()
    drawing: str = "/\n  guide/mail.md"
    report: IndexReport = REPORT
    opened: list[dict[str, Any]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    shown: list[tuple[Any, ...]] = field(default_factory=list)
    """The arguments of `tree` and `read`."""

    def open_retriever(
        self,
        docs: Sequence[str | Path] = (),
        index: str | Path | None = None,
        profile: str = "balanced",
        settings: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> "FakeRetriever":
        self.opened.append({"docs": tuple(docs), "index": index, "profile": profile, "settings": dict(settings or {})})
        if self.error is not None:
            raise self.error
        return FakeRetriever(self)

    def index_folders(
        self,
        docs: Sequence[str | Path],
        index: str | Path | None = None,
        profile: str = "balanced",
        settings: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> IndexReport:
        self.open_retriever(docs, index, profile, settings, progress)
        return self.report


@dataclass
class FakeRetriever:
    library: FakeLibrary
    profile: Profile = field(default_factory=Profile)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        pass

    def search(self, question: str, expansion: object = None) -> Answer:
        self.library.asked.append(question)
        answers = self.library.answers
        return answers[min(len(self.library.asked), len(answers)) - 1]

    def tree(self, reference: str = "", depth: int | None = None) -> str:
        self.library.shown.append((reference, depth))
        return self.library.drawing

    def nodes(self, reference: str = "", depth: int | None = None) -> tuple[Node, ...]:
        self.library.shown.append((reference, depth))
        if reference.startswith(HIT.file):
            return (Node(HIT.node_id, NodeKind.SECTION, HIT.file, HIT.title, 2, HIT.breadcrumb, HIT.span, HIT.text),)
        return (Node("a.md", NodeKind.FILE, "a.md", "A\x1b", 0, (), None, ""),)

    def read(self, reference: str) -> FakePassage:
        self.library.shown.append((reference,))
        return self.library.passage

    def status(self) -> FakeStatus:
        return self.library.status


def install(monkeypatch: pytest.MonkeyPatch) -> FakeLibrary:
    """Puts a new one in the library's place."""
    library = FakeLibrary()
    module = ModuleType("retriever.library")
    module.open_retriever = library.open_retriever  # type: ignore[attr-defined]  # a module made by hand
    module.index_folders = library.index_folders  # type: ignore[attr-defined]  # as above
    monkeypatch.setitem(sys.modules, "retriever.library", module)
    return library
