"""`tree`, `read` and `status`: what is in an index."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from retriever.command_line.ask import Opening
from retriever.command_line.console import Console, openable, print_json, print_line
from retriever.command_line.options import (
    ExitCode,
    WithExamples,
    complete_reference,
    console_option,
    docs_option,
    index_option,
    json_option,
    setting_options,
)
from retriever.display.phrases import CITATION_STATES, counted, refresh_command, size
from retriever.display.sanitize import sanitize_line

if TYPE_CHECKING:
    from retriever.expansion.cache import ExpansionMetrics
    from retriever.status import Status, StatusDetails


@click.command(
    cls=WithExamples,
    examples=(
        "tree --depth 2",
        "tree ranking.md",
        'tree "ranking.md#how-sections-are-ranked"',
    ),
)
@click.argument("reference", default="", metavar="[PATH|NODE]", shell_complete=complete_reference)
@click.option("--depth", type=click.IntRange(min=1), metavar="N", help="How many levels down; all of them by default.")
@docs_option
@index_option
@json_option
@console_option
def tree(
    console: Console, reference: str, depth: int | None, docs: tuple[str, ...], index: str | None, *, as_json: bool
) -> ExitCode:
    """Show the outline of all documents, of one folder or file (PATH), or below one section (NODE)."""
    with Opening(docs, index).open(console) as retriever:
        if as_json:
            from retriever.display.json import NodeJson

            print_json({"nodes": [NodeJson.dump(node) for node in retriever.nodes(reference, depth)]})
        else:
            print_line(retriever.tree(reference, depth).rstrip("\n"))
    return ExitCode.OK


@click.command(
    cls=WithExamples,
    examples=(
        "read ranking.md:15-28",
        'read "ranking.md#how-sections-are-ranked/how-the-two-rankings-are-fused"',
        "read ranking.md --json",
    ),
    params=setting_options("record"),
)
@click.argument("reference", metavar="NODE|PATH[:FIRST-LAST]", shell_complete=complete_reference)
@docs_option
@index_option
@json_option
@console_option
def read(
    console: Console,
    settings: dict[str, Any],
    reference: str,
    docs: tuple[str, ...],
    index: str | None,
    *,
    as_json: bool,
) -> ExitCode:
    """Print the text of a section (its node id), of a file (its path), or of lines of a file.

    Standard output holds the text alone; where it stands is said on standard error.
    """
    with Opening(docs, index, settings=settings).open(console) as retriever:
        excerpt = retriever.read(reference)
    if as_json:
        from retriever.display.json import PassageJson

        print_json(PassageJson.dump(excerpt))
        return ExitCode.OK
    titles = " > ".join(map(sanitize_line, (*excerpt.breadcrumb, excerpt.title)))
    state = CITATION_STATES[excerpt.citation_state]
    place = f"{openable(excerpt.folder, excerpt.file)}:{excerpt.span}{f', {state}' if state else ''}"
    console.note_dim(f"{place} | {titles}")
    print_line(excerpt.text.rstrip("\n"))
    return ExitCode.OK


@click.command(
    cls=WithExamples,
    examples=(
        "status",
        "status -v",
        "status --json",
        "status --metrics",
    ),
)
@index_option
@json_option
@click.option("--metrics", is_flag=True, help="Show how the expansion of your questions fared, too.")
@console_option
def status(console: Console, index: str | None, *, as_json: bool, metrics: bool) -> ExitCode:
    """Show what is indexed, which files changed since, and which could not be read.

    With -v also broken links, duplicates, files with remarks, and the formats in the folders that are not read.
    """
    from retriever.command_line.serve import describe_resident, resident_object, resident_state

    resident = resident_state()
    with Opening(index=index).open(console) as retriever:
        state = retriever.status(details=console.verbose or as_json)
        measured = retriever.metrics() if metrics else None
    if as_json:
        from retriever.display.json import StatusJson

        expansion = {"expansion": asdict(measured)} if measured else {}
        print_json(StatusJson.dump(state) | {"resident": resident_object(resident)} | expansion)
        return ExitCode.OK
    print_status(state, index)
    print_line(f"resident      {describe_resident(resident)}")
    if measured:
        print_metrics(measured)
    return ExitCode.OK


def print_status(status: "Status", index: str | None) -> None:
    """Prints the index's state, for people; `index` as it was given with --index."""
    state = status.index
    freshness = "up to date"
    if status.changed_files:
        freshness = f"{counted(len(status.changed_files), 'file')} changed; run: {refresh_command(state, index)}"
    elif state.unchecked_folders:
        freshness = f"{counted(state.unchecked_folders, 'folder')} not looked at until named with --docs"
    print_line(f"index         {sanitize_line(state.path)}")
    for folder in state.folders:
        print_line(f"folder        {sanitize_line(folder)}")
    chunks = f"{counted(state.chunks, 'chunk')} ({status.coverage:.0%} with a vector)"
    print_line(f"holds         {counted(state.documents, 'file')}, {counted(state.sections, 'section')}, {chunks}")
    print_line(f"encoder       {sanitize_line(status.encoder)}")
    print_line(f"size          {size(status.size_bytes)}, snapshot {state.snapshot}")
    print_line(f"freshness     {freshness}")
    for file in status.changed_files:
        print_line(f"  changed     {sanitize_line(file)}")
    print_line(f"skipped       {counted(len(status.skipped), 'file')}")
    for path, reason in status.skipped:
        print_line(f"  skipped     {sanitize_line(path)}: {sanitize_line(reason)}")
    if status.forgotten:
        print_line(f"forgotten     {counted(len(status.forgotten), 'path')}, kept out; `forget --undo` takes one back")
        for path, _ in status.forgotten:
            print_line(f"  forgotten   {sanitize_line(path)}")
    if status.details is None:
        more = " (with -v: which)" if status.broken_links else ""
        print_line(f"broken links  {status.broken_links:,}{more}")
        if status.remarks:
            print_line(
                f"remarks       {counted(len(status.remarks), 'remark')} on files that are read (with -v: which)"
            )
    else:
        print_details(status, status.details)


