"""The summaries that a language model writes for an index, each kept as soon as it is there.

They are kept by the text that was read, the model and what it was asked, so that nothing is written twice: not after an
interruption, and not when a text moves. A section without one has its first sentences; the next `index` goes on.
"""

import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pageindex.node import Node
from retriever.errors import GeneratorError, NoGeneratorError, NoModelError, TaskTooLongError, WrongAnswerError
from retriever.indexing.generation import Difference, build_generation, remove_old_generations
from retriever.indexing.locks import writer_lock
from retriever.indexing.recipe import IndexRequest
from retriever.settings.stages import SummarySettings
from retriever.store import reading, writing, written
from retriever.store.database import create_database, foreign_errors, transaction
from retriever.types import IndexReport, Progress

if TYPE_CHECKING:
    from retriever.llm.task import Generator

FAILURES_IN_A_ROW = 3
"""Sections that the model fails for, one after the other, before it is taken to be away."""


@dataclass(frozen=True, slots=True)
class SummaryReport:
    """What became of the summaries that a language model was to write."""

    writer: str
    """The model."""
    written: int
    known: int
    """Texts whose summaries had been written before, or could not be used before."""
    unusable: int
    """What it wrote for so many texts cannot be used: they keep their first sentences."""
    missing: int
    """Texts that it has not read yet, because it failed; the next `index` goes on with them."""
    reason: str
    """Why it failed last; empty when it did not."""
    generation: int
    """The one in force with these summaries."""


@dataclass(slots=True)
class _Written:
    """What became of the sections that had no summary."""

    summaries: dict[bytes, str] = field(default_factory=dict)
    """By the hash of what was read; empty ones cannot be used."""
    reason: str = ""
    """Why the last of those failed that have none."""


def summarize_index(request: IndexRequest, report: IndexReport, progress: Progress) -> IndexReport:
    """Has what an index lacks of summaries written, if that is wanted; the report with what came of it.

    Raises:
        IndexUnusableError: the index is locked, damaged, or the disk is full or read-only.
    """
    settings = request.profile.summaries
    if settings.kind != "llm":
        return report
    from retriever.llm import open_generator  # pydantic, and later an HTTP client: not for who reads an index

    started = time.perf_counter()
    model = replace(request.profile.llm, model=settings.model or request.profile.llm.model)
    with (
        writer_lock(request.index, request.wait_s),
        foreign_errors(request.index),
        closing(create_database(request.index)) as connection,
    ):
        summaries = write_summaries(connection, request.index, settings, lambda: open_generator(model), progress)
    seconds = report.seconds + time.perf_counter() - started
    return replace(report, seconds=seconds, generation=summaries.generation, summaries=summaries)


def write_summaries(
    connection: sqlite3.Connection,
    index: Path,
    settings: SummarySettings,
    opened: "Callable[[], Generator]",
    progress: Progress,
) -> SummaryReport:
    """Has the missing summaries written, and puts a generation in force that has them; for the one writer.

    Args:
        connection: of the writer, in no transaction.
        index: the index's folder.
        settings: which sections get one.
        opened: the language model; asked for anew after a failure, so that it does not rest.
        progress: told of the sections.
    """
    from retriever.indexing.summaries import VERSION

    generator = opened()
    writer = f"{generator.name} {VERSION}"
    wanted = {stored.key: text_read(stored.node) for stored in _deserving(connection, settings)}
    known = written.known(connection, writer)
    missing = {text: key for key, text in wanted.items() if text not in known}
    new = _write(connection, missing, writer, opened, progress)
    _put_in_force(connection, index, wanted, known | new.summaries, writer)
    return SummaryReport(
        writer=generator.name,
        written=sum(map(bool, new.summaries.values())),
        known=len(set(wanted.values()) & known.keys()),
        unusable=sum(not text for text in new.summaries.values()),
        missing=len(missing) - len(new.summaries),
        reason=new.reason,
        generation=reading.generation_number(connection),
    )


