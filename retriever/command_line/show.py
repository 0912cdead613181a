"""`tree`, `read` and `status`: what is in an index."""

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from retriever.command_line import options
from retriever.command_line import options as completing
from retriever.command_line.console import openable, write_line
from retriever.command_line.options import ExitCode, WithExamples
from retriever.command_line.resident import known_state, state_line, state_object
from retriever.display.phrases import CITATION_STATES, counted, refresh_command, size
from retriever.display.sanitize import sanitize_line

if TYPE_CHECKING:
    from retriever.expansion.cache import ExpansionMetrics
    from retriever.retriever import Status


@click.command(
    cls=WithExamples,
    examples=(
        "tree --depth 2",
        "tree guide/install.md",
        'tree "guide/install.md#install/on-linux"',
    ),
    short_help="Show the outline of the documents, or of a part of them.",
)
@click.argument("reference", default="", metavar="[PATH|NODE]", shell_complete=completing.reference)
@click.option("--depth", type=click.IntRange(min=1), metavar="N", help="How many levels down; all of them by default.")
@options.docs_option
@options.index_option
@options.json_option
@options.voice_options
def tree(reference: str, depth: int | None, docs: tuple[str, ...], index: str | None, **given: Any) -> ExitCode:  # noqa: ANN401 - the switches, which are taken out by name
    """Show the outline of all documents, of one folder or file (PATH), or below one section (NODE)."""
    from retriever.api import open_retriever
    from retriever.command_line.console import shown_progress

    notes = options.taken_notes(given)
    with shown_progress(notes) as progress, open_retriever(docs, index, progress=progress) as retriever:
        if given["as_json"]:
            from retriever.command_line.console import write_json
            from retriever.display.json import NodeJson

            write_json({"nodes": [NodeJson.dump(node) for node in retriever.nodes(reference, depth)]})
        else:
            write_line(sys.stdout, retriever.tree(reference, depth).rstrip("\n"))
    return ExitCode.OK


@click.command(
    cls=WithExamples,
    examples=(
        'read "guide/install.md#install/on-linux"',
        "read guide/install.md:12-34",
        "read guide/install.md --json",
    ),
    params=options.setting_parameters(("record",)),
    short_help="Print a section, a file, or lines of it.",
)
@click.argument("reference", metavar="NODE|PATH[:FIRST-LAST]", shell_complete=completing.reference)
@options.docs_option
@options.index_option
@options.json_option
@options.voice_options
def read(reference: str, docs: tuple[str, ...], index: str | None, **given: Any) -> ExitCode:  # noqa: ANN401 - the switches, which are taken out by name
    """Print the text of a section (its node id), of a file (its path), or of lines of a file.

    Standard output holds the text alone; where it stands is said on standard error.
    """
    from retriever.api import open_retriever
    from retriever.command_line.console import shown_progress

    notes = options.taken_notes(given)
    settings = options.taken_settings(given)
    with (
        shown_progress(notes) as progress,
        open_retriever(docs, index, settings=settings, progress=progress) as retriever,
    ):
        passage = retriever.read(reference)
    if given["as_json"]:
        from retriever.command_line.console import write_json
        from retriever.display.json import PassageJson

        write_json(PassageJson.dump(passage))
        return ExitCode.OK
    titles = " > ".join(map(sanitize_line, (*passage.breadcrumb, passage.title)))
    doubt = f", {said}" if (said := CITATION_STATES[passage.citation_state]) else ""
    notes.aside(f"{openable(passage.folder, passage.file)}:{passage.span}{doubt} | {titles}")
    write_line(sys.stdout, passage.text.rstrip("\n"))
    return ExitCode.OK


@click.command(
    cls=WithExamples,
    examples=(
        "status",
        "status --index .index --json",
        "status --metrics",
    ),
    short_help="Show what is indexed, how fresh it is, and what was skipped.",
)
@options.index_option
@options.json_option
@click.option("--metrics", is_flag=True, help="Show how the expansion of your questions fared, too.")
@options.voice_options
def status(index: str | None, **given: Any) -> ExitCode:  # noqa: ANN401 - the switches, which are taken out by name
    """Show what is indexed, which files changed since, and which could not be read."""
    from retriever.api import open_retriever

    options.taken_notes(given)
    resident = known_state()
    with open_retriever(index=index) as retriever:
        state = retriever.status()
        metrics = retriever.metrics() if given["metrics"] else None
    if given["as_json"]:
        from retriever.command_line.console import write_json
        from retriever.display.json import StatusJson

        expansion = {"expansion": asdict(metrics)} if metrics else {}
        write_json(StatusJson.dump(state) | {"resident": state_object(resident)} | expansion)
    else:
        for line in (*status_lines(state, index), state_line(resident), *(metrics_lines(metrics) if metrics else ())):
            write_line(sys.stdout, line)
    return ExitCode.OK


def metrics_lines(metrics: "ExpansionMetrics") -> list[str]:
    """How the expansion of questions fared, for people."""

    def share(value: float | None) -> str:
        return "-" if value is None else f"{value:.0%}"

    def seconds(milliseconds: float | None) -> str:
        return "-" if milliseconds is None else f"{milliseconds / 1000:.1f} s"

    return [
        f"expansion     {counted(metrics.questions, 'question')}, {share(metrics.usage_rate)} with other texts",
        f"  written     in {seconds(metrics.p50_ms)} (median), {seconds(metrics.p95_ms)} (95 %)",
        f"  remembered  {share(metrics.cache_hit_rate)} of the expansions that were needed",
        f"  dropped     {share(metrics.drop_rate)} of the texts",
        *(
            f"  measured    {sanitize_line(gain.questions)}: nDCG@10 {gain.plain:.3f} without, {gain.expanded:.3f} with"
            for gain in metrics.gains
        ),
    ]


def status_lines(status: "Status", index: str | None) -> list[str]:
    """The index's state, for people; `index` as it was given with --index."""
    state = status.index
    freshness = "up to date"
    if status.changed_files:
        freshness = f"{counted(len(status.changed_files), 'file')} changed; run: {refresh_command(state, index)}"
    elif state.unchecked_folders:
        freshness = f"{counted(state.unchecked_folders, 'folder')} not looked at until named with --docs"
    passages = f"{counted(state.chunks, 'passage')} ({status.coverage:.0%} with a vector)"
    return [
        f"index         {sanitize_line(state.path)}",
        *(f"folder        {sanitize_line(folder)}" for folder in state.folders),
        f"holds         {counted(state.documents, 'file')}, {counted(state.sections, 'section')}, {passages}",
        f"encoder       {sanitize_line(status.encoder)}",
        f"size          {size(status.size_bytes)}, snapshot {state.snapshot}",
        f"freshness     {freshness}",
        *(f"  changed     {sanitize_line(file)}" for file in status.changed_files),
        f"skipped       {counted(len(status.skipped), 'file')}",
        *(f"  skipped     {sanitize_line(path)}: {sanitize_line(reason)}" for path, reason in status.skipped),
        f"broken links  {status.broken_links:,}",
    ]
