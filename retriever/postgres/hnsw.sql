-- The graph of near vectors that `vector_search: hnsw` walks, over those of the embedding model in force. The owner makes
-- it, and again after a change of the model: psql DATABASE -f hnsw.sql
\set ON_ERROR_STOP on
SET search_path TO hybrid_retrieve, public;
DROP INDEX IF EXISTS vectors_hnsw;
-- With pgvector's own m = 16, ef_construction = 64 a third of the questions lost one of forty texts; with these none did
-- (6,552 texts, 30 questions). 3.1 s in place of 2.3 s.
SELECT format(
    'CREATE INDEX vectors_hnsw ON vectors USING hnsw ((CAST(vector AS halfvec(%s))) halfvec_cosine_ops)'
    ' WITH (m = 24, ef_construction = 200) WHERE fingerprint = %L',
    vector_dims(vector), fingerprint
) FROM vectors JOIN meta ON value = fingerprint AND key = 'fingerprint' LIMIT 1 \gexec
