"""A question's process asks the resident process; standard library only, because this is all that a warm `ask` loads.

The resident process runs the whole command line as if it stood here: in this folder, with this environment, for these
streams. Everything that it would have written comes back at once, so a question that it does not finish is answered in
this process and nothing is printed twice.

Both sides send JSON objects, one on a line, through a Unix socket in a folder that only its owner can enter:

    client    {"kind": "ask", "program": ..., "words": [...], ...} | {"kind": "status"} | {"kind": "stop"}
    resident  {"kind": "alive"} once a second, then {"kind": "answer" | "declined" | "status" | "stopping", ...}
"""

import json
import os
import socket
import stat
import sys
import zlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, BinaryIO

MODE_VARIABLE = "HYBRID_RETRIEVE_RESIDENT"
MAX_REQUEST_BYTES = 4_000_000  # a command line and an environment are at most 2 MB on Linux
MAX_ANSWER_BYTES = 64_000_000
# In bytes: systems allow 104 to 108, with the zero that ends the path.
MAX_SOCKET_PATH = 100
CONNECT_S = 3.0
ALIVE_EVERY_S = 1.0
# A resident process that says nothing for this time hangs.
SILENT_S = 5.0
# The folder `retriever` of this installation.
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - pathlib costs 10 ms
VERBOSITY_FLAGS = frozenset({"-q", "--quiet", "-v", "--verbose", "-qv", "-vq"})  # may stand before a command's name
OWN_FLAGS = frozenset(
    {"-h", "--help", "--help-all", "--version", "--batch", "--run"}
)  # of an `ask` that answers no single question
NOTE = "note: the resident process {what}; asked without it (see it with `status`, end it with `serve --stop`)\n"

Message = dict[str, Any]
# Output in its order: 1 or 2 for the stream, and the bytes.
Chunks = list[tuple[int, bytes]]


class NoResidentError(Exception):
    """No resident process listens that this user started."""


class ConversationError(Exception):
    """The other side is silent, or what it sends is no message; the text says which."""


class GoneError(ConversationError):
    """The other side is gone."""


class ResidentPaths:
    """The files of the resident process of one user and one installation of the program."""

    # They are in `hybrid-retrieve/` below XDG_RUNTIME_DIR; without it, or where that path is too long for a socket, in
    # a folder of /tmp that is named by the user's number.
    def __init__(self, environment: Mapping[str, str]) -> None:
        # The name is new with each incompatible change of the messages, so that no old process is asked.
        name = f"resident-2-{zlib.crc32(os.fsencode(PACKAGE + sys.prefix)):08x}"
        runtime = environment.get("XDG_RUNTIME_DIR", "")
        folder = f"{runtime}/hybrid-retrieve"
        if not os.path.isabs(runtime):  # noqa: PTH117 - as above
            folder = f"/tmp/hybrid-retrieve-{user_id()}"
        elif len(os.fsencode(f"{folder}/{name}.sock")) > MAX_SOCKET_PATH:
            folder = f"/tmp/hybrid-retrieve-{user_id()}-{zlib.crc32(os.fsencode(folder)):08x}"
        self.folder = folder
        self.socket = f"{folder}/{name}.sock"
        self.lock = f"{folder}/{name}.lock"  # held by the process that listens
        self.pid = f"{folder}/{name}.pid"  # holds the id of that process
        self.log = f"{folder}/{name}.log"

    def is_private(self) -> bool:
        """Whether the folder is there, is no link, and only this user can enter it."""
        try:
            found = os.lstat(self.folder)
        except OSError:
            return False
        return stat.S_ISDIR(found.st_mode) and found.st_uid == user_id() and not found.st_mode & 0o077


def ask_resident(words: Sequence[str], commands: Collection[str]) -> tuple[int, Chunks] | None:
    """Lets the resident process run a command line: the exit status and the output, or None to run it here."""
    if not is_question(words, commands) or read_mode(words, os.environ) == "never":
        return None
    if sys.stdout is None or sys.stderr is None:
        return None
    try:
        columns = os.get_terminal_size(1).columns
    except OSError:
        columns = 0
    try:
        request: Message = {
            "kind": "ask",
            "program": program_identity(),
            "words": list(words),
            "program_name": os.path.basename(sys.argv[0]),  # noqa: PTH119 - as above
            "folder": os.getcwd(),  # noqa: PTH109 - as above
            "environment": dict(os.environ),
            "columns": columns,
        }
        # How each of our streams writes text: the resident process writes in the same way.
        for name, stream in (("stdout", sys.stdout), ("stderr", sys.stderr)):
            line_buffering = bool(getattr(stream, "line_buffering", False))
            request[name] = {"tty": stream.isatty(), "encoding": stream.encoding, "line_buffering": line_buffering}
        reply = talk(ResidentPaths(os.environ), request)
        if reply.get("kind") != "answer":
            return None
        return int(reply["code"]), [(int(stream), text.encode("latin-1")) for stream, text in reply["chunks"]]
    except (NoResidentError, FileNotFoundError):  # the second: the current folder was deleted
        return None
    except (ConversationError, LookupError, ValueError, TypeError) as error:
        if not {"-q", "--quiet"} & set(words):
            what = "ended in the middle" if isinstance(error, GoneError) else "does not answer"
            sys.stderr.write(NOTE.format(what=what))
        return None


