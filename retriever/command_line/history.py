"""`history`: the questions that were recorded in an index."""

import sys
from typing import TYPE_CHECKING, Any

import click

from retriever.command_line import options
from retriever.command_line.exit_codes import ExitCode
from retriever.command_line.help_pages import WithExamples
from retriever.command_line.terminal import write_line
from retriever.display.phrases import counted, doubt
from retriever.display.sanitize import sanitize_line
from retriever.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from retriever.command_line.notes import Notes
    from retriever.history import History
    from retriever.store.recorded import StoredQuery

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
    from retriever.library import open_history

    notes = options.taken_notes(given)
    if delete is not None and number is not None:
        raise click.UsageError("--delete names what to delete; leave out the other number")
    recorded = open_history(index)
    if delete is not None:
        return _delete(recorded, delete, notes, as_json=given["as_json"])
    if given["as_json"]:
        from retriever.command_line.as_json import write_json

        write_json(
            {"queries": list(map(query_object, recorded.queries()))} if number is None else recorded.record(number)
        )
        return ExitCode.OK
    for line in _list_lines(recorded.queries()) if number is None else record_lines(recorded.record(number)):
        write_line(sys.stdout, line)
    return ExitCode.OK


def _delete(recorded: "History", which: str, notes: "Notes", *, as_json: bool) -> ExitCode:
    if which == ALL:
        deleted = recorded.delete_all()
    elif which.isascii() and which.isdecimal():
        recorded.delete(int(which))
        deleted = 1
    else:
        raise UsageError(f"--delete {which}: give the number of a question, or `{ALL}`")
    if as_json:
        from retriever.command_line.as_json import write_json

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
    yield f"searched    generation {record['index']['generation']}, {spent:.1f} ms"


def query_object(query: "StoredQuery") -> dict[str, Any]:
    """One line of the list, for programs."""
    return {
        "id": query.key,
        "asked_at": query.asked_at,
        "question": query.question,
        "verdict": query.verdict,
        "citation": query.citation,
    }
