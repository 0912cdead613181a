"""An HTTP server on loopback that a test scripts: it notes what it is asked, and can be killed in the middle."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class LoopbackServer(ThreadingHTTPServer):
    """Knows its open connections, so that it can drop them as a killed process does."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self._connections: set[socket.socket] = set()
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as in socketserver
        self._connections.add(request)
        super().process_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as in socketserver
        """The other side hung up: nothing to print."""

    def kill(self) -> None:
        if self._thread.is_alive():
            self.shutdown()
            self._thread.join()
        self.socket.close()
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def serving(handler: type["LoopbackHandler"]) -> Iterator[LoopbackServer]:
    server = LoopbackServer(handler)
    try:
        yield server
    finally:
        server.kill()


class LoopbackHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def body(self) -> dict[str, Any]:
        content = self.rfile.read(int(self.headers.get("content-length") or 0))
        return dict(json.loads(content)) if content else {}

    def lower_headers(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.headers.items()}

    def reply(self, status: int, content: object, **headers: str) -> None:
        self.reply_raw(status, json.dumps(content).encode(), **headers)

    def reply_raw(self, status: int, content: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass
