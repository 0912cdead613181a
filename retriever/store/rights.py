"""Who may see what of an index in PostgreSQL: roles of the server, and the folders of each, kept by rights.sql.

Readers' roles log in through `serve` alone, which asks as them: who writes SQL of their own can measure what row-level
security hides.
"""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from retriever.errors import UsageError
from retriever.store.postgres import open_owner
from retriever.store.url import DatabaseUrl

if TYPE_CHECKING:
    import psycopg

READER = (
    "GRANT USAGE ON SCHEMA {schema} TO {role}",
    "GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}",
)
WRITER = (
    "GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}",
    "GRANT USAGE, UPDATE ON ALL SEQUENCES IN SCHEMA {schema} TO {role}",
    "REVOKE INSERT, UPDATE, DELETE ON rights FROM {role}",
)
NO_RIGHTS = tuple(
    f"REVOKE ALL ON {what} FROM {{role}}"
    for what in ("ALL TABLES IN SCHEMA {schema}", "ALL SEQUENCES IN SCHEMA {schema}", "SCHEMA {schema}")
)
ROLE = "CAST(quote_ident(%s) AS regrole)"


def grant_all(
    connection: "psycopg.Connection", url: DatabaseUrl, writers: Sequence[str], readers: Sequence[str]
) -> None:
    """Let roles read all folders, or write them, those too that come; by the owner, in a transaction."""
    for statements, roles in ((READER, (*writers, *readers)), (WRITER, writers)):
        for role in roles:
            _execute(connection, statements, url, role)
    for policy, added in (("read_all", readers), ("write_all", writers)):
        _name_in_policy(connection, url, policy, _list_roles(connection, policy) | set(added))


def grant_folders(url: DatabaseUrl, role: str, folders: Sequence[str]) -> tuple[str, ...]:
    """Let a role of PostgreSQL read these folders of an index, and nothing else; by the owner of the tables.

    Args:
        url: the database.
        role: one that is there. Who is a member of it may read the same.
        folders: paths of indexed folders, or the ends of them; none takes all rights from the role.

    Returns:
        The folders that the role may read now.

    Raises:
        UsageError: there is no such folder, or the role may read all; nothing was changed.
        IndexUnusableError: the database cannot be used.
    """
    with open_owner(url) as connection:
        for policy in ("read_all", "write_all"):
            named = _list_roles(connection, policy)
            if folders and role in named:
                raise UsageError(f"{role} may read all folders; take that away first, by `postgres grant {role}`")
            _name_in_policy(connection, url, policy, named - {role})
        known = dict(connection.execute("SELECT path, folder_key FROM folders ORDER BY folder_key").fetchall())
        seen = [_find_folder(name, known) for name in folders]
        _execute(connection, NO_RIGHTS, url, role)
        connection.execute(f"DELETE FROM rights WHERE role = {ROLE}", (role,))
        if seen:
            _execute(connection, READER, url, role)
            query = f"INSERT INTO rights SELECT {ROLE}, key FROM unnest(CAST(%s AS bigint[])) AS key"
            connection.execute(query, (role, [known[path] for path in set(seen)]))
    return tuple(path for path in known if path in seen)


def _find_folder(name: str, known: Collection[str]) -> str:
    """Return the one of the folders whose path this is, or the end of it."""
    meant = [path for path in known if path == name or f"/{path}".endswith(f"/{name.strip('/')}")]
    if len(meant) != 1:
        wrong = f"{name!r} may be any of" if meant else f"there is no folder {name!r} in the index; there are"
        raise UsageError(f"{wrong}: {', '.join(meant or known) or 'none yet'}")
    return meant[0]


def _list_roles(connection: "psycopg.Connection", policy: str) -> set[str]:
    """Return the roles that a policy names, without the owner."""
    query = (
        "SELECT rolname FROM pg_policy JOIN pg_class ON polrelid = pg_class.oid"
        " JOIN pg_roles ON pg_roles.oid = ANY(polroles) AND pg_roles.oid <> relowner"
        " WHERE polname = %s AND polrelid = CAST('documents' AS regclass)"
    )
    return {role for (role,) in connection.execute(query, (policy,))}


def _name_in_policy(connection: "psycopg.Connection", url: DatabaseUrl, policy: str, roles: Collection[str]) -> None:
    """Have a policy of every table name these roles, and the owner."""
    from psycopg import sql

    named = sql.SQL(", ").join([sql.SQL("CURRENT_USER"), *map(sql.Identifier, sorted(roles))])
    query = "SELECT tablename FROM pg_policies WHERE schemaname = %s AND policyname = %s"
    for (table,) in connection.execute(query, (url.schema, policy)).fetchall():
        place = sql.Identifier(url.schema, table)
        connection.execute(sql.SQL("ALTER POLICY {} ON {} TO {}").format(sql.Identifier(policy), place, named))


def _execute(connection: "psycopg.Connection", statements: Sequence[str], url: DatabaseUrl, role: str) -> None:
    from psycopg import sql

    for statement in statements:
        names = {"schema": sql.Identifier(url.schema), "role": sql.Identifier(role)}
        connection.execute(sql.SQL(statement).format(**names))
