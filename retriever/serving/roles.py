"""Who asks: a bearer token, or a header that a trusted proxy sets, is a role of PostgreSQL; each is served apart."""

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field, IPvAnyNetwork, StringConstraints, ValidationError
from starlette.applications import Starlette
from starlette.routing import Mount

from pageindex.corpus import read_file
from pageindex.plain_yaml import read_plain_yaml
from retriever.errors import UsageError
from retriever.serving.guard import NO_TOKEN, PROBES, Headers, Refusal, read_header

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_FILE_BYTES = 1_000_000
NOT_TRUSTED = Refusal(403, "the header that names a role is not taken from this address")
NO_ROLE = Refusal(403, "the proxy names no role that is served here")

Role = Annotated[str, StringConstraints(min_length=1)]
Digest = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]


class Proxy(BaseModel):
    """What is believed of a proxy that knows its users."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    addresses: Annotated[tuple[IPvAnyNetwork, ...], Field(min_length=1)]
    header: Annotated[str, StringConstraints(pattern="^[A-Za-z0-9-]+$")]
    roles: Annotated[tuple[Role, ...], Field(min_length=1)]

    def trusts(self, host: str) -> bool:
        """Whether a connection from this address is the proxy's."""
        return any(ipaddress.ip_address(host) in network for network in self.addresses)


class Roles(BaseModel):
    """Who is which role."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tokens: dict[Role, tuple[Digest, ...]] = Field(default_factory=dict)
    proxy: Proxy | None = None

    @property
    def names(self) -> list[str]:
        """All roles, each once."""
        return sorted({*self.tokens, *(self.proxy.roles if self.proxy else ())})

    def find(self, headers: Headers, client: str) -> str | Refusal:
        """The role of a request that comes from this address, or why it has none."""
        given = list(headers)
        if self.proxy is not None and (named := read_header(given, self.proxy.header.lower().encode())):
            if not (client and self.proxy.trusts(client)):
                return NOT_TRUSTED
            return named[0] if len(named) == 1 and named[0] in self.proxy.roles else NO_ROLE
        authorizations = read_header(given, b"authorization")
        scheme, _, token = authorizations[0].partition(" ") if len(authorizations) == 1 else ("", "", "")
        digest = sha256(token.encode("latin-1")).hexdigest()
        known = [role for role, digests in self.tokens.items() if token and digest in digests]
        return known[0] if known and scheme.lower() == "bearer" else NO_TOKEN


def read_roles(path: Path) -> Roles:
    """The roles of a file; UsageError with every mistake in it."""
    try:
        content = read_plain_yaml(read_file(path, MAX_FILE_BYTES, follow_link=True).decode("utf-8"))
        roles = Roles.model_validate(content)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        mistakes = (f"{'.'.join(map(str, item['loc'])) or 'the file'}: {item['msg']}" for item in error.errors())
        raise UsageError(f"{path}: {'; '.join(mistakes)}") from None
    except ValueError as error:  # PlainYamlError, UnicodeDecodeError
        raise UsageError(f"{path}: not YAML: {error}") from error
    digests = [digest for listed in roles.tokens.values() for digest in listed]
    if not roles.names or len(set(digests)) < len(digests):
        raise UsageError(f"{path}: " + ("one token has two roles" if digests else "it names no token and no proxy"))
    return roles


def route_roles(roles: Roles, apps: "Mapping[str, ASGIApp]") -> Starlette:
    """One application of those of the roles, to be put behind the guard: what one keeps, no other role sees."""

    async def dispatch(scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["path"].encode() in PROBES:  # who watches servers is no role, and learns nothing of documents
            await next(iter(apps.values()))(scope, receive, send)
            return
        role = roles.find(scope["headers"], (scope["client"] or ("",))[0])
        await (role.send(send) if isinstance(role, Refusal) else apps[role](scope, receive, send))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for app in apps.values():
                await stack.enter_async_context(_keep_running(app))
            yield

    return Starlette(routes=[Mount("/", dispatch)], lifespan=lifespan)


@asynccontextmanager
async def _keep_running(app: "ASGIApp") -> AsyncIterator[None]:
    """An application between its startup and its shutdown, as ASGI has them."""
    to_app: asyncio.Queue[Message] = asyncio.Queue()
    from_app: asyncio.Queue[Message] = asyncio.Queue()

    async def run() -> None:
        await app({"type": "lifespan", "state": {}}, to_app.get, from_app.put)

    running = asyncio.create_task(run())
    to_app.put_nowait({"type": "lifespan.startup"})
    if (await from_app.get())["type"] != "lifespan.startup.complete":
        await running  # it raises what failed
    yield
    to_app.put_nowait({"type": "lifespan.shutdown"})
    await running
