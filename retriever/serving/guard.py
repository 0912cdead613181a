"""What stands before everything that listens: it lets in what may come in, and bounds what that costs."""

import asyncio
import json
import logging
from typing import TYPE_CHECKING

from retriever.serving.admission import (
    DEFAULT_LIMITS,
    FAILED,
    LARGE_ANSWER,
    LARGE_BODY,
    LATE_ANSWER,
    LATE_BODY,
    Door,
    Headers,
    Limits,
    Refusal,
    refusal,
)

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger(__name__)

ON_EVERY_ANSWER = {
    b"x-content-type-options": b"nosniff",
    b"cross-origin-resource-policy": b"same-origin",
    b"referrer-policy": b"no-referrer",
    b"x-frame-options": b"DENY",
}
"""Added where the application has not set them."""


class Guard:
    """An ASGI application that lets in what may come in, and bounds what it costs."""

    def __init__(self, app: "ASGIApp", door: Door, limits: Limits = DEFAULT_LIMITS) -> None:
        self.app = app
        self.door = door
        self.limits = limits

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Answers a request, or refuses it; the application never sees what is refused."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            answer = _Answer(send, self.limits.answer_bytes)
            refused = refusal(scope["method"], _target(scope), scope["headers"], self.door, self.limits)
            refused = refused or await self._answered(scope, receive, answer)
            if refused is not None:
                await answer.refuse(refused)

    async def _answered(self, scope: "Scope", receive: "Receive", answer: "_Answer") -> Refusal | None:
        deadline = asyncio.timeout(self.limits.seconds)
        try:
            async with deadline:
                body = await read_body(receive, self.limits)
                if isinstance(body, bytes):
                    await self.app(scope, _replayed(body, receive), answer.send)
                    return None
                return body
        except TimeoutError:
            if deadline.expired():
                return LATE_ANSWER
            log.exception("a request failed")
        except _LargeAnswerError:
            return LARGE_ANSWER
        except Exception:
            log.exception("a request failed")
        return FAILED


def _target(scope: "Scope") -> bytes:
    raw: bytes = scope.get("raw_path") or scope["path"].encode("utf-8", "surrogateescape")
    return raw


async def read_body(receive: "Receive", limits: Limits) -> bytes | Refusal | None:
    """The whole body; None when the client has gone."""
    parts, size = [], 0
    try:
        async with asyncio.timeout(limits.body_seconds):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    return None
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > limits.body_bytes:
                    return LARGE_BODY
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError:
        return LATE_BODY


def _replayed(body: bytes, receive: "Receive") -> "Receive":
    """What gives the body in one piece, then whatever comes after it."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> "Message":
        return pending.pop() if pending else await receive()

    return replay


class _LargeAnswerError(Exception):
    """The application says more than may be said."""


class _Answer:
    """Counts what is sent, and sends a refusal while nothing has been."""

    def __init__(self, send: "Send", most: int) -> None:
        self._send = send
        self._most = most
        self._sent = 0
        self._start: Message | None = None
        self._started = False

    async def send(self, message: "Message") -> None:
        """Passes a message on; the first one waits for the second, so that a large answer can still be refused.

        Raises:
            _LargeAnswerError: that was too much.
        """
        if message["type"] == "http.response.start":
            self._start = {**message, "headers": _with_defaults(message.get("headers", ()))}
            return
        self._sent += len(message.get("body", b""))
        if self._sent > self._most:
            raise _LargeAnswerError
        if self._start is not None:
            self._started = True
            await self._send(self._start)
            self._start = None
        await self._send(message)

    async def refuse(self, refused: Refusal) -> None:
        """Says why; where half an answer has gone out already, the server closes the connection."""
        if self._started:
            return
        body = json.dumps({"error": refused.reason}).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),  # what follows may be the body that was not read
            *refused.headers,
        ]
        start = {"type": "http.response.start", "status": refused.status, "headers": _with_defaults(headers)}
        await self._send(start)
        await self._send({"type": "http.response.body", "body": body})


def _with_defaults(headers: Headers) -> list[tuple[bytes, bytes]]:
    given = [(name.lower(), value) for name, value in headers]
    names = {name for name, _ in given}
    return given + [(name, value) for name, value in ON_EVERY_ANSWER.items() if name not in names]
