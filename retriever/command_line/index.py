"""What is done with an index as a whole: making it, following folders, copies, checks, removal, PostgreSQL."""

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from retriever import api
from retriever.api import forget_documents
from retriever.command_line import options
from retriever.command_line.console import Console, print_json, print_line
from retriever.command_line.options import ExitCode, Opening
from retriever.display.json import dump
from retriever.display.phrases import format_age, format_size, pluralize
from retriever.errors import CommandHint, RetrieverError, UsageError
from retriever.looking.indexes import drop_index, find_index, find_named, index_request, list_indexes
from retriever.settings.layers import DEFAULT_PROFILE
from retriever.settings.schema import INDEX_SECTIONS

if TYPE_CHECKING:
    from retriever.indexing.request import IndexReport
    from retriever.looking.indexes import ListedIndex


SIGNS = {"well": "ok", "note": "note", "problem": "PROBLEM"}  # of what `doctor` found


@options.command(
    "index docs",
    'index docs --ignore "tutorial-notes/"',
    "index docs --index .index --json",
    settings=INDEX_SECTIONS,
)
@options.folders
@options.index
@options.profile
@click.option("--yes", is_flag=True, help="DOCS may be your home folder, or one that holds it.")
@click.option(
    "--enqueue",
    is_flag=True,
    help="Leave the embedding to `worker`, in PostgreSQL.",
)
@options.as_json
def index(console: Console, opening: Opening, *, yes: bool, enqueue: bool, as_json: bool) -> ExitCode:
    """Index the folders DOCS, each a folder of Markdown; again, only what changed since.

    One index holds several folders. What has been read and embedded is kept when this is interrupted.
    """
    with console.show_progress() as progress:
        report = api.index_folders(*opening.arguments, progress, everything=yes, enqueue=enqueue)
    console.note_skipped(report.skipped)
    if as_json:
        print_json(dump(report))
        return ExitCode.OK
    changes = f"{report.added:,} added, {report.changed:,} changed, {report.removed:,} removed"
    held = f"{pluralize(report.documents, 'file')}, {pluralize(report.sections, 'section')}"
    print_line(f"indexed {held} in {report.seconds:.1f} s")
    print_line(f"  files    {changes}, {report.unchanged:,} unchanged, {len(report.skipped):,} skipped")
    embedded = "`worker` embeds what is new" if enqueue else f"{report.embedded:,} texts embedded"
    print_line(f"  chunks   {report.chunks:,}; {embedded}")
    if report.prefixes:
        print_line(f"  prefixes {report.prefixes}")
    for folder in report.folders:
        print_line(f"  folder   {folder}")
    print_line(f"  index    {report.path}")
    return ExitCode.OK


# `watch`: an index that follows its folders, save by save.


@options.command(
    "watch docs",
    'watch docs --ignore "tutorial-notes/"',
    "watch docs --index .index --json",
    settings=INDEX_SECTIONS,
)
@options.folders
@options.index
@options.profile
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each run, for programs.")
def watch(console: Console, opening: Opening, *, as_json: bool) -> ExitCode:
    """Index the folders DOCS, and again within two seconds of a save, until Ctrl-C.

    Each run is one line on standard error. Many files that change at once, as in a branch switch, are one run.
    """
    with console.show_progress() as progress:
        skipped: frozenset[tuple[str, str]] = frozenset()
        for number, report in enumerate(api.watch_folders(*opening.arguments, progress)):
            if isinstance(report, RetrieverError):
                console.note(f"not indexed: {report}")
                continue
            console.note_skipped(tuple(item for item in report.skipped if item not in skipped))
            skipped = frozenset(report.skipped)
            if not number or report.added or report.changed or report.removed:
                console.note(describe_run(report, is_first=not number))
            if as_json:
                print_json(dump(report))
                sys.stdout.flush()
    return ExitCode.OK


