"""What the resident process and a question's process say to one another, and what is a question for it.

Messages are JSON objects, each behind its length in four bytes:

    client    {"protocol": 1, "program": ..., "nonce": ...}
    resident  {"protocol": 1, "program": ..., "nonce": ..., "proof": ...}
    client    {"kind": "ask" | "status" | "stop", "proof": ..., ...}
    resident  {"kind": "alive"} once a second, then {"kind": "answer" | "declined" | "status" | "stopping", ...}

The proofs show that both can read the note of the process; through a Unix socket, whose folder is the user's alone,
there is no need and they are empty. Read on the way of every question, so nothing heavy is imported here.
"""

import json
import os
import socket
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

PROTOCOL = 1
MAX_REQUEST_BYTES = 4_000_000
"""A command line and an environment are at most 2 MB on Linux."""
MAX_ANSWER_BYTES = 64_000_000
HELLO_S = 3.0
"""For either side to send what is at hand."""
ALIVE_EVERY_S = 1.0
SILENT_S = 5.0
"""A resident process that says nothing for so long hangs."""

OTHER_COMMANDS = frozenset(
    [
        "index",
        "watch",
        "tree",
        "read",
        "status",
        "history",
        "forget",
        "export",
        "import",
        "doctor",
        "profiles",
        "init",
        "eval",
        "explain",
        "questions",
        "mcp",
        "serve",
        "completion",
    ]
)
"""The commands that the resident process does not run, as far as they are known without loading them."""
VOICE_FLAGS = frozenset({"-q", "--quiet", "-v", "--verbose", "-qv", "-vq"})
OWN_FLAGS = frozenset({"--help", "--version", "--batch", "--run"})
"""Flags of an `ask` that answers no single question."""

Message = dict[str, Any]


class ConversationError(Exception):
    """The other side is silent, or says what it should not."""


class GoneError(ConversationError):
    """The other side is gone."""


def is_question(words: Sequence[str], others: Collection[str] = OTHER_COMMANDS) -> bool:
    """Whether a command line asks one question; `others` are the names of the commands that do not."""
    first = next((word for word in words if word not in VOICE_FLAGS), "")
    return bool(first) and first not in others and not any(word.split("=", 1)[0] in OWN_FLAGS for word in words)


def mode_of(words: Sequence[str], environment: Mapping[str, str], variable: str) -> str:
    """What --resident says, else the variable; `use` when neither does."""
    for place, word in enumerate(words):
        if word == "--resident":
            return words[place + 1] if place + 1 < len(words) else ""
        if word.startswith("--resident="):
            return word.split("=", 1)[1]
    return environment.get(variable) or "use"


def send(connection: socket.socket, message: Message, seconds: float = HELLO_S) -> None:
    """Sends a message.

    Raises:
        ConversationError: the other side does not read it in time, or is gone.
    """
    data = json.dumps(message).encode("ascii")
    try:
        connection.settimeout(seconds)
        connection.sendall(len(data).to_bytes(4, "big") + data)
    except TimeoutError as error:
        raise ConversationError("silence") from error
    except OSError as error:
        raise GoneError(str(error)) from error


def receive(connection: socket.socket, most: int, seconds: float) -> Message:
    """The next message, all of which arrives within so many seconds.

    Raises:
        ConversationError: it does not, is longer than `most` bytes, or is no object.
    """
    deadline = time.monotonic() + seconds
    length = int.from_bytes(_exactly(connection, 4, deadline), "big")
    if length > most:
        raise ConversationError(f"a message of {length:,} bytes")
    try:
        message = json.loads(_exactly(connection, length, deadline))
    except (ValueError, RecursionError) as error:
        raise ConversationError("a message that is no JSON") from error
    if not isinstance(message, dict):
        raise ConversationError("a message that is no object")
    return message


def _exactly(connection: socket.socket, size: int, deadline: float) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        left = deadline - time.monotonic()
        if left <= 0:
            raise ConversationError("silence")
        try:
            connection.settimeout(left)
            part = connection.recv(min(size - len(parts), 1 << 20))
        except TimeoutError as error:
            raise ConversationError("silence") from error
        except OSError as error:
            raise GoneError(str(error)) from error
        if not part:
            raise GoneError("the connection ended")
        parts += part
    return bytes(parts)


def new_nonce() -> str:
    """Sixteen random bytes."""
    return os.urandom(16).hex()


def proof(token: str, side: str, nonce: str) -> str:
    """What only who knows the token can say to a nonce; empty without a token."""
    if not token:
        return ""
    import hashlib  # only where there are no Unix sockets
    import hmac

    return hmac.new(token.encode(), f"{side} {nonce}".encode(), hashlib.sha256).hexdigest()


def is_proof(given: object, token: str, side: str, nonce: str) -> bool:
    """Whether it is that proof."""
    if not token:
        return True
    import hmac

    return isinstance(given, str) and hmac.compare_digest(given.encode(), proof(token, side, nonce).encode())
