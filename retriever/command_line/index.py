"""`index`: folders of documents into an index, only what changed."""

from typing import TYPE_CHECKING, Any

import click

from retriever.command_line import completing, options
from retriever.command_line.exit_codes import ExitCode
from retriever.command_line.help_pages import WithExamples
from retriever.display.phrases import counted
from retriever.settings.profile import INDEX_SECTIONS

if TYPE_CHECKING:
    from retriever.indexing.summarizing import SummaryReport
    from retriever.types import IndexReport


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
    from retriever.command_line.progress import shown_progress
    from retriever.library import index_folders

    notes = options.taken_notes(given)
    settings = options.taken_settings(given)
    with shown_progress(notes) as progress:
        report = index_folders(
            given["docs"], given["index"], given["profile"], settings, progress, everything=given["yes"]
        )
    notes.skipped(report.skipped)
    if given["as_json"]:
        from retriever.command_line.as_json import write_json
        from retriever.display.json import IndexReportJson

        write_json(IndexReportJson.dump(report))
    else:
        import sys

        from retriever.command_line.terminal import write_line

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
