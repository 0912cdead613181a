"""`export` and `import`: an index as one file."""

from dataclasses import asdict

import click

from retriever.command_line import options
from retriever.command_line.console import Console, print_json, print_line
from retriever.command_line.options import ExitCode, Opening
from retriever.display.phrases import format_size, pluralize
from retriever.display.sanitize import sanitize_line


@options.command("index docs", "export docs.zip", "export docs.zip --force --json")
@click.argument("file", metavar="FILE", shell_complete=options.complete_file)
@click.option("--force", is_flag=True, help="FILE may be there already.")
@options.index
@options.as_json
def export(console: Console, file: str, index: str | None, *, force: bool, as_json: bool) -> ExitCode:
    """Write an index into FILE, with its documents' texts and vectors, in the state of this moment.

    Whoever has FILE can read all that. What was recorded (--record) is in it too.
    """
    from retriever.api import export_index

    manifest = export_index(file, index, replace=force)
    if as_json:
        print_json({"file": file, **asdict(manifest)})
    else:
        amount = f"{pluralize(manifest.documents, 'document')}, {format_size(manifest.bytes)} unpacked"
        print_line(f"exported {amount}, to {sanitize_line(file)}")
    if manifest.questions:
        recorded = pluralize(manifest.questions, "recorded question")
        console.note_dim(f"{recorded} went with it; `history --delete all` removes them from the index")
    return ExitCode.OK


@options.command(
    "export docs.zip",
    "import docs.zip --index imported",
    "import docs.zip --index imported --docs docs --force",
    name="import",
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
@click.option("--force", is_flag=True, help="Replace the index that is there.")
@click.option(
    "--encoder-url",
    default="",
    metavar="URL",
    help="The server of the embedding model that the index names, where that is another machine.",
)
@options.index
@options.as_json
def import_file(
    console: Console,
    file: str,
    index: str | None,
    docs: tuple[str, ...],
    encoder_url: str,
    *,
    force: bool,
    as_json: bool,
) -> ExitCode:
    """Make an index of FILE, which `export` wrote; nothing is embedded, and everything in it is checked.

    Without --docs the index answers with what was indexed: the folders that it names are not looked at.
    """
    from retriever.api import import_index, index_folders

    settings = {"encoder": {"url": encoder_url}} if encoder_url else {}
    place = import_index(file, index, docs, replace=force, encoder_url=encoder_url)
    if docs:
        with console.show_progress() as progress:
            index_folders(docs, place, settings=settings, progress=progress)
    with Opening(index=str(place), settings=settings).open(console) as retriever:
        status = retriever.status()
    state = status.index
    if as_json:
        from retriever.display.index_json import StatusJson

        print_json(StatusJson.dump(status))
    else:
        folders = ", ".join(map(sanitize_line, state.folders))
        counts = f"{pluralize(state.documents, 'document')}, {pluralize(state.sections, 'section')}"
        print_line(f"imported {counts} of {folders} into {sanitize_line(state.path)}")
    if state.unchecked_folders:
        console.note_dim("what was indexed answers; its folders are not looked at until --docs says where they are")
    return ExitCode.OK
