"""One state of an index in PostgreSQL, where tables stand for the files of a snapshot.

A question takes three round trips: whether its words are known, the nearest chunks, their documents, and the postings
of its words; the sections that words found, and where all of them link to; the tokens of the candidates, and what is
shown of the hits. What a later step needs is asked with the one before it (`foresee`); a slip that is mended costs one
more.
"""

from collections.abc import Sequence
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from retriever.indexing.background import Background, read_folder_background
from retriever.lexical.names import find_codes, spell_code, spell_member, spell_name
from retriever.lexical.tables import TableLexical, TableSpellings
from retriever.lexical.tokens import tokenize
from retriever.searching.names import MOST_ASKED
from retriever.searching.open_index import View
from retriever.settings.schema import APPROXIMATE, VectorChoice
from retriever.store import reading, text_vectors
from retriever.store.connection import Connection, Rows
from retriever.store.postgres import PostgresConnection
from retriever.store.postgres_pool import is_cluster
from retriever.types import FloatMatrix
from retriever.vectors.exact import Neighbours

EF_SEARCH = 200  # nodes of the graph that a search keeps in view; pgvector's own is 40
CANDIDATES_FACTOR = 4  # so many times more are taken from the graph than are left by their exact cosines

NEAR = "hybrid_retrieve.near"
"""The setting of a transaction that has the nodes of the nearest chunks."""


# Its own queries want all words at once, and would find nothing for most questions. The column says the language that
# its words were cut by.
SEARCH_TSVECTOR = (
    "SELECT node_key, CAST(ts_rank_cd(lexemes, query) AS double precision) AS score FROM nodes,"
    " (SELECT CAST(replace(CAST(plainto_tsquery(CAST(col_description(attrelid, attnum) AS regconfig), ?) AS text),"
    " '&', '|') AS tsquery) AS query FROM pg_attribute WHERE attrelid = CAST('nodes' AS regclass)"
    " AND attname = 'lexemes') AS asked"
    " WHERE lexemes @@ query AND first_line IS NOT NULL %s ORDER BY score DESC, node_key LIMIT ?"
)


class TableView(View):
    """As `View`; nothing of it can be out of step with the rows, as it is rows itself."""

    is_remote: ClassVar[bool] = True

    @classmethod
    def expect_state(cls, connection: Connection) -> None:
        """What is in force will be asked, and what an answer says of it."""
        assert isinstance(connection, PostgresConnection)
        for key in ("snapshot", "fingerprint", "index_config", "background"):
            connection.prefetch(partial(reading.meta, key=key))
        for ask in (text_vectors.pending_count, reading.folders, reading.skipped_count):
            connection.prefetch(ask)

    def expect_words(self, texts: Sequence[str]) -> None:
        """The postings of the words, and the sections of that name."""
        languages = self.lexical.detect_question(texts[0])
        self.lexical.expect([term for text in texts for term in tokenize(text, languages)])
        words = (texts[0], *find_codes(texts[0]))
        names = (spell_name(texts[0]), *(spell(word) for word in words for spell in (spell_code, spell_member)))
        for name in filter(None, dict.fromkeys(names)):
            self.postgres.prefetch(partial(reading.nodes_named, name=name, limit=MOST_ASKED))

    def expect_sections(self, node_keys: Sequence[int]) -> None:
        """What is shown for the sections, their documents, their links and those of the nearest chunks."""
        ask = self.postgres.foresee
        ask(partial(reading.shown_ids, node_keys=[]), "node_key", "SELECT CAST(? AS bigint[])", list(node_keys))
        shown = "SELECT coalesce(holder_id, node_id) FROM nodes WHERE node_key = ANY(CAST(? AS bigint[]))"
        ids = ask(partial(reading.boilerplate, node_ids=[]), "node_id", f"ARRAY({shown})", list(node_keys), kind="text")
        ask(partial(reading.nodes, node_ids=[]), "node_id", f"SELECT {ids}", kind="text")
        near = f"SELECT unnest(CAST(nullif(current_setting('{NEAR}', true), '') AS text[]))"
        direct = f"ARRAY(SELECT unnest({ids}) UNION {near})"
        direct = ask(partial(reading.documents_of_nodes, node_ids=[]), "node_id", direct, kind="text")
        ask(partial(reading.link_targets_of_nodes, node_ids=[]), "node_id", f"SELECT {direct}", kind="text")
        linked = (
            f"SELECT unnest({direct}) UNION SELECT target_id FROM links JOIN nodes AS source"
            f" ON source.node_key = source_key WHERE source.node_id = ANY({direct})"
        )
        self._expect_documents(
            f"SELECT array_agg(DISTINCT document_key) FROM nodes WHERE node_id = ANY(ARRAY({linked}))"
        )

    def expect_hits(self, node_ids: Sequence[str]) -> None:
        """The texts, the chunks and the documents of the sections."""
        ask, ids = self.postgres.foresee, list(node_ids)
        ask(partial(reading.nodes, node_ids=[]), "node_id", "SELECT CAST(? AS text[])", ids, kind="text")
        ask(partial(reading.chunks_of_nodes, node_ids=[]), "node_id", "SELECT CAST(? AS text[])", ids, kind="text")
        self.tree.load_nodes(ids)
        documents = sorted({self.tree.document_key(node_id) for node_id in ids})
        for read in (reading.documents_by_key, reading.fields):
            ask(partial(read, document_keys=[]), "document_key", "SELECT CAST(? AS bigint[])", documents)

    def _expect_documents(self, keys: str) -> None:
        loaded = list(self.tree.document_keys)
        more = f"{keys} AND document_key <> ALL(CAST(? AS bigint[]))"
        self.postgres.foresee(partial(reading.outlines, document_keys=[]), "document_key", more, loaded)

    @property
    def postgres(self) -> PostgresConnection:
        """The connection, as what it is."""
        assert isinstance(self.connection, PostgresConnection)
        return self.connection

    @cached_property
    def lexical(self) -> TableLexical:
        """BM25 over the nodes."""
        return TableLexical(self.connection)

    @cached_property
    def spellings(self) -> TableSpellings:  # kept: words are asked for once
        """The words of the documents."""
        return TableSpellings(self.connection)

    def search_tsvector(self, texts: Sequence[tuple[str, float]], limit: int) -> tuple[tuple[int, float], ...]:
        """(node key, score) of the sections that hold words of these texts, each with its weight, best first."""
        part = [] if self.part is None else [self.part.node_keys.tolist()]
        query = SEARCH_TSVECTOR % ("AND node_key = ANY(?)" if part else "")
        scores: dict[int, float] = {}
        for text, weight in texts:
            for key, score in self.connection.execute(query, (text, *part, limit)):
                scores[key] = scores.get(key, 0.0) + weight * score
        return tuple(sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:limit])

    @property
    def size_bytes(self) -> int:
        """Of the tables, with their indexes; of the documents, for who may not see all."""
        tables = (
            "SELECT sum(pg_total_relation_size(oid)) FROM pg_class"
            " WHERE relkind = 'r' AND relnamespace = CAST(current_schema() AS regnamespace)"
        )
        sees_all = "EXISTS (SELECT FROM meta WHERE key = 'background')"
        query = (
            f"SELECT CAST(CASE WHEN {sees_all} THEN ({tables}) ELSE (SELECT sum(size) FROM documents) END AS bigint)"
        )
        return int(self.connection.execute(query).fetchone()[0] or 0)

    @cached_property
    def background(self) -> Background | None:
        """What unrelated questions find among all, or in the folders that may be seen."""
        return super().background or read_folder_background(self.connection, self.fingerprint)

    @property
    def can_ask_chroma(self) -> bool:
        """Whether approximate search is of this state: an index of PostgreSQL always is."""
        return True

    def find_vectors(self, how: VectorChoice) -> "TableVectors":  # a `VectorSearch`, too
        """The nearest chunks by HNSW; of a part, of which its graph would find too few, those among all."""
        return TableVectors(self, is_exact=self.part is not None or how not in APPROXIMATE)

    def expect_nearest(self, vector: FloatMatrix, limit: int, how: VectorChoice) -> None:
        """The chunks nearest to this one vector, (1, d), will be searched for."""
        is_exact = how not in APPROXIMATE
        self.postgres.begun[vector.tobytes(), limit, is_exact] = self._ask_near(vector[0], limit, is_exact=is_exact)

    def find_near(self, query: npt.NDArray[np.float32], limit: int, *, is_exact: bool) -> Neighbours:
        """The first chunks of the nearest texts."""
        expected = None if self.part else self.postgres.begun.pop((query.tobytes(), limit, is_exact), None)
        found = expected or self._ask_near(query, limit, is_exact=is_exact)
        keys, similarities, _ = found.fetchone()
        return sorted(zip(keys, similarities, strict=True), key=lambda item: (-item[1], item[0]))

    def _ask_near(self, query: npt.NDArray[np.float32], limit: int, *, is_exact: bool) -> Rows:
        """Their keys and similarities, and what will be asked of them."""
        of_part: Sequence[object] = ()
        among = "EXISTS (SELECT FROM chunks WHERE chunks.text_hash = vectors.text_hash)"
        if self.part is not None:
            among = "text_hash IN (SELECT text_hash FROM chunks WHERE node_key = ANY(?))"
            of_part = [self.part.node_keys.tolist()]
        candidates = f"SELECT * FROM vectors WHERE fingerprint = ? AND {among}"
        # All vectors, unless the graph is asked: who asks for the exact ones, or for a part, gets every one compared.
        parameters = [query, self.fingerprint, *of_part]
        if not is_exact:
            for name, value in (("ef_search", EF_SEARCH), ("iterative_scan", "relaxed_order")):
                self.postgres.execute(f"SET LOCAL hnsw.{name} = {value}")
            # The planner takes the graph of an encoder where it reads its name, not where that is a parameter.
            name, kind = self.fingerprint.replace("'", "''"), f"halfvec({self.dimension})"
            candidates = (
                f"SELECT * FROM vectors WHERE fingerprint = '{name}' AND {among}"
                f" ORDER BY CAST(vector AS {kind}) <=> CAST(? AS {kind}) LIMIT ?"
            )
            parameters = [query, *of_part, query, CANDIDATES_FACTOR * limit]
        near = (
            "SELECT min(chunk_key) AS key, 1 - distance AS similarity"
            " FROM (SELECT text_hash, CAST(vector AS vector) <=> ? AS distance"
            f" FROM ({candidates}) AS candidates ORDER BY distance LIMIT ?) AS near"
            " JOIN chunks USING (text_hash) GROUP BY text_hash, distance"
        )
        both = "coalesce(array_agg(key), '{}') AS keys, coalesce(array_agg(similarity), '{}') AS similarities"
        found = self.postgres.execute(
            f"SELECT keys, similarities, set_config('{NEAR}_chunks', CAST(keys AS text), true)"
            f" FROM (SELECT {both} FROM ({near}) AS near) AS found",
            (*parameters, limit),
        )
        # A cluster's nodes know nothing of one another's settings: there each statement waits for the one before.
        if is_cluster(self.postgres.address):
            return found
        ask, chunks = self.postgres.foresee, f"CAST(current_setting('{NEAR}_chunks') AS bigint[])"
        ask(
            partial(text_vectors.chunk_vectors, fingerprint=self.fingerprint, chunk_keys=[]),
            "chunk_key",
            f"SELECT {chunks}",
        )
        ask(partial(text_vectors.alike, chunk_keys=[]), "chunk_key", f"SELECT {chunks}")
        alike = (
            "SELECT array_agg(other.chunk_key) FROM chunks AS named JOIN chunks AS other USING (text_hash)"
            f" WHERE named.chunk_key = ANY({chunks})"
        )
        every = ask(partial(reading.chunks, chunk_keys=[]), "chunk_key", alike)
        of_chunks = f"FROM chunks JOIN nodes USING (node_key) WHERE chunk_key = ANY({every})"
        ids = f"CAST(ARRAY(SELECT coalesce(holder_id, node_id) {of_chunks}) AS text)"
        self.postgres.execute(f"SELECT set_config('{NEAR}', {ids}, true)")
        near = f"SELECT CAST(current_setting('{NEAR}') AS text[])"
        ask(partial(reading.boilerplate, node_ids=[]), "node_id", near, kind="text")
        return found


class TableVectors:
    """The cosine similarity to every vector, or to those that HNSW leads to, computed by the server."""

    def __init__(self, view: TableView, *, is_exact: bool) -> None:
        self._view, self._is_exact = view, is_exact
        self._found = 0

    def __len__(self) -> int:
        """How many the last search found: that is how many it compares with, where there are not enough."""
        return self._found

    def search(self, queries: FloatMatrix, limit: int) -> list[Neighbours]:
        """The nearest chunks of each row of `queries`, by the first chunk of each text."""
        found = [self._view.find_near(query, limit, is_exact=self._is_exact) for query in queries]
        self._found = len(found[-1]) if found else 0
        return found

    def close(self) -> None:
        """Nothing to release."""