def describe_run(report: "IndexReport", *, is_first: bool) -> str:
    """Describe what is watched (the first run), or what changed, and how long it took."""
    if is_first:
        folders = ", ".join(report.folders)
        return f"indexed {pluralize(report.documents, 'file')} in {report.seconds:.1f} s; watching {folders}"
    counts = {"added": report.added, "changed": report.changed, "removed": report.removed}
    done = ", ".join(f"{count:,} {word}" for word, count in counts.items() if count)
    return f"{done}; {pluralize(report.embedded, 'text')} embedded, {report.seconds:.1f} s"


# `indexes`: all indexes of this user, and the deletion of one.


@options.command("indexes", "indexes --json", "indexes --drop docs --yes")
@click.option("--drop", multiple=True, metavar="NAME", help="Delete this index; the documents stay. Repeatable.")
@click.option("--yes", is_flag=True, help="Confirms --drop.")
@options.as_json
def indexes(console: Console, drop: tuple[str, ...], *, yes: bool, as_json: bool) -> ExitCode:
    """List all your indexes: what each holds, how large and how old it is, and whether its folders are still there.

    NAME, in the first column, is what --index takes.
    """
    if yes and not drop:
        raise click.UsageError("--yes goes with --drop: name the index to delete")
    if drop:
        places = [find_named(name) for name in drop]  # a wrong name is said before anything is deleted
        if not yes:
            named = ", ".join(map(str, places))
            raise UsageError(f"{named} would be deleted, and the documents stay; to confirm that, add --yes")
        dropped = [str(drop_index(name)) for name in drop]
        if as_json:
            print_json({"dropped": dropped})
        for path in () if as_json else dropped:
            print_line(f"deleted {path}")
        return ExitCode.OK
    found = list_indexes()
    if as_json:
        more = ("missing", "size_bytes", "updated")
        print_json({"indexes": [dump(item) | {key: dump(getattr(item, key)) for key in more} for item in found]})
        return ExitCode.OK
    for item in found:
        print_index(item)
    if not found:
        console.note(f"there is no index yet; {CommandHint('index FOLDER').render()}")
    return ExitCode.OK


def print_index(item: "ListedIndex") -> None:
    """Print the line of an index, and its folders below it."""
    facts = [pluralize(item.documents, "file")]
    if item.updated:
        facts += [format_size(item.size_bytes), f"indexed {format_age(time.time() - item.updated)}"]
    print_line(f"{item.name}  {' | '.join(facts)}")
    for folder in item.folders:
        print_line(f"    {folder}{'  (not there)' if folder in item.missing else ''}")
    if item.trouble:
        print_line(f"    cannot be read: {item.trouble}")


# `export` and `import`: an index as one file.


@options.command("index docs", "export docs.zip", "export more.zip --json")
@click.argument("file", metavar="FILE", shell_complete=options.complete_file)
@options.index
@options.as_json
def export(console: Console, file: str, index: str | None, *, as_json: bool) -> ExitCode:
    """Write an index into FILE, with its documents' texts and vectors, in the state of this moment.

    Whoever has FILE can read all that.
    """
    from retriever.upkeep.archive import export_index

    export_index(file, index)
    size = Path(file).expanduser().stat().st_size
    if as_json:
        print_json({"file": file, "bytes": size})
    else:
        print_line(f"exported to {file}, {format_size(size)}")
    return ExitCode.OK


