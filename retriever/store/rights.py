"""Who may see what of an index in PostgreSQL: roles of the server, and the folders of each.

The server keeps to it by the policies of postgres.sql. Readers' roles log in through `serve` alone, which asks as them:
who writes SQL of their own can measure what row-level security hides.
"""

from collections.abc import Collection, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from retriever.errors import CommandHint, UsageError
from retriever.store.postgres import open_owner
from retriever.store.url import DatabaseUrl

if TYPE_CHECKING:
    import psycopg

READ_ALL, WRITE_ALL = "read_all", "write_all"
"""The policies that name the roles for which nothing is hidden: the planner then leaves the condition out."""
READER = (
    "GRANT USAGE ON SCHEMA {schema} TO {role}",
    "GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}",
    "GRANT INSERT, DELETE ON queries, opened TO {role}",
)
WRITER = (
    "GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}",
    "GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {role}",
    "REVOKE INSERT, UPDATE, DELETE ON rights FROM {role}",
)
NO_RIGHTS = tuple(
    f"REVOKE ALL ON {what} FROM {{role}}"
    for what in ("ALL TABLES IN SCHEMA {schema}", "ALL SEQUENCES IN SCHEMA {schema}", "SCHEMA {schema}")
)


def grant_all(
    connection: "psycopg.Connection", url: DatabaseUrl, writers: Sequence[str], readers: Sequence[str]
) -> None:
    """Let roles read all folders, or write them, those too that come; by the owner, in a transaction."""
    for role in (*writers, *readers):
        _execute(connection, READER, url, role)
    for role in writers:
        _execute(connection, WRITER, url, role)
    for policy, roles in ((READ_ALL, readers), (WRITE_ALL, writers)):
        _name_in_policy(connection, url, policy, _list_roles(connection, policy) | set(roles))


def grant_folders(url: DatabaseUrl, role: str, folders: Sequence[str]) -> tuple[str, ...]:
    """Let a role read some folders; see `sharing.grant_postgres_folders`."""
    with open_owner(url) as connection:
        if connection.execute("SELECT to_regclass('pg_catalog.pg_dist_partition')").fetchone() != (None,):
            hint = CommandHint(f"postgres init --reader {role} --index '{url}'", "to let it see all, run")
            raise UsageError("in a Citus cluster a role sees all folders or none", hint=hint)
        if role in _list_roles(connection, READ_ALL, WRITE_ALL):
            hint = CommandHint(f"postgres revoke {role} --index '{url}'", "first run")
            raise UsageError(f"{role} may read all folders already", hint=hint)
        keys = _find_folders(connection, folders)
        _execute(connection, READER, url, role)
        query = "INSERT INTO rights VALUES (CAST(quote_ident(%s) AS regrole), %s) ON CONFLICT DO NOTHING"
        connection.cursor().executemany(query, [(role, key) for key in keys])
        return _list_folders(connection, role)


def revoke_folders(url: DatabaseUrl, role: str, folders: Sequence[str]) -> tuple[str, ...]:
    """Take back the right to some folders, or all rights; see `sharing.revoke_postgres_folders`."""
    with open_owner(url) as connection:
        sees_all = role in _list_roles(connection, READ_ALL, WRITE_ALL)
        if folders and sees_all:
            raise UsageError(f"{role} may read all folders; revoke that without a folder, then grant some")
        query = "DELETE FROM rights WHERE role = CAST(quote_ident(%s) AS regrole) AND (%s OR folder_key = ANY(%s))"
        connection.execute(query, (role, not folders, _find_folders(connection, folders)))
        if not folders:
            for policy in (READ_ALL, WRITE_ALL):
                _name_in_policy(connection, url, policy, _list_roles(connection, policy) - {role})
            _execute(connection, NO_RIGHTS, url, role)
        return _list_folders(connection, role)


def _list_roles(connection: "psycopg.Connection", *policies: str) -> set[str]:
    """The roles that policies name, without the owner."""
    query = (
        "SELECT rolname FROM pg_policy JOIN pg_class ON polrelid = pg_class.oid"
        " JOIN pg_roles ON pg_roles.oid = ANY(polroles) AND pg_roles.oid <> relowner"
        " WHERE polname = ANY(%s) AND polrelid = CAST('documents' AS regclass)"
    )
    return {role for (role,) in connection.execute(query, (list(policies),))}


def _name_in_policy(connection: "psycopg.Connection", url: DatabaseUrl, policy: str, roles: Collection[str]) -> None:
    """Have a policy of every table name these roles, and the owner."""
    from psycopg import sql

    named = sql.SQL(", ").join([sql.SQL("CURRENT_USER"), *map(sql.Identifier, sorted(roles))])
    query = "SELECT tablename FROM pg_policies WHERE schemaname = %s AND policyname = %s"
    for (table,) in connection.execute(query, (url.schema, policy)).fetchall():
        statement = sql.SQL("ALTER POLICY {} ON {} TO {}")
        connection.execute(statement.format(sql.Identifier(policy), sql.Identifier(url.schema, table), named))


def _execute(connection: "psycopg.Connection", statements: Sequence[str], url: DatabaseUrl, role: str) -> None:
    from psycopg import sql

    names = {"schema": sql.Identifier(url.schema), "role": sql.Identifier(role)}
    for statement in statements:
        connection.execute(sql.SQL(statement).format(**names))


def _find_folders(connection: "psycopg.Connection", wanted: Sequence[str]) -> list[int]:
    """Find the keys of folders by their paths, or the ends of them."""
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
