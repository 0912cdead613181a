"""Commands for an index as a whole: making it, serving it to agents and browsers, checks, removal."""

import os
import signal
import time
import webbrowser
from collections.abc import Iterator
from pathlib import Path

import click

from retriever import api
from retriever.api import forget_documents
from retriever.command_line import options
from retriever.command_line.options import ExitCode, Opening
from retriever.command_line.output import Console, Output
from retriever.display import dump, format_age, pluralize
from retriever.errors import RetrieverError, UsageError, suggest
from retriever.indexing.request import IndexReport
from retriever.looking.indexes import ListedIndex, drop_index, list_indexes, resolve_name
from retriever.settings import DEFAULT_PROFILE, INDEX_SECTIONS, load_profile

SIGNS = {"well": "ok", "note": "note", "problem": "PROBLEM"}  # of what `doctor` found


@options.command(
    "index docs",
    'index docs --ignore "tutorial-notes/"',
    "index docs --index .index --json",
    "index docs --watch",
    settings=INDEX_SECTIONS,
)
@options.folders
@options.index
@options.profile
@click.option("--yes", is_flag=True, help="Allow your home folder, or a folder that contains it.")
@click.option("--enqueue", is_flag=True, help="Leave the embedding to `postgres worker`.")
@click.option("--watch", is_flag=True, help="Index again two seconds after a save, until Ctrl-C.")
@options.output
def index(console: Console, opening: Opening, output: Output, *, yes: bool, enqueue: bool, watch: bool) -> None:
    """Index DOCS, one or more folders of Markdown. Run it again at any time: only changed files are read.

    One index can hold several folders. If you interrupt it, what has been read and embedded is kept. With --watch, each
    run that changes something prints one line on standard error.
    """
    with console.show_progress() as progress:
        if watch:
            console.note(f"watching {', '.join(opening.docs)}; Ctrl-C ends it", dim=True)
            follow(console, api.watch_folders(*opening, progress, everything=yes, enqueue=enqueue), output)
            return
        report = api.index_folders(*opening, progress, everything=yes, enqueue=enqueue)
    console.note_skipped(report.skipped)
    output.show(report, describe_report(report))


def describe_report(report: IndexReport) -> Iterator[str]:
    held = f"{pluralize(report.documents, 'file')}, {pluralize(report.sections, 'section')}"
    yield f"indexed {held} in {report.seconds:.1f} s"
    yield f"  files    {describe_changes(report)}"
    yield f"  chunks   {report.chunks:,}; {pluralize(report.embedded, 'text')} embedded"
    yield from (f"  folder   {folder}" for folder in report.folders)
    yield f"  index    {report.path}"


def describe_changes(report: IndexReport) -> str:
    """Describe what became of the files: `2 added, 1,203 unchanged`."""
    counts = {name: getattr(report, name) for name in ("added", "changed", "removed", "unchanged")}
    counts["skipped"] = len(report.skipped)
    return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)


def follow(console: Console, updates: Iterator[IndexReport | RetrieverError], output: Output) -> None:
    """Say in a line on standard error what each update of `index --watch` did, and show its report.

    >>> follow(Console(quiet=True), iter([RetrieverError("the disk is full")]), Output())
    """
    skipped: tuple[tuple[str, str], ...] = ()
    for report in updates:
        if isinstance(report, RetrieverError):
            console.note(f"not indexed: {report}")
            continue
        console.note_skipped(tuple(item for item in report.skipped if item not in skipped))
        skipped = report.skipped
        embedded = f"{pluralize(report.embedded, 'text')} embedded"
        console.note(f"{describe_changes(report)}; {embedded}, {report.seconds:.1f} s")
        output.show(report, ())


# `indexes`: all indexes of this user, and the deletion of one.


@options.command("indexes", "indexes --json", "indexes --drop docs --yes")
@click.option("--drop", multiple=True, metavar="NAME", help="Delete this index; the documents stay. Repeatable.")
@click.option("--yes", is_flag=True, help="Confirm --drop.")
@options.output
def indexes(console: Console, output: Output, drop: tuple[str, ...], *, yes: bool) -> None:
    """List all your indexes: what each holds, how large and how old it is, and whether its folders are still there.

    --index takes NAME, which is in the first column, or its part before the digits while only one index has it.
    """
    if drop:
        # Before anything is deleted, which may leave one index of a name.
        places = dict.fromkeys(resolve_name(name, is_asked=True) for name in drop)
        if not yes:
            named = ", ".join(map(str, places))
            raise UsageError(f"{named} would be deleted, and the documents stay; to confirm that, add --yes")
        dropped = [str(drop_index(place)) for place in places]
        output.show({"dropped": dropped}, (f"deleted {path}" for path in dropped))
        return
    found = list_indexes()
    output.show({"indexes": found}, (line for item in found for line in describe_index(item)))
    if output.is_for_people and not found:
        console.note(f"there is no index yet; {suggest('index FOLDER')}")


def describe_index(item: ListedIndex) -> Iterator[str]:
    """Yield the line of an index, and its folders below it."""
    from rich import filesize

    facts = [pluralize(item.documents, "file")]
    if item.updated:
        facts += [filesize.decimal(item.size_bytes), f"indexed {format_age(time.time() - item.updated)}"]
    yield f"{item.name}  {' | '.join(facts)}"
    yield from (f"    {folder}{'  (not there)' if folder in item.missing else ''}" for folder in item.folders)
    if item.trouble:
        yield f"    cannot be read: {item.trouble}"


# `doctor`: whether everything is well, and what to do about what is not.