@options.command(
    "export docs.zip",
    "import docs.zip --index imported",
    "import docs.zip --index elsewhere --docs docs",
    name="import",
    settings=("encoder",),
)
@click.argument("file", metavar="FILE", shell_complete=options.complete_file)
@click.option(
    "--docs",
    multiple=True,
    metavar="DIR",
    shell_complete=options.complete_folder,
    help="Where a folder of the index is on this machine; it is indexed, only what changed. Repeat it for each folder, "
    "in the index's order.",
)
@options.index
@options.as_json
def import_file(console: Console, opening: Opening, file: str, *, as_json: bool) -> ExitCode:
    """Make an index of FILE, which `export` wrote; nothing is embedded, and everything in it is checked.

    Without --docs the index answers with what was indexed: the folders that it names are not looked at.
    """
    from retriever.upkeep.archive import import_index

    place = import_index(file, opening.index, opening.docs, opening.settings)
    if opening.docs:
        with console.show_progress() as progress:
            api.index_folders(opening.docs, place, settings=opening.settings, progress=progress)
    with replace(opening, docs=(), index=str(place)).open(console) as retriever:
        status = retriever.status()
    state = status.index
    if as_json:
        print_json(dump(status))
    else:
        folders = ", ".join(state.folders)
        counts = f"{pluralize(state.documents, 'document')}, {pluralize(state.sections, 'section')}"
        print_line(f"imported {counts} of {folders} into {state.path}")
    if state.unchecked_folders:
        console.note("what was indexed answers; its folders are not looked at until --docs names them", dim=True)
    return ExitCode.OK


# `doctor`: whether everything is well, and what to do about what is not.


@options.command(
    "doctor",
    "doctor --json",
    "doctor --repair",
    "doctor --llm --profile full --llm-model qwen3:8b",
    settings=("llm",),
    epilog="Exit codes: 0 all is well (notes do not count), 1 there are problems, 2 usage.",
)
@click.option("--repair", is_flag=True, help="Make broken parts anew, and save what a damaged database holds.")
@click.option(
    "--llm", is_flag=True, help="Ask the language model of --profile as well; it may have to be loaded first."
)
@options.index
@options.profile
@options.as_json
def doctor(console: Console, opening: Opening, *, repair: bool, llm: bool, as_json: bool) -> ExitCode:
    """Check the installation and everything in the index, and say what to do about what is not well.

    Reads the whole index: seconds for thousands of files. Nothing is changed without --repair.
    """
    if not llm and (opening.settings or opening.profile != DEFAULT_PROFILE):
        raise click.UsageError("--profile and the settings of the language model are for --llm")
    from retriever.upkeep.doctor import check_up  # with all that it examines

    with console.show_progress() as progress:
        found = check_up(
            opening.index,
            repair=repair,
            llm=llm,
            profile=opening.profile,
            settings=opening.settings,
            progress=progress,
        )
    problems = sum(item.level == "problem" for item in found.findings)
    if as_json:
        print_json({"problems": problems, **dump(found)})
    else:
        for text in found.repairs:
            print_line(f"repaired  {text}")
        width = max((len(item.name) for item in found.findings), default=0)
        for item in found.findings:
            print_line(f"{SIGNS[item.level]:<8} {item.name:<{width}}  {item.says}")
            if item.cure:
                print_line(f"{'':<8} {'':<{width}}  -> {item.cure}")
    return ExitCode.ERROR if problems else ExitCode.OK


@options.command("forget tutorial-notes/", "forget --undo tutorial-notes/", name="forget")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--undo", is_flag=True, help="Take back what was forgotten: the next `index` reads it again.")
@options.index
@options.as_json
def forget_paths(console: Console, paths: tuple[str, ...], index: str | None, *, undo: bool, as_json: bool) -> ExitCode:
    """Remove the text and the vectors of documents from every file of the index, and keep them out.

    PATH is a document, a folder of documents, or an indexed folder, which then leaves the index altogether. The files
    on disk are not touched; `index` passes over what was forgotten, and `status` names it.
    """
    report = forget_documents(paths, index, undo=undo)
    if as_json:
        print_json(dump(report))
    else:
        for name in report.forgotten:
            print_line(f"{'restored' if undo else 'forgot'} {name}")
    if undo:
        console.note("they are indexed on the next run of `index`", dim=True)
    else:
        left = f"{pluralize(report.documents, 'document')} left the index"
        console.note(f"{left}; the files on disk are as they were", dim=True)
        if report.kept:
            console.note(report.kept)
        for path in report.remaining:
            held = f"{path} is being read by another process and may still hold the text"
            console.note(f"{held}; stop it, and run this again")
    return ExitCode.ERROR if report.remaining else ExitCode.OK


