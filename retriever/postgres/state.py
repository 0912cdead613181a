"""One state of an index in tables, as searches see it: the server finds the nearest texts."""

from retriever.places.view import View
from retriever.settings import APPROXIMATE, VectorChoice
from retriever.store.text_vectors import NEAR_TEXTS, NearChunk, near_chunks
from retriever.types import FloatMatrix

EF_SEARCH = 200  # nodes of the graph that a search keeps in view; pgvector's own is 40
CANDIDATES_FACTOR = 4  # times as many are taken from the graph as are left by their exact cosines


class TableView(View):
    """As `View`, whose vectors the server compares."""

    def find_nearest(self, vector: FloatMatrix, limit: int, how: VectorChoice) -> list[NearChunk]:
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
        return near_chunks(rows, vector, self.common)
