"""The public functions and the retriever, replaced by stand-ins that check their arguments and answer at once."""

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, create_autospec

import pytest

import retriever.api
from pageindex.node import Node, NodeKind, Span
from retriever.answering.sentences import choose_sentences
from retriever.archive import Manifest
from retriever.browse import Excerpt
from retriever.context.budget import build_context
from retriever.context.gather import AnswerInContext
from retriever.context.sections import Section
from retriever.display.json import dump_hit
from retriever.doctor import CheckUp, Finding
from retriever.expansion.cache import CacheContent, ExpansionMetrics, Gain
from retriever.history import QuestionLog
from retriever.indexes import ListedIndex
from retriever.indexing.forget import ForgetReport
from retriever.retriever import Retriever
from retriever.settings.schema import Profile
from retriever.status import Status
from retriever.store.postgres import Tables
from retriever.store.queries import StoredQuery
from retriever.types import (
    Answer,
    CitedSentence,
    DroppedSentence,
    IndexReport,
    ShortAnswer,
    SimilarSection,
    SimilarSections,
)
from retriever.watch import WatchEvent
from tests.answers import HIT, STATE, answer

REPORT = IndexReport(
    path="/index", folders=("/docs",), added=3, changed=1, moved=0, removed=2, unchanged=151, documents=155,
    sections=1203, chunks=3204, embedded=40, reused_vectors=2, skipped=(("bad.md", "it holds NUL bytes"),),
    seconds=4.13, snapshot=8,
)  # fmt: skip
RECORD = {
    "asked_at": "2030-01-02T03:04:05+00:00", "question": "how?\x1b", "profile": "balanced", "verdict": "weak",
    "confidence": 0.25, "hits": [dump_hit(HIT, full=True)], "index": {"snapshot": 7},
    "expansions": [{"text": "in which way?", "semantic_weight": 0.5, "keyword_weight": 0.5}],
    "degraded": ["semantic: no model"], "stages": [{"name": "semantic", "milliseconds": 4.25, "note": ""}],
}  # fmt: skip
HISTORY = create_autospec(QuestionLog, instance=True)
HISTORY.queries.return_value = (StoredQuery(12, "2030-01-02T03:04:05+00:00", "how?\x1b", "weak", HIT.citation),)
HISTORY.record.side_effect = lambda key: {"id": key, **RECORD}
HISTORY.delete_all.return_value = 3


@dataclass
class FakeLibrary:
    """What the functions return, and what they were called with."""

    answers: Sequence[Answer] = (answer(HIT),)
    """Given in turn; the last one again and again."""
    error: BaseException | None = None
    """Raised by every function."""
    opened: list[dict[str, Any]] = field(default_factory=list)
    """The documents, index, profile and settings of each call."""
    asked: list[str] = field(default_factory=list)
    retriever: MagicMock = field(default_factory=lambda: create_autospec(Retriever, instance=True))

    def search(self, question: str, *_: object, **__: object) -> Answer:
        self.asked.append(question)
        return self.answers[min(len(self.asked), len(self.answers)) - 1]

    def context(self, question: str, max_tokens: int | None = None, *_: object, **__: object) -> AnswerInContext:
        found = self.search(question)
        text, span = "## After the response\n\nSend an email.\n", Span(HIT.span.first, HIT.span.first + 2)
        sections = [
            Section(
                hit.node_id, hit.folder, hit.file, span, (*hit.breadcrumb, hit.title), text, hit.file, hit.rank, (span,)
            )
            for hit in found.hits
        ]
        context = build_context(sections, found.verdict, max_tokens or 4000, lambda text: len(text.split()))
        return AnswerInContext(found, context)

    def replace(self, name: str, result: object, monkeypatch: pytest.MonkeyPatch) -> None:
        """Puts a function that takes the same arguments in the place of one of `retriever.api`."""
        original: Callable[..., object] = getattr(retriever.api, name)

        def call(*positional: object, **named: object) -> object:
            given = signature(original).bind(*positional, **named)
            given.apply_defaults()
            wanted = ("docs", "index", "profile", "settings")
            self.opened.append({name: given.arguments[name] for name in wanted if name in given.arguments})
            if self.error is not None:
                raise self.error
            return result

        monkeypatch.setattr(retriever.api, name, call)

    def answer(
        self, question: str, *_: object, on_sentence: Callable[[CitedSentence], None] | None = None, **__: object
    ) -> ShortAnswer:
        found = self.search(question)
        sentences = choose_sentences(found.hits)
        for sentence in sentences:
            assert on_sentence is None or on_sentence(sentence) is None
        return ShortAnswer(found, sentences, (DroppedSentence("It\x1b lies.", "it says other things"),), "", "quoted")


