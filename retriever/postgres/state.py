"""How PostgreSQL finds the nearest texts."""

from dataclasses import dataclass

from retriever.embedding.vectors import VectorSearch
from retriever.lexical.bm25 import IntArray
from retriever.store.database import Connection
from retriever.types import FloatMatrix

EF_SEARCH = 200  # nodes of the graph that a search keeps in view; pgvector's own is 40
CANDIDATES_FACTOR = 4  # times as many are taken from the graph as are left by their exact cosines


@dataclass
class TableVectors(VectorSearch):
    """The vectors in a database."""

    connection: Connection
    fingerprint: str
    node_keys: IntArray | None = None
    """Of the nodes whose texts are meant; None for all."""
    graph_length: int | None = None
    """Of the vectors, where they are searched by HNSW; else all are compared."""

    def search(self, query: FloatMatrix, limit: int) -> list[int]:
        """Do as `VectorSearch.search`."""
        wanted = str(query[0].tolist())
        parameters: list[object] = [wanted]
        among = "EXISTS (SELECT FROM chunks WHERE chunks.text_hash = vectors.text_hash)"
        if self.node_keys is not None:
            among = "text_hash IN (SELECT text_hash FROM chunks WHERE node_key = ANY(?))"
            parameters.append(self.node_keys.tolist())
        # The planner takes the graph of an encoder where it reads its name, not where that is a parameter.
        name = self.fingerprint.replace("'", "''")
        candidates = f"SELECT * FROM vectors WHERE fingerprint = '{name}' AND {among}"
        if self.graph_length:  # else every one is compared
            self.connection.execute(f"SET LOCAL hnsw.ef_search = {EF_SEARCH}")
            self.connection.execute("SET LOCAL hnsw.iterative_scan = relaxed_order")
            kind = f"halfvec({self.graph_length})"
            candidates += f" ORDER BY CAST(vector AS {kind}) <=> CAST(? AS {kind}) LIMIT ?"
            parameters += [wanted, CANDIDATES_FACTOR * limit]
        nearest = (
            "SELECT min(chunk_key) FROM (SELECT text_hash, CAST(vector AS vector) <=> CAST(? AS vector) AS distance"
            f" FROM ({candidates}) AS candidates ORDER BY distance LIMIT ?) AS near"
            " JOIN chunks USING (text_hash) GROUP BY text_hash"
        )
        return [key for (key,) in self.connection.execute(nearest, (*parameters, limit))]
