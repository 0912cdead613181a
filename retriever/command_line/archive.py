"""`export` and `import`: an index as one file."""

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from retriever.command_line import options
from retriever.command_line import options as completing
from retriever.command_line.console import write_line
from retriever.command_line.options import ExitCode, WithExamples
from retriever.display.phrases import counted, size
from retriever.display.sanitize import sanitize_line

if TYPE_CHECKING:
    from retriever.archive import Manifest
    from retriever.status import Status


@click.command(
    "export",
    cls=WithExamples,
    examples=(
        "export notes.zip",
        "export notes.zip --index .index --force",
    ),
    short_help="Write an index into one file, for another machine.",
)
@click.argument("file", metavar="FILE", shell_complete=completing.any_file)
@click.option("--force", is_flag=True, help="FILE may be there already.")
@options.index_option
@options.json_option
@options.voice_options
def export(file: str, index: str | None, **given: Any) -> ExitCode:  # noqa: ANN401 - the switches, which are taken out by name
    """Write an index into FILE, with its documents' texts and vectors, in the state of this moment.

    Whoever has FILE can read all that. What was recorded (--record) is in it too.
    """
    from retriever.api import export_index

    notes = options.taken_notes(given)
    manifest = export_index(file, index, replace=given["force"])
    if given["as_json"]:
        from retriever.command_line.console import write_json

        write_json({"file": file, **asdict(manifest)})
    else:
        write_line(sys.stdout, export_line(file, manifest))
    if manifest.questions:
        recorded = counted(manifest.questions, "recorded question")
        notes.aside(f"{recorded} went with it; `history --delete all` removes them from the index")
    return ExitCode.OK


def export_line(file: str, manifest: "Manifest") -> str:
    """What was written."""
    return (
        f"exported {counted(manifest.documents, 'document')}, {size(manifest.bytes)} unpacked, to {sanitize_line(file)}"
    )


@click.command(
    "import",
    cls=WithExamples,
    examples=(
        "import notes.zip",
        "import notes.zip --docs docs",
        "import notes.zip --index .index --force",
    ),
    short_help="Make an index of an exported one.",
)
@click.argument("file", metavar="FILE", shell_complete=completing.any_file)
@click.option(
    "--docs",
    multiple=True,
    metavar="DIR",
    shell_complete=completing.any_folder,
    help="Where a folder of the index is on this machine; it is indexed, only what changed. Repeat it for each folder, "
    "in the index's order.",
)
@click.option("--force", is_flag=True, help="Replace the index that is there.")
@click.option(
    "--encoder-url",
    default="",
    metavar="URL",
    help="The server of the embedding model that the index names, where that is another machine.",
)
@options.index_option
@options.json_option
@options.voice_options
def import_file(file: str, index: str | None, docs: tuple[str, ...], **given: Any) -> ExitCode:  # noqa: ANN401 - the switches, which are taken out by name
    """Make an index of FILE, which `export` wrote; nothing is embedded, and everything in it is checked.

    Without --docs the index answers with what was indexed: the folders that it names are not looked at.
    """
    from retriever.api import import_index, index_folders, open_retriever
    from retriever.command_line.console import shown_progress

    notes = options.taken_notes(given)
    url = given["encoder_url"]
    settings = {"encoder": {"url": url}} if url else None
    place = import_index(file, index, docs, replace=given["force"], encoder_url=url)
    if docs:
        with shown_progress(notes) as progress:
            index_folders(docs, place, settings=settings, progress=progress)
    with open_retriever(index=place, settings=settings) as retriever:
        status = retriever.status()
    if given["as_json"]:
        from retriever.command_line.console import write_json
        from retriever.display.json import StatusJson

        write_json(StatusJson.dump(status))
    else:
        write_line(sys.stdout, import_line(status))
    if status.index.unchecked_folders:
        notes.aside("what was indexed answers; its folders are not looked at until --docs says where they are")
    return ExitCode.OK


def import_line(status: "Status") -> str:
    """What there is now."""
    state = status.index
    folders = ", ".join(map(sanitize_line, state.folders))
    counts = f"{counted(state.documents, 'document')}, {counted(state.sections, 'section')}"
    return f"imported {counts} of {folders} into {sanitize_line(state.path)}"
