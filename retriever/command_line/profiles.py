"""`profiles`: the recall modes, and every setting of one; `init`: a profile file to begin with."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from pathlib import Path
from typing import Any

import click

from retriever.command_line import options
from retriever.command_line.console import Console, print_json, print_line
from retriever.command_line.help import WithExamples
from retriever.command_line.options import ExitCode
from retriever.display.sanitize import sanitize_line
from retriever.errors import UsageError
from retriever.files import writing_to
from retriever.settings.layers import DEFAULT_PROFILE, collect_settings, profile_names, profile_summary, sets_key
from retriever.settings.schema import Setting, list_settings

DEFAULT_FILE = "hybrid-retrieve.yaml"
HEADING = """\
# A profile: hybrid-retrieve --profile {name} "..."
#
# A line such as `#top_k: 5` shows a setting and its default. Take away its `#` to change it; one that is indented needs
# the name of its section above it as well. Precedence: defaults, what the index was made with, this file,
# HYBRID_RETRIEVE_* variables, flags."""


@dataclass(frozen=True, slots=True)
class SettingValue:
    setting: Setting
    value: Any
    origin: str  # where the value comes from: `default`, a profile file, or an environment variable


@options.command("profiles", "profiles recall", "profiles recall > mine.yaml")
@click.argument("name", required=False, metavar="[NAME|FILE]", shell_complete=options.complete_profile)
@options.as_json
def profiles(console: Console, name: str | None, *, as_json: bool) -> ExitCode:
    """List the profiles, or show every setting of one: value, origin, meaning, flag, variable.

    The output for one profile is a profile file itself. Precedence: defaults, then the profile, then
    HYBRID_RETRIEVE_* variables, then flags.
    """
    if name is None:
        summaries = {known: profile_summary(known) for known in profile_names()}
        if as_json:
            print_json({"profiles": [{"name": known, "summary": text} for known, text in summaries.items()]})
        else:
            width = max(map(len, summaries))
            for known, text in summaries.items():
                print_line(f"{known:<{width}}  {text}")
        return ExitCode.OK
    values = resolve_settings(name, os.environ)
    if as_json:
        settings = []
        for item in values:
            setting = item.setting
            value, default = (list(part) if isinstance(part, tuple) else part for part in (item.value, setting.default))
            names = {"flag": setting.flag, "variable": setting.variable, "help": setting.help}
            settings.append({"key": setting.key, "value": value, "default": default, "origin": item.origin, **names})
        print_json({"name": name, "settings": settings})
    else:
        print_line(format_profile(name, values))
    return ExitCode.OK


@click.command(
    cls=WithExamples,
    examples=(
        "init",
        "init mine.yaml --profile recall",
        'init --agent --docs docs --about "How our team works"',
    ),
)
@click.argument("file", default="", metavar="[FILE]", shell_complete=options.complete_file)
@click.option(
    "--profile",
    default=DEFAULT_PROFILE,
    show_default=True,
    metavar="NAME|FILE",
    shell_complete=options.complete_profile,
    help="The profile whose settings it has.",
)
@click.option(
    "--agent",
    is_flag=True,
    help="Write a skill for a coding agent instead: what is indexed, when to ask it, and how.",
)
@click.option("--about", default="", metavar="TEXT", help="With --agent: what your documents are about, in a line.")
@click.option("--docs", multiple=True, metavar="DIR", help="With --agent: the folders whose index the agent asks.")
@click.option("--index", metavar="DIR", help="With --agent: the index; otherwise the one used last.")
@click.option("--force", is_flag=True, help="Write over a FILE that is there.")
def init(
    file: str,
    profile: str,
    about: str,
    docs: tuple[str, ...],
    index: str | None,
    *,
    agent: bool,
    force: bool,
) -> ExitCode:
    """Write FILE (hybrid-retrieve.yaml) with every setting, what it means and its default, to be used with --profile.

    What differs from the defaults in the named profile is set in it; everything else is there as a comment. With
    --agent, FILE (.claude/skills/search-documents/SKILL.md) tells a coding agent what is indexed and how to ask it; a
    second time it is brought up to date.
    """
    if agent:
        from retriever.command_line.agent import DEFAULT_SKILL, write_skill

        print_line(write_skill(file or DEFAULT_SKILL, docs, index, about, force=force))
        return ExitCode.OK
    if about or docs or index:
        raise click.UsageError("--about, --docs and --index say what an agent asks: add --agent")
    file = file or DEFAULT_FILE
    path = Path(file)
    if path.suffix not in {".yaml", ".yml"}:
        raise UsageError(f"{file}: a profile's name ends with .yaml")
    text = "\n".join([HEADING.format(name=sanitize_line(file)), *format_template(resolve_settings(profile, {}))])
    with writing_to(path):
        try:
            with path.open("w" if force else "x", encoding="utf-8") as out:
                out.write(f"{text}\n")
        except FileExistsError as error:
            raise UsageError(f"{file} is there already; --force writes over it") from error
    print_line(f"wrote {sanitize_line(file)}; use it with --profile {sanitize_line(file)}")
    return ExitCode.OK


def resolve_settings(name: str, environment: Mapping[str, str]) -> list[SettingValue]:
    """Every setting as a command with this profile would use it, in the order of declaration."""
    given = collect_settings(name, environment=environment)
    profile = given.profile()
    values = []
    for item in list_settings():
        origins = [name for name, layer in given.layers if sets_key(layer, item.path)]  # the last one counts
        values.append(SettingValue(item, reduce(getattr, item.path, profile), ["default", *origins][-1]))
    return values


def format_profile(name: str, values: Sequence[SettingValue]) -> str:
    """The settings as a profile file, each below its meaning, its flag and its variable."""
    lines = [f"# Profile {name}: every setting, its value and where that comes from."]
    for section, items in groupby(values, key=lambda item: item.setting.path[:-1]):
        indent = "  " * len(section)
        lines += ["", *(f"{'  ' * depth}{key}:" for depth, key in enumerate(section))] if section else []
        for item in items:
            setting = item.setting
            lines += ["", f"{indent}# {setting.help}", f"{indent}# {setting.flag}  {setting.variable}"]
            lines.append(f"{indent}{setting.path[-1]}: {format_yaml(item.value)}  # {item.origin}")
    return "\n".join(lines)


def format_template(values: Sequence[SettingValue]) -> Iterator[str]:
    """The lines of a profile file to begin with: what differs from the default is set, all else is a comment."""
    for section, group in groupby(values, key=lambda item: item.setting.path[:-1]):
        items = list(group)
        indent = "  " * len(section)
        if section:
            is_set = any(item.value != item.setting.default for item in items)
            yield f"\n{'' if is_set else '#'}{section[-1]}:"
        for item in items:
            sign = "" if item.value != item.setting.default else "#"
            yield f"\n{indent}# {item.setting.help}"
            yield f"{sign}{indent}{item.setting.path[-1]}: {format_yaml(item.value)}"


def format_yaml(value: object) -> str:
    import yaml

    plain = list(value) if isinstance(value, tuple) else value
    text: str = yaml.safe_dump(plain, default_flow_style=True, width=float("inf"))
    return text.removesuffix("\n").removesuffix("\n...")
