"""Where an index is when it is no folder: the address of a PostgreSQL database, as a path.

Everything above the store takes the place of an index as a `Path`, keeps it as text and prints it. So an address is a
path, too, whose text is a URI as libpq reads it, without its password: that is kept for this process alone.
"""

import re
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlencode

_SCHEME = re.compile(r"postgres(?:ql)?:/+", re.IGNORECASE)
SCHEMA = "hybrid_retrieve"
"""Where the tables are when the address names no schema."""

_passwords: dict[str, str] = {}  # that came in an address, by that address without it


class Address(type(Path())):  # type: ignore[misc]  # the class of paths of this system
    """`postgresql://user@host/database?schema=team&role=sales`: never a folder, and never with a password."""

    def __str__(self) -> str:
        """As it was given, where a path would have one slash."""
        return str(super().__str__()).replace(":/", "://", 1)

    @property
    def password(self) -> str | None:
        """What came with the address; None leaves it to libpq: PGPASSWORD, .pgpass, a service file."""
        return _passwords.get(str(self))

    @property
    def schema(self) -> str:
        """Where the tables are."""
        return dict(parse_qsl(str(self).partition("?")[2])).get("schema", SCHEMA)

    @property
    def dsn(self) -> str:
        """What libpq is given."""
        place, _, query = str(self).partition("?")
        given = dict(parse_qsl(query))
        kept = {name: value for name, value in given.items() if name not in ("schema", "role")}
        if role := given.get("role"):
            # As the connection begins: there is no moment without it, and RESET ROLE comes back to it.
            escaped = re.sub(r"([\\\s])", r"\\\1", role)
            kept["options"] = f"{kept.get('options', '')} -crole={escaped}".strip()
        return f"{place}?{urlencode(kept, quote_via=quote)}" if kept else place

    def with_role(self, role: str) -> "Address":
        """The same index as another role of the server sees it: `?role=ROLE`."""
        place, _, query = str(self).partition("?")
        address = Address(f"{place}?{urlencode(dict(parse_qsl(query)) | {'role': role}, quote_via=quote)}")
        if self.password:
            _passwords[str(address)] = self.password
        return address


def read_address(given: str | Path) -> Address | None:
    """The address that a text or a path is; None for a folder."""
    if isinstance(given, Address):
        return given
    text = str(given)
    scheme = _SCHEME.match(text)
    if scheme is None:
        return None
    # A path has no empty part: `postgresql:///db` is written with an empty user in its place.
    rest = ("@/" if scheme[0].endswith("///") else "") + text[scheme.end() :]
    place, _, query = rest.partition("?")
    account, _, host = place.rpartition("@")
    user, _, password = account.partition(":")
    found = dict(parse_qsl(query))
    password = found.pop("password", unquote(password))
    place = f"{user}@{host}" if account or place.startswith("@") else place
    address = Address("postgresql:/" + place + (f"?{urlencode(found)}" if found else ""))
    if password:
        _passwords[str(address)] = password
    return address
