"""`profiles`: the recall modes, and every setting of one."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from retriever.command_line import completing, options
from retriever.command_line.exit_codes import ExitCode
from retriever.command_line.help_pages import WithExamples
from retriever.command_line.terminal import write_line
from retriever.settings.layers import Layer, given_settings, profile_names, profile_summary
from retriever.settings.profile import Profile, Setting, settings


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
    from retriever.command_line.as_json import write_json

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
