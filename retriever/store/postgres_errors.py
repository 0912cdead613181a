"""PostgreSQL's errors as our own: each says in a sentence what to do."""

from collections.abc import Iterator
from contextlib import contextmanager

from retriever.errors import (
    CommandHint,
    DocumentsError,
    IndexLockedError,
    IndexVersionError,
    RetrieverError,
    StorageError,
)
from retriever.store.url import DatabaseUrl


@contextmanager
def translate_errors(address: DatabaseUrl) -> Iterator[None]:
    """Psycopg's exceptions leave as ours."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("psycopg", "psycopg_pool"):
            raise
        raise explain(error, address) from error


def explain(error: Exception, address: DatabaseUrl) -> RetrieverError:  # noqa: C901  # a list of cases
    """What is said of an error of psycopg, and what to do."""
    from psycopg import errors
    from psycopg_pool import PoolTimeout

    said = " ".join(str(error).split())
    said = said.replace(address.password, "***") if address.password else said
    match error:
        case errors.LockNotAvailable():
            cure = "try again when it has finished"
            return IndexLockedError(f"another process is writing to the index {address}; {cure}")
        case errors.InsufficientPrivilege():
            return explain_rights(address, said)
        case errors.ReadOnlySqlTransaction():
            return StorageError(f"{address} is read-only, a replica perhaps; name the server that is written to")
        case errors.QueryCanceled():
            return StorageError(f"{address} took too long: {said}; raise statement_timeout, or try again")
        case errors.UndefinedColumn() if "lexemes" in said:
            init = f"postgres init --tsvector english --index '{address}'"
            return StorageError(f"{address} has no words for keyword: tsvector", hint=CommandHint(init))
        case errors.UndefinedTable() | errors.UndefinedColumn() | errors.InvalidSchemaName():
            return IndexVersionError(
                f"the tables of {address} are not those of this version, or this role may not use them: {said}",
                hint=suggest_init(address),
            )
        case errors.DiskFull() | errors.OutOfMemory():
            return StorageError(f"{address} has no room left: {said}")
        case errors.DataError() | errors.IntegrityError() | errors.ProgramLimitExceeded():
            return DocumentsError(f"{address} cannot hold a document: {said}")
        case errors.FeatureNotSupported() | errors.UndefinedFile() if "vector" in said:
            return StorageError(
                f"the server of {address} has no pgvector; install it there (Debian: postgresql-NN-pgvector; others:"
                " https://github.com/pgvector/pgvector#installation), then try again"
            )
        case PoolTimeout():
            return StorageError(
                f"{address} cannot be reached: it does not answer, or all connections of this process are in use; look"
                " whether the server runs, ask fewer questions at once, or start a second server"
            )
        case errors.OperationalError():
            return StorageError(
                f"{address} cannot be reached: {said}; look whether the server runs, and at host, port, user, role and"
                " password (PGPASSWORD, .pgpass, a service file)"
            )
    return StorageError(f"{address} answered with an error: {said}")


def suggest_init(address: DatabaseUrl) -> CommandHint:
    return CommandHint(f"postgres init --index '{address}'", "with a role that may make tables, run")


def explain_rights(address: DatabaseUrl, said: str) -> StorageError:
    """Say that a role lacks rights."""
    hint = "use a role with the rights, or have them granted: docs/guide/team.md"
    return StorageError(f"this role may not do that in {address}: {said}", hint=hint)
