"""The settings of a profile as flags."""

import math
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import click

from retriever.settings.schema import Bounds, Setting, merge, nest

if TYPE_CHECKING:
    from click.types import OptionHelpExtra


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
        is_repeated = get_origin(setting.type) is tuple
        super().__init__(
            ["setting_" + "_".join(setting.path), *setting_flags(setting)],
            type=kind,
            multiple=is_repeated,
            default=None,
            metavar="N" if isinstance(kind, click.IntRange | click.FloatRange) else None,
            help=f"{setting.help}{' Repeat it to give several.' if is_repeated else ''}",
            expose_value=False,
            callback=collect_setting,
        )

    def get_help_extra(self, ctx: click.Context) -> "OptionHelpExtra":
        extra = super().get_help_extra(ctx)
        extra["default"] = format_value(self.setting.default)  # the option itself has none
        return extra


def collect_setting(context: click.Context, option: click.Parameter, value: object) -> None:
    """A click callback: adds the value of a flag to the command's `settings`."""
    assert isinstance(option, SettingOption)
    below = context.params.setdefault("settings", {})
    if value is not None and value != ():
        context.params["settings"] = merge(below, nest(option.setting.path, value))


def setting_flags(setting: Setting) -> tuple[str, ...]:
    """The flags of a setting, the shortest first; a switch has two words in one."""
    if setting.type is bool:
        return (f"{setting.flag}/--no-{setting.flag.removeprefix('--')}",)
    return (setting.short_flag, setting.flag) if setting.short_flag else (setting.flag,)


def format_value(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    return "empty" if value == "" else str(value)


def click_type(kind: Any) -> "click.ParamType[Any]":  # noqa: ANN401 - a type form such as Annotated[int, Ge(1)] has no type of its own
    if get_origin(kind) is tuple or NoneType in get_args(kind):
        return click_type(next(part for part in get_args(kind) if part is not NoneType))
    if get_origin(kind) is Literal:
        return click.Choice(get_args(kind))
    bare, *metadata = get_args(kind) if get_origin(kind) is Annotated else (kind,)
    if bare is str:
        return click.STRING
    if bare is bool:
        return click.BOOL
    bounds = metadata[0] if metadata else Bounds()
    if bare not in (int, float) or not isinstance(bounds, Bounds):
        raise TypeError(f"no flag can be made of a setting of type {kind}")
    is_open = bounds.above is not None
    low: Any = bounds.above if is_open else bounds.at_least
    high: Any = bounds.at_most
    return (click.IntRange if bare is int else Number)(low, high, min_open=is_open)
