"""The resident process: threads that listen, and one that answers, a question at a time.

A command line runs here as if it stood in the process that asks: with its folder, its environment and its streams.
Those belong to a process as a whole, so questions take turns; each takes milliseconds. A question that waits too long
for its turn is declined, and answered in its own process.
"""

import contextlib
import io
import os
import queue
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from retriever.errors import ServingError
from retriever.files import make_private_folder
from retriever.serving.resident_client import (
    ALIVE_EVERY_S,
    CONNECT_S,
    MAX_ANSWER_BYTES,
    MAX_REQUEST_BYTES,
    Chunks,
    ConversationError,
    GoneError,
    Message,
    ResidentPaths,
    is_same_user,
    program_identity,
    read_message,
    send_message,
)

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from filelock import BaseFileLock

# Without a question for this time, the process leaves.
IDLE_S = 900.0
# A question that is not begun within this time is declined.
TURN_S = 3.0
# What came before the process was told to leave is still answered, for this time.
LEAVING_S = 5.0
MAX_CONNECTIONS = 64
# A longer log is begun anew.
MAX_LOG_BYTES = 200_000
# Where neither COLUMNS nor a terminal says how many, as in `shutil.get_terminal_size`.
DEFAULT_COLUMNS = 80


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """How a stream of the other process writes text."""

    tty: bool
    encoding: str
    line_buffering: bool

    def open(self, raw: io.RawIOBase) -> TextIO:
        buffer = io.BufferedWriter(raw)
        return io.TextIOWrapper(
            buffer, encoding=self.encoding, errors="backslashreplace", line_buffering=self.line_buffering
        )


@dataclass(frozen=True, slots=True)
class Call:
    """A command line, and everything that its result depends on, apart from files."""

    words: tuple[str, ...]  # the arguments
    program_name: str  # as error messages name the program
    folder: str  # the current one
    environment: Mapping[str, str]
    columns: int  # of the terminal; 0 where there is none
    stdout: StreamFacts
    stderr: StreamFacts


