"""A stand-in for retriever.api, for tests of the command line: it answers at once, and remembers what was asked."""

import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Self

import pytest

from pageindex.node import Node, NodeKind, Span
from retriever.archive import Manifest
from retriever.context.budget import build_context
from retriever.context.gather import AnswerInContext
from retriever.context.sections import Section
from retriever.display.json import hit_object
from retriever.doctor import CheckUp, Finding
from retriever.errors import RetrieverError
from retriever.expansion.cache import ExpansionMetrics, Gain
from retriever.indexing.forget import ForgetReport
from retriever.settings.schema import Profile
from retriever.store.queries import StoredQuery
from retriever.types import Answer, Hit, IndexReport, IndexState, Progress
from retriever.watch import WatchEvent
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
    citation: str = HIT.citation
    citation_state: str = HIT.citation_state


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
    snapshot=8,
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
    runs: Sequence[WatchEvent | RetrieverError] = (WatchEvent((), REPORT), WatchEvent((("/docs", "a.md"),), REPORT))
    """Of `watch`."""
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
        *,
        everything: bool = False,
    ) -> IndexReport:
        self.open_retriever(docs, index, profile, settings, progress)
        return self.report

    def watch_folders(
        self,
        docs: Sequence[str | Path],
        index: str | Path | None = None,
        profile: str = "balanced",
        settings: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> Iterator[WatchEvent | RetrieverError]:
        self.open_retriever(docs, index, profile, settings, progress)
        return iter(self.runs)

    def export_index(self, file: str | Path, index: str | Path | None = None, *, replace: bool = False) -> Manifest:
        self.open_retriever((), index)
        return Manifest(1, 4, ("/docs",), 155, 2, 22_900_000, "0" * 64)

    def import_index(
        self,
        file: str | Path,
        index: str | Path | None = None,
        docs: Sequence[str | Path] = (),
        *,
        replace: bool = False,
        encoder_url: str = "",
    ) -> Path:
        self.open_retriever(docs, index)
        return Path("/index")

    def forget_documents(
        self, references: Sequence[str], index: str | Path | None = None, *, undo: bool = False
    ) -> ForgetReport:
        self.open_retriever((), index)
        return ForgetReport("/index", tuple(references), 0 if undo else len(references), (), 0.1)

    def check_up(self, index: str | Path | None = None, **_: object) -> CheckUp:
        self.open_retriever((), index)
        return CheckUp((Finding("index", "index", "well", "/index"),))

    def open_history(self, index: str | Path | None = None) -> "FakeHistory":
        self.open_retriever((), index)
        return FakeHistory()


RECORD = {
    "asked_at": "2030-01-02T03:04:05+00:00",
    "question": "how?\x1b",
    "profile": "balanced",
    "verdict": "weak",
    "confidence": 0.25,
    "expansions": [{"text": "in which way?", "semantic_weight": 0.5, "keyword_weight": 0.5}],
    "hits": [hit_object(HIT, full=True)],
    "index": {"snapshot": 7},
    "degraded": ["semantic: no model"],
    "stages": [{"name": "dense", "milliseconds": 4.25, "note": ""}],
}


class FakeHistory:
    def queries(self) -> tuple[StoredQuery, ...]:
        return (StoredQuery(12, "2030-01-02T03:04:05+00:00", "how?\x1b", "weak", HIT.citation),)

    def record(self, key: int) -> dict[str, Any]:
        return {"id": key, **RECORD}

    def delete(self, key: int) -> None:
        pass

    def delete_all(self) -> int:
        return 3


@dataclass
class FakeRetriever:
    library: FakeLibrary
    profile: Profile = field(default_factory=Profile)
    llm_calls: int = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        pass

    def search(self, question: str, expansion: object = None, **grounding: object) -> Answer:
        self.library.asked.append(question)
        answers = self.library.answers
        return answers[min(len(self.library.asked), len(answers)) - 1]

    def context(
        self, question: str, max_tokens: int | None = None, expansion: object = None, **grounding: object
    ) -> AnswerInContext:
        found = self.search(question)
        sections = [section_of(hit) for hit in found.hits]
        context = build_context(sections, found.verdict, max_tokens or 4000, lambda text: len(text.split()))
        return AnswerInContext(found, context)

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

    def metrics(self) -> ExpansionMetrics:
        return ExpansionMetrics(4, 0.5, 0.25, 0.1, 1200.0, 3400.0, (Gain("set, full", 0.6, 0.9),))


def section_of(hit: Hit) -> Section:
    """The hit as a section of three lines."""
    text = "## After the response\n\nSend an email.\n"
    span = Span(hit.span.first, hit.span.first + 2)
    return Section(
        hit.node_id, hit.folder, hit.file, span, (*hit.breadcrumb, hit.title), text, hit.file, hit.rank, (span,)
    )


def install(monkeypatch: pytest.MonkeyPatch) -> FakeLibrary:
    """Puts a new one in the library's place."""
    library = FakeLibrary()
    module = ModuleType("retriever.api")
    module.open_retriever = library.open_retriever  # type: ignore[attr-defined]  # a module made by hand
    module.index_folders = library.index_folders  # type: ignore[attr-defined]  # as above
    module.check_up = library.check_up  # type: ignore[attr-defined]  # as above
    module.open_history = library.open_history  # type: ignore[attr-defined]  # as above
    module.watch_folders = library.watch_folders  # type: ignore[attr-defined]  # as above
    module.export_index = library.export_index  # type: ignore[attr-defined]  # as above
    module.import_index = library.import_index  # type: ignore[attr-defined]  # as above
    module.forget_documents = library.forget_documents  # type: ignore[attr-defined]  # as above
    monkeypatch.setitem(sys.modules, "retriever.api", module)
    # Nothing waits for clients, and no address but loopback is listened at.
    monkeypatch.setattr("retriever.serving.mcp_server.serve_stdio", lambda library: None)
    monkeypatch.setattr("retriever.command_line.serve.run_resident", lambda console, idle_minutes, **_: 0)
    monkeypatch.setattr("retriever.command_line.serve.resident_state", lambda: None)
    monkeypatch.setattr("retriever.serving.http.run", lambda app, listener, address: None)
    monkeypatch.setattr("retriever.serving.http.listen", lambda host, port: socket.create_server(("127.0.0.1", 0)))
    return library
