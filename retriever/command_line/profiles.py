"""`profiles`: the recall modes, and every setting of one."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import click

from retriever.command_line import options
from retriever.command_line import options as completing
from retriever.command_line.console import write_line
from retriever.command_line.options import ExitCode, WithExamples
from retriever.display.sanitize import sanitize_line
from retriever.errors import UsageError
from retriever.files import writing_to
from retriever.settings.layers import DEFAULT_PROFILE, Layer, given_settings, profile_names, profile_summary
from retriever.settings.schema import Profile, Setting, settings


@dataclass(frozen=True, slots=True)
class Shown:
    """A setting, as a profile has it."""

    setting: Setting
    value: Any
    origin: str
    """Where the value comes from: `default`, a profile file, or an environment variable."""


@click.command(
    cls=WithExamples,
    examples=(
        "profiles",
        "profiles recall",
        "profiles recall > mine.yaml",
    ),
    short_help="List the profiles, or show every setting of one.",
)
@click.argument("name", required=False, metavar="[NAME|FILE]", shell_complete=completing.profile)
@options.json_option
@options.voice_options
def profiles(name: str | None, **given: Any) -> ExitCode:  # noqa: ANN401 - the switches, which are taken out by name
    """List the profiles, or show every setting of one: value, origin, meaning, flag, variable.

    What is shown of a profile is a profile file itself. Precedence: defaults, then the profile, then
    HYBRID_RETRIEVE_* variables, then flags.
    """
    from retriever.command_line.console import write_json

    options.taken_notes(given)
    if name is None:
        summaries = {known: profile_summary(known) for known in profile_names()}
        if given["as_json"]:
            write_json({"profiles": [{"name": known, "summary": text} for known, text in summaries.items()]})
        else:
            width = max(map(len, summaries))
            for known, text in summaries.items():
                write_line(sys.stdout, f"{known:<{width}}  {text}")
        return ExitCode.OK
    shown = shown_settings(name, os.environ)
    if given["as_json"]:
        write_json({"name": name, "settings": [shown_object(item) for item in shown]})
    else:
        write_line(sys.stdout, as_yaml(name, shown))
    return ExitCode.OK


def shown_settings(name: str, environment: Mapping[str, str]) -> list[Shown]:
    """Every setting as a command with this profile would use it, in the order of declaration.

    Raises:
        ProfileError: with every mistake of the file and the environment.
    """
    given = given_settings(name, environment=environment)
    profile = given.profile()
    return [Shown(item, value_of(profile, item), origin_of(item, given.layers)) for item in settings()]


def value_of(profile: Profile, setting: Setting) -> Any:  # noqa: ANN401 - a setting's own type
    """The setting's value in the profile."""
    value: Any = profile
    for key in setting.path:
        value = getattr(value, key)
    return value


def origin_of(setting: Setting, layers: Sequence[Layer]) -> str:
    """The last layer that says something about the setting."""
    for name, layer in reversed(layers):
        inside: Any = layer
        for key in setting.path:
            inside = inside[key] if isinstance(inside, Mapping) and key in inside else _MISSING
        if inside is not _MISSING:
            return name
    return "default"


_MISSING = object()


def shown_object(shown: Shown) -> dict[str, Any]:
    """A setting, for programs."""
    return {
        "key": shown.setting.key,
        "value": list(shown.value) if isinstance(shown.value, tuple) else shown.value,
        "default": list(shown.setting.default) if isinstance(shown.setting.default, tuple) else shown.setting.default,
        "origin": shown.origin,
        "flag": shown.setting.flag,
        "variable": shown.setting.variable,
        "help": shown.setting.help,
    }


def as_yaml(name: str, shown: list[Shown]) -> str:
    """The settings as a profile file, each below its meaning."""
    return "\n".join([f"# Profile {name}: every setting, its value and where that comes from.", *_yaml_lines(shown)])


def _yaml_lines(shown: list[Shown]) -> Iterator[str]:
    section: tuple[str, ...] = ()
    for item in shown:
        *above, key = item.setting.path
        if tuple(above) != section:
            section = tuple(above)
            yield ""
            yield from (f"{'  ' * depth}{name}:" for depth, name in enumerate(section))
        indent = "  " * len(above)
        yield ""
        yield f"{indent}# {item.setting.help}"
        yield f"{indent}# {item.setting.flag}  {item.setting.variable}"
        yield f"{indent}{key}: {yaml_value(item.value)}  # {item.origin}"


def yaml_value(value: object) -> str:
    """The value as it stands behind its key in a profile file."""
    import yaml

    plain = list(value) if isinstance(value, tuple) else value
    text: str = yaml.safe_dump(plain, default_flow_style=True, width=float("inf"))
    return text.removesuffix("\n").removesuffix("\n...")


# `init`: a profile file to begin with.

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
@click.argument("file", default=DEFAULT_FILE, metavar="[FILE]", shell_complete=options.any_file)
@click.option(
    "--profile",
    default=DEFAULT_PROFILE,
    show_default=True,
    metavar="NAME|FILE",
    shell_complete=options.profile,
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
