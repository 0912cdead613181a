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

# By the beginning of a SQLSTATE: https://www.postgresql.org/docs/current/errcodes-appendix.html. {} is what was said.
CASES: tuple[tuple[tuple[str, ...], type[RetrieverError], str], ...] = (
    (("55P03",), IndexLockedError, "another process is writing to the index; try again when it has finished"),
    (("25006",), StorageError, "it is read-only, a replica perhaps; name the server that is written to"),
    (("57014",), StorageError, "it took too long: {}; raise statement_timeout, or try again"),
    (("42P01", "42703", "3F000"), IndexVersionError, "the tables are not of this version, or not for this role: {}"),
    (("53100", "53200"), StorageError, "it has no room left: {}"),
    (("22", "23", "54"), DocumentsError, "it cannot hold a document: {}"),
    (("0A000", "58P01"), StorageError, "{}; the server needs https://github.com/pgvector/pgvector#installation"),
)
UNREACHABLE = (
    "it cannot be reached: {}; look whether the server runs, and at host, port, user, role and password (PGPASSWORD,"
    " .pgpass, a service file)"
)


@contextmanager
def translate_errors(address: DatabaseUrl) -> Iterator[None]:
    """Psycopg's exceptions leave as ours."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.partition(".")[0] != "psycopg":
            raise
        raise explain(error, address) from error


def explain(error: Exception, address: DatabaseUrl) -> RetrieverError:
    """What is said of an error of psycopg, and what to do."""
    from psycopg import OperationalError

    said, state = " ".join(str(error).split()), getattr(error, "sqlstate", None) or ""
    said = said.replace(address.password, "***") if address.password else said
    if state == "42501":
        return explain_rights(address, said)
    if state == "42703" and "lexemes" in said:
        init = CommandHint(f"postgres init --tsvector english --index '{address}'")
        return StorageError(f"{address} has no words for keyword: tsvector", hint=init)
    for states, kind, sentence in CASES:
        if state.startswith(states):
            hint = suggest_init(address) if kind is IndexVersionError else ""
            return kind(f"{address}: {sentence.format(said)}", hint=hint)
    sentence = UNREACHABLE if isinstance(error, OperationalError) else "it answered with an error: {}"
    return StorageError(f"{address}: {sentence.format(said)}")


def suggest_init(address: DatabaseUrl) -> CommandHint:
    return CommandHint(f"postgres init --index '{address}'", "with a role that may make tables, run")


def explain_rights(address: DatabaseUrl, said: str) -> StorageError:
    """Say that a role lacks rights."""
    hint = "use a role with the rights, or have them granted: docs/guide/team.md"
    return StorageError(f"this role may not do that in {address}: {said}", hint=hint)
