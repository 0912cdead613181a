"""`index`: folders of documents into an index, only what changed."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from retriever.command_line import options
from retriever.command_line import options as completing
from retriever.command_line.console import openable
from retriever.command_line.options import ExitCode, WithExamples
from retriever.display.phrases import counted
from retriever.display.sanitize import sanitize_line
from retriever.errors import RetrieverError
from retriever.settings.schema import INDEX_SECTIONS

if TYPE_CHECKING:
    from types import FrameType

    from retriever.command_line.console import Notes
    from retriever.indexing.summaries import SummaryReport
    from retriever.types import IndexReport
    from retriever.watch import WatchEvent


@click.command(
    examples=(
        "index docs",
        'index docs ../notes --ignore "drafts/"',
        "index docs --index .index --json",
        "index docs --summaries llm --summaries-model llama3.2",
    ),
    cls=WithExamples,
    params=options.setting_parameters((*INDEX_SECTIONS, "llm")),
    short_help="Index folders of documents, only what changed.",
)
@click.argument("docs", nargs=-1, required=True, metavar="DOCS...", shell_complete=completing.any_folder)
@options.index_option
@options.profile_option
@click.option("--yes", is_flag=True, help="DOCS may be your home folder, or one that holds it.")
@options.json_option
@options.voice_options
def index(**given: Any) -> ExitCode:  # noqa: ANN401 - one value for each of the index's settings, whatever they are
    """Index the folders DOCS, each a folder of Markdown; again, only what changed since.

    One index holds several folders. What has been read, embedded and summarised is kept when this is interrupted.
    """
    from retriever.api import index_folders
    from retriever.command_line.console import shown_progress

    notes = options.taken_notes(given)
    settings = options.taken_settings(given)
    with shown_progress(notes) as progress:
        report = index_folders(
            given["docs"], given["index"], given["profile"], settings, progress, everything=given["yes"]
        )
    notes.skipped(report.skipped)
    if given["as_json"]:
        from retriever.command_line.console import write_json
        from retriever.display.json import IndexReportJson

        write_json(IndexReportJson.dump(report))
    else:
        import sys

        from retriever.command_line.console import write_line

        for line in report_lines(report):
            write_line(sys.stdout, line)
    return ExitCode.OK


def report_lines(report: "IndexReport") -> list[str]:
    """What was done, for people."""
    changes = f"{report.added:,} added, {report.changed:,} changed, {report.moved:,} moved, {report.removed:,} removed"
    return [
        f"indexed {counted(report.documents, 'file')}, {counted(report.sections, 'section')} in {report.seconds:.1f} s",
        f"  files    {changes}, {report.unchanged:,} unchanged, {len(report.skipped):,} skipped",
        f"  passages {report.chunks:,}; {report.embedded:,} texts embedded, {report.reused_vectors:,} known already",
        *([_summaries_line(report.summaries)] if report.summaries else []),
        *(f"  folder   {folder}" for folder in report.folders),
        f"  index    {report.path}",
    ]


def _summaries_line(summaries: "SummaryReport") -> str:
    counts = f"{summaries.written:,} written by {summaries.writer}, {summaries.known:,} known already"
    first = f"{summaries.unusable:,} could not be used, so the first sentences stay" if summaries.unusable else ""
    left = f"{summaries.missing:,} missing, `index` goes on with them: {summaries.reason}" if summaries.missing else ""
    return f"  summaries {'; '.join(filter(None, (counts, first, left)))}"


# `watch`: an index that follows its folders, save by save.

MAX_NAMED = 3
"""So many changed files are named in a line."""


@click.command(
    cls=WithExamples,
    examples=(
        "watch docs",
        'watch docs ../notes --ignore "drafts/"',
        "watch docs --index .index --json",
    ),
    params=options.setting_parameters((*INDEX_SECTIONS, "llm")),
    short_help="Index folders of documents again whenever a file is saved.",
)
@click.argument("docs", nargs=-1, required=True, metavar="DOCS...", shell_complete=completing.any_folder)
@options.index_option
@options.profile_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each run, for programs.")
@options.voice_options
def watch(**given: Any) -> ExitCode:  # noqa: ANN401 - one value for each of the index's settings, whatever they are
    """Index the folders DOCS, and again within two seconds of a save, until Ctrl-C.

    Each run is one line on standard error. Many files that change at once, as in a branch switch, are one run.
    """
    from retriever.api import watch_folders
    from retriever.command_line.console import shown_progress

    notes = options.taken_notes(given)
    settings = options.taken_settings(given)
    with terminated() as signals, shown_progress(notes) as progress:
        try:
            _tell(watch_folders(given["docs"], given["index"], given["profile"], settings, progress), given, notes)
        except KeyboardInterrupt:
            if not signals:
                raise
            return ExitCode.TERMINATED
    return ExitCode.OK


def _tell(runs: "Iterator[WatchEvent | RetrieverError]", given: dict[str, Any], notes: "Notes") -> None:
    skipped: frozenset[tuple[str, str]] = frozenset()
    for number, run in enumerate(runs):
        if isinstance(run, RetrieverError):
            notes.say(f"not indexed: {run}")
            continue
        notes.skipped(tuple(item for item in run.report.skipped if item not in skipped))
        skipped = frozenset(run.report.skipped)
        if run.files or not number:  # otherwise a folder went away, which is said above
            notes.say(run_line(run) if number else first_line(run))
        if given["as_json"]:
            from retriever.command_line.console import write_json
            from retriever.display.json import IndexReportJson

            write_json(IndexReportJson.dump(run.report))
            sys.stdout.flush()


def first_line(run: "WatchEvent") -> str:
    """What is watched."""
    folders = ", ".join(map(sanitize_line, run.report.folders))
    return f"indexed {counted(run.report.documents, 'file')} in {run.report.seconds:.1f} s; watching {folders}"


def run_line(run: "WatchEvent") -> str:
    """What changed, and how long it took."""
    names = ", ".join(sanitize_line(openable(*file)) for file in run.files)
    what = names if 0 < len(run.files) <= MAX_NAMED else counted(len(run.files), "file")
    counts = {"added": run.report.added, "changed": run.report.changed, "removed": run.report.removed}
    done = ", ".join(f"{count:,} {word}" for word, count in counts.items() if count) or "nothing new"
    return f"{what}: {done}; {counted(run.report.embedded, 'text')} embedded, {run.report.seconds:.1f} s"


@contextmanager
def terminated() -> Iterator[list[int]]:
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
