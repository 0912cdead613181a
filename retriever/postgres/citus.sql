-- The tables of tables.sql over the nodes of a Citus cluster, after `postgres init`: psql DATABASE -f citus.sql.
-- A unique constraint of a distributed table has to contain the column that it is distributed by.
\set ON_ERROR_STOP on
SET search_path TO hybrid_retrieve, public;
SET citus.multi_shard_modify_mode TO 'sequential';
-- What a transaction sets, such as that of HNSW, the workers are told; and rows of reference tables may change in it after
-- those of others.
ALTER DATABASE :DBNAME SET citus.propagate_set_commands = 'local';
ALTER DATABASE :DBNAME SET citus.multi_shard_modify_mode = 'sequential';

-- Citus has no policy that asks another table: a role sees all folders, by a policy of its own, or none.
SELECT format('DROP POLICY by_folder ON %I', tablename) FROM pg_policies
WHERE schemaname = 'hybrid_retrieve' AND policyname = 'by_folder' AND tablename NOT IN ('rights', 'meta') \gexec

-- On every node, whole: what is small, or what everything is joined with.
SELECT create_reference_table('folders');
SELECT create_reference_table('documents');
SELECT create_reference_table('fields');
SELECT create_reference_table('skipped');
SELECT create_reference_table('forgotten');
SELECT create_reference_table('meta');
SELECT create_reference_table('backgrounds');
SELECT create_reference_table('words');

-- By section. No node checks that an id is used once: it is a folder's prefix, a path and a place, made with its document.
ALTER TABLE nodes DROP CONSTRAINT nodes_node_id_key;
CREATE INDEX nodes_of_id ON nodes (node_id);
ALTER TABLE chunks DROP CONSTRAINT chunks_node_key_fkey;
ALTER TABLE chunks DROP CONSTRAINT chunks_pkey;
ALTER TABLE chunks ADD CONSTRAINT chunks_pkey PRIMARY KEY (text_hash, chunk_key);
CREATE INDEX chunks_of_key ON chunks (chunk_key);
ALTER TABLE names DROP CONSTRAINT names_node_key_fkey;
ALTER TABLE links DROP CONSTRAINT links_source_key_fkey;
SELECT create_distributed_table('nodes', 'node_key');
SELECT create_distributed_table('names', 'node_key', colocate_with => 'nodes');
SELECT create_distributed_table('links', 'source_key', colocate_with => 'nodes');
ALTER TABLE names ADD CONSTRAINT names_node_key_fkey FOREIGN KEY (node_key) REFERENCES nodes ON DELETE CASCADE;
ALTER TABLE links ADD CONSTRAINT links_source_key_fkey FOREIGN KEY (source_key) REFERENCES nodes ON DELETE CASCADE;

-- By text: a vector is compared, and its chunks are named, where it stands.
SELECT create_distributed_table('vectors', 'text_hash');
SELECT create_distributed_table('chunks', 'text_hash', colocate_with => 'vectors');
SELECT create_distributed_table('pending', 'text_hash', colocate_with => 'vectors');

-- By word: a question asks for the rows of its own.
SELECT create_distributed_table('postings', 'term');
