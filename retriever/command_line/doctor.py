"""`doctor`: whether everything is well, and what to do about what is not."""

import click

from retriever.command_line import options
from retriever.command_line.console import Console, print_json, print_line
from retriever.command_line.options import ExitCode, Opening
from retriever.display.sanitize import sanitize_line
from retriever.settings.layers import DEFAULT_PROFILE

SIGNS = {"well": "ok", "note": "note", "problem": "PROBLEM"}


@options.command(
    "doctor",
    "doctor --json",
    "doctor --repair",
    "doctor --llm --profile full --llm-model qwen3:8b",
    settings=("llm",),
    epilog="Exit codes: 0 all is well (notes do not count), 1 there are problems, 2 usage.",
)
@click.option("--repair", is_flag=True, help="Make broken parts anew, and save what a damaged database holds.")
@click.option(
    "--llm", is_flag=True, help="Ask the language model of --profile as well; it may have to be loaded first."
)
@options.opening(options.index, options.profile)
@options.as_json
def doctor(console: Console, opening: Opening, *, repair: bool, llm: bool, as_json: bool) -> ExitCode:
    """Check the installation and everything in the index, and say what to do about what is not well.

    Reads the whole index: seconds for thousands of files. Nothing is changed without --repair.
    """
    from retriever.api import check_up

    if not llm and (opening.settings or opening.profile != DEFAULT_PROFILE):
        raise click.UsageError("--profile and the settings of the language model are for --llm")
    with console.show_progress() as progress:
        found = check_up(
            opening.index,
            repair=repair,
            llm=llm,
            profile=opening.profile,
            settings=opening.settings,
            progress=progress,
        )
    problems = sum(item.level == "problem" for item in found.findings)
    if as_json:
        keys = ("area", "name", "level", "says", "cure")
        findings = [{key: getattr(item, key) for key in keys} for item in found.findings]
        print_json({"problems": problems, "repairs": list(found.repairs), "findings": findings})
    else:
        for text in found.repairs:
            print_line(f"repaired  {sanitize_line(text)}")
        width = max((len(item.name) for item in found.findings), default=0)
        for item in found.findings:
            print_line(f"{SIGNS[item.level]:<8} {sanitize_line(item.name):<{width}}  {sanitize_line(item.says)}")
            if item.cure:
                print_line(f"{'':<8} {'':<{width}}  -> {sanitize_line(item.cure)}")
    return ExitCode.ERROR if problems else ExitCode.OK
