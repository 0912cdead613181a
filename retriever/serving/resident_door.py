"""Where the resident process listens: one for a user and an installation, and open to nobody else."""

import contextlib
import json
import os
import socket
import struct
from pathlib import Path
from secrets import token_urlsafe
from typing import TYPE_CHECKING

from retriever.disk import make_private_folder
from retriever.errors import ServingError
from retriever.serving.resident_place import Place

if TYPE_CHECKING:
    from filelock import BaseFileLock

BACKLOG = 64


class Door:
    """A socket that listens, and the lock that makes it the only one; `open_door` makes it."""

    def __init__(self, listener: socket.socket, token: str, place: Place, lock: "BaseFileLock") -> None:
        self.listener = listener
        self.token = token
        """What both sides must know; empty at a Unix socket, whose folder is its owner's alone."""
        self.is_closed = False
        self._place = place
        self._lock = lock

    def close(self) -> None:
        """Nobody finds it any more, and another process may listen."""
        self.is_closed = True
        for path in (self._place.socket, self._place.note):
            Path(path).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # wakes the thread that waits in accept
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self._lock.release()


def open_door(place: Place, *, tcp: bool = not hasattr(socket, "AF_UNIX")) -> Door:
    """Listens; what a killed process left is replaced.

    Args:
        place: where clients look for it.
        tcp: whether to listen at a port of this machine, with a token in a file that its owner alone can read.

    Raises:
        ServingError: another process listens already, or the folder is open to others.
    """
    from filelock import FileLock, Timeout

    make_folder(place)
    lock = FileLock(place.lock, mode=0o600)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise ServingError(
            "a resident process runs already; see it with `status`, end it with `serve --stop`"
        ) from error
    for path in (place.socket, place.note):  # the lock is ours: whoever made them is gone
        Path(path).unlink(missing_ok=True)
    Path(place.pid).touch(mode=0o600)
    Path(place.pid).write_text(str(os.getpid()), encoding="ascii")
    try:
        return _tcp_door(place, lock) if tcp else _unix_door(place, lock)
    except OSError as error:
        lock.release()
        raise ServingError(
            f"the resident process cannot listen in {place.folder}: {error.strerror or error}"
        ) from error


def make_folder(place: Place) -> None:
    """Makes the folder of a place.

    Raises:
        ServingError: it cannot be made, or is open to others.
    """
    try:
        make_private_folder(Path(place.folder))
    except OSError as error:
        raise ServingError(f"{place.folder} cannot be made: {error.strerror}; see XDG_RUNTIME_DIR") from error
    if not place.is_private():
        raise ServingError(f"others can look into {place.folder}, or it is not yours; run: chmod 700 {place.folder}")


def _unix_door(place: Place, lock: "BaseFileLock") -> Door:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(place.socket)
    Path(place.socket).chmod(0o600)
    listener.listen(BACKLOG)
    return Door(listener, "", place, lock)


def _tcp_door(place: Place, lock: "BaseFileLock") -> Door:
    listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
    token = token_urlsafe(32)
    number = os.open(place.note, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(number, "w", encoding="utf-8") as file:
        json.dump({"port": listener.getsockname()[1], "token": token}, file)
    return Door(listener, token, place, lock)


def is_same_user(connection: socket.socket) -> bool:
    """Whether who connects is this user, where the system tells; elsewhere folder or token have told already."""
    if connection.family != getattr(socket, "AF_UNIX", None) or not hasattr(socket, "SO_PEERCRED"):
        return True
    layout = struct.Struct("3i")
    _, user, _ = layout.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, layout.size))
    return bool(user == os.getuid())
