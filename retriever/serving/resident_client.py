"""A question's process asks the resident one; nothing heavy is imported, as this is all that a warm ask does.

The resident process runs the whole command line as if it stood here: in this folder, with this environment, for these
streams. What it would have written comes back at once, so that a question which it does not finish is asked anew in
this process, and nothing is printed twice.
"""

import json
import os
import socket
import sys
from collections.abc import Sequence
from typing import TextIO

from retriever.serving.resident_place import MODE_VARIABLE, Place, program_identity
from retriever.serving.resident_protocol import (
    HELLO_S,
    MAX_ANSWER_BYTES,
    MAX_REQUEST_BYTES,
    PROTOCOL,
    SILENT_S,
    ConversationError,
    GoneError,
    Message,
    is_proof,
    is_question,
    mode_of,
    new_nonce,
    proof,
    receive,
    send,
)

Chunks = list[tuple[int, bytes]]
"""What is to be written, in order: 1 or 2 for the stream, and the bytes."""

QUIET_FLAGS = frozenset({"-q", "--quiet"})
GONE_ON = "note: the resident process {what}; asked without it (see it with `status`, end it with `serve --stop`)\n"


class NoResidentError(Exception):
    """No resident process listens, or it is another program."""


def asked_of_resident(words: Sequence[str]) -> tuple[int, Chunks] | None:
    """The exit status of a command line and what it prints; None when it is to be run in this process.

    Args:
        words: the command line's arguments.
    """
    if not is_question(words) or mode_of(words, os.environ, MODE_VARIABLE) == "never":
        return None
    if sys.stdout is None or sys.stderr is None:
        return None
    try:
        reply = talk(Place(os.environ), {"kind": "ask", **_request(words)})
        if reply.get("kind") != "answer":  # it says no by itself: this question is to be asked in this process
            return None
        return int(reply["code"]), [(int(to), text.encode("latin-1")) for to, text in reply["chunks"]]
    except (NoResidentError, FileNotFoundError):  # or the current folder was deleted
        return None
    except (ConversationError, LookupError, ValueError, TypeError) as error:
        if not QUIET_FLAGS & set(words):
            what = "ended in the middle" if isinstance(error, GoneError) else "does not answer"
            sys.stderr.write(GONE_ON.format(what=what))
        return None


def talk(place: Place, request: Message, *, silent_s: float = SILENT_S) -> Message:
    """What the resident process replies to a request.

    Args:
        place: where it is.
        request: what is asked of it.
        silent_s: how long it may say nothing, in seconds.

    Raises:
        NoResidentError: there is none, or it is another program than this.
        ConversationError: it hangs, or ended in the middle.
    """
    connection, token = connect(place)
    with connection:
        nonce = new_nonce()
        program = program_identity() if request["kind"] == "ask" else ""
        send(connection, {"protocol": PROTOCOL, "program": program, "nonce": nonce})
        greeting = receive(connection, MAX_REQUEST_BYTES, HELLO_S)
        if not is_proof(greeting.get("proof"), token, "resident", nonce):
            raise NoResidentError("it is somebody else")
        if greeting.get("protocol") != PROTOCOL or (program and greeting.get("program") != program):
            raise NoResidentError("it is another version")
        send(connection, {**request, "proof": proof(token, "client", str(greeting.get("nonce")))})
        while True:
            reply = receive(connection, MAX_ANSWER_BYTES, silent_s)
            if reply.get("kind") != "alive":
                return reply


def connect(place: Place) -> tuple[socket.socket, str]:
    """A connection, and the token that both sides know; empty through a Unix socket.

    Raises:
        NoResidentError: nobody listens, or others could listen there.
    """
    if not place.is_private():
        raise NoResidentError("there is no folder")
    try:
        if hasattr(socket, "AF_UNIX") and not os.path.exists(place.note):  # noqa: PTH110 - pathlib costs 10 ms
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            address: str | tuple[str, int] = place.socket
            token = ""
        else:
            with open(place.note, encoding="utf-8") as file:  # noqa: PTH123 - as above
                note = json.load(file)
            connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            address, token = ("127.0.0.1", int(note["port"])), str(note["token"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise NoResidentError(str(error)) from error
    try:
        connection.settimeout(HELLO_S)
        connection.connect(address)
    except OSError as error:
        connection.close()
        raise NoResidentError(str(error)) from error
    return connection, token


def _request(words: Sequence[str]) -> Message:
    """All that the answer depends on, apart from files."""
    try:
        columns = os.get_terminal_size(1).columns
    except OSError:
        columns = 0
    return {
        "words": list(words),
        "program_name": os.path.basename(sys.argv[0]),  # noqa: PTH119 - pathlib costs 10 ms
        "folder": os.getcwd(),  # noqa: PTH109 - as above
        "environment": dict(os.environ),
        "columns": columns,
        "stdout": _facts(sys.stdout),
        "stderr": _facts(sys.stderr),
    }


def _facts(stream: TextIO) -> Message:
    """How a stream writes text."""
    return {
        "tty": stream.isatty(),
        "encoding": stream.encoding,
        "line_buffering": bool(getattr(stream, "line_buffering", False)),
    }
