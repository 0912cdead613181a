"""`ask --context`: the sections as context for a prompt, on standard output alone."""

import sys
from typing import TYPE_CHECKING

from retriever.command_line.remarks import make_remarks
from retriever.command_line.terminal import write_line
from retriever.display.phrases import counted

if TYPE_CHECKING:
    from retriever.command_line.ask import Request
    from retriever.command_line.notes import Notes
    from retriever.context.gather import AnswerInContext
    from retriever.timing import Spent


def show_context(found: "AnswerInContext", request: "Request", notes: "Notes", spent: "Spent") -> None:
    """The page, or with --json its parts; what is to be known of the answer goes to standard error."""
    if request.as_json:
        from retriever.command_line.as_json import write_json
        from retriever.display.json import ContextJson, timings

        write_json(ContextJson.dump(found) | {"timings_ms": timings(found.answer, spent)})
    else:
        write_line(sys.stdout, found.context.markdown.rstrip("\n"))
    sys.stdout.flush()
    make_remarks(found.answer, notes, spent, index=request.index, footer=not request.as_json)
    if found.context.left_out and not request.as_json:
        left_out = counted(len(found.context.left_out), "hit")
        notes.say(f"{left_out} not quoted, for the limit of {found.context.max_tokens:,} tokens (--max-tokens)")
