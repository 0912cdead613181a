"""Who may ask what listens, how much, and for how long: decided by a request's first lines. Pure.

A page in a browser can send requests to this machine, and with DNS rebinding under a name of its own. So the Host
header must be one of our own names with our own port, to the letter, and an Origin must be that same place: no prefix,
no pattern, no answer to a preflight. Elsewhere than on loopback, or when one is set, a bearer token is needed as well.
"""

import hmac
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

Headers = Iterable[tuple[bytes, bytes]]
"""As ASGI gives them: the names in lower case."""

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
METHODS = frozenset({"GET", "HEAD", "POST", "DELETE"})
"""OPTIONS is not among them: a preflight is asked by pages of other places alone."""
HTTP_PORT = 80
"""The one that a browser leaves out of Host and Origin."""


@dataclass(frozen=True, slots=True)
class Door:
    """Where a server listens, and what opens it."""

    host: str
    """The address or name that it is bound to."""
    port: int
    token: str = ""
    """The bearer token that every request must carry; empty: none is needed."""

    @property
    def authorities(self) -> frozenset[str]:
        """Every Host header that means this server, in lower case."""
        own = bracketed(self.host.lower())
        names = {*LOOPBACK_NAMES, own} if is_loopback(self.host) else {own}
        return frozenset(f"{name}:{self.port}" for name in names) | (names if self.port == HTTP_PORT else set())

    @property
    def url(self) -> str:
        """Where a client on this machine finds it."""
        return f"http://{bracketed(self.host)}:{self.port}"


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one request may ask for."""

    header_bytes: int = 16_384
    """All names and values together."""
    headers: int = 64
    body_bytes: int = 1_000_000
    body_seconds: float = 10.0
    """For the whole body to arrive."""
    answer_bytes: int = 4_000_000
    seconds: float = 150.0
    """For the whole answer: a language model that is loaded first may take 90."""


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not answered."""

    status: int
    reason: str
    """For the client: nothing in it comes from this machine."""
    headers: tuple[tuple[bytes, bytes], ...] = ()


WRONG_HOST = Refusal(421, "the Host header must name this server and its port exactly")
NO_HOST = Refusal(400, "exactly one Host header is needed")
WRONG_TARGET = Refusal(400, "the request target must be a path")
WRONG_METHOD = Refusal(405, "this method is not served", ((b"allow", ", ".join(sorted(METHODS)).encode()),))
WRONG_ORIGIN = Refusal(403, "requests from pages of other places are not answered")
NO_TOKEN = Refusal(401, "a bearer token is needed: Authorization: Bearer TOKEN", ((b"www-authenticate", b"Bearer"),))
LARGE_HEADERS = Refusal(431, "the headers are too large")
TWO_LENGTHS = Refusal(400, "either Content-Length or Transfer-Encoding is needed, not both")
LARGE_BODY = Refusal(413, "the request body is too large")
LATE_BODY = Refusal(408, "the request body did not arrive in time")
LARGE_ANSWER = Refusal(500, "the answer is too large; ask for less")
LATE_ANSWER = Refusal(504, "the answer took too long")
FAILED = Refusal(500, "this is a bug; the server's standard error says more")


def is_loopback(host: str) -> bool:
    """Whether a host to bind to can be reached from this machine alone."""
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bracketed(host: str) -> str:
    """The host as it stands in a URL: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def refusal(method: str, target: bytes, headers: Headers, door: Door, limits: Limits) -> Refusal | None:
    """Why a request is not let in, by its first lines alone; None when it is.

    Args:
        method: as it was sent.
        target: the request's target without its query.
        headers: all of them.
        door: what it knocks at.
        limits: how large they may be.
    """
    given = list(headers)
    if len(given) > limits.headers or sum(len(name) + len(value) for name, value in given) > limits.header_bytes:
        return LARGE_HEADERS
    if not target.startswith(b"/"):  # an absolute URI would name another host than the header does
        return WRONG_TARGET
    return (
        host_refusal(values(given, b"host"), door)
        or (None if method in METHODS else WRONG_METHOD)
        or origin_refusal(given, method)
        or token_refusal(values(given, b"authorization"), door.token)
        or length_refusal(values(given, b"content-length"), values(given, b"transfer-encoding"), limits.body_bytes)
    )


def values(headers: Headers, name: bytes) -> list[str]:
    """Every value of a header."""
    return [value.decode("latin-1") for key, value in headers if key == name]


def host_refusal(hosts: list[str], door: Door) -> Refusal | None:
    """The Host header must be one of ours to the letter; case alone does not matter."""
    if len(hosts) != 1:
        return NO_HOST
    return None if hosts[0].lower() in door.authorities else WRONG_HOST


def origin_refusal(headers: Headers, method: str) -> Refusal | None:
    """An Origin must be the place that Host names; programs send none.

    A browser sends no Origin with what a page merely embeds; there Sec-Fetch-Site says it. A link that somebody follows
    from another page is let in: the page that it stands on does not see the answer.
    """
    origins = values(headers, b"origin")
    if origins:
        own = [f"http://{host}".lower() for host in values(headers, b"host")]
        return None if [origin.lower() for origin in origins] == own else WRONG_ORIGIN
    if not set(values(headers, b"sec-fetch-site")) & {"cross-site", "same-site"}:
        return None
    follows_link = values(headers, b"sec-fetch-mode") == ["navigate"] and values(headers, b"sec-fetch-dest") == [
        "document"
    ]
    return None if follows_link and method == "GET" else WRONG_ORIGIN


def token_refusal(authorizations: list[str], token: str) -> Refusal | None:
    """The token must be the one that was set, compared in constant time."""
    if not token:
        return None
    scheme, _, given = authorizations[0].partition(" ") if len(authorizations) == 1 else ("", "", "")
    same = hmac.compare_digest(given.encode("latin-1"), token.encode("latin-1"))
    return None if same and scheme.lower() == "bearer" else NO_TOKEN


def length_refusal(lengths: list[str], encodings: list[str], most: int) -> Refusal | None:
    """A body that is announced as too large is not read; one that is not announced is counted as it comes."""
    if lengths and encodings:  # where programs differ in which of the two they heed, one request passes for two
        return TWO_LENGTHS
    return LARGE_BODY if any(not length.isdigit() or int(length[:20]) > most for length in lengths) else None
