"""MCP over streamable HTTP: one POST for each message, one JSON answer, no sessions to keep."""

from typing import TYPE_CHECKING

from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from retriever.serving.mcp_server import mcp_server

if TYPE_CHECKING:
    from retriever.serving.pool import ServedIndex

PATH = "/mcp"


def mcp_app(library: "ServedIndex") -> Starlette:
    """The application; it belongs behind our guard, which stands in for the SDK's own check of Host and Origin."""
    app = mcp_server(library).streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    endpoint = next(route.endpoint for route in app.routes if isinstance(route, Route))
    refusal = Route(PATH, endpoint=_only_post, methods=["GET", "DELETE"])
    app.router.routes[:] = [Route(PATH, endpoint=endpoint, methods=["POST"]), refusal]
    return app


async def _only_post(_: Request) -> Response:
    """Without a session there is no stream to open with GET, and nothing to DELETE: 405, as the specification says."""
    return Response(status_code=405, headers={"Allow": "POST"})
