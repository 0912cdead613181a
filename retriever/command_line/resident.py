"""`serve` without --mcp and --web: the resident process, which keeps index and models open for `ask`."""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from retriever.command_line.options import ExitCode
from retriever.display.phrases import counted, size
from retriever.errors import IndexLockedError, ServingError
from retriever.files import Closing
from retriever.serving.resident_client import (
    PACKAGE,
    ConversationError,
    NoResidentError,
    ResidentPaths,
    is_question,
    talk,
)

if TYPE_CHECKING:
    from retriever.command_line.console import Notes
    from retriever.retriever import Retriever
    from retriever.serving.resident_server import Call, Outcome
    from retriever.types import Progress

MAX_OPEN = 4
"""Retrievers; each holds a model and an index: 100 MB and more."""
ANSWER_S = 30.0
"""The longest that an answer may take, with everything to be loaded, on a busy machine."""
MODEL_S = 150.0
"""The same where a language model takes part, which may have to be loaded first."""
NEVER_S = 10 * 365 * 24 * 3600.0
STOP_S = 10.0
"""For a process that was told to leave; then it is killed."""
VARIABLES = ("HOME", "XDG_", "OLLAMA_", "HF_", "TRANSFORMERS_", "SENTENCE_TRANSFORMERS_", "SSL_", "REQUESTS_CA_")
"""Beginnings of the variables that an open retriever depends on, beside its settings and the key of its encoder."""


def stay(notes: "Notes", *, idle_minutes: float, background: bool) -> ExitCode:
    """Answers the questions of other processes until told to leave, or idle for so long (0: for ever).

    Raises:
        ServingError: another resident process runs.
    """
    # What every question needs is loaded now, so that the first one finds it.
    import retriever.command_line.render
    import retriever.embedding.onnx
    import retriever.vectors  # noqa: F401 - loaded, not used
    from retriever.serving.resident_server import ResidentServer, write_log

    paths = ResidentPaths(os.environ)
    with QuestionRunner() as runner:
        server = ResidentServer(
            runner.run,
            paths,
            lambda: MODEL_S if runner.uses_model else ANSWER_S,
            idle_minutes * 60 or NEVER_S,
        )
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, lambda *_: server.leave())
        if background:
            write_log(paths.log, "begins")
        else:
            notes.say(f"resident  process {os.getpid()} answers what `ask` is asked")
            notes.aside("Ctrl-C or `serve --stop` ends it")
        reason = server.run()
    if background:
        write_log(paths.log, f"leaves: {reason}")
    else:
        notes.aside(reason)
    return ExitCode.OK


class DeclinedError(BaseException):
    """The question is to be asked in a process of its own. No Exception: nothing on the way may handle it."""


class QuestionRunner(Closing):
    """Runs the command lines of other processes, with retrievers that stay open between them; for one thread."""

    def __init__(self) -> None:
        from retriever.serving.pool import RetrieverPool

        self.uses_model = False
        """Whether the question of now may wait for a language model."""
        self._pool = RetrieverPool(MAX_OPEN)

    def close(self) -> None:
        """Closes every retriever that is open."""
        self._pool.close()

    def run(self, call: "Call") -> "Outcome":
        """Runs a command line for another process; a text says why it is declined."""
        from retriever.command_line.program import command_line, run
        from retriever.serving.resident_server import impersonate

        if not is_question(call.words, command_line.commands.keys() - {"ask"}):
            return "it is no question"
        self.uses_model = False
        try:
            with impersonate(call) as chunks:
                code = run(call.words, call.program_name, self.open_retriever)
        except DeclinedError as error:
            return f"to be indexed first: {error}"
        except OSError as error:
            return f"its folder cannot be entered: {error}"
        return code, chunks

    @contextmanager
    def open_retriever(
        self,
        docs: Sequence[str | Path],
        index: str | Path | None,
        profile: str,
        settings: Mapping[str, Any],
        _: "Progress | None" = None,
    ) -> "Iterator[Retriever]":
        """As `retriever.api.open_retriever`, but the retriever stays open, unless it is in trouble.

        Everything is resolved anew, as in a process of its own: profile file, environment and index settings are read
        again, and a retriever is used only if it was opened for just the same.

        Raises:
            DeclinedError: documents are to be indexed first, or another process writes to the index.
            RetrieverError: as `open_retriever`.
        """
        from retriever.api import index_request
        from retriever.indexing.request import remember
        from retriever.indexing.update import update_index
        from retriever.retriever import Retriever

        request = index_request(docs, index, profile, settings)
        self.uses_model = request.profile.use_llm
        if request.docs:
            try:
                update_index(replace(request, wait_s=0.0, with_chroma=False), _NoIndexing())
            except IndexLockedError as error:
                raise DeclinedError(str(error)) from error
            remember(request.index)
        names = (*VARIABLES, request.profile.encoder.api_key_env or VARIABLES[0])
        variables = sorted(item for item in os.environ.items() if item[0].startswith(names))
        key = repr((request.index, request.profile, request.settings, request.index_config, profile, variables))
        with self._pool.borrow(key, lambda: Retriever(request, profile)) as retriever:
            try:
                retriever.look_again()
                yield retriever
            except BaseException:
                self._pool.discard(key)
                raise
            if retriever.is_impaired:  # a process of its own would begin without what this one remembers of it
                self._pool.discard(key)


