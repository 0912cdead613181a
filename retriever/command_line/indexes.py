"""`indexes`: all indexes of this user, and the deletion of one."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from retriever.command_line import options
from retriever.command_line.console import Console, print_json, print_line
from retriever.command_line.options import ExitCode
from retriever.display.phrases import format_age, format_size, pluralize
from retriever.display.sanitize import sanitize_line
from retriever.errors import UsageError

if TYPE_CHECKING:
    from retriever.indexes import ListedIndex


@options.command("indexes", "indexes --json", "indexes --drop docs --yes")
@click.option("--drop", multiple=True, metavar="NAME", help="Delete this index; the documents stay. Repeatable.")
@click.option("--yes", is_flag=True, help="With --drop: do not ask.")
@options.as_json
def indexes(console: Console, drop: tuple[str, ...], *, yes: bool, as_json: bool) -> ExitCode:
    """List all your indexes: what each holds, how large and how old it is, and whether its folders are still there.

    NAME, in the first column, is what --index takes.
    """
    from retriever.api import drop_index, list_indexes

    if yes and not drop:
        raise click.UsageError("--yes goes with --drop: name the index to delete")
    if drop:
        from retriever.indexes import find_named

        places = [find_named(name) for name in drop]  # a wrong name is said before anything is deleted
        if not yes:
            confirm(places)
        dropped = [str(drop_index(name)) for name in drop]
        if as_json:
            print_json({"dropped": dropped})
        for path in () if as_json else dropped:
            print_line(f"deleted {sanitize_line(path)}")
        return ExitCode.OK
    found = list_indexes()
    if as_json:
        from retriever.display.index_json import ListedIndexJson

        print_json({"indexes": [ListedIndexJson.dump(item) for item in found]})
        return ExitCode.OK
    for item in found:
        print_index(item)
    if not found:
        console.note("there is no index yet; run: hybrid_retrieve.py index FOLDER")
    return ExitCode.OK


def confirm(places: Sequence[Path]) -> None:
    """Asks whether to delete; at a terminal alone."""
    if not sys.stdin.isatty():
        raise UsageError("deleting an index is to be confirmed: add --yes")
    named = ", ".join(sanitize_line(str(place)) for place in places)
    try:
        is_meant = click.confirm(f"Delete {named}? The documents stay as they are.", default=False, err=True)
    except click.Abort:
        raise KeyboardInterrupt from None
    if not is_meant:
        raise UsageError("nothing was deleted")


def print_index(item: "ListedIndex") -> None:
    """The line of an index, and its folders below it."""
    facts = [pluralize(item.documents, "file")]
    if item.updated:
        facts += [format_size(item.size_bytes), f"indexed {format_age(time.time() - item.updated)}"]
    print_line(f"{sanitize_line(item.name)}  {' | '.join(facts)}")
    for folder in item.folders:
        print_line(f"    {sanitize_line(folder)}{'  (not there)' if folder in item.missing else ''}")
    if item.trouble:
        print_line(f"    cannot be read: {sanitize_line(item.trouble)}")
