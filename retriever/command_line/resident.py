"""`serve` without --mcp and --web: the resident process, which keeps index and models open for `ask`."""

import os
import signal
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from retriever.command_line.exit_codes import ExitCode
from retriever.display.phrases import counted, size
from retriever.errors import ServingError

if TYPE_CHECKING:
    from retriever.command_line.notes import Notes
    from retriever.serving.resident_call import Call
    from retriever.serving.resident_control import ResidentState
    from retriever.serving.resident_server import Outcome
    from retriever.serving.resident_shelf import Shelf

ANSWER_S = 30.0
"""The longest that an answer may take, with everything to be loaded, on a busy machine."""
MODEL_S = 150.0
"""The same where a language model takes part, which may have to be loaded first."""
NEVER_S = 10 * 365 * 24 * 3600.0


def stay(notes: "Notes", *, idle_minutes: float, background: bool) -> ExitCode:
    """Answers the questions of other processes until told to leave, or idle for so long (0: for ever).

    Raises:
        ServingError: another resident process runs.
    """
    from retriever.serving.resident_door import open_door
    from retriever.serving.resident_log import write_log
    from retriever.serving.resident_place import Place
    from retriever.serving.resident_server import Resident
    from retriever.serving.resident_shelf import Shelf

    place = Place(os.environ)
    shelf = Shelf()
    _load()
    resident = Resident(
        lambda call: answered(call, shelf),
        place,
        open_door(place),
        lambda: MODEL_S if shelf.uses_model else ANSWER_S,
        idle_minutes * 60 or NEVER_S,
    )
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda *_: resident.leave())
    if background:
        write_log(place.log, "begins")
    else:
        notes.say(f"resident  process {os.getpid()} answers what `ask` is asked")
        notes.aside("Ctrl-C or `serve --stop` ends it")
    reason = resident.run()
    shelf.close()
    if background:
        write_log(place.log, f"leaves: {reason}")
    else:
        notes.aside(f"{reason}")
    return ExitCode.OK


def _load() -> None:
    """What every question needs, so that the first one finds it."""
    import retriever.command_line.remarks
    import retriever.command_line.render
    import retriever.embedding.onnx
    import retriever.retrieving
    import retriever.vectors  # noqa: F401 - these are loaded, not used


def answered(call: "Call", shelf: "Shelf") -> "Outcome | str":
    """Runs a command line for another process; a text says why it is declined."""
    from retriever.command_line.program import command_line, run
    from retriever.serving.resident_call import standing_in
    from retriever.serving.resident_protocol import is_question
    from retriever.serving.resident_shelf import DeclinedError

    if not is_question(call.words, command_line.commands.keys() - {"ask"}):
        return "it is no question"
    shelf.uses_model = False
    try:
        with standing_in(call) as recording:
            code = run(call.words, call.program_name, shelf.open)
    except DeclinedError as error:
        return f"to be indexed first: {error}"
    except OSError as error:
        return f"its folder cannot be entered: {error}"
    return code, recording.chunks


def stop(notes: "Notes") -> ExitCode:
    """Ends the resident process."""
    from retriever.serving.resident_control import stop_resident

    pid = stop_resident()
    notes.say("no resident process runs" if pid is None else f"the resident process {pid} has ended")
    return ExitCode.OK


def state_line(state: "ResidentState | ServingError | None") -> str:
    """One line for `status`."""
    if state is None:
        return "resident      not running"
    if isinstance(state, ServingError):
        return f"resident      {state}"
    asked = counted(state.questions, "question")
    return f"resident      process {state.pid} since {state.since}, {asked}, {size(state.bytes)}"


def state_object(state: "ResidentState | ServingError | None") -> dict[str, Any] | None:
    """The same for programs; null where none runs."""
    if state is None:
        return None
    return {"trouble": str(state)} if isinstance(state, ServingError) else asdict(state)


def known_state() -> "ResidentState | ServingError | None":
    """How the resident process is; its trouble is told, and is none of `status`."""
    from retriever.serving.resident_control import resident_state

    try:
        return resident_state()
    except ServingError as error:
        return error