def print_details(status: "Status", details: "StatusDetails") -> None:
    """Prints what else the documents and their folders are like, for people."""
    print_line(f"broken links  {status.broken_links:,}")
    for file, line, target, why in details.broken_links:
        print_line(f"  broken      {sanitize_line(file)}:{line} to {sanitize_line(target)}: {sanitize_line(why)}")
    print_line(f"duplicates    {counted(len(details.duplicates), 'text')} in more than one file")
    for files in details.duplicates:
        print_line(f"  same        {', '.join(map(sanitize_line, files))}")
    print_line(f"remarks       {counted(len(status.remarks), 'remark')} on files that are read")
    for path, remark in status.remarks:
        print_line(f"  remark      {sanitize_line(path)}: {sanitize_line(remark)}")
    formats = ", ".join(
        f"{number:,} {sanitize_line(ending) or 'without an ending'}" for ending, number in details.unread_formats
    )
    print_line(f"not read      {formats or 'nothing'}{' (other formats)' if formats else ''}")


def print_metrics(metrics: "ExpansionMetrics") -> None:
    """Prints how the expansion of questions fared, for people."""

    def share(value: float | None) -> str:
        return "-" if value is None else f"{value:.0%}"

    def seconds(milliseconds: float | None) -> str:
        return "-" if milliseconds is None else f"{milliseconds / 1000:.1f} s"

    print_line(f"expansion     {counted(metrics.questions, 'question')}, {share(metrics.usage_rate)} with other texts")
    print_line(f"  written     in {seconds(metrics.p50_ms)} (median), {seconds(metrics.p95_ms)} (95 %)")
    print_line(f"  remembered  {share(metrics.cache_hit_rate)} of the expansions that were needed")
    print_line(f"  dropped     {share(metrics.drop_rate)} of the texts")
    for gain in metrics.gains:
        values = f"nDCG@10 {gain.plain:.3f} without, {gain.expanded:.3f} with"
        print_line(f"  measured    {sanitize_line(gain.questions)}: {values}")
