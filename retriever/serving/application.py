"""What one address serves: MCP at /mcp, the web page at everything else."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Mount

if TYPE_CHECKING:
    from retriever.serving.library import Library


def application(library: "Library", *, mcp: bool, web: bool) -> Starlette:
    """Both or one of them, to be put behind the guard."""
    routes: list[BaseRoute] = []
    parts: list[Starlette] = []
    if mcp:
        from retriever.serving.mcp_http import mcp_app

        parts.append(mcp_app(library))
        routes.extend(parts[-1].routes)
    if web:
        from retriever.serving.web import web_app

        parts.append(web_app(library))
        routes.append(Mount("/", parts[-1]))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for part in parts:
                await stack.enter_async_context(part.router.lifespan_context(part))
            yield

    return Starlette(routes=routes, lifespan=lifespan)
