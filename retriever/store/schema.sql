-- The tables of index.sqlite. Nothing migrates: whoever changes them after a release raises INDEX_FORMAT in database.py, and an
-- index of another format is refused with the command that makes it again. Where the same tables get other rows of the
-- same documents, raise CONFIG_VERSION in retriever/indexing/request.py instead: the next `index` then reads every document
-- anew, and embeds none again.
-- Keys are never used twice (AUTOINCREMENT; those of nodes and chunks begin with their document's, see NODE_BITS in
-- writing.py): a snapshot that still knows a deleted key cannot show another row for it.
CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;

CREATE TABLE folders (
    folder_key INTEGER PRIMARY KEY AUTOINCREMENT,
    path TEXT NOT NULL UNIQUE,   -- absolute
    prefix TEXT NOT NULL UNIQUE, -- before the path in every node id; empty for one alone
    dialect TEXT NOT NULL        -- of Markdown, in which its documents were read
) STRICT;

CREATE TABLE documents (
    document_key INTEGER PRIMARY KEY AUTOINCREMENT,
    folder_key INTEGER NOT NULL REFERENCES folders ON DELETE CASCADE,
    path TEXT NOT NULL,          -- relative to the folder
    size INTEGER NOT NULL,       -- bytes
    mtime_ns INTEGER NOT NULL,   -- 0: when it was read, too young or too old to be trusted
    ctime_ns INTEGER NOT NULL,   -- 0: likewise, so compare by digest next time
    inode INTEGER NOT NULL,
    digest TEXT NOT NULL,
    title TEXT NOT NULL,
    boilerplate REAL NOT NULL,   -- 0 to 1: how much it is a list of links or a log
    aliases TEXT NOT NULL,       -- JSON list: other names that wikilinks may use
    warnings TEXT NOT NULL,      -- JSON list: what of it could not be decoded or understood
    dated INTEGER,               -- seconds since 1970: the date in its front matter; null without one that can be read
    sections INTEGER NOT NULL DEFAULT 0, -- whose words are in `postings`
    length INTEGER NOT NULL DEFAULT 0,   -- how many words these have
    UNIQUE (folder_key, path)
) STRICT;

CREATE TABLE nodes (
    node_key INTEGER PRIMARY KEY,
    node_id TEXT NOT NULL UNIQUE,
    document_key INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
    parent_id TEXT,              -- null for the file's own node
    kind TEXT NOT NULL,
    level INTEGER NOT NULL,
    title TEXT NOT NULL,
    breadcrumb TEXT NOT NULL,    -- JSON list of titles, outermost first
    first_line INTEGER,          -- null for a node without lines
    last_line INTEGER,
    front_matter_lines INTEGER NOT NULL,
    anchor TEXT NOT NULL,
    holder_id TEXT,              -- of a node without text of its own: the one that is shown in its place
    body_hash BLOB,              -- of the body, spaces aside: copies have the same; null without one
    summary TEXT NOT NULL,       -- from here on long: what stands behind long text in a row is slow to reach
    text TEXT NOT NULL,
    units BLOB NOT NULL          -- what a person would point at, as `pack_units` in writing.py writes them
) STRICT;
CREATE INDEX nodes_of_document ON nodes (document_key, node_key, first_line);  -- which counts them without their texts

CREATE TABLE names (
    name TEXT NOT NULL,          -- a title, file name or alias, as `retriever.lexical.names` spells it
    node_key INTEGER NOT NULL REFERENCES nodes ON DELETE CASCADE,
    PRIMARY KEY (name, node_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX names_of_node ON names (node_key);

CREATE TABLE links (
    source_key INTEGER NOT NULL REFERENCES nodes ON DELETE CASCADE,
    position INTEGER NOT NULL,   -- among the links of its node
    line INTEGER NOT NULL,
    kind TEXT NOT NULL,
    target_path TEXT NOT NULL,
    target_anchor TEXT NOT NULL,
    target_id TEXT,              -- null: it leads to no node
    problem TEXT,                -- why not; null when it leads to a node or to a file that is no document
    PRIMARY KEY (source_key, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX broken_links ON links (source_key) WHERE problem IS NOT NULL;

CREATE TABLE fields (
    document_key INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
    position INTEGER NOT NULL,   -- among those of its document
    key TEXT NOT NULL,           -- of the front matter, in lower case; with dots where it is nested
    value TEXT NOT NULL,         -- on one line; `tags` has those of the text as well, without #
    PRIMARY KEY (document_key, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE postings (          -- of each document, so that whoever may not see some has the statistics of the others alone
    term TEXT NOT NULL,
    document_key INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
    block BLOB NOT NULL,         -- its sections that hold the term, as `POSTING` in retriever/lexical/bm25.py
    PRIMARY KEY (term, document_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX postings_of_document ON postings (document_key);

CREATE TABLE words (
    word TEXT NOT NULL,          -- as it is written, in lower case
    document_key INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
    sections INTEGER NOT NULL,   -- how many hold it
    PRIMARY KEY (word, document_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX words_of_document ON words (document_key);

CREATE TABLE chunks (
    chunk_key INTEGER PRIMARY KEY,
    node_key INTEGER NOT NULL REFERENCES nodes ON DELETE CASCADE,
    first_line INTEGER NOT NULL,
    last_line INTEGER NOT NULL,
    text_hash BLOB NOT NULL      -- of what the encoder reads
) STRICT;
CREATE INDEX chunks_of_node ON chunks (node_key);
CREATE INDEX chunks_of_text ON chunks (text_hash, chunk_key);

CREATE TABLE vectors (
    vector_key INTEGER PRIMARY KEY,  -- where a vector is: VACUUM would number rows anew that have no key
    fingerprint TEXT NOT NULL,   -- of the encoder
    text_hash BLOB NOT NULL,
    vector BLOB NOT NULL,        -- as `pack_vectors` in text_vectors.py writes it
    UNIQUE (fingerprint, text_hash)
) STRICT;

CREATE TABLE pending (           -- texts of chunks whose vector is to be made: until then words alone find their sections
    text_hash BLOB PRIMARY KEY,
    text TEXT NOT NULL           -- what the encoder reads
) STRICT;

CREATE TABLE skipped (
    folder_key INTEGER NOT NULL REFERENCES folders ON DELETE CASCADE,
    path TEXT NOT NULL,
    size INTEGER,                -- of a file that could not be read, so that only a change makes it worth a new try;
    mtime_ns INTEGER,            -- all four null for what was left out unread
    ctime_ns INTEGER,
    inode INTEGER,
    reason TEXT NOT NULL,
    PRIMARY KEY (folder_key, path)
) STRICT, WITHOUT ROWID;

CREATE TABLE backgrounds (       -- how near unrelated questions come, of each folder alone: who may see some has their scale
    folder_key INTEGER PRIMARY KEY REFERENCES folders ON DELETE CASCADE,
    content TEXT NOT NULL        -- JSON: sums of cosines, as retriever/places/background.py adds them up
) STRICT;

CREATE TABLE forgotten (
    folder_key INTEGER NOT NULL REFERENCES folders ON DELETE CASCADE,
    path TEXT NOT NULL,          -- relative to the folder; with a slash at its end, everything below it
    PRIMARY KEY (folder_key, path)
) STRICT, WITHOUT ROWID;
