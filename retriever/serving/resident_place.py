"""Where the resident process is found, and which program it is; read on the way of every question, so nothing heavy.

Everything lies in one folder that is its owner's alone: the socket, the lock of the process that listens, the note of
how to reach it, and its log. Each installation of this program has names of its own in it.
"""

import os
import stat
import sys
import zlib
from collections.abc import Iterator, Mapping

MODE_VARIABLE = "HYBRID_RETRIEVE_RESIDENT"
FOLDER_NAME = "hybrid-retrieve"
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - pathlib costs 10 ms
"""The folder `retriever` of this installation."""
MAX_SOCKET_PATH = 100
"""Bytes. Systems allow 104 to 108, with the zero that ends the path."""


class Place:
    """The files of the resident process of one user and one installation."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        name = f"resident-{zlib.crc32(os.fsencode(PACKAGE + sys.prefix)):08x}"
        folder = state_folder(environment)
        if len(os.fsencode(f"{folder}/{name}.sock")) > MAX_SOCKET_PATH:
            folder = _short_folder(folder)
        self.folder = folder
        self.socket = f"{folder}/{name}.sock"
        self.lock = f"{folder}/{name}.lock"
        self.note = f"{folder}/{name}.json"
        """How to reach the process where there are no Unix sockets; written before it answers, removed as it leaves."""
        self.pid = f"{folder}/{name}.pid"
        """Holds the id of the process that has the lock."""
        self.log = f"{folder}/{name}.log"

    def is_private(self) -> bool:
        """Whether the folder is there, and nobody but this user can look into it."""
        try:
            found = os.lstat(self.folder)
        except OSError:
            return False
        if os.name != "posix":
            return stat.S_ISDIR(found.st_mode)
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def state_folder(environment: Mapping[str, str]) -> str:
    """The folder of the first of these that is set: XDG_RUNTIME_DIR, XDG_STATE_HOME, LOCALAPPDATA, the user's home."""
    home = os.path.expanduser("~")  # noqa: PTH111 - as above
    candidates = (
        environment.get("XDG_RUNTIME_DIR", ""),
        environment.get("XDG_STATE_HOME", ""),
        environment.get("LOCALAPPDATA", "") if os.name == "nt" else "",
        f"{home}/.local/state",
    )
    return f"{next(path for path in candidates if os.path.isabs(path) or path is candidates[-1])}/{FOLDER_NAME}"  # noqa: PTH117


def _short_folder(folder: str) -> str:
    """A folder of the same owner whose path is short enough for a socket."""
    owner = os.getuid() if hasattr(os, "getuid") else 0
    return f"/tmp/{FOLDER_NAME}-{owner}-{zlib.crc32(os.fsencode(folder)):08x}"


def program_identity() -> str:
    """Differs when the sources of this program, its packages or its Python do.

    2 ms: names, sizes and times of the sources, and the time of the folder where packages are installed.
    """
    root = os.path.dirname(PACKAGE)  # noqa: PTH120 - as above
    digest = zlib.crc32(f"{sys.version} {sys.prefix}".encode())
    for path, status in sorted(_sources(root), key=lambda item: item[0]):
        digest = zlib.crc32(os.fsencode(f"{path} {status.st_size} {status.st_mtime_ns}"), digest)
    return f"{PACKAGE} {digest:08x}"


def _sources(root: str) -> Iterator[tuple[str, os.stat_result]]:
    pending = [f"{root}/pageindex", PACKAGE]
    yield from ((path, os.stat(path)) for path in (f"{root}/hybrid_retrieve.py", _packages()) if os.path.exists(path))  # noqa: PTH110, PTH116
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    yield entry.path, entry.stat()
                elif "." not in entry.name and entry.name != "__pycache__" and entry.is_dir():
                    pending.append(entry.path)


def _packages() -> str:
    """The folder where the packages of this Python are installed: its time changes when one comes or goes."""
    return next((path for path in sys.path if path.endswith("-packages")), sys.prefix)
