"""The settings of a profile as flags: each is a click option, made of how the setting is declared."""

import math
from typing import Annotated, Any, Literal, get_args, get_origin

import click

from retriever.settings.schema import Bounds, Setting, merge, nest


class Number(click.FloatRange):
    """A finite number in a range; click's own range lets NaN through."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401 - as click declares it
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class SettingOption(click.Option):
    """The flag of one setting; those that are given reach the command as one nested dict, its parameter `settings`."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        kind = click_type(setting.type)
        super().__init__(
            ["setting_" + "_".join(setting.path), *setting_flags(setting)],
            type=kind,
            multiple=get_origin(setting.type) is tuple,
            default=None,
            metavar="N" if isinstance(kind, click.IntRange | click.FloatRange) else None,
            help=setting.help,
            expose_value=False,
            callback=collect_setting,
        )


def collect_setting(context: click.Context, option: click.Parameter, value: object) -> None:
    """Add the value of a flag to the command's `settings`; a click callback."""
    assert isinstance(option, SettingOption)
    below = context.params.setdefault("settings", {})
    if value is not None and value != ():
        context.params["settings"] = merge(below, nest(option.setting.path, value))


def setting_flags(setting: Setting) -> tuple[str, ...]:
    """Return the flags of a setting, the shortest first; a switch has two words in one."""
    if setting.type is bool:
        return (f"{setting.flag}/--no-{setting.flag.removeprefix('--')}",)
    return (setting.short_flag, setting.flag) if setting.short_flag else (setting.flag,)


def format_value(value: object) -> str:
    """Return a setting's value as help pages show it."""
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    return "empty" if value == "" else str(value)


def click_type(kind: Any) -> "click.ParamType[Any]":  # noqa: ANN401 - a type form such as Annotated[int, Ge(1)] has no type of its own
    """Return how click reads a setting of this type."""
    if get_origin(kind) is tuple:
        return click_type(get_args(kind)[0])
    if get_origin(kind) is Literal:
        return click.Choice(get_args(kind))
    bare, *metadata = get_args(kind) if get_origin(kind) is Annotated else (kind,)
    if bare in (str, bool):
        return click.STRING if bare is str else click.BOOL
    bounds = metadata[0] if metadata else Bounds()
    if bare not in (int, float) or not isinstance(bounds, Bounds):
        raise TypeError(f"no flag can be made of a setting of type {kind}")
    is_open = bounds.above is not None
    low: Any = bounds.above if is_open else bounds.at_least
    high: Any = bounds.at_most
    return (click.IntRange if bare is int else Number)(low, high, min_open=is_open)
