"""`history`, `cache`: what is kept of questions, in an index and beside all; `forget`: documents out of an index."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from retriever.api import forget_documents
from retriever.command_line import options
from retriever.command_line.console import Console, print_json, print_line
from retriever.command_line.options import ExitCode
from retriever.display.phrases import SOURCES, because, format_doubt, format_size, pluralize
from retriever.display.sanitize import sanitize_line
from retriever.errors import UsageError
from retriever.expansion.cache import read_cache
from retriever.looking.history import open_history

if TYPE_CHECKING:
    from retriever.store.recorded import StoredQuery

ALL = "all"


@options.command(
    'ask --record "how are the two rankings fused?"',
    "history",
    "history 1 --json",
    "history --delete 1",
    "history --delete all",
)
@click.argument("number", type=click.IntRange(min=1), required=False, metavar="[ID]")
@click.option("--delete", metavar="ID|all", help="Delete one question, or all and what was opened, from every file.")
@options.index
@options.as_json
def history(console: Console, number: int | None, delete: str | None, index: str | None, *, as_json: bool) -> ExitCode:
    """List the recorded questions, the youngest first, or show one of them with what was found.

    Nothing is recorded unless the profile says `record: true`, or --record is given.
    """
    if delete is not None and number is not None:
        raise click.UsageError("--delete names what to delete; leave out the other number")
    recorded = open_history(index)
    if delete is not None:
        if delete == ALL:
            deleted = recorded.delete_all()
        elif delete.isascii() and delete.isdecimal():
            recorded.delete(int(delete))
            deleted = 1
        else:
            raise UsageError(f"--delete {delete}: give the number of a question, or `{ALL}`")
        if as_json:
            print_json({"deleted": deleted})
        else:
            console.note(f"deleted {pluralize(deleted, 'question')}")
    elif number is not None:
        record = recorded.record(number)
        if as_json:
            print_json(record)
        else:
            print_record(record)
    elif as_json:
        keys = ("asked_at", "question", "verdict", "citation")
        queries = [{"id": item.key, **{key: getattr(item, key) for key in keys}} for item in recorded.queries()]
        print_json({"queries": queries})
    else:
        list_queries(console, recorded.queries())
    return ExitCode.OK


def list_queries(console: Console, queries: "Sequence[StoredQuery]") -> None:
    if not queries:
        console.note("no question is recorded here; ask with --record, or set `record: true` in a profile")
    for item in queries:
        place = f"  {sanitize_line(item.citation)}" if item.citation else ""
        print_line(f"{item.key:>5}  {item.asked_at}  {item.verdict:<8}  {sanitize_line(item.question)}{place}")


def print_record(record: dict[str, Any]) -> None:
    print_line(f"question    {sanitize_line(record['question'])}")
    print_line(f"asked       {record['asked_at']}, profile {sanitize_line(record['profile'])}")
    print_line(f"verdict     {record['verdict']}, confidence {record['confidence']:.2f}")
    if expansion := record["expansion"]:
        for text in (*expansion["rewordings"], *expansion["passages"]):
            print_line(f"expansion   {sanitize_line(text)}")
        for name, kept in (("intent", expansion["intent"]), ("entities", ", ".join(expansion["entities"]))):
            if kept:
                print_line(f"{name:<11} {sanitize_line(kept)}")
    for sentence in record["degraded"]:
        print_line(f"degraded    {sanitize_line(sentence)}")
    for hit in record["hits"]:
        sources = ", ".join(f"{SOURCES[item['source']]} #{item['rank']}" for item in hit["evidence"])
        cited = f"{sanitize_line(hit['citation'])}{format_doubt(hit['citation_state'])}"  # as it was then
        print_line(f"{hit['rank']:>3}  {cited}  {hit['scale']} {hit['score']:.4g} ({sources})")
        print_line(f"     {sanitize_line(hit['snippet'])}")
        print_line(f"     because: {sanitize_line(because(hit['words'], hit['reasons']))}")
    spent = sum(stage["milliseconds"] for stage in record["stages"])
    print_line(f"searched    snapshot {record['index']['snapshot']}, {spent:.1f} ms")


@options.command("cache", "cache --clear", "cache --json")
@click.option("--clear", is_flag=True, help="Delete it: the next questions ask the model again.")
@options.as_json
def cache(console: Console, *, clear: bool, as_json: bool) -> ExitCode:
    """Show what your cache folder keeps of questions: what the language model wrote for them.

    It is kept for all indexes together (`hyde.cache_entries`); what --record keeps is in each index: `history`.
    """
    content = read_cache(clear=clear)
    if as_json:
        print_json({**asdict(content), "cleared": clear})
        return ExitCode.OK
    held = pluralize(content.expansions, "expansion")
    verb = "deleted" if clear else "keeps"
    print_line(f"{verb} {held}, {format_size(content.size_bytes)} in {sanitize_line(content.path or 'no folder')}")
    return ExitCode.OK


@options.command("forget tutorial-notes/", "forget --undo tutorial-notes/")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--undo", is_flag=True, help="Take back what was forgotten: the next `index` reads it again.")
@options.index
@options.as_json
def forget(console: Console, paths: tuple[str, ...], index: str | None, *, undo: bool, as_json: bool) -> ExitCode:
    """Remove the text and the vectors of documents from every file of the index, and keep them out.

    PATH is a document, a folder of documents, or an indexed folder, which then leaves the index altogether. The files
    on disk are not touched; `index` passes over what was forgotten, and `status` names it.
    """
    report = forget_documents(paths, index, undo=undo)
    if as_json:
        content = {"path": report.path, "forgotten": list(report.forgotten), "documents": report.documents}
        kept = {"remaining": list(report.remaining), "kept": report.kept}
        print_json(content | kept | {"seconds": round(report.seconds, 3)})
    else:
        for name in report.forgotten:
            print_line(f"{'restored' if undo else 'forgot'} {sanitize_line(name)}")
    if undo:
        console.note_dim("they are indexed on the next run of `index`")
    else:
        left = f"{pluralize(report.documents, 'document')} left the index"
        console.note_dim(f"{left} in {report.seconds:.1f} s; the files on disk are as they were")
        if report.kept:
            console.note(report.kept)
        for path in report.remaining:
            held = f"{path} is being read by another process and may still hold the text"
            console.note(f"{held}; stop it, and run this again")
    return ExitCode.ERROR if report.remaining else ExitCode.OK