def read_nodes(reference: str = "", depth: int | None = None) -> tuple[Node, ...]:
    if reference.startswith(HIT.file):
        return (Node(HIT.node_id, NodeKind.SECTION, HIT.file, HIT.title, 2, HIT.breadcrumb, HIT.span, HIT.text),)
    return (Node("a.md", NodeKind.FILE, "a.md", "A\x1b", 0, (), None, ""),)


def install(monkeypatch: pytest.MonkeyPatch) -> FakeLibrary:
    library = FakeLibrary()
    retriever = library.retriever
    retriever.__enter__.return_value = retriever
    retriever.profile, retriever.llm_calls, retriever.path = Profile(), 0, Path("/index")
    retriever.view.return_value.__enter__.return_value = MagicMock(embedded_share=1.0)
    retriever.search.side_effect = library.search
    retriever.context.side_effect = library.context
    retriever.answer.side_effect = library.answer
    retriever.tree.return_value = "/\n  guide/mail.md"
    retriever.nodes.side_effect = read_nodes
    retriever.read.return_value = Excerpt(
        HIT.node_id, HIT.folder, HIT.file, HIT.span, HIT.text, HIT.title, HIT.breadcrumb
    )
    near = SimilarSection(
        1, HIT.node_id, HIT.folder, HIT.file, HIT.span, HIT.title, HIT.breadcrumb, "It is.", 0.7, False
    )
    retriever.similar.return_value = SimilarSections("a.md", "a.md", "A\x1b", (near,))
    retriever.status.return_value = Status(STATE, "onnx all-MiniLM-L6-v2", 22_900_000, (), (), 3, 1.0)
    retriever.metrics.return_value = ExpansionMetrics(4, 0.5, 0.25, 0.1, 1200.0, 3400.0, (Gain("set, full", 0.6, 0.9),))
    for name, result in {
        "open_retriever": retriever,
        "index_folders": REPORT,
        "watch_folders": [WatchEvent((), REPORT), WatchEvent((("/docs", "a.md"),), REPORT)],
        "export_index": Manifest(1, 4, ("/docs",), 155, 2, 22_900_000, "0" * 64),
        "import_index": Path("/index"),
        "forget_documents": ForgetReport("/index", ("a.md",), 1, (), 0.1),
        "check_up": CheckUp((Finding("index", "index", "well", "/index"),)),
        "open_history": HISTORY,
        "list_indexes": (ListedIndex("docs", "/index", ("/docs",), (), 155, 22_900_000, 1_900_000_000.0),),
        "drop_index": Path("/index"),
        "make_postgres_tables": Tables("postgresql://me@db/notes", "hybrid_retrieve", 1, (1,)),
        "read_cache": CacheContent("/cache/expansions.sqlite", 12, 40, 22_000),
    }.items():
        library.replace(name, result, monkeypatch)
    monkeypatch.setattr(
        "retriever.indexing.places.find_several", lambda names: dict.fromkeys(names or ["docs"], "/index")
    )
    monkeypatch.setattr("retriever.indexes.find_named", Path)
    # Nothing waits for clients, and no address but loopback is listened at.
    monkeypatch.setattr("retriever.serving.mcp_server.serve_stdio", lambda library: None)
    monkeypatch.setattr("retriever.command_line.serve.open_browser", lambda *_: None)
    monkeypatch.setattr("retriever.command_line.serve.run_resident", lambda *_, **given: 0)
    monkeypatch.setattr("retriever.command_line.serve.read_resident_state", lambda: None)
    monkeypatch.setattr("retriever.serving.http.run", lambda app, listener, address: None)
    monkeypatch.setattr("retriever.serving.http.listen", lambda host, port: socket.create_server(("127.0.0.1", 0)))
    return library