@options.command(
    "doctor",
    "doctor --json",
    "doctor --repair",
    "doctor --llm --profile full --llm-model qwen3:8b",
    settings=("llm", "allow_remote"),
    epilog="Exit codes: 0 no problems (notes do not count), 1 problems, 2 usage.",
)
@click.option(
    "--repair", is_flag=True, help="Rebuild broken parts, and rescue what can be read from a damaged database."
)
@click.option("--llm", is_flag=True, help="Check the language model of --profile as well; it may have to load first.")
@options.index
@options.profile
@options.output
def doctor(console: Console, opening: Opening, output: Output, *, repair: bool, llm: bool) -> ExitCode | None:
    """Check the installation and the index, and say how to fix each problem.

    Reads the whole index: seconds for thousands of files. Nothing is changed without --repair.
    """
    if not llm and opening.profile != DEFAULT_PROFILE:
        raise click.UsageError("--profile and the settings of the language model are for --llm")
    from retriever.upkeep import check_up  # with all that it examines

    profile = load_profile(opening.profile, opening.settings) if llm else None
    with console.show_progress() as progress:
        found = check_up(opening.index, repair=repair, llm=profile, progress=progress)
    problems = sum(item.level == "problem" for item in found.findings)
    lines = [f"repaired  {text}" for text in found.repairs]
    width = max(len(item.name) for item in found.findings)
    for item in found.findings:
        lines.append(f"{SIGNS[item.level]:<8} {item.name:<{width}}  {item.says}")
        if item.cure:
            lines.append(f"{'':<8} {'':<{width}}  -> {item.cure}")
    output.show({"problems": problems, **dump(found)}, lines)
    return ExitCode.ERROR if problems else None


@options.command("forget tutorial-notes/", "forget --undo tutorial-notes/")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--undo", is_flag=True, help="Allow these paths again; the next question or `index` reads them.")
@options.index
@options.output
def forget_paths(
    console: Console, output: Output, paths: tuple[str, ...], index: str | None, *, undo: bool
) -> ExitCode | None:
    """Remove the text and the vectors of documents from every file of the index, and keep them out.

    PATH is a document, a folder of documents, or an indexed folder, which is then removed completely. The files on disk
    are not changed. `index` skips what was forgotten, and `status` lists it.
    """
    report = forget_documents(paths, index, undo=undo)
    output.show(report, (f"{'restored' if undo else 'forgot'} {name}" for name in report.forgotten))
    left = f"{pluralize(report.documents, 'document')} left the index; the files on disk are as they were"
    console.note("the next question or `index` reads it again" if undo else left, dim=True)
    if report.kept:
        console.note(report.kept)
    for path in report.remaining:
        held = f"{path} is being read by another process and may still hold the text"
        console.note(f"{held}; stop it, and run this again")
    return ExitCode.ERROR if report.remaining else None


# `serve` and `mcp`: an open index for agents and for a browser.


@options.command(
    "serve --web --open --docs docs",
    "serve --mcp --web --port 9000",
    settings=(),
)
@click.option("--mcp", is_flag=True, help="Serve MCP, for agents, at /mcp.")
@click.option("--web", is_flag=True, help="Serve a web page at /, and its JSON API at /api.")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8470,
    show_default=True,
    metavar="N",
    help="Port to listen on; 0 picks a free one.",
)
@click.option(
    "--token-file",
    metavar="FILE",
    help="File with the bearer token that every request must carry; created if it does not exist. Required if other "
    "machines can reach --host.",
)
@click.option("--open", "opens", is_flag=True, help="Serve --web, and open it in your browser.")
@options.opened
@options.no_llm
def serve(
    console: Console,
    opening: Opening,
    host: str,
    port: int,
    token_file: str | None,
    *,
    mcp: bool,
    web: bool,
    opens: bool,
) -> None:
    """Serve an index until Ctrl-C: --mcp for agents, --web for a browser and for programs, or both.

    Only programs on this machine can connect, unless --host says otherwise; pages of other sites cannot.
    """
    web = web or opens
    if not (mcp or web):
        raise click.UsageError("say what to serve: --web (a page, and the JSON API), --mcp (for agents), or both")
    # What is imported next may catch a Ctrl-C and report an error of its own: until the server listens for it, it ends
    # the process at once.
    signal.signal(signal.SIGINT, lambda *_: os._exit(ExitCode.INTERRUPTED))
    from retriever.serving import ServedIndex, http
    from retriever.serving.http import ServerAddress

    token = http.open_token(Path(token_file).expanduser()) if token_file else ""
    http.check_host(host, token)
    load_profile(opening.profile, opening.settings)  # mistakes in it are named now, not when somebody asks
    with http.listen(host, port) as listener, ServedIndex(*opening) as served:
        address = ServerAddress(host, listener.getsockname()[1], token)
        served.begin()
        if mcp:
            console.note(f"MCP       {address.url}/mcp")
        if web:
            console.note(f"web page  {address.url}/")
        if token:
            console.note(f"token     in {token_file}; send it as: Authorization: Bearer TOKEN")
        if opens:
            webbrowser.open(f"{address.url}/")  # the socket listens already, so the browser waits for the answer
        console.note("Ctrl-C ends it", dim=True)
        http.run_server(http.make_application(served, mcp=mcp, web=web), listener, address)


@options.command(
    "mcp --docs docs",
    "mcp --profile recall",
    settings=(),
)
@options.opened
@options.no_llm
def mcp(console: Console, opening: Opening) -> None:
    """Serve the agent that started this command, by MCP over standard input and output, until it closes them.

    It belongs in the configuration of an editor or a coding agent, not in a terminal.
    """
    from retriever.serving import ServedIndex
    from retriever.serving.mcp_server import DocumentServer, serve_stdio

    load_profile(opening.profile, opening.settings)  # mistakes in it are named now, not when somebody asks
    with ServedIndex(*opening) as served:
        if opening.docs:
            served.begin()
        serve_stdio(DocumentServer(served))
