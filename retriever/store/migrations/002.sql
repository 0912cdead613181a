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

-- One row: what workers have done, and what of it the links and the scale of confidence do not know yet.
CREATE TABLE queue_state (
    indexed bigint NOT NULL,           -- documents, ever
    recent double precision NOT NULL,  -- documents of the last minute, as load averages count: each fades by exp(-t / 60)
    at timestamptz NOT NULL,           -- when that was so
    unsettled timestamptz,             -- since when
    settled_s double precision NOT NULL
);
INSERT INTO queue_state VALUES (0, 0, now(), NULL, 0);