class _NoIndexing:
    """A Progress that declines: whoever indexes wants to see how far it is, and to stop it."""

    def start(self, stage: str, total: int, unit: str) -> NoReturn:
        raise DeclinedError(f"{stage} {total:,} {unit}")

    def advance(self, stage: str, done: int) -> None:
        """Never called."""

    def finish(self, stage: str) -> None:
        """Never called."""


def start_in_background() -> None:
    """Starts a resident process that outlives this one, in a session of its own; where one runs, the new one leaves."""
    import subprocess  # every command imports this module, few start a process

    subprocess.Popen(
        [sys.executable, str(Path(PACKAGE).parent / "hybrid_retrieve.py"), "serve", "--background"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )


def stop(notes: "Notes") -> ExitCode:
    """Ends this user's resident process after what it answers now; kills it when it hangs.

    Raises:
        ServingError: it cannot be ended.
    """
    paths = ResidentPaths(os.environ)
    if not paths.is_private() or _is_gone(paths, 0):
        notes.say("no resident process runs")
        return ExitCode.OK
    try:
        pid = int(Path(paths.pid).read_text(encoding="ascii"))
    except (OSError, ValueError) as error:
        raise ServingError(f"a resident process begins or ends just now; try again ({error})") from error
    left = False
    with contextlib.suppress(NoResidentError, ConversationError):  # it hangs, or has just left
        talk(paths, {"kind": "stop"})
        left = _is_gone(paths, STOP_S)
    if not left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        if not _is_gone(paths, STOP_S):
            raise ServingError(f"the resident process {pid} cannot be ended")
    notes.say(f"the resident process {pid} has ended")
    return ExitCode.OK


def _is_gone(paths: ResidentPaths, seconds: float) -> bool:
    """Whether no process holds the lock, within so many seconds."""
    from filelock import FileLock, Timeout

    try:
        with FileLock(paths.lock, mode=0o600).acquire(timeout=seconds):
            return True
    except Timeout:
        return False


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


def known_state() -> ResidentState | ServingError | None:
    """The state of this user's resident process; None when there is none, the error when it hangs."""
    try:
        reply = talk(ResidentPaths(os.environ), {"kind": "status"})
        since = datetime.fromtimestamp(float(reply["since"]), UTC).isoformat(timespec="seconds")
        return ResidentState(int(reply["pid"]), since, int(reply["questions"]), int(reply["bytes"]))
    except NoResidentError:
        return None
    except (ConversationError, LookupError, ValueError, TypeError) as error:
        return ServingError(f"the resident process does not answer ({error}); run: serve --stop")


def state_line(state: ResidentState | ServingError | None) -> str:
    """One line for `status`."""
    if state is None:
        return "resident      not running"
    if isinstance(state, ServingError):
        return f"resident      {state}"
    asked = counted(state.questions, "question")
    return f"resident      process {state.pid} since {state.since}, {asked}, {size(state.bytes)}"


def state_object(state: ResidentState | ServingError | None) -> dict[str, Any] | None:
    """The same for programs; null where none runs."""
    if state is None:
        return None
    return {"trouble": str(state)} if isinstance(state, ServingError) else asdict(state)
