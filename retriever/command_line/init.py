"""`init`: a profile file to begin with."""

import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import click

from retriever.command_line import completing
from retriever.command_line.exit_codes import ExitCode
from retriever.command_line.help_pages import WithExamples
from retriever.command_line.profiles import Shown, shown_settings, yaml_value
from retriever.command_line.terminal import write_line
from retriever.disk import writing_to
from retriever.display.sanitize import sanitize_line
from retriever.errors import UsageError
from retriever.settings.layers import DEFAULT_PROFILE

DEFAULT_FILE = "hybrid-retrieve.yaml"

HEADING = """\
# A profile: hybrid-retrieve --profile {name} "..."
#
# A line such as `#top_k: 5` shows a setting and its default. Take away its `#` to change it; one that is indented needs
# the name of its section above it as well. Precedence: defaults, what the index was made with, this file,
# HYBRID_RETRIEVE_* variables, flags."""


@click.command(
    cls=WithExamples,
    examples=(
        "init",
        "init mine.yaml --profile recall",
    ),
    short_help="Write a profile file to begin with.",
)
@click.argument("file", default=DEFAULT_FILE, metavar="[FILE]", shell_complete=completing.any_file)
@click.option(
    "--profile",
    default=DEFAULT_PROFILE,
    show_default=True,
    metavar="NAME|FILE",
    shell_complete=completing.profile,
    help="The profile whose settings it has.",
)
@click.option("--force", is_flag=True, help="Write over a FILE that is there.")
def init(file: str, profile: str, *, force: bool) -> ExitCode:
    """Write FILE (hybrid-retrieve.yaml) with every setting, what it means and its default, to be used with --profile.

    What differs from the defaults in the named profile is set in it; everything else is there as a comment.
    """
    path = Path(file)
    if path.suffix not in {".yaml", ".yml"}:
        raise UsageError(f"{file}: a profile's name ends with .yaml")
    text = "\n".join([HEADING.format(name=sanitize_line(file)), *_lines(shown_settings(profile, {}))])
    with writing_to(path):
        try:
            with path.open("w" if force else "x", encoding="utf-8") as out:
                out.write(f"{text}\n")
        except FileExistsError as error:
            raise UsageError(f"{file} is there already; --force writes over it") from error
    write_line(sys.stdout, f"wrote {sanitize_line(file)}; use it with --profile {sanitize_line(file)}")
    return ExitCode.OK


def _lines(shown: Sequence[Shown]) -> Iterator[str]:
    """Every setting below its meaning, in sections."""
    for section, items in groupby(shown, key=lambda item: item.setting.path[:-1]):
        yield from _section(section, list(items))


def _section(section: tuple[str, ...], items: Sequence[Shown]) -> Iterator[str]:
    indent = "  " * len(section)
    if section:
        is_set = any(item.value != item.setting.default for item in items)
        yield f"\n{'' if is_set else '#'}{section[-1]}:"
    for item in items:
        is_set = item.value != item.setting.default
        yield f"\n{indent}# {item.setting.help}"
        yield f"{'' if is_set else '#'}{indent}{item.setting.path[-1]}: {yaml_value(item.value)}"
