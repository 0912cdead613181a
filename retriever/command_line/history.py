"""`history`: the questions that were recorded in an index."""

import sys
from typing import TYPE_CHECKING, Any

import click

from retriever.command_line import options
from retriever.command_line.console import write_line
from retriever.command_line.options import ExitCode, WithExamples
from retriever.display.phrases import counted, doubt
from retriever.display.sanitize import sanitize_line
from retriever.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from retriever.command_line.console import Notes
    from retriever.history import QuestionLog
    from retriever.indexing.forget import ForgetReport
    from retriever.store.queries import StoredQuery


ALL = "all"


@click.command(
    cls=WithExamples,
    examples=(
        "history",
        "history 12 --json",
        "history --delete 12",
        "history --delete all",
    ),
    short_help="Show or delete the questions that were recorded (--record).",
)
@click.argument("number", type=click.IntRange(min=1), required=False, metavar="[ID]")
@click.option("--delete", metavar="ID|all", help="Delete one question, or all and what was opened, from every file.")
@options.index_option
@options.json_option
@options.voice_options
def history(number: int | None, delete: str | None, index: str | None, **given: Any) -> ExitCode:  # noqa: ANN401 - the switches, which are taken out by name
    """List the recorded questions, the youngest first, or show one of them with what was found.

    Nothing is recorded unless the profile says `record: true`, or --record is given.
    """
    from retriever.api import open_history

    notes = options.taken_notes(given)
    if delete is not None and number is not None:
        raise click.UsageError("--delete names what to delete; leave out the other number")
    recorded = open_history(index)
    if delete is not None:
        return _delete(recorded, delete, notes, as_json=given["as_json"])
    if given["as_json"]:
        from retriever.command_line.console import write_json

        write_json(
            {"queries": list(map(query_object, recorded.queries()))} if number is None else recorded.record(number)
        )
        return ExitCode.OK
    for line in _list_lines(recorded.queries()) if number is None else record_lines(recorded.record(number)):
        write_line(sys.stdout, line)
    return ExitCode.OK


def _delete(recorded: "QuestionLog", which: str, notes: "Notes", *, as_json: bool) -> ExitCode:
    if which == ALL:
        deleted = recorded.delete_all()
    elif which.isascii() and which.isdecimal():
        recorded.delete(int(which))
        deleted = 1
    else:
        raise UsageError(f"--delete {which}: give the number of a question, or `{ALL}`")
    if as_json:
        from retriever.command_line.console import write_json

        write_json({"deleted": deleted})
    else:
        notes.say(f"deleted {counted(deleted, 'question')}")
    return ExitCode.OK


def _list_lines(queries: "tuple[StoredQuery, ...]") -> "Iterator[str]":
    for query in queries:
        place = f"  {sanitize_line(query.citation)}" if query.citation else ""
        yield f"{query.key:>5}  {query.asked_at}  {query.verdict:<8}  {sanitize_line(query.question)}{place}"


def record_lines(record: dict[str, Any]) -> "Iterator[str]":
    """One question with what it was expanded to and what was found, for people."""
    yield f"question    {sanitize_line(record['question'])}"
    yield f"asked       {record['asked_at']}, profile {sanitize_line(record['profile'])}"
    yield f"verdict     {record['verdict']}, confidence {record['confidence']:.2f}"
    for expansion in record["expansions"]:
        yield f"expansion   {sanitize_line(expansion['text'])}"
    for sentence in record["degraded"]:
        yield f"degraded    {sanitize_line(sentence)}"
    for hit in record["hits"]:
        arms = ", ".join(f"{item['arm']} #{item['rank']}" for item in hit["evidence"])
        state = sanitize_line(hit.get("citation_state", "exact"))  # as it was then; the oldest records have none
        cited = f"{sanitize_line(hit['citation'])}{doubt(state)}"
        yield f"{hit['rank']:>3}  {cited}  {hit['scale']} {hit['score']:.4g} ({arms})"
        yield f"     {sanitize_line(hit['snippet'])}"
    spent = sum(stage["milliseconds"] for stage in record["stages"])
    yield f"searched    snapshot {record['index']['snapshot']}, {spent:.1f} ms"


def query_object(query: "StoredQuery") -> dict[str, Any]:
    """One line of the list, for programs."""
    return {
        "id": query.key,
        "asked_at": query.asked_at,
        "question": query.question,
        "verdict": query.verdict,
        "citation": query.citation,
    }


# `forget`: documents out of an index, with every trace of them.


@click.command(
    cls=WithExamples,
    examples=(
        "forget docs/plans.md",
        "forget drafts/ --index .index",
        "forget --undo drafts/",
    ),
    short_help="Remove documents from an index, with every trace of them.",
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--undo", is_flag=True, help="Take back what was forgotten: the next `index` reads it again.")
@options.index_option
@options.json_option
@options.voice_options
def forget(paths: tuple[str, ...], index: str | None, undo: bool, **given: Any) -> ExitCode:  # noqa: ANN401 - the switches, which are taken out by name
    """Remove the text and the vectors of documents from every file of the index, and keep them out.

    PATH is a document, a folder of documents, or an indexed folder, which then leaves the index altogether. The files
    on disk are not touched; `index` passes over what was forgotten, and `status` names it.
    """
    from retriever.api import forget_documents

    notes = options.taken_notes(given)
    report = forget_documents(paths, index, undo=undo)
    if given["as_json"]:
        from retriever.command_line.console import write_json

        write_json(report_object(report))
    else:
        for name in report.forgotten:
            write_line(sys.stdout, f"{'taken back' if undo else 'forgot'} {sanitize_line(name)}")
    _remark(report, notes, undo=undo)
    return ExitCode.ERROR if report.remaining else ExitCode.OK


def _remark(report: "ForgetReport", notes: "Notes", *, undo: bool) -> None:
    if undo:
        notes.aside("the next `index` reads them again")
        return
    left = f"{counted(report.documents, 'document')} left the index"
    notes.aside(f"{left} in {report.seconds:.1f} s; the files on disk are as they were")
    for path in report.remaining:
        notes.say(f"{path} is being read by another process and may still hold the text; stop it, and run this again")


def report_object(report: "ForgetReport") -> dict[str, Any]:
    """What was done, for programs."""
    return {
        "path": report.path,
        "forgotten": list(report.forgotten),
        "documents": report.documents,
        "remaining": list(report.remaining),
        "seconds": round(report.seconds, 3),
    }