def is_question(words: Sequence[str], commands: Collection[str]) -> bool:
    first = next((word for word in words if word not in VERBOSITY_FLAGS), "")
    is_ask = bool(first) and (first == "ask" or first not in commands)
    return is_ask and not any(word.split("=", 1)[0] in OWN_FLAGS for word in words)


def read_mode(words: Sequence[str], environment: Mapping[str, str]) -> str:
    """What --resident says, else HYBRID_RETRIEVE_RESIDENT, else `use`."""
    for position, word in enumerate(words):
        if word == "--resident":
            return words[position + 1] if position + 1 < len(words) else ""
        if word.startswith("--resident="):
            return word.split("=", 1)[1]
    return environment.get(MODE_VARIABLE) or "use"


def talk(paths: ResidentPaths, request: Message) -> Message:
    """The resident process's reply; NoResidentError, or ConversationError when it hangs or ended in the middle."""
    if not hasattr(socket, "AF_UNIX") or not paths.is_private():
        raise NoResidentError("there is no private folder with a socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.settimeout(CONNECT_S)
            connection.connect(paths.socket)
        except OSError as error:
            raise NoResidentError(str(error)) from error
        if not is_same_user(connection):
            raise NoResidentError("another user listens")
        connection.settimeout(SILENT_S)
        send_message(connection, request)
        with connection.makefile("rb") as lines:
            while True:
                reply = read_message(lines, MAX_ANSWER_BYTES)
                if reply.get("kind") != "alive":
                    return reply


def send_message(connection: socket.socket, message: Message) -> None:
    try:
        connection.sendall(json.dumps(message).encode("ascii") + b"\n")
    except TimeoutError as error:
        raise ConversationError("the message was not read in time") from error
    except OSError as error:
        raise GoneError(str(error)) from error


def read_message(lines: BinaryIO, max_bytes: int) -> Message:
    """The next message; ConversationError when none comes in time, or it is none or larger than `max_bytes`."""
    try:
        line = lines.readline(max_bytes + 1)
    except TimeoutError as error:
        raise ConversationError("no whole message came in time") from error
    except OSError as error:
        raise GoneError(str(error)) from error
    if not line:
        raise GoneError("the connection ended")
    if len(line) > max_bytes:
        raise ConversationError(f"a message has at most {max_bytes:,} bytes")
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConversationError("the message is no JSON") from error
    if not isinstance(message, dict):
        raise ConversationError("the message is no JSON object")
    return message


def is_same_user(connection: socket.socket) -> bool:
    """Whether the other side is this user's, where the system says whose it is; the folder says so already."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)  # three ints: process, user, group
    return int.from_bytes(credentials[4:8], sys.byteorder) == user_id()


def user_id() -> int:
    """The number of this user; 0 where the system has none."""
    return os.getuid() if hasattr(os, "getuid") else 0


def program_identity() -> str:
    """A text that differs when this program, its packages or its Python do: of names, sizes and times, in 2 ms."""
    root = os.path.dirname(PACKAGE)  # noqa: PTH120 - as above
    packages = next((path for path in sys.path if path.endswith("-packages")), sys.prefix)
    found = [(path, os.stat(path)) for path in (f"{root}/hybrid_retrieve.py", packages) if os.path.exists(path)]  # noqa: PTH110, PTH116 - as above
    pending = [f"{root}/pageindex", PACKAGE]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    found.append((entry.path, entry.stat()))
                elif "." not in entry.name and entry.name != "__pycache__" and entry.is_dir():
                    pending.append(entry.path)
    digest = zlib.crc32(f"{sys.version} {sys.prefix}".encode())
    for path, status in sorted(found, key=lambda item: item[0]):
        digest = zlib.crc32(os.fsencode(f"{path} {status.st_size} {status.st_mtime_ns}"), digest)
    return f"{PACKAGE} {digest:08x}"
