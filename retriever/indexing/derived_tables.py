"""What a snapshot's files are for a folder, parts of postings are in PostgreSQL: rows that each commit adds.

Rows are only added, so that no writer waits for another's: what was removed comes again with a count of 0. When there
are many parts, they are merged. A question reads them in one snapshot of the database, with the documents they are of.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from retriever.display.phrases import pluralize
from retriever.indexing.derived import NO_PROGRESS, Derived, NodeChanges
from retriever.indexing.snapshot import read_texts, tokenize_texts
from retriever.lexical import tokens as tokenizer
from retriever.lexical.bm25 import FORMAT
from retriever.lexical.postings import Postings, merge_postings, no_postings
from retriever.lexical.spelling import list_words
from retriever.lexical.table_index import pack_block, signed_letters, unpack_blocks
from retriever.protocols import Progress
from retriever.store import reading, text_vectors, writing
from retriever.store.connection import Connection
from retriever.store.tables import make_hnsw

MOST_PARTS = 32  # of a folder: a question reads so many rows for each of its words

log = logging.getLogger(__name__)

VERSION = f"{FORMAT} {tokenizer.RULES}"


def clear_parts(connection: Connection) -> None:
    for table in ("parts", "postings", "words"):
        connection.execute(f"DELETE FROM {table}")
    writing.set_meta(connection, "lexical_version", VERSION)


def add_part(
    connection: Connection,
    tokens: Mapping[int, Sequence[str]],
    words: Mapping[int, Sequence[str]],
    *,
    is_removal: bool = False,
) -> None:
    """The words of these sections, by their keys: `tokens` as BM25 reads them, `words` as they are written."""
    if not tokens:
        return
    sign = -1 if is_removal else 1
    # Of a sequence: no two writers get the same number, and neither waits for the other.
    (part,) = connection.execute("SELECT nextval('part_numbers')").fetchone()
    folders = reading.folders_of_nodes(connection, tokens)
    for folder in sorted(set(folders.values())):
        own = [key for key in tokens if folders[key] == folder]
        postings = merge_postings(no_postings(), (), {key: tokens[key] for key in own})
        size = (folder, part, sign * len(own), sign * int(postings.lengths.sum()))
        connection.execute("INSERT INTO parts (folder_key, part, sections, length) VALUES (?, ?, ?, ?)", size)

        def pack(rows: slice, postings: Postings = postings) -> bytes:
            places = postings.rows[rows]
            counts = postings.counts[rows] * (not is_removal)
            return pack_block(postings.keys[places], counts, postings.lengths[places])

        _insert(connection, "postings", "term", "block", (folder, part, sign), postings, lambda _, rows: pack(rows))
        written = merge_postings(no_postings(), (), {key: words[key] for key in own})
        letters: Callable[[bytes, slice], object] = lambda word, _: signed_letters(word)  # noqa: E731
        _insert(connection, "words", "word", "letters", (folder, part, sign), written, letters)


def _insert(
    connection: Connection,
    table: str,
    name: str,
    value: str,
    part: tuple[int, int, int],
    postings: Postings,
    make: "Callable[[bytes, slice], object]",
) -> None:
    folder, number, sign = part
    starts = postings.starts.tolist()
    columns = zip(postings.terms(), starts, starts[1:], strict=False)
    rows = [
        (folder, number, term, sign * (last - first), make(term, slice(first, last))) for term, first, last in columns
    ]
    query = f"INSERT INTO {table} (folder_key, part, {name}, sections, {value}) VALUES (?, ?, ?, ?, ?)"
    connection.executemany(query, rows)


def merge_parts(connection: Connection) -> None:
    """One row for each word and folder where there were several, once some folder has many parts."""
    query = "SELECT coalesce(max(n), 0) FROM (SELECT count(*) AS n FROM parts GROUP BY folder_key) AS folders"
    if connection.execute(query).fetchone()[0] <= MOST_PARTS:
        return
    several = connection.execute(
        "SELECT folder_key, term, max(part), array_agg(block ORDER BY part) FROM postings"
        " GROUP BY folder_key, term HAVING count(*) > 1"
    ).fetchall()
    # A merged row has the number of its youngest part: what is added from now on is younger still.
    merged = []
    for folder, term, part, blocks in several:
        keys, counts, lengths = unpack_blocks(blocks)
        if len(keys):
            merged.append((folder, part, term, len(keys), pack_block(keys, counts, np.asarray(lengths))))
    connection.executemany("DELETE FROM postings WHERE folder_key = ? AND term = ?", [row[:2] for row in several])
    query = "INSERT INTO postings (folder_key, part, term, sections, block) VALUES (?, ?, ?, ?, ?)"
    connection.executemany(query, merged)
    for table, keys_, sums in (
        ("words", "folder_key, word, letters", ("sections",)),
        ("parts", "folder_key", ("sections", "length")),
    ):
        added = ", ".join(f"CAST(sum({name}) AS bigint)" for name in sums)
        grouped = f"SELECT {keys_}, max(part), {added} FROM {table} GROUP BY {keys_} HAVING sum(sections) <> 0"
        rows = connection.execute(grouped).fetchall()
        connection.execute(f"DELETE FROM {table}")
        columns = [*keys_.split(", "), "part", *sums]
        query = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
        connection.executemany(query, rows)


_RANKABLE = "SELECT node_key FROM nodes WHERE first_line IS NOT NULL ORDER BY node_key"


class DerivedTables(Derived):
    """The postings and the graph of an index in PostgreSQL."""

    def is_whole(self, connection: Connection) -> bool:
        """Return whether the postings were made by the rules of this version."""
        return reading.meta(connection, "lexical_version") == VERSION

    def withdraw(self, connection: Connection, node_keys: Sequence[int]) -> None:
        """Add what these sections hold as gone."""
        _write_words(connection, node_keys, NO_PROGRESS, is_removal=True)

    def build(
        self,
        connection: Connection,
        fingerprint: str,
        difference: NodeChanges | None,
        progress: Progress = NO_PROGRESS,
    ) -> int:
        """Add the words of new sections; of a difference, the old ones were withdrawn before."""
        if difference is None:
            clear_parts(connection)
        keys = [stored for (stored,) in connection.execute(_RANKABLE)] if difference is None else difference.added
        _write_words(connection, keys, progress)
        merge_parts(connection)
        writing.set_meta(connection, "fingerprint", fingerprint)
        return number_state(connection)

    def examine(self, connection: Connection) -> Iterator[tuple[str, str, str]]:
        """Ask whether the postings are of all sections, and of this version."""
        (found,) = connection.execute("SELECT CAST(coalesce(sum(sections), 0) AS bigint) FROM parts").fetchone()
        sections = reading.counts(connection).sections
        problem = "" if self.is_whole(connection) else "the postings are of another version"
        if found != sections:
            problem = f"the postings are of {found:,} of {pluralize(sections, 'section')}"
        yield "words", problem, pluralize(sections, "section")

    def update_graph(self, connection: Connection, progress: Progress = NO_PROGRESS) -> None:
        """Make the graph where there is none; the server keeps it up to date."""
        if not text_vectors.pending_count(connection):
            make_graph(connection)


def number_state(connection: Connection) -> int:
    """Give what a transaction makes its number.

    It is never that of another state, also after an import or in tables that were made anew: what other processes keep
    of a state, they keep by its number.
    """
    number = int(connection.execute("SELECT CAST(CAST(pg_current_xact_id() AS text) AS bigint)").fetchone()[0])
    writing.set_meta(connection, "snapshot", str(number))
    return number


def make_graph(connection: Connection) -> None:
    """Make HNSW over the vectors of a database; only the owner of the tables can."""
    fingerprint = reading.meta(connection, "fingerprint") or ""
    dimension = text_vectors.dimension(connection, fingerprint)
    if dimension and not make_hnsw(connection, fingerprint, dimension):
        log.warning("note: only the owner of the tables can make the index of near vectors: postgres init")


def _write_words(
    connection: Connection, node_keys: Sequence[int], progress: Progress, *, is_removal: bool = False
) -> None:
    texts = read_texts(connection, node_keys)
    words = list_words({key: item.written for key, item in texts.items()})
    add_part(connection, tokenize_texts(texts, progress), words, is_removal=is_removal)
