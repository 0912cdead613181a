"""Who may see what of an index in PostgreSQL: roles of the server, and the folders of each.

The server itself keeps to it, by the policies of migrations/003.sql: of each table a role sees the rows of its folders,
whatever it asks. A role that may read all is named by policies of its own.
"""

import contextlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePath
from typing import TYPE_CHECKING

from retriever.errors import UsageError
from retriever.store.postgres import connect
from retriever.store.postgres_errors import translate_errors
from retriever.store.url import DatabaseUrl

if TYPE_CHECKING:
    import psycopg

READ_ALL, WRITE_ALL = "read_all", "write_all"
"""The policies that name the roles for which nothing is hidden."""
FIRST_WITH_FOLDERS = 3  # the migration before which whoever could read saw all


def grant_tables(
    connection: "psycopg.Connection", address: DatabaseUrl, writers: Sequence[str], readers: Sequence[str], before: int
) -> None:
    """Lets roles read all folders, or write them, those too that come; roles of before get their rights to new tables.

    Args:
        connection: of the owner, in a transaction, with the schema as its search path.
        address: of the index.
        writers: roles that may index from now on.
        readers: roles that may read all from now on.
        before: the version that the tables had.
    """
    held = {
        str(role): bool(is_writer)
        for role, is_writer in connection.execute(
            "SELECT rolname, bool_or(privilege_type = 'INSERT') FROM pg_class, aclexplode(relacl), pg_roles"
            " WHERE pg_class.oid = CAST('documents' AS regclass) AND pg_roles.oid = grantee AND grantee <> relowner"
            " GROUP BY rolname"
        )
    }
    see_all = set(held) if before < FIRST_WITH_FOLDERS else list_policy_roles(connection, READ_ALL)
    held |= {role: held.get(role, False) for role in readers} | dict.fromkeys(writers, True)
    for role, is_writer in sorted(held.items()):
        grant(connection, address, role, is_writer=is_writer)
    set_policy_roles(connection, address, READ_ALL, {*see_all, *readers})
    all_writers = {role for role, is_writer in held.items() if is_writer}
    set_policy_roles(connection, address, WRITE_ALL, list_policy_roles(connection, WRITE_ALL) | all_writers)


def grant(connection: "psycopg.Connection", address: DatabaseUrl, role: str, *, is_writer: bool = False) -> None:
    """What a role may do; of which rows, the policies say."""
    may = ["USAGE ON SCHEMA {schema}", "SELECT ON ALL TABLES IN SCHEMA {schema}", "INSERT, DELETE ON queries, opened"]
    if is_writer:
        may += ["INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema}", "USAGE ON ALL SEQUENCES IN SCHEMA {schema}"]
    for right in may:
        _execute(connection, f"GRANT {right} TO {{role}}", address, role)
    if is_writer:
        _execute(connection, "REVOKE INSERT, UPDATE, DELETE ON migrations, rights FROM {role}", address, role)


def grant_folders(address: DatabaseUrl, role: str, folders: Sequence[str]) -> tuple[str, ...]:
    """Lets a role read some folders; see `sharing.grant_postgres_folders`."""
    if _is_cluster(address):
        raise UsageError(
            "in a Citus cluster a role sees all folders or none",
            hint=f"let it see all: hybrid_retrieve.py postgres init --reader {role} --index '{address}'",
        )
    with _owning(address) as connection:
        if role in list_policy_roles(connection, READ_ALL) | list_policy_roles(connection, WRITE_ALL):
            raise UsageError(
                f"{role} may read all folders already",
                hint=f"first run: hybrid_retrieve.py postgres revoke {role} --index '{address}'",
            )
        keys = _find_folders(connection, folders)
        grant(connection, address, role)
        query = "INSERT INTO rights VALUES (CAST(quote_ident(%s) AS regrole), %s) ON CONFLICT DO NOTHING"
        connection.cursor().executemany(query, [(role, key) for key in keys])
        return _list_folders(connection, role)


