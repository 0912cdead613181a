"""The address of an index in PostgreSQL."""

import re
from dataclasses import dataclass, field, replace
from urllib.parse import parse_qsl, quote, unquote, urlencode

from retriever.errors import UsageError

SCHEMA = "hybrid_retrieve"
"""Where the tables are when the address names no schema."""
FORM = "postgresql://USER@HOST/DATABASE"


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    """`postgresql://user@host/database?schema=team&role=sales`, as libpq reads it, without its password."""

    text: str
    password: str | None = field(default=None, repr=False, compare=False)
    """None leaves it to libpq: PGPASSWORD, .pgpass, a service file."""

    def __str__(self) -> str:
        return self.text

    @property
    def schema(self) -> str:
        """Where the tables are."""
        return dict(parse_qsl(self.text.partition("?")[2])).get("schema", SCHEMA)

    @property
    def dsn(self) -> str:
        """What libpq is given."""
        place, _, query = self.text.partition("?")
        given = dict(parse_qsl(query))
        kept = {name: value for name, value in given.items() if name not in ("schema", "role")}
        if role := given.get("role"):
            # As the connection begins: there is no moment without it, and RESET ROLE comes back to it.
            escaped = re.sub(r"([\\\s])", r"\\\1", role)
            kept["options"] = f"{kept.get('options', '')} -crole={escaped}".strip()
        return f"{place}?{urlencode(kept, quote_via=quote)}" if kept else place

    def with_role(self, role: str) -> "DatabaseUrl":
        """Return the same index as another role of the server sees it: `?role=ROLE`."""
        place, _, query = self.text.partition("?")
        given = dict(parse_qsl(query)) | {"role": role}
        return replace(self, text=f"{place}?{urlencode(given, quote_via=quote)}")


def read_url(text: str) -> DatabaseUrl | None:
    """Read the address of a database; None for what may be a folder.

    Raises:
        UsageError: it is the address of something else, or cannot be read; nothing of a password is repeated.
    """
    scheme, found, rest = text.partition("://")
    if not found:
        if re.search(r"\bpassword\s*=", text):
            raise UsageError(f"write the address of a database as {FORM}")
        return None
    if scheme.lower() not in ("postgresql", "postgres"):
        raise UsageError(f"{scheme}: is no address of an index; name a folder, or {FORM}")
    place, _, query = rest.partition("?")
    account, at, host = place.rpartition("@")
    if not at and "@" in query and ":" in place:  # a password with a question mark
        raise UsageError(f"percent-encode the special characters of the password in {FORM}")
    user, _, password = account.partition(":")
    given = dict(parse_qsl(query))
    password = given.pop("password", unquote(password))
    plain = f"postgresql://{user}{at}{host}" + (f"?{urlencode(given, quote_via=quote)}" if given else "")
    return DatabaseUrl(plain, password or None)