def apply_known_summaries(
    connection: sqlite3.Connection, settings: SummarySettings, document_keys: Sequence[int]
) -> None:
    """Gives new rows of documents the summaries that were written for the same texts before, if they are wanted."""
    writer = reading.meta(connection, "summaries")
    if writer is None or settings.kind != "llm":
        return
    known = written.known(connection, writer)
    nodes = reading.rankable_nodes(connection, reading.rankable_keys(connection, document_keys))
    written.set_of_nodes(connection, _different(nodes, known))


def text_read(node: Node) -> bytes:
    """Names what the model reads of a node."""
    return writing.text_hash("\x00".join((*node.breadcrumb, node.title, node.body)))


def remove_unread_summaries(connection: sqlite3.Connection) -> None:
    """Forgets the summaries of texts that no document has any more."""
    there = {text_read(stored.node) for stored in reading.rankable_nodes(connection)}
    written.keep_only(connection, there)


def _deserving(connection: sqlite3.Connection, settings: SummarySettings) -> Iterator[reading.StoredNode]:
    """Sections whose text is much longer than a summary, the shortest first.

    So what takes a model too long, the longest ones, comes last and keeps no others from having theirs.
    """
    sizes = [(len(stored.node.body), stored.key) for stored in reading.rankable_nodes(connection)]
    for _, key in sorted(pair for pair in sizes if pair[0] >= settings.min_chars):
        yield from reading.rankable_nodes(connection, [key])


def _write(
    connection: sqlite3.Connection,
    missing: Mapping[bytes, int],
    writer: str,
    opened: "Callable[[], Generator]",
    progress: Progress,
) -> _Written:
    found = _Written()
    generator, failures = opened(), 0
    progress.start("summaries", len(missing), "sections")
    for done, (text, key) in enumerate(missing.items(), start=1):
        try:
            summary = _written(connection, key, generator)
        except GeneratorError as error:
            found.reason, failures, generator = str(error), failures + 1, opened()
            if failures == FAILURES_IN_A_ROW or isinstance(error, NoGeneratorError | NoModelError):
                break
        else:
            failures, found.summaries[text] = 0, summary
            with transaction(connection):
                written.put(connection, writer, text, summary)
        progress.advance("summaries", done)
    progress.finish("summaries")
    return found


def _written(connection: sqlite3.Connection, key: int, generator: "Generator") -> str:
    """Empty also where the same model would fail in the same way the next time."""
    from retriever.indexing.summaries import written_summary

    (stored,) = reading.rankable_nodes(connection, [key])
    try:
        return written_summary(stored.node, generator)
    except (WrongAnswerError, TaskTooLongError):
        return ""


def _put_in_force(
    connection: sqlite3.Connection, index: Path, keys: Mapping[int, bytes], known: Mapping[bytes, str], writer: str
) -> None:
    """The summaries into the rows and, without embedding a text, into a new generation, both or neither."""
    number = reading.generation_number(connection)
    with transaction(connection):
        changed = _different(reading.rankable_nodes(connection, keys), known)
        writing.set_meta(connection, "summaries", writer)
        if not changed:
            return
        written.set_of_nodes(connection, changed)
        difference = Difference(list(changed), list(changed), (), ())
        fingerprint = reading.meta(connection, "fingerprint") or ""
        seal = build_generation(connection, index, number + 1, fingerprint, difference)
        for key, value in (("generation", str(number + 1)), ("seal", seal)):
            writing.set_meta(connection, key, value)
    remove_old_generations(index, number + 1)


def _different(nodes: Iterator[reading.StoredNode], known: Mapping[bytes, str]) -> dict[int, str]:
    """Node keys to the summaries that they do not have yet."""
    found = ((stored.key, stored.node.summary, known.get(text_read(stored.node))) for stored in nodes)
    return {key: summary for key, old, summary in found if summary and summary != old}
