"""Who asks is a role of PostgreSQL, which a proxy that knows its users names in a header; each is served apart."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.routing import Mount

from retriever.serving.guard import PROBES, Refusal, read_header
from retriever.serving.http import run_together

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

NO_ROLE = Refusal(403, "the proxy names no role that is served here")


def route_roles(header: str, apps: Mapping[str, Starlette]) -> Starlette:
    """Return one application of those of the roles, to put behind the guard: what one keeps, no other role sees.

    Args:
        header: its name. Whoever gets past the guard is believed, so only the proxy may.
        apps: by the roles that may be named; every other request is refused.
    """
    name = header.lower().encode()

    async def dispatch(scope: "Scope", receive: "Receive", send: "Send") -> None:
        named = read_header(scope["headers"], name)
        app = apps.get(named[0]) if len(named) == 1 else None
        if scope["path"].encode() in PROBES:  # who watches servers is no role, and learns nothing of documents
            app = next(iter(apps.values()))
        await (NO_ROLE.send(send) if app is None else app(scope, receive, send))

    return Starlette(routes=[Mount("/", dispatch)], lifespan=lambda _: run_together(apps.values()))
