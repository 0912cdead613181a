"""One state of an index in PostgreSQL, where tables stand for the files of a snapshot."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from retriever.lexical.tables import TableLexical, TableSpellings
from retriever.searching.open_index import View
from retriever.types import FloatMatrix
from retriever.vectors.exact import Neighbours, VectorSearch


class TableView(View):
    """As `View`; nothing of it can be out of step with the rows, as it is rows itself."""

    @cached_property
    def lexical(self) -> TableLexical:
        """BM25 over the nodes."""
        return TableLexical(self.connection)

    @property
    def spellings(self) -> TableSpellings:
        """The words of the documents."""
        return TableSpellings(self.connection)

    @property
    def size_bytes(self) -> int:
        """Of the tables, with their indexes."""
        query = "SELECT CAST(coalesce(sum(pg_total_relation_size(oid)), 0) AS bigint) FROM pg_class"
        where = "relkind = 'r' AND relnamespace = CAST(current_schema() AS regnamespace)"
        return int(self.connection.execute(f"{query} WHERE {where}").fetchone()[0])

    @property
    def can_ask_chroma(self) -> bool:
        """Whether approximate search is of this state: an index of PostgreSQL always is."""
        return True

    @property
    def chroma(self) -> VectorSearch:
        """The nearest chunks by HNSW."""
        return self.scan

    @cached_property
    def scan(self) -> "TableVectors":  # type: ignore[override]  # a `VectorSearch`, too
        """The nearest chunks among all."""
        return TableVectors(self)


class TableVectors:
    """The exact cosine similarity to every vector, computed by the server."""

    def __init__(self, view: TableView) -> None:
        self._view = view
        self._found = 0

    def __len__(self) -> int:
        """How many the last search found: that is how many it compares with, where there are not enough."""
        return self._found

    def search(self, queries: FloatMatrix, limit: int) -> list[Neighbours]:
        """The nearest chunks of each row of `queries`, by the first chunk of each text."""
        return [self._find(query, limit) for query in queries]

    def close(self) -> None:
        """Nothing to release."""

    def _find(self, query: "np.ndarray[tuple[int], np.dtype[np.float32]]", limit: int) -> Neighbours:
        of_part: Sequence[object] = ()
        among = "EXISTS (SELECT FROM chunks WHERE chunks.text_hash = vectors.text_hash)"
        if self._view.part is not None:
            among = "text_hash IN (SELECT text_hash FROM chunks WHERE node_key = ANY(?))"
            of_part = [self._view.part.node_keys.tolist()]
        rows = self._view.connection.execute(
            "SELECT (SELECT min(chunk_key) FROM chunks WHERE chunks.text_hash = near.text_hash), 1 - distance FROM"
            " (SELECT text_hash, CAST(vector AS vector) <=> ? AS distance FROM vectors WHERE fingerprint = ?"
            f" AND {among} ORDER BY distance LIMIT ?) AS near",
            (query, self._view.fingerprint, *of_part, limit),
        ).fetchall()
        self._found = len(rows)
        return sorted(rows, key=lambda row: (-row[1], row[0]))
