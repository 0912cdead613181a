"""`index` and `watch`: folders of documents into an index, only what changed."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from retriever.command_line import options
from retriever.command_line.console import Console, print_json, print_line, shorten_path
from retriever.command_line.options import ExitCode, Opening
from retriever.display.phrases import pluralize
from retriever.display.sanitize import sanitize_line
from retriever.errors import RetrieverError
from retriever.settings.schema import INDEX_SECTIONS

if TYPE_CHECKING:
    from types import FrameType

    from retriever.watch import WatchEvent

MAX_NAMED = 3  # changed files in a line of `watch`


@options.command(
    "index docs",
    'index docs --ignore "tutorial-notes/"',
    "index docs --index .index --json",
    settings=(*INDEX_SECTIONS, "llm"),
)
@options.opening(options.folders, options.index, options.profile)
@click.option("--yes", is_flag=True, help="DOCS may be your home folder, or one that holds it.")
@options.as_json
def index(console: Console, opening: Opening, *, yes: bool, as_json: bool) -> ExitCode:
    """Index the folders DOCS, each a folder of Markdown; again, only what changed since.

    One index holds several folders. What has been read, embedded and summarised is kept when this is interrupted.
    """
    with console.show_progress("looking at the documents") as progress:
        from retriever.api import index_folders  # half of the time until the first stage

        report = index_folders(*opening.arguments, progress, everything=yes)
    console.note_skipped(report.skipped)
    if as_json:
        from retriever.display.index_json import IndexReportJson

        print_json(IndexReportJson.dump(report))
        return ExitCode.OK
    changes = f"{report.added:,} added, {report.changed:,} changed, {report.moved:,} moved, {report.removed:,} removed"
    held = f"{pluralize(report.documents, 'file')}, {pluralize(report.sections, 'section')}"
    print_line(f"indexed {held} in {report.seconds:.1f} s")
    print_line(f"  files    {changes}, {report.unchanged:,} unchanged, {len(report.skipped):,} skipped")
    embedded = f"{report.embedded:,} texts embedded, {report.reused_vectors:,} known already"
    print_line(f"  chunks   {report.chunks:,}; {embedded}")
    if report.prefixes:
        print_line(f"  prefixes {sanitize_line(report.prefixes)}")
    if (summaries := report.summaries) is not None:
        parts = [f"{summaries.written:,} written by {summaries.writer}, {summaries.known:,} known already"]
        if summaries.unusable:
            parts.append(f"{summaries.unusable:,} could not be used, so the first sentences stay")
        if summaries.missing:
            parts.append(f"{summaries.missing:,} missing, `index` goes on with them: {summaries.reason}")
        print_line(f"  summaries {'; '.join(parts)}")
    for folder in report.folders:
        print_line(f"  folder   {folder}")
    print_line(f"  index    {report.path}")
    return ExitCode.OK


# `watch`: an index that follows its folders, save by save.


@options.command(
    "watch docs",
    'watch docs --ignore "tutorial-notes/"',
    "watch docs --index .index --json",
    settings=(*INDEX_SECTIONS, "llm"),
)
@options.opening(options.folders, options.index, options.profile)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each run, for programs.")
def watch(console: Console, opening: Opening, *, as_json: bool) -> ExitCode:
    """Index the folders DOCS, and again within two seconds of a save, until Ctrl-C.

    Each run is one line on standard error. Many files that change at once, as in a branch switch, are one run.
    """
    from retriever.api import watch_folders

    with end_by_sigterm() as signals, console.show_progress() as progress:
        try:
            skipped: frozenset[tuple[str, str]] = frozenset()
            for number, run in enumerate(watch_folders(*opening.arguments, progress)):
                if isinstance(run, RetrieverError):
                    console.note(f"not indexed: {run}")
                    continue
                console.note_skipped(tuple(item for item in run.report.skipped if item not in skipped))
                skipped = frozenset(run.report.skipped)
                if run.files or not number:  # otherwise a folder went away, which is said above
                    console.note(describe_run(run, is_first=not number))
                if as_json:
                    from retriever.display.index_json import IndexReportJson

                    print_json(IndexReportJson.dump(run.report))
                    sys.stdout.flush()
        except KeyboardInterrupt:
            if not signals:
                raise
            return ExitCode.TERMINATED
    return ExitCode.OK


def describe_run(run: "WatchEvent", *, is_first: bool) -> str:
    """What is watched (the first run), or what changed, and how long it took."""
    report = run.report
    if is_first:
        folders = ", ".join(map(sanitize_line, report.folders))
        return f"indexed {pluralize(report.documents, 'file')} in {report.seconds:.1f} s; watching {folders}"
    names = ", ".join(sanitize_line(shorten_path(*file)) for file in run.files)
    what = names if 0 < len(run.files) <= MAX_NAMED else pluralize(len(run.files), "file")
    counts = {"added": report.added, "changed": report.changed, "removed": report.removed}
    done = ", ".join(f"{count:,} {word}" for word, count in counts.items() if count) or "nothing new"
    return f"{what}: {done}; {pluralize(report.embedded, 'text')} embedded, {report.seconds:.1f} s"


@contextmanager
def end_by_sigterm() -> Iterator[list[int]]:
    """Lets SIGTERM end the block as Ctrl-C does; the list holds it when it came."""
    came: list[int] = []

    def end(number: int, _: "FrameType | None") -> None:
        came.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield came
    finally:
        signal.signal(signal.SIGTERM, before)
