"""Messages of MCP as raw JSON."""

from typing import Any

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


def request(number: int, method: str, **params: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
