"""The resident process: threads that listen, and one that answers, a question at a time.

Answering takes the process's folder, environment and streams (resident_call.py), so questions take turns; each takes
milliseconds. A question that waits too long for its turn is declined, and asked in its own process.
"""

import contextlib
import os
import queue
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from retriever.serving.resident_call import Call, call_of, replayed
from retriever.serving.resident_door import Door, is_same_user
from retriever.serving.resident_log import write_log
from retriever.serving.resident_place import Place, program_identity
from retriever.serving.resident_protocol import (
    ALIVE_EVERY_S,
    HELLO_S,
    MAX_ANSWER_BYTES,
    MAX_REQUEST_BYTES,
    PROTOCOL,
    ConversationError,
    Message,
    is_proof,
    new_nonce,
    proof,
    receive,
    send,
)

IDLE_S = 900.0
"""Without a question for so long, the process leaves."""
TURN_S = 3.0
"""A question that is not begun within this time is declined."""
LOOK_UP_S = 0.5
"""The wait for a question ends so often: a signal that comes just before it is heeded only then."""
MOST_CONNECTIONS = 64
LEAVING_S = 5.0
"""What was taken is still answered, for so long."""
ANSWER_BYTES_PER_BYTE = 6
"""A byte takes at most so many in a message."""

Outcome = tuple[int, list[tuple[int, bytes]]]
"""An exit status, and what was written."""
Answer = Callable[[Call], Outcome | str]
"""Runs a call; a text says why it is declined."""


@dataclass
class Job:
    """A call on its way through the queue."""

    call: Call
    result: Future[Outcome | str] = field(default_factory=Future)
    begun: float = 0.0
    """By time.monotonic(); 0 before."""


class Resident:
    """Answers until it is told to leave, or nobody asks any more.

    Args:
        answer: runs a call.
        place: where clients look for it.
        door: where it listens; its own from now on.
        seconds: how long an answer may take at most; asked again and again, as it depends on the question.
        idle_s: how long it waits for a question.
    """

    def __init__(
        self, answer: Answer, place: Place, door: Door, seconds: Callable[[], float], idle_s: float = IDLE_S
    ) -> None:
        self._answer = answer
        self._place = place
        self._door = door
        self._seconds = seconds
        self._idle_s = idle_s
        self._program = program_identity()
        self._since = time.time()
        self._answered = 0
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._talking: set[threading.Thread] = set()

    def leave(self) -> None:
        """Ends `run` after what was taken by now; may be called from a signal's handler."""
        self._jobs.put(None)

    def run(self) -> str:
        """Listens and answers; gives the reason why it ended."""
        threading.Thread(target=self._listen, daemon=True).start()
        asked = time.monotonic()
        reason = ""
        while not reason:
            try:
                job = self._jobs.get(timeout=min(LOOK_UP_S, self._idle_s))
            except queue.Empty:
                reason = "nobody asked any more" if time.monotonic() - asked > self._idle_s else ""
                continue
            if job is None:
                reason = "it was told to leave"
            else:
                self._do(job)
                asked = time.monotonic()
        self._door.close()
        self._finish()
        return reason

    def _finish(self) -> None:
        """Answers those who came before the door was closed."""
        deadline = time.monotonic() + LEAVING_S
        while self._talking and time.monotonic() < deadline:
            with contextlib.suppress(queue.Empty):
                job = self._jobs.get(timeout=0.02)
                if job is not None:
                    self._do(job)

    def _do(self, job: Job) -> None:
        if not job.result.set_running_or_notify_cancel():
            return
        job.begun = time.monotonic()
        try:
            outcome = self._answer(job.call)
            self._answered += not isinstance(outcome, str)
            job.result.set_result(outcome)
        except BaseException as error:  # it must not end the process; the client asks in its own, and sees it there
            job.result.set_exception(error)

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._door.listener.accept()
            except OSError:
                if self._door.is_closed:
                    return
                time.sleep(0.1)  # such as too many open files: they pass
                continue
            if len(self._talking) >= MOST_CONNECTIONS or not is_same_user(connection):
                connection.close()
                continue
            thread = threading.Thread(target=self._converse, args=(connection,), daemon=True)
            self._talking.add(thread)
            thread.start()

    def _converse(self, connection: socket.socket) -> None:
        try:
            with connection:
                self._talk(connection)
        except ConversationError:
            pass  # whoever it was is gone, or is no client
        except Exception as error:  # a bug: the client asks in its own process, and the log says why
            write_log(self._place.log, repr(error))
        finally:
            self._talking.discard(threading.current_thread())

    def _talk(self, connection: socket.socket) -> None:
        hello = receive(connection, 1000, HELLO_S)
        nonce = new_nonce()
        greeting = {"protocol": PROTOCOL, "program": self._program, "nonce": nonce}
        send(connection, {**greeting, "proof": proof(self._door.token, "resident", str(hello.get("nonce")))})
        if hello.get("program") and hello["program"] != self._program:
            self._leave_if_old()
            return
        request = receive(connection, MAX_REQUEST_BYTES, HELLO_S)
        if not is_proof(request.get("proof"), self._door.token, "client", nonce):
            return
        send(connection, self._reply(request, connection), HELLO_S)

    def _leave_if_old(self) -> None:
        """Another program asks: where it is this one's own successor, this one is of no use any more."""
        if program_identity() != self._program:
            self.leave()

    def _reply(self, request: Message, connection: socket.socket) -> Message:
        match request.get("kind"):
            case "ask":
                return self._asked(call_of(request), connection)
            case "status":
                return {"kind": "status", **self._status()}
            case "stop":
                self.leave()
                return {"kind": "stopping", "pid": os.getpid()}
            case _:
                return {"kind": "declined", "reason": "no such request"}

    def _status(self) -> dict[str, Any]:
        return {"pid": os.getpid(), "since": self._since, "questions": self._answered, "bytes": memory_bytes()}

    def _asked(self, call: Call, connection: socket.socket) -> Message:
        job = Job(call)
        self._jobs.put(job)
        queued = time.monotonic()
        while True:
            with contextlib.suppress(TimeoutError):
                return _as_message(job.result.result(ALIVE_EVERY_S))
            if not job.begun and time.monotonic() - queued > TURN_S and job.result.cancel():
                return {"kind": "declined", "reason": "others are being answered"}
            if job.begun and time.monotonic() - job.begun > self._seconds():
                self._give_up(call)
            try:
                send(connection, {"kind": "alive"}, ALIVE_EVERY_S)
            except ConversationError:
                job.result.cancel()
                raise

    def _give_up(self, call: Call) -> None:
        """The thread that answers is stuck: without it this process is of no use, and nothing else can stop it."""
        write_log(self._place.log, f"stuck for {self._seconds():.0f} s, ends; {call.words!r}")
        self._door.close()
        os._exit(1)


def _as_message(outcome: Outcome | str) -> Message:
    if isinstance(outcome, str):
        return {"kind": "declined", "reason": outcome}
    code, chunks = outcome
    if ANSWER_BYTES_PER_BYTE * sum(len(data) for _, data in chunks) > MAX_ANSWER_BYTES:
        return {"kind": "declined", "reason": "the answer is too long"}
    return {"kind": "answer", "code": code, "chunks": replayed(chunks)}


def memory_bytes() -> int:
    """Of this process, now; where the system does not say it, the most that it ever had."""
    with contextlib.suppress(OSError), open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - no path of a disk
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(ImportError):
        import resource
        import sys

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return 0
