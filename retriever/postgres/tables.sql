-- What an index in PostgreSQL has besides the tables of schema.sql, or otherwise, and who may see which rows.
CREATE INDEX links_to ON links (target_id);

-- Whole numbers of [-127, 127], which 16 bits of a half float hold exactly: one column is what is compared, what HNSW
-- stands on, and what an exact cosine is computed from.
ALTER TABLE vectors DROP COLUMN vector_key, ALTER COLUMN vector TYPE halfvec USING CAST(NULL AS halfvec);
ALTER TABLE vectors ALTER COLUMN vector SET STORAGE PLAIN;
ALTER TABLE pending ADD COLUMN place bigint GENERATED ALWAYS AS IDENTITY;  -- SQLite's rowid

-- Who may see what: row-level security. A role of the server sees the rows of the folders that it has rights to, in every
-- statement, and with them the postings, words and cosines of these folders alone. A role that may read or write all
-- has a policy of its name on each table: the planner then leaves the condition out. The owner sees all by itself.
CREATE TABLE rights (
    role regrole NOT NULL,  -- or a role that is a member of it
    folder_key bigint NOT NULL REFERENCES folders ON DELETE CASCADE,
    PRIMARY KEY (role, folder_key)
);

DO $$
DECLARE
    protected text;
    condition text;
BEGIN
    FOR protected, condition IN VALUES
        ('rights', 'pg_has_role(role, ''USAGE'')'),
        ('meta', 'true'),
        ('folders', NULL), ('documents', NULL), ('skipped', NULL), ('forgotten', NULL), ('backgrounds', NULL),
        -- What belongs to a document is seen with it, by its key; what was made of a text, with any chunk that has it.
        ('nodes', 'EXISTS (SELECT FROM documents AS own WHERE own.document_key = nodes.document_key)'),
        ('fields', 'EXISTS (SELECT FROM documents AS own WHERE own.document_key = fields.document_key)'),
        ('postings', 'EXISTS (SELECT FROM documents AS own WHERE own.document_key = postings.document_key)'),
        ('words', 'EXISTS (SELECT FROM documents AS own WHERE own.document_key = words.document_key)'),
        ('names', 'EXISTS (SELECT FROM documents AS own WHERE own.document_key = node_key >> 20)'),
        ('links', 'EXISTS (SELECT FROM documents AS own WHERE own.document_key = source_key >> 20)'),
        ('chunks', 'EXISTS (SELECT FROM documents AS own WHERE own.document_key = node_key >> 20)'),
        ('vectors', 'EXISTS (SELECT FROM chunks AS own WHERE own.text_hash = vectors.text_hash)'),
        ('pending', 'EXISTS (SELECT FROM chunks AS own WHERE own.text_hash = pending.text_hash)')
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', protected);
        EXECUTE format(
            'CREATE POLICY by_folder ON %I FOR SELECT USING (%s)',
            protected, coalesce(condition, 'folder_key = ANY (ARRAY(SELECT rights.folder_key FROM rights))')
        );
    END LOOP;
END
$$;
