-- What an index in PostgreSQL has besides the tables of schema.sql, or otherwise; who may see which rows is in rights.sql.
-- The key of a node, and of a chunk, begins with that of its document: (document_key << 24) + its place. So a document is
-- written without asking for keys, its rows stand together, and the document of a row is known from its key.
ALTER TABLE nodes ALTER COLUMN node_key DROP IDENTITY;
ALTER TABLE chunks ALTER COLUMN chunk_key DROP IDENTITY;
CREATE INDEX links_to ON links (target_id);

-- Whole numbers of [-127, 127], which 16 bits of a half float hold exactly: one column is what is compared, what HNSW
-- stands on, and what an exact cosine is computed from.
ALTER TABLE vectors DROP COLUMN vector_key, ALTER COLUMN vector TYPE halfvec USING CAST(NULL AS halfvec);
ALTER TABLE vectors ALTER COLUMN vector SET STORAGE PLAIN;
ALTER TABLE pending ADD COLUMN place bigint GENERATED ALWAYS AS IDENTITY;  -- SQLite's rowid

-- Documents that wait for a worker, one row each; a row goes in the transaction that writes its document.
CREATE TABLE queue (
    unit bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    folder_key bigint NOT NULL REFERENCES folders ON DELETE CASCADE,
    path text COLLATE "C" NOT NULL,
    content text NOT NULL,               -- JSON: what was seen of its file, and its text; null for one that is gone
    attempts bigint NOT NULL DEFAULT 0,
    worker integer,                      -- the connection that works on it (pg_backend_pid), if that is still there
    reason text                          -- why the last attempt failed
);

-- Whoever writes locks this table: who may only read it cannot.
CREATE TABLE writer ();

-- In place of lexical/ and spellings/ of a snapshot. Each commit adds a part: rows are added, never changed, so that two
-- writers never wait for one another's rows, and are merged later. A removed section comes again, with a count of 0.
-- By folder, so that whoever may not see a folder has the statistics of the others alone.
CREATE SEQUENCE part_numbers;

CREATE TABLE parts (
    folder_key bigint NOT NULL REFERENCES folders ON DELETE CASCADE,
    part bigint NOT NULL,        -- youngest last
    sections bigint NOT NULL,    -- how many more there are by it
    length bigint NOT NULL,      -- how many more words they have
    PRIMARY KEY (folder_key, part)
);

CREATE TABLE postings (
    folder_key bigint NOT NULL REFERENCES folders ON DELETE CASCADE,
    part bigint NOT NULL,
    term bytea NOT NULL,
    sections bigint NOT NULL,    -- how many more hold the term by it
    block bytea NOT NULL,        -- node keys (int64, ascending), counts and lengths (int32 each), little-endian
    PRIMARY KEY (term, folder_key, part)
);

CREATE TABLE words (
    folder_key bigint NOT NULL REFERENCES folders ON DELETE CASCADE,
    part bigint NOT NULL,
    word bytea NOT NULL,         -- as it is written, in lower case
    sections bigint NOT NULL,
    letters bigint NOT NULL,     -- `letters_of` in retriever/lexical/spelling.py
    PRIMARY KEY (word, folder_key, part)
);