# `postgres`: the tables of an index in PostgreSQL, and who may use them; `worker`: a process that indexes into one.


@options.command(
    "postgres init --index postgresql://owner@db.example.org/notes",
    "postgres init --index postgresql://owner@db.example.org/notes --writer indexer --reader asker",
    "postgres grant sales docs --index postgresql://owner@db.example.org/notes",
)
@click.argument("action", type=click.Choice(["init", "grant"]))
@click.argument("names", nargs=-1, metavar="[ROLE [FOLDER]...]")
@click.option("--writer", "writers", multiple=True, metavar="ROLE", help="A role that may index. Repeat it for others.")
@click.option(
    "--reader",
    "readers",
    multiple=True,
    metavar="ROLE",
    help="A role that may ask, of all folders. Repeat it for others.",
)
@click.option("--hnsw", is_flag=True, help="Also make the index of near vectors, once documents are indexed.")
@click.option(
    "--tsvector", metavar="LANGUAGE", default="", help="Also keep words for keyword: tsvector, as of english."
)
@options.index
@options.as_json
def postgres(
    console: Console,
    action: str,
    names: Sequence[str],
    index: str | None,
    writers: Sequence[str],
    readers: Sequence[str],
    *,
    hnsw: bool,
    tsvector: str,
    as_json: bool,
) -> ExitCode:
    """Make the tables of an index in a PostgreSQL database, and grant rights (init).

    --index is postgresql://USER@HOST/DATABASE, with ?schema=NAME for another schema than hybrid_retrieve. The password
    comes from PGPASSWORD, .pgpass or a service file. Run it as the role that is to own the tables: docs/guide/team.md.

    `grant ROLE FOLDER...` lets a role see these folders and nothing else, `grant ROLE` nothing any more. A folder is
    named by its path, or the end of it.
    """
    from retriever.store import tables

    url = find_index(index).url
    if action == "grant":
        if not names or writers or readers or hnsw or tsvector:
            raise click.UsageError(
                "grant takes a role and its folders; all options but --index and --json are for init"
            )
        seen = tables.grant_folders(url, names[0], names[1:])
        if as_json:
            print_json({"role": names[0], "folders": list(seen)})
        else:
            print_line(f"{names[0]} may read: {', '.join(seen) or 'nothing'}")
        return ExitCode.OK
    if names:
        raise click.UsageError("init takes roles by --writer and --reader")
    made = tables.make_tables(url, writers, readers)
    if tsvector:
        tables.make_tsvector(url, tsvector)
    if hnsw:
        tables.make_hnsw(url)
    if as_json:
        print_json({"made": made})
        return ExitCode.OK
    print_line("made the tables" if made else "the tables are there already")
    if not writers and not readers:
        console.note(
            "--writer ROLE and --reader ROLE let other roles index and ask; `postgres grant` some folders", dim=True
        )
    return ExitCode.OK


@options.command(
    "worker --index postgresql://indexer@db.example.org/notes",
    "worker --index postgresql://indexer@db.example.org/notes --once",
)
@click.option("--once", is_flag=True, help="End when nothing is left to do.")
@options.index
@options.as_json
def worker(console: Console, index: str | None, *, once: bool, as_json: bool) -> ExitCode:
    """Embed the texts that `index --enqueue` left to workers; any number of them, on any machine.

    `status` shows how many chunks have a vector. Nothing is lost however a worker ends.
    """
    from retriever.indexing.update import work  # what indexes

    console.note("waiting for texts; Ctrl-C ends it", dim=True)
    done = sum(work(index_request((), index, DEFAULT_PROFILE, None), once=once))
    if as_json:
        print_json({"embedded": done})
    else:
        print_line(f"embedded {pluralize(done, 'text')}")
    return ExitCode.OK
