"""`ask --context`: the sections as context for a prompt, on standard output alone."""

import sys
from typing import TYPE_CHECKING, Any

from retriever.command_line.remarks import make_remarks
from retriever.command_line.terminal import write_line
from retriever.display.wording import counted

if TYPE_CHECKING:
    from retriever.command_line.ask import Request
    from retriever.command_line.notes import Notes
    from retriever.context.gather import AnswerInContext
    from retriever.context.sections import LeftOut, Piece
    from retriever.timing import Spent


def show_context(found: "AnswerInContext", request: "Request", notes: "Notes", spent: "Spent") -> None:
    """The page, or with --json its parts; what is to be known of the answer goes to standard error."""
    if request.as_json:
        from retriever.command_line.as_json import write_json

        write_json(context_object(found, spent))
    else:
        write_line(sys.stdout, found.context.markdown.rstrip("\n"))
    sys.stdout.flush()
    make_remarks(found.answer, notes, spent, index=request.index, footer=not request.as_json)
    if found.context.left_out and not request.as_json:
        left_out = counted(len(found.context.left_out), "hit")
        notes.say(f"{left_out} not quoted, for the limit of {found.context.max_tokens:,} tokens (--max-tokens)")


def context_object(found: "AnswerInContext", spent: "Spent") -> dict[str, Any]:
    """A context, for programs."""
    from retriever.display.as_json import index_object, timings

    answer, context = found.answer, found.context
    return {
        "question": answer.question,
        "profile": answer.profile,
        "verdict": answer.verdict,
        "confidence": answer.confidence,
        "max_tokens": context.max_tokens,
        "tokens": context.tokens,
        "markdown": context.markdown,
        "pieces": [piece_object(piece, group.titles) for group in context.groups for piece in group.pieces],
        "left_out": [left_out_object(item) for item in context.left_out],
        "index": index_object(answer.index),
        "degraded": list(answer.degraded),
        "timings_ms": timings(answer, spent),
    }


def piece_object(piece: "Piece", group: tuple[str, ...]) -> dict[str, Any]:
    """Lines that are quoted; `rank` is that of the best hit among them, null when they only complete a family."""
    return {
        "citation": piece.citation,
        "citation_state": piece.citation_state,
        "folder": piece.folder,
        "file": piece.file,
        "start_line": piece.span.first,
        "end_line": piece.span.last,
        "group": list(group),
        "titles": list(piece.titles),
        "node_ids": list(piece.node_ids),
        "rank": piece.rank,
        "cut_from": [str(span) for span in piece.cut_from],
        "text": piece.text,
    }


def left_out_object(item: "LeftOut") -> dict[str, Any]:
    """A hit that is not quoted; `same_as` cites the piece's section that has the same text."""
    return {
        "citation": item.section.citation,
        "citation_state": item.section.citation_state,
        "folder": item.section.folder,
        "node_id": item.section.node_id,
        "titles": list(item.section.titles),
        "rank": item.section.rank,
        "tokens": item.tokens,
        "same_as": item.same_as or None,
    }
