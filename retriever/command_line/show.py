"""`tree`, `read`, `similar` and `status`: what is in an index."""

import sys
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
    editor_option,
    index_option,
    json_option,
    setting_options,
)
from retriever.display.phrases import CITATION_STATES, counted, refresh_command, size
from retriever.display.sanitize import sanitize_line

if TYPE_CHECKING:
    from retriever.expansion.cache import ExpansionMetrics
    from retriever.status import Status


@click.command(
    cls=WithExamples,
    examples=(
        "tree --depth 2",
        "tree guide/install.md",
        'tree "guide/install.md#install/on-linux"',
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

            nodes = retriever.nodes(reference, depth)
            counts = retriever.count_folders() if any(node.kind == "folder" for node in nodes) else {}
            print_json({"nodes": [NodeJson.of(node, counts).model_dump() for node in nodes]})
        else:
            print_line(retriever.tree(reference, depth).rstrip("\n"))
    return ExitCode.OK


@click.command(
    cls=WithExamples,
    examples=(
        'read "guide/install.md#install/on-linux"',
        "read guide/install.md:12-34",
        "read guide/install.md --json",
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
        "similar guide/install.md",
        'similar "guide/install.md#install/on-linux" --count 3',
        "similar guide/install.md --same-file --json",
    ),
)
@click.argument("reference", metavar="FILE|SECTION", shell_complete=complete_reference)
@click.option(
    "--count", type=click.IntRange(1, 1000), default=10, show_default=True, metavar="N", help="How many at most."
)
@click.option("--same-file", is_flag=True, help="Other sections of the same file count as well; they are marked.")
@docs_option
@index_option
@editor_option
@json_option
@console_option
def similar(
    console: Console,
    reference: str,
    count: int,
    docs: tuple[str, ...],
    index: str | None,
    editor: str,
    *,
    same_file: bool,
    as_json: bool,
) -> ExitCode:
    """Show the sections that are nearest in meaning to a section, with all below it, or to a file.

    How near is the cosine of the means of their vectors, at most 1. No question is asked, and no other model.
    """
    with Opening(docs, index).open(console) as retriever:
        found = retriever.similar(reference, count, same_file=same_file)
    if as_json:
        from retriever.display.json import SimilarJson

        print_json(SimilarJson.dump(found))
        return ExitCode.OK
    from retriever.command_line.render import Page, show_similar

    if not found.sections:
        hint = "" if same_file else "; --same-file looks in it as well"
        console.note(f"there is nothing but {sanitize_line(found.file)}{hint}")
    show_similar(Page.on(sys.stdout, editor), found)
    return ExitCode.OK


@click.command(
    cls=WithExamples,
    examples=(
        "status",
        "status --index .index --json",
        "status --metrics",
    ),
)
@index_option
@json_option
@click.option("--metrics", is_flag=True, help="Show how the expansion of your questions fared, too.")
@console_option
def status(console: Console, index: str | None, *, as_json: bool, metrics: bool) -> ExitCode:
    """Show what is indexed, which files changed since, and which could not be read."""
    from retriever.command_line.serve import describe_resident, resident_object, resident_state

    resident = resident_state()
    with Opening(index=index).open(console) as retriever:
        state = retriever.status()
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
    print_line(f"broken links  {status.broken_links:,}")


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