def revoke_folders(address: DatabaseUrl, role: str, folders: Sequence[str]) -> tuple[str, ...]:
    """Takes back the right to some folders, or all rights; see `sharing.revoke_postgres_folders`."""
    with _owning(address) as connection:
        sees_all = role in list_policy_roles(connection, READ_ALL) | list_policy_roles(connection, WRITE_ALL)
        if folders and sees_all:
            raise UsageError(f"{role} may read all folders; revoke that without a folder, then grant some")
        for key in _find_folders(connection, folders):
            query = "DELETE FROM rights WHERE role = CAST(quote_ident(%s) AS regrole) AND folder_key = %s"
            connection.execute(query, (role, key))
        if not folders:
            connection.execute("DELETE FROM rights WHERE role = CAST(quote_ident(%s) AS regrole)", (role,))
            for policy in (READ_ALL, WRITE_ALL):
                set_policy_roles(connection, address, policy, list_policy_roles(connection, policy) - {role})
            for what in ("ALL TABLES IN SCHEMA {schema}", "ALL SEQUENCES IN SCHEMA {schema}", "SCHEMA {schema}"):
                _execute(connection, f"REVOKE ALL ON {what} FROM {{role}}", address, role)
        return _list_folders(connection, role)


def list_policy_roles(connection: "psycopg.Connection", policy: str) -> set[str]:
    """The roles that a policy names, without the owner."""
    query = (
        "SELECT rolname FROM pg_policy JOIN pg_class ON polrelid = pg_class.oid"
        " JOIN pg_roles ON pg_roles.oid = ANY(polroles) AND pg_roles.oid <> relowner"
        " WHERE polname = %s AND polrelid = CAST('documents' AS regclass)"
    )
    rows = connection.execute(query, (policy,))
    return {role for (role,) in rows}


def set_policy_roles(
    connection: "psycopg.Connection", address: DatabaseUrl, policy: str, roles: Collection[str]
) -> None:
    """Has a policy of every table name these roles, and the owner."""
    from psycopg import sql

    named = sql.SQL(", ").join([sql.SQL("CURRENT_USER"), *map(sql.Identifier, sorted(roles))])
    query = "SELECT tablename FROM pg_policies WHERE schemaname = %s AND policyname = %s"
    for (table,) in connection.execute(query, (address.schema, policy)).fetchall():
        statement = sql.SQL("ALTER POLICY {} ON {} TO {}")
        connection.execute(statement.format(sql.Identifier(policy), sql.Identifier(address.schema, table), named))


def _is_cluster(address: DatabaseUrl) -> bool:
    """Whether the database is that of a Citus cluster, over whose nodes `citus.sql` distributes the tables."""
    with translate_errors(address), contextlib.closing(connect(address)) as connection:
        return connection.execute("SELECT to_regclass('pg_catalog.pg_dist_partition')").fetchone() != (None,)


@contextmanager
def _owning(address: DatabaseUrl) -> "Iterator[psycopg.Connection]":
    """A transaction in the schema of an index of this version."""
    with translate_errors(address), contextlib.closing(connect(address)) as connection, connection.transaction():
        _execute(connection, "SET LOCAL search_path TO {schema}, public", address)
        yield connection


def _execute(connection: "psycopg.Connection", statement: str, address: DatabaseUrl, role: str = "") -> None:
    from psycopg import sql

    names = {"schema": sql.Identifier(address.schema), "role": sql.Identifier(role or "-")}
    connection.execute(sql.SQL(statement).format(**names))


def _find_folders(connection: "psycopg.Connection", wanted: Iterable[str]) -> list[int]:
    """The keys of folders by their paths, or the ends of them."""
    known: dict[str, int] = dict(
        connection.execute("SELECT path, folder_key FROM folders ORDER BY folder_key").fetchall()
    )
    found = []
    for name in wanted:
        parts = PurePath(name).parts
        meant = [path for path in known if path == name or PurePath(path).parts[-len(parts) :] == parts]
        if len(meant) != 1:
            wrong = f"{name!r} may be any of: {', '.join(meant)}" if meant else f"there is no folder {name!r}"
            raise UsageError(wrong if meant else f"{wrong} in the index; there are: {', '.join(known) or 'none yet'}")
        found.append(known[meant[0]])
    return found


def _list_folders(connection: "psycopg.Connection", role: str) -> tuple[str, ...]:
    rows = connection.execute(
        "SELECT path FROM rights JOIN folders USING (folder_key) WHERE role = CAST(quote_ident(%s) AS regrole)"
        " ORDER BY folder_key",
        (role,),
    )
    return tuple(path for (path,) in rows)
