"""`doctor`: whether everything is well, and what to do about what is not."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from retriever.command_line import options
from retriever.command_line.console import write_line
from retriever.command_line.options import ExitCode, WithExamples
from retriever.display.sanitize import sanitize_line

if TYPE_CHECKING:
    from retriever.doctor import Finding

SIGNS = {"well": "ok", "note": "note", "problem": "PROBLEM"}


@click.command(
    cls=WithExamples,
    examples=(
        "doctor",
        "doctor --repair --index .index",
        "doctor --llm --json",
    ),
    short_help="Check the installation and the index, and repair it.",
    epilog="Exit codes: 0 all is well (notes do not count), 1 there are problems, 2 usage.",
)
@click.option("--repair", is_flag=True, help="Make broken parts anew, and save what a damaged database holds.")
@click.option("--llm", is_flag=True, help="Ask the language model as well, which may have to be loaded first.")
@options.index_option
@options.json_option
@options.voice_options
def doctor(index: str | None, repair: bool, llm: bool, **given: Any) -> ExitCode:  # noqa: ANN401 - the switches, which are taken out by name
    """Check the installation and everything in the index, and say what to do about what is not well.

    Reads the whole index: seconds for thousands of files. Nothing is changed without --repair.
    """
    from retriever.api import check_up
    from retriever.command_line.console import shown_progress

    notes = options.taken_notes(given)
    with shown_progress(notes) as progress:
        found = check_up(index, repair=repair, llm=llm, progress=progress)
    if given["as_json"]:
        from retriever.command_line.console import write_json

        write_json(findings_object(found.findings, found.repairs))
    else:
        for line in (*(f"repaired  {sanitize_line(text)}" for text in found.repairs), *finding_lines(found.findings)):
            write_line(sys.stdout, line)
    return ExitCode.ERROR if any(item.level == "problem" for item in found.findings) else ExitCode.OK


def finding_lines(findings: "Sequence[Finding]") -> list[str]:
    """What was found, for people: one line each, and one for the cure."""
    width = max((len(item.name) for item in findings), default=0)
    lines = []
    for item in findings:
        lines.append(f"{SIGNS[item.level]:<8} {sanitize_line(item.name):<{width}}  {sanitize_line(item.says)}")
        lines += [f"{'':<8} {'':<{width}}  -> {sanitize_line(item.cure)}"] if item.cure else []
    return lines


def findings_object(findings: "Sequence[Finding]", repairs: Sequence[str]) -> dict[str, Any]:
    """What was found, for programs."""
    return {
        "problems": sum(item.level == "problem" for item in findings),
        "repairs": list(repairs),
        "findings": [
            {"area": item.area, "name": item.name, "level": item.level, "says": item.says, "cure": item.cure}
            for item in findings
        ],
    }
