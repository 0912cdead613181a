"""What was asked of an index and what it answered, kept in the index where the user wants it; off by default.

A question is written after it was answered, in a transaction of its own: readers are not disturbed, and where it cannot
be written (a read-only index, a writer at work) the answer says so and is the same otherwise.
"""

import logging
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from retriever.arguments import check_arguments
from retriever.display.json import dump
from retriever.errors import CommandHint, IndexUnusableError, UsageError
from retriever.indexes import find_index
from retriever.indexing.request import WAIT_FOR_WRITER_S
from retriever.store import recorded
from retriever.store.recorded import StoredQuery
from retriever.store.store import Store
from retriever.types import Answer, Degradation, StageName

WAIT_S = 0.2  # an answer waits no longer for another writer, and then goes unrecorded

log = logging.getLogger(__name__)


def record_answer(store: Store, answer: Answer) -> Answer:
    """Record an answer and return it; where that fails, it says so."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    # All that the answer said, so that a record explains itself when the documents have changed.
    record = {"asked_at": now, **dump(answer, "trace"), "stages": dump(answer.trace.stages)}
    citation = answer.hits[0].citation if answer.hits else None
    query = StoredQuery(0, now, answer.question, answer.verdict, citation)
    try:
        with store.append(WAIT_S) as connection:
            recorded.put_query(connection, query, record)
    except IndexUnusableError as error:
        return replace(answer, degraded=(*answer.degraded, Degradation(StageName.RECORD, str(error))))
    return answer


def count_opening(store: Store, node_id: str) -> None:
    """Count one opening of a section; a failure is logged, for what was opened is there all the same."""
    try:
        with store.append(WAIT_S) as connection:
            recorded.note_opened(connection, node_id)
    except IndexUnusableError as error:
        log.warning("record: %s", error)


class QuestionLog:
    """The recorded questions of one index."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def queries(self) -> tuple[StoredQuery, ...]:
        """Return all of them, the youngest first.

        Raises:
            NoIndexError: there is no index.
            IndexUnusableError: or one of its other kinds.
        """
        with self.store.read() as connection:
            return recorded.queries(connection)

    def record(self, key: int) -> dict[str, Any]:
        """Return all that was kept of one: its expansions, hits, timings and what was searched.

        Raises:
            UsageError: there is no such question.
        """
        with self.store.read() as connection:
            record = recorded.query_record(connection, key)
        if record is None:
            raise UsageError(f"no question {key} is recorded", hint=CommandHint("history", "to see what is, run"))
        return {"id": key, **record}

    def delete(self, key: int) -> None:
        """Remove one, from every file of the index.

        Raises:
            UsageError: there is no such question.
            IndexLockedError: it is removed, but a process that reads the index keeps its text in the log.
        """
        with self.store.delete(WAIT_FOR_WRITER_S) as connection:
            removed = recorded.remove_query(connection, key)
        if not removed:
            raise UsageError(f"no question {key} is recorded", hint=CommandHint("history", "to see what is, run"))

    def delete_all(self) -> int:
        """Remove all, and what was opened, from every file of the index; return how many questions that were.

        Raises:
            IndexLockedError: as `delete`.
        """
        with self.store.delete(WAIT_FOR_WRITER_S) as connection:
            return recorded.remove_all(connection)


@check_arguments
def open_history(index: str | Path | None = None) -> QuestionLog:
    """Return the questions that were recorded in an index.

    Args:
        index: the index's folder, found as in `open_retriever`.

    Raises:
        NoIndexError: nothing was named, and nothing has been indexed yet.
    """
    return QuestionLog(find_index((), index).index)
