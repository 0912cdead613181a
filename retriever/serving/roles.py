"""Who asks is a role of PostgreSQL, which a proxy that knows its users names in a header; each is served apart."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.routing import Mount

from retriever.serving.guard import PROBES

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


def route_roles(header: str, apps: Mapping[str, Starlette]) -> Starlette:
    """Return one application of those of the roles, to put behind the guard: what one keeps, no other role sees.

    Args:
        header: its name. Whoever gets past the guard is believed, so only the proxy may.
        apps: by the roles that may be named; every other request is refused.
    """

    async def dispatch(scope: "Scope", receive: "Receive", send: "Send") -> None:
        named = Headers(scope=scope).getlist(header)
        app: ASGIApp | None = apps.get(named[0]) if len(named) == 1 else None
        if scope["path"] in PROBES:  # who watches servers is no role, and learns nothing of documents
            app = next(iter(apps.values()))
        refusal = JSONResponse({"error": "the proxy names no role that is served here"}, 403)
        await (app or refusal)(scope, receive, send)

    @asynccontextmanager
    async def run_together(_: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for app in apps.values():
                await stack.enter_async_context(app.router.lifespan_context(app))
            yield

    return Starlette(routes=[Mount("/", dispatch)], lifespan=run_together)
