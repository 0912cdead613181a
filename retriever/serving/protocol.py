"""HTTP/1.1 by uvicorn and h11, with a bound on how long a client may take to say what it wants."""

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0
"""From the connection, or the end of an answer, to the end of the next request's headers."""


class BoundedProtocol(H11Protocol):
    """Closes a connection whose next request does not begin in time; uvicorn bounds only the time without a byte."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn declares it
        """A connection begins; so does its time."""
        super().connection_made(transport)
        self._expect_request()

    def on_response_complete(self) -> None:
        """An answer is out; the time for the next request begins."""
        super().on_response_complete()
        self._expect_request()

    def _expect_request(self) -> None:
        self.loop.call_later(HEAD_SECONDS, self._close_unless_moved_on, self.cycle)

    def _close_unless_moved_on(self, known: object) -> None:
        if self.cycle is known and not self.transport.is_closing():
            self.transport.close()
