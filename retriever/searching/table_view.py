"""One state of an index in PostgreSQL, where tables stand for the files of a snapshot."""

from collections.abc import Sequence
from functools import cached_property

from retriever.lexical.table_index import TableLexical, TableSpellings
from retriever.searching.view import View
from retriever.settings.schema import APPROXIMATE, VectorChoice
from retriever.store.text_vectors import NEAR_TEXTS, NearText, near_texts
from retriever.types import FloatMatrix

EF_SEARCH = 200  # nodes of the graph that a search keeps in view; pgvector's own is 40
CANDIDATES_FACTOR = 4  # times as many are taken from the graph as are left by their exact cosines

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

    def open_lexical(self) -> TableLexical:
        """Return BM25 over the postings in the tables."""
        return TableLexical(self.connection)

    @cached_property
    def spellings(self) -> TableSpellings:  # kept: words are asked for once
        """The words of the documents."""
        return TableSpellings(self.connection)

    def search_tsvector(self, texts: Sequence[tuple[str, float]], limit: int) -> tuple[tuple[int, float], ...]:
        """Return (node key, score) of the sections that hold words of these weighted texts, best first."""
        part = [] if self.part is None else [self.part.node_keys.tolist()]
        query = SEARCH_TSVECTOR % ("AND node_key = ANY(?)" if part else "")
        scores: dict[int, float] = {}
        for text, weight in texts:
            for key, score in self.connection.execute(query, (text, *part, limit)):
                scores[key] = scores.get(key, 0.0) + weight * score
        return tuple(sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:limit])

    def find_nearest(self, vector: FloatMatrix, limit: int, how: VectorChoice) -> list[NearText]:
        """Return the nearest texts, which the server finds: by HNSW, or among all and in a part."""
        query, is_exact = str(vector[0].tolist()), self.part is not None or how not in APPROXIMATE
        among, of_part = "EXISTS (SELECT FROM chunks WHERE chunks.text_hash = vectors.text_hash)", []
        if self.part is not None:
            among = "text_hash IN (SELECT text_hash FROM chunks WHERE node_key = ANY(?))"
            of_part = [self.part.node_keys.tolist()]
        candidates = f"SELECT * FROM vectors WHERE fingerprint = ? AND {among}"
        # All vectors, unless the graph is asked: an exact search, or one of a part, compares every one.
        parameters = [query, self.state.fingerprint, *of_part]
        if not is_exact:
            self.connection.execute(f"SET LOCAL hnsw.ef_search = {EF_SEARCH}")
            self.connection.execute("SET LOCAL hnsw.iterative_scan = relaxed_order")
            # The planner takes the graph of an encoder where it reads its name, not where that is a parameter.
            name, kind = self.state.fingerprint.replace("'", "''"), f"halfvec({self.dimension})"
            candidates = (
                f"SELECT * FROM vectors WHERE fingerprint = '{name}' AND {among}"
                f" ORDER BY CAST(vector AS {kind}) <=> CAST(? AS {kind}) LIMIT ?"
            )
            parameters = [query, *of_part, query, CANDIDATES_FACTOR * limit]
        nearest = (
            "IN (SELECT min(chunk_key) FROM (SELECT text_hash, CAST(vector AS vector) <=> CAST(? AS vector) AS distance"
            f" FROM ({candidates}) AS candidates ORDER BY distance LIMIT ?) AS near"
            " JOIN chunks USING (text_hash) GROUP BY text_hash)"
        )
        rows = self.connection.execute(NEAR_TEXTS % nearest, (self.state.fingerprint, *parameters, limit))
        return near_texts(rows, vector, self.common)
