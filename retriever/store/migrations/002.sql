-- Documents that wait for a worker, one row each. A row goes in the transaction that writes its document. Who works on it
-- holds an advisory lock of its connection, so that the end of a worker, however it comes, gives the row back at once.
CREATE TABLE queue (
    unit integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    folder_key bigint NOT NULL REFERENCES folders ON DELETE CASCADE,
    path text COLLATE "C" NOT NULL,
    size bigint NOT NULL,
    mtime_ns bigint NOT NULL,
    ctime_ns bigint NOT NULL,
    inode bigint NOT NULL,
    digest text COLLATE "C" NOT NULL,  -- empty for a document that is gone
    content bytea NOT NULL,            -- its text in UTF-8
    warnings text NOT NULL,
    attempts bigint NOT NULL DEFAULT 0,
    reason text,                       -- why the last attempt failed
    UNIQUE (folder_key, path)
);
