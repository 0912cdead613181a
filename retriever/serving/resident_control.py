"""The resident process from outside: start it, end it, ask how it is."""

import contextlib
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from retriever.errors import ServingError
from retriever.serving.resident_client import NoResidentError, talk
from retriever.serving.resident_place import PACKAGE, Place
from retriever.serving.resident_protocol import ConversationError

STOP_S = 10.0
"""For a process that was told to leave; then it is killed."""


@dataclass(frozen=True, slots=True)
class ResidentState:
    """How a resident process is."""

    pid: int
    since: str
    """UTC, as ISO 8601."""
    questions: int
    """How many it has answered."""
    bytes: int
    """Its memory."""


def resident_state() -> ResidentState | None:
    """The state of this user's resident process; None when there is none.

    Raises:
        ServingError: there is one, and it hangs.
    """
    place = Place(os.environ)
    try:
        told = talk(place, {"kind": "status"})
        since = datetime.fromtimestamp(float(told["since"]), UTC).isoformat(timespec="seconds")
        return ResidentState(int(told["pid"]), since, int(told["questions"]), int(told["bytes"]))
    except NoResidentError:
        return None
    except (ConversationError, LookupError, ValueError, TypeError) as error:
        raise ServingError(f"the resident process does not answer ({error}); run: serve --stop") from error


def start_in_background(idle_minutes: float | None = None) -> None:
    """Starts a resident process that outlives this one, in a session of its own; where one runs, the new one leaves."""
    program = Path(PACKAGE).parent / "hybrid_retrieve.py"
    idle = [] if idle_minutes is None else ["--idle-minutes", str(idle_minutes)]
    subprocess.Popen(
        [sys.executable, str(program), "serve", "--background", *idle],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )


def stop_resident() -> int | None:
    """Ends this user's resident process after what it answers now; kills it when it hangs.

    Returns:
        its process id; None when there was none.

    Raises:
        ServingError: it cannot be ended.
    """
    place = Place(os.environ)
    pid = _holder(place)
    if pid is None:
        return None
    try:
        talk(place, {"kind": "stop"})
        if _is_gone(place, STOP_S):
            return pid
    except (NoResidentError, ConversationError):  # it hangs, or has just left
        pass
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)
    if not _is_gone(place, STOP_S):
        raise ServingError(f"the resident process {pid} cannot be ended")
    return pid


def _holder(place: Place) -> int | None:
    """The process that holds the lock."""
    if not place.is_private() or _is_gone(place, 0):
        return None
    try:
        return int(Path(place.pid).read_text(encoding="ascii"))
    except (OSError, ValueError) as error:
        raise ServingError(f"a resident process begins or ends just now; try again ({error})") from error


def _is_gone(place: Place, seconds: float) -> bool:
    """Whether nobody holds the lock, within so many seconds."""
    from filelock import FileLock, Timeout

    lock = FileLock(place.lock, mode=0o600)
    try:
        with lock.acquire(timeout=seconds):
            return True
    except Timeout:
        return False
