"""`tree`, `read` and `status`: what is in an index."""

import sys
from typing import TYPE_CHECKING, Any

import click

from retriever.command_line import options
from retriever.command_line.exit_codes import ExitCode
from retriever.command_line.help_pages import WithExamples
from retriever.command_line.terminal import inert_line, openable, write_line
from retriever.command_line.wording import counted, refresh_command, size

if TYPE_CHECKING:
    from pageindex.node import Node
    from retriever.browsing import Passage
    from retriever.retrieving import Status


@click.command(
    cls=WithExamples,
    examples=(
        "tree --depth 2",
        "tree guide/install.md",
        'tree "guide/install.md#install/on-linux"',
    ),
    short_help="Show the outline of the documents, or of a part of them.",
)
@click.argument("reference", default="", metavar="[PATH|NODE]")
@click.option("--depth", type=click.IntRange(min=1), metavar="N", help="How many levels down; all of them by default.")
@options.docs_option
@options.index_option
@options.json_option
@options.voice_options
def tree(reference: str, depth: int | None, docs: tuple[str, ...], index: str | None, **given: Any) -> ExitCode:  # noqa: ANN401 - the switches, which are taken out by name
    """Show the outline of all documents, of one folder or file (PATH), or below one section (NODE)."""
    from retriever.command_line.progress import shown_progress
    from retriever.library import open_retriever

    notes = options.taken_notes(given)
    with shown_progress(notes) as progress, open_retriever(docs, index, progress=progress) as retriever:
        if given["as_json"]:
            from retriever.command_line.as_json import write_json

            write_json({"nodes": [node_object(node) for node in retriever.nodes(reference, depth)]})
        else:
            write_line(sys.stdout, retriever.tree(reference, depth).rstrip("\n"))
    return ExitCode.OK


def node_object(node: "Node") -> dict[str, Any]:
    """A folder, file or section, for programs; the lines are null where it has none of its own."""
    return {
        "node_id": node.id,
        "kind": str(node.kind),
        "file": node.path,
        "title": node.title,
        "level": node.level,
        "start_line": node.span.first if node.span else None,
        "end_line": node.span.last if node.span else None,
        "summary": node.summary,
    }


@click.command(
    cls=WithExamples,
    examples=(
        'read "guide/install.md#install/on-linux"',
        "read guide/install.md:12-34",
        "read guide/install.md --json",
    ),
    short_help="Print a section, a file, or lines of it.",
)
@click.argument("reference", metavar="NODE|PATH[:FIRST-LAST]")
@options.docs_option
@options.index_option
@options.json_option
@options.voice_options
def read(reference: str, docs: tuple[str, ...], index: str | None, **given: Any) -> ExitCode:  # noqa: ANN401 - the switches, which are taken out by name
    """Print the text of a section (its node id), of a file (its path), or of lines of a file.

    Standard output holds the text alone; where it stands is said on standard error.
    """
    from retriever.command_line.progress import shown_progress
    from retriever.library import open_retriever

    notes = options.taken_notes(given)
    with shown_progress(notes) as progress, open_retriever(docs, index, progress=progress) as retriever:
        passage = retriever.read(reference)
    if given["as_json"]:
        from retriever.command_line.as_json import write_json

        write_json(passage_object(passage))
        return ExitCode.OK
    titles = " > ".join(map(inert_line, (*passage.breadcrumb, passage.title)))
    notes.aside(f"{openable(passage.folder, passage.file)}:{passage.span} | {titles}")
    write_line(sys.stdout, passage.text.rstrip("\n"))
    return ExitCode.OK


def passage_object(passage: "Passage") -> dict[str, Any]:
    """A passage, for programs."""
    return {
        "node_id": passage.node_id,
        "folder": passage.folder,
        "file": passage.file,
        "start_line": passage.span.first,
        "end_line": passage.span.last,
        "citation": f"{passage.file}:{passage.span}",
        "title": passage.title,
        "breadcrumb": list(passage.breadcrumb),
        "text": passage.text,
    }


@click.command(
    cls=WithExamples,
    examples=(
        "status",
        "status --index .index --json",
    ),
    short_help="Show what is indexed, how fresh it is, and what was skipped.",
)
@options.index_option
@options.json_option
@options.voice_options
def status(index: str | None, **given: Any) -> ExitCode:  # noqa: ANN401 - the switches, which are taken out by name
    """Show what is indexed, which files changed since, and which could not be read."""
    from retriever.library import open_retriever

    options.taken_notes(given)
    with open_retriever(index=index) as retriever:
        state = retriever.status()
    if given["as_json"]:
        from retriever.command_line.as_json import write_json

        write_json(status_object(state))
    else:
        for line in status_lines(state, index):
            write_line(sys.stdout, line)
    return ExitCode.OK


def status_lines(status: "Status", index: str | None) -> list[str]:
    """The index's state, for people; `index` as it was given with --index."""
    state = status.index
    freshness = "up to date"
    if status.changed_files:
        freshness = f"{counted(len(status.changed_files), 'file')} changed; run: {refresh_command(state, index)}"
    passages = f"{counted(state.chunks, 'passage')} ({status.coverage:.0%} with a vector)"
    return [
        f"index         {inert_line(state.path)}",
        *(f"folder        {inert_line(folder)}" for folder in state.folders),
        f"holds         {counted(state.documents, 'file')}, {counted(state.sections, 'section')}, {passages}",
        f"encoder       {inert_line(status.encoder)}",
        f"size          {size(status.size_bytes)}, generation {state.generation}",
        f"freshness     {freshness}",
        *(f"  changed     {inert_line(file)}" for file in status.changed_files),
        f"skipped       {counted(len(status.skipped), 'file')}",
        *(f"  skipped     {inert_line(path)}: {inert_line(reason)}" for path, reason in status.skipped),
        f"broken links  {status.broken_links:,}",
    ]


def status_object(status: "Status") -> dict[str, Any]:
    """The index's state, for programs."""
    from retriever.command_line.as_json import index_object, skipped_objects

    return {
        "index": index_object(status.index),
        "encoder": status.encoder,
        "size_bytes": status.size_bytes,
        "changed_files": list(status.changed_files),
        "skipped": skipped_objects(status.skipped),
        "broken_links": status.broken_links,
        "coverage": status.coverage,
    }
