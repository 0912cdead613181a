-- What an index in PostgreSQL has besides the tables of schema.sql, or otherwise; who may see which rows is in rights.sql.
CREATE INDEX links_to ON links (target_id);

-- Whole numbers of [-127, 127], which 16 bits of a half float hold exactly: one column is what is compared, what HNSW
-- stands on, and what an exact cosine is computed from.
ALTER TABLE vectors DROP COLUMN vector_key, ALTER COLUMN vector TYPE halfvec USING CAST(NULL AS halfvec);
ALTER TABLE vectors ALTER COLUMN vector SET STORAGE PLAIN;
ALTER TABLE pending ADD COLUMN place bigint GENERATED ALWAYS AS IDENTITY;  -- SQLite's rowid

-- In place of lexical/ and spellings/ of a snapshot: what each document holds, so that whoever may not see some has the
-- statistics of the others alone.
ALTER TABLE documents
    ADD COLUMN sections bigint NOT NULL DEFAULT 0,
    ADD COLUMN length bigint NOT NULL DEFAULT 0;  -- how many words its sections have

CREATE TABLE postings (
    document_key bigint NOT NULL REFERENCES documents ON DELETE CASCADE,
    term bytea NOT NULL,
    block bytea NOT NULL,        -- its sections that hold the term: `POSTING` in retriever/lexical/table_index.py
    PRIMARY KEY (term, document_key)
);
CREATE INDEX postings_of_document ON postings (document_key);

CREATE TABLE words (
    document_key bigint NOT NULL REFERENCES documents ON DELETE CASCADE,
    word bytea NOT NULL,         -- as it is written, in lower case
    sections bigint NOT NULL,    -- how many hold it
    letters bigint NOT NULL,     -- `letters_of` in retriever/lexical/spelling.py
    PRIMARY KEY (word, document_key)
);
CREATE INDEX words_of_document ON words (document_key);
