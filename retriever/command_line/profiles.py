"""`profiles`: the recall modes, and every setting of one, which is a profile file to begin with."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from typing import Any

import click

from retriever.command_line import options
from retriever.command_line.console import Console, print_json, print_line, print_text
from retriever.command_line.options import ExitCode
from retriever.settings.layers import collect_settings, profile_names, profile_summary, sets_key
from retriever.settings.schema import Setting, list_settings


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
        print_text(format_profile(name, values))
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


def format_yaml(value: object) -> str:
    import yaml

    plain = list(value) if isinstance(value, tuple) else value
    text: str = yaml.safe_dump(plain, default_flow_style=True, width=float("inf"))
    return text.removesuffix("\n").removesuffix("\n...")
