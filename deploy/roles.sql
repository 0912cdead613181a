-- Run once, when the database is made: who indexes, and who asks. `postgres init` gives them their rights.
\getenv password POSTGRES_PASSWORD
CREATE ROLE indexer LOGIN PASSWORD :'password';
CREATE ROLE asker LOGIN PASSWORD :'password';