def parse_call(message: Message) -> Call:

    def text(value: object) -> str:
        if not isinstance(value, str) or "\0" in value:
            raise TypeError(f"{value!r:.100} is no text")
        return value

    def stream(facts: Mapping[str, Any]) -> StreamFacts:
        read = StreamFacts(bool(facts["tty"]), text(facts["encoding"]), bool(facts["line_buffering"]))
        with read.open(io.BytesIO()) as trial:  # type: ignore[arg-type]  # BytesIO is a writable end as well
            trial.write("\N{BULLET}\n")  # some codecs exist and cannot be used for a stream
        return read

    try:
        words, environment = message["words"], message["environment"]
        if not isinstance(words, list):
            raise TypeError("`words` is no list")
        return Call(
            words=tuple(map(text, words)),
            program_name=text(message["program_name"]),
            folder=text(message["folder"]),
            environment={text(name): text(value) for name, value in environment.items()},
            columns=int(message["columns"]),
            stdout=stream(message["stdout"]),
            stderr=stream(message["stderr"]),
        )
    except (LookupError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise ConversationError(f"the question cannot be read: {error!r:.300}") from error


class _RecordedStream(io.RawIOBase):
    """The end of a stream, in place of a file: what arrives is kept, with the number of its stream."""

    def __init__(self, chunks: Chunks, number: int, *, tty: bool) -> None:
        self._chunks = chunks
        self._number = number
        self._tty = tty

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._tty

    def write(self, data: "ReadableBuffer", /) -> int:
        self._chunks.append((self._number, bytes(data)))
        return len(self._chunks[-1][1])


@contextmanager
def impersonate(call: Call) -> Iterator[Chunks]:
    """Gives this process a call's folder, environment and streams; yields what the streams wrote, in its order."""
    # One block at a time. Afterwards the process is in the root folder, so that no other one is kept in use, and it
    # keeps the environment, which the next call changes to its own.
    os.chdir(call.folder)
    columns = call.environment.get("COLUMNS", "")  # as `shutil.get_terminal_size`, which would ask our terminal
    if not (columns.isdecimal() and int(columns) > 0):
        columns = str(call.columns or DEFAULT_COLUMNS)
    wanted = {**call.environment, "COLUMNS": columns}
    # Only what differs is changed: other threads may read the C library's environment meanwhile.
    for name in os.environ.keys() - wanted.keys():
        del os.environ[name]
    for name, value in wanted.items():
        if os.environ.get(name) != value:
            os.environ[name] = value
    chunks: Chunks = []
    before = sys.stdin, sys.stdout, sys.stderr
    sys.stdin = io.StringIO()
    sys.stdout = call.stdout.open(_RecordedStream(chunks, 1, tty=call.stdout.tty))
    sys.stderr = call.stderr.open(_RecordedStream(chunks, 2, tty=call.stderr.tty))
    try:
        yield chunks
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
        os.chdir("/")


class Listener:
    """A Unix socket that listens, and the lock that makes it the only one of its user and installation."""

    def __init__(self, paths: ResidentPaths) -> None:
        from filelock import FileLock, Timeout

        if not hasattr(socket, "AF_UNIX"):
            raise ServingError("the resident process needs Unix sockets, which this system has not; ask without it")
        try:
            make_private_folder(Path(paths.folder))
        except OSError as error:
            raise ServingError(f"{paths.folder} cannot be made: {error.strerror}; see XDG_RUNTIME_DIR") from error
        if not paths.is_private():
            raise ServingError(
                f"others can look into {paths.folder}, or it is not yours; run: chmod 700 {paths.folder}"
            )
        self._paths = paths
        self._lock: BaseFileLock = FileLock(paths.lock, mode=0o600)
        try:
            self._lock.acquire(timeout=0)
        except Timeout as error:
            raise ServingError(
                "a resident process runs already; see it with `status`, end it with `serve --stop`"
            ) from error
        self.is_stopped = False
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            Path(paths.socket).unlink(missing_ok=True)  # a killed process left it: the lock is ours
            Path(paths.pid).touch(mode=0o600)
            Path(paths.pid).write_text(str(os.getpid()), encoding="ascii")
            self.socket.bind(paths.socket)
            Path(paths.socket).chmod(0o600)
            self.socket.listen(MAX_CONNECTIONS)
        except OSError as error:
            self.close()
            reason = error.strerror or error
            raise ServingError(f"the resident process cannot listen in {paths.folder}: {reason}") from error

    def stop(self) -> None:
        """Removes the path, so that no other client comes; those that came can still be accepted, then OSError."""
        self.is_stopped = True
        Path(self._paths.socket).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.stop()
        self.socket.close()
        self._lock.release()


# An exit status and the output; or why the question is declined.
Outcome = tuple[int, Chunks] | str


@dataclass
class Job:
    call: Call
    result: Future[Outcome] = field(default_factory=Future)
    queued: float = field(default_factory=time.monotonic)
    begun: float = 0.0  # by time.monotonic(); 0 before


class ResidentServer:
    """Answers until it is told to leave, or no question has come for `idle_s`; ServingError as `Listener`."""

    def __init__(
        self,
        answer: Callable[[Call], Outcome],
        paths: ResidentPaths,
        answer_seconds: Callable[[], float],
        idle_s: float = IDLE_S,
    ) -> None:
        self._answer = answer
        self._paths = paths
        self._answer_seconds = answer_seconds
        self._idle_s = idle_s
        self._program = program_identity()
        self._since = time.time()
        self._answered = 0
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._conversations: set[threading.Thread] = set()
        self._listener = Listener(paths)

    def leave(self) -> None:
        """Ends `run` after what came before; may be called from a signal's handler."""
        self._jobs.put(None)

    def run(self) -> str:
        """Listens and answers; returns the reason why it ended."""
        listening = threading.Thread(target=self._listen, daemon=True)
        listening.start()
        last_question = time.monotonic()
        reason = ""
        while not reason:
            try:
                # The wait is short because a signal that comes just before it is seen only after it.
                job = self._jobs.get(timeout=min(0.5, self._idle_s))
            except queue.Empty:
                reason = "nobody asked any more" if time.monotonic() - last_question > self._idle_s else ""
                continue
            if job is None:
                reason = "it was told to leave"
            else:
                self._run_job(job)
                last_question = time.monotonic()
        self._listener.stop()
        listening.join(LEAVING_S)
        deadline = time.monotonic() + LEAVING_S
        while self._conversations and time.monotonic() < deadline:
            with contextlib.suppress(queue.Empty):
                job = self._jobs.get(timeout=0.02)
                if job is not None:
                    self._run_job(job)
        self._listener.close()
        return reason

    def _run_job(self, job: Job) -> None:
        if not job.result.set_running_or_notify_cancel():
            return
        job.begun = time.monotonic()
        try:
            outcome = self._answer(job.call)
        except BaseException as error:  # it must not end the process; the client asks in its own, and sees it there
            write_log(self._paths.log, repr(error))
            outcome = f"it failed: {error!r:.300}"
        self._answered += not isinstance(outcome, str)
        job.result.set_result(outcome)

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._listener.socket.accept()
            except OSError:
                if self._listener.is_stopped:
                    return
                time.sleep(0.1)  # such as too many open files: they pass
                continue
            if not is_same_user(connection):
                connection.close()
                continue
            thread = threading.Thread(target=self._converse, args=(connection,), daemon=True)
            self._conversations.add(thread)
            thread.start()

    def _converse(self, connection: socket.socket) -> None:
        """Answers the one message of a connection; one that is wrong is told what is wrong with it."""
        try:
            with connection, connection.makefile("rb") as lines, contextlib.suppress(GoneError):
                connection.settimeout(CONNECT_S)
                try:
                    if len(self._conversations) > MAX_CONNECTIONS:
                        raise ConversationError("too many others are connected")
                    reply = self._reply(read_message(lines, MAX_REQUEST_BYTES), connection)
                except GoneError:
                    raise
                except ConversationError as error:
                    reply = {"kind": "declined", "reason": str(error)}
                except Exception as error:  # a bug: the client asks in its own process, and the log says why
                    write_log(self._paths.log, repr(error))
                    reply = {"kind": "declined", "reason": f"it failed: {error!r:.300}"}
                send_message(connection, reply)
        except ConversationError:
            pass  # the client does not read its answer
        finally:
            self._conversations.discard(threading.current_thread())

    def _reply(self, request: Message, connection: socket.socket) -> Message:
        match request.get("kind"):
            case "ask":
                if request.get("program", self._program) != self._program:
                    if program_identity() != self._program:  # the sources of this process are there no more
                        self.leave()
                    return {"kind": "declined", "reason": "this is another version of the program"}
                return self._wait_for_answer(Job(parse_call(request)), connection)
            case "status":
                state = {"pid": os.getpid(), "since": self._since, "questions": self._answered}
                return {"kind": "status", **state, "bytes": memory_bytes()}
            case "stop":
                self.leave()
                return {"kind": "stopping", "pid": os.getpid()}
            case unknown:
                return {"kind": "declined", "reason": f"there is no request of the kind {unknown!r:.100}"}

    def _wait_for_answer(self, job: Job, connection: socket.socket) -> Message:
        """The answer to a question; says once a second that this process is alive."""
        self._jobs.put(job)
        while not wait([job.result], ALIVE_EVERY_S).done:
            now = time.monotonic()
            if not job.begun and now - job.queued > TURN_S and job.result.cancel():
                return {"kind": "declined", "reason": "others are being answered"}
            if job.begun and now - job.begun > self._answer_seconds():
                # The thread that answers is stuck and nothing else can stop it: without it this process is of no use.
                write_log(self._paths.log, f"stuck for {self._answer_seconds():.0f} s, ends; {job.call.words!r}")
                self._listener.close()
                os._exit(1)
            try:
                send_message(connection, {"kind": "alive"})
            except ConversationError:
                job.result.cancel()
                raise
        outcome = job.result.result()
        if isinstance(outcome, str):
            return {"kind": "declined", "reason": outcome}
        code, chunks = outcome
        if 6 * sum(len(data) for _, data in chunks) > MAX_ANSWER_BYTES:  # a byte takes at most 6 in JSON
            return {"kind": "declined", "reason": "the answer is too long"}
        return {"kind": "answer", "code": code, "chunks": [[number, data.decode("latin-1")] for number, data in chunks]}


def write_log(path: str, text: str) -> None:
    """Adds a line with its time to the log, which its owner alone can read; one that is too long is begun anew."""
    file = Path(path)
    too_long = file.exists() and file.stat().st_size > MAX_LOG_BYTES
    flags = os.O_CREAT | os.O_WRONLY | (os.O_TRUNC if too_long else os.O_APPEND)
    with os.fdopen(os.open(file, flags, 0o600), "w", encoding="utf-8", errors="backslashreplace") as log:
        log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} [{os.getpid()}] {' '.join(text.split())[:2000]}\n")


def memory_bytes() -> int:
    """Resident memory of this process; where the system does not say it, the most that it ever had."""
    with contextlib.suppress(OSError):
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
