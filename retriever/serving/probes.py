"""What those who run servers ask of them: whether the process lives, whether it can answer, and what it has done.

None of it waits for a question that is being answered. The metrics are in Prometheus' text format.
"""

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from anyio import move_on_after, to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from retriever.errors import (
    EncoderError,
    IndexVersionError,
    NoIndexError,
    NotReadyError,
    RetrieverError,
    StorageError,
)

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from retriever.indexing.queue import Queue
    from retriever.serving.pool import ServedIndex, ServedIndexes

log = logging.getLogger(__name__)

READY_SECONDS = 3.0  # for the database to answer; who asks waits 5 or 10
QUESTIONS = frozenset({"/api/search", "/api/answer", "/answer", "/mcp"})
BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)  # seconds
METRICS_TYPE = "text/plain; version=0.0.4"
NO_STORE = {"Cache-Control": "no-store"}

# What anybody may be told: nothing of where the database is, or of who asks it. The log has the whole sentence.
REASONS: dict[type[Exception], str] = {
    IndexVersionError: "the tables are of another version than this program: run postgres init, or update the program",
    NoIndexError: "there is no index yet: run postgres init and index, or index FOLDER",
    StorageError: "the database or the disk of the index does not answer as it should",
    EncoderError: "the embedding model cannot be loaded",
    NotReadyError: "the index and the embedding model are being opened",
    RetrieverError: "the index cannot be opened",
}


class Meter:
    """Counts questions: the answers by status, how long they took, and those that are being answered."""

    def __init__(self) -> None:
        self._answers: Counter[tuple[str, int]] = Counter()  # by path and status
        self._seconds: list[int] = [0] * len(BUCKETS)  # how many took no longer than that
        self._sum_s = 0.0
        self._in_flight = 0

    def measure(self, app: "ASGIApp") -> "ASGIApp":
        """The application, its questions counted."""

        async def measured(scope: "Scope", receive: "Receive", send: "Send") -> None:
            is_question = scope["type"] == "http" and (
                scope["path"] in QUESTIONS or (scope["path"] == "/" and b"question=" in scope["query_string"])
            )
            if not is_question:
                await app(scope, receive, send)
                return
            status, begun = 500, time.perf_counter()

            async def note(message: "Message") -> None:
                nonlocal status
                status = message.get("status", status)
                await send(message)

            self._in_flight += 1
            try:
                await app(scope, receive, note)
            except asyncio.CancelledError:  # by the guard, which then says so
                status = 504
                raise
            finally:
                seconds = time.perf_counter() - begun
                self._in_flight -= 1
                self._answers[scope["path"], status] += 1
                self._sum_s += seconds
                for place, most in enumerate(BUCKETS):
                    self._seconds[place] += seconds <= most

        return measured

    def describe(self) -> str:
        """All of it as Prometheus reads it."""
        count = self._answers.total()
        buckets = [(f'_bucket{{le="{most}"}}', found) for most, found in zip(BUCKETS, self._seconds, strict=True)]
        answers = [
            (f'{{path="{path}",status="{status}"}}', found) for (path, status), found in sorted(self._answers.items())
        ]
        seconds = [*buckets, ('_bucket{le="+Inf"}', count), ("_sum", round(self._sum_s, 6)), ("_count", count)]
        return "".join(
            (
                describe_metric("questions_total", "counter", "Questions that were answered.", answers),
                describe_metric("question_seconds", "histogram", "How long the answers took.", seconds),
                describe_metric("questions_in_flight", "gauge", "Those being answered.", [("", self._in_flight)]),
            )
        )


def describe_queues(queues: "Mapping[str, Queue]") -> str:
    """What waits for workers, by the name of the index; nothing where no index has a queue."""
    if not queues:
        return ""
    waiting = [
        (f'{{index={json.dumps(name, ensure_ascii=False)},state="{state}"}}', count)
        for name, queue in sorted(queues.items())
        for state, count in (("queued", queue.queued), ("running", queue.running), ("failed", len(queue.failed)))
    ]
    done = [
        (f"{{index={json.dumps(name, ensure_ascii=False)}}}", queue.indexed) for name, queue in sorted(queues.items())
    ]
    return describe_metric("queue_documents", "gauge", "Documents that workers have to do.", waiting) + describe_metric(
        "queue_indexed_total", "counter", "Documents that workers have done.", done
    )


def describe_metric(name: str, kind: str, about: str, samples: Iterable[tuple[str, float]]) -> str:
    """One metric in Prometheus' text format; a sample is what follows the name, and its value."""
    whole = f"hybrid_retrieve_{name}"
    lines = [f"# HELP {whole} {about}", f"# TYPE {whole} {kind}", *(f"{whole}{end} {value}" for end, value in samples)]
    return "\n".join(lines) + "\n"


def list_probes(index: "ServedIndex | ServedIndexes", meter: Meter) -> list[Route]:
    """The addresses that are asked; 503 where the server cannot answer questions now."""
    told = ""  # the last trouble, so that the log has it once

    async def answer_health(_: Request) -> Response:
        return JSONResponse({"status": "ok"}, headers=NO_STORE)

    async def answer_readiness(_: Request) -> Response:
        nonlocal told
        trouble: RetrieverError = StorageError(f"the database did not answer within {READY_SECONDS:g} s")
        with move_on_after(READY_SECONDS):
            try:
                await to_thread.run_sync(index.check_ready, abandon_on_cancel=True)
                told = ""
                return await answer_health(_)
            except RetrieverError as error:
                trouble = error
        if told != str(trouble):
            told = str(trouble)
            log.warning("not ready: %s", told)
        reason = next(sentence for kind, sentence in REASONS.items() if isinstance(trouble, kind))
        return JSONResponse({"error": reason}, 503, NO_STORE | {"Retry-After": "1"})

    async def answer_metrics(_: Request) -> Response:
        queues: dict[str, Queue] = {}
        with move_on_after(READY_SECONDS), suppress(RetrieverError):  # what this process counted is told without it
            queues = await to_thread.run_sync(index.read_queues, abandon_on_cancel=True)
        text = meter.describe() + describe_queues(queues)
        return PlainTextResponse(text, headers=NO_STORE, media_type=METRICS_TYPE)

    return [
        Route("/healthz", answer_health),
        Route("/readyz", answer_readiness),
        Route("/metrics", answer_metrics),
    ]
