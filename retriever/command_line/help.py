"""How --help looks: examples, then the everyday options, a line each; --help-all has every option and all about it.

Most options are settings of a profile, and are made of how these are declared.
"""

import math
import re
from collections.abc import Collection, Iterable, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import click

from retriever.settings.schema import Bounds, Setting, merge, nest

if TYPE_CHECKING:
    from click.types import OptionHelpExtra

COMMON_SETTINGS = frozenset(
    {"top_k", "exact", "documents.ignore", "context_tokens", "record"}
)  # beside a command's own options
FIRST_OPTIONS = ("docs", "index", "profile")
HELP_WIDTH = 100  # columns, at most
OPTION_COLUMN = 24  # columns: what is longer stands on a line of its own
_SENTENCE = re.compile(r"(.{12,}?)(?:[.;:]\s|\.?$)")  # the first one of a help text; what is shorter says nothing


class WithExamples(click.Command):
    """A command whose help shows how it is used.

    Args:
        examples: command lines without the program's name.
        rare: options, by their names or as keys of settings, that --help-all alone shows, as it does the long list of
            settings.
    """

    def __init__(self, *args: Any, examples: Sequence[str], rare: Collection[str] = (), **kwargs: Any) -> None:  # noqa: ANN401 - passed on to click
        settings = {"max_content_width": HELP_WIDTH, "help_option_names": ["--help", "-h"]}
        super().__init__(*args, **{"context_settings": settings, **kwargs})
        self.examples = examples
        """Command lines without the program's name."""
        self.rare = frozenset(rare)
        if any(map(self.is_rare, self.params)):
            self.params.append(
                click.Option(
                    ["--help-all"],
                    is_flag=True,
                    is_eager=True,
                    expose_value=False,
                    callback=show_all_help,
                    help="Show every option with all there is to say, and exit.",
                )
            )

    def is_rare(self, option: click.Parameter) -> bool:
        """Whether --help-all alone shows it."""
        key = option.setting.key if isinstance(option, SettingOption) else option.name
        return is_long_tail(option) or key in self.rare

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_help_text(ctx, formatter)
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"{'':{formatter.current_indent}}{name_program(ctx)} {example}\n")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = self.get_params(ctx)
        common = common_options(options)
        if ctx.meta.get(ALL_HELP) or not any(map(self.is_rare, options)):
            write_options("Options", common, ctx, formatter)
            write_options("Every setting of a profile", filter(is_long_tail, options), ctx, formatter)
            return
        with formatter.section("Options"):
            shown = [shorten(option, ctx) for option in common if not self.is_rare(option)]
            formatter.write_dl([record for record in shown if record is not None], col_max=OPTION_COLUMN)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if ctx.meta.get(ALL_HELP) or not any(map(self.is_rare, self.params)):
            super().format_epilog(ctx, formatter)


def name_program(context: click.Context) -> str:
    """How the program is called where this one was: in a clone by uv, which needs no environment to be active."""
    name = str(context.find_root().info_name)
    return f"uv run {name}" if name == "hybrid_retrieve.py" else name


ALL_HELP = f"{__name__}.all_help"  # in the context's `meta`: everything is wanted


def show_all_help(context: click.Context, _: click.Parameter, value: bool) -> None:
    """A click callback: prints the whole help and ends."""
    if value and not context.resilient_parsing:
        context.meta[ALL_HELP] = True
        click.echo(context.get_help(), color=context.color)
        context.exit()


def shorten(option: click.Parameter, context: click.Context) -> tuple[str, str] | None:
    """An option's row in --help: its first name, and the first sentence about it."""
    record = option.get_help_record(context) if isinstance(option, click.Option) else None
    if record is None:
        return None
    assert isinstance(option, click.Option)
    names, text = record
    if len(names) > OPTION_COLUMN - 4 or option.secondary_opts:
        names = option.opts[0] if option.is_flag else f"{option.opts[0]} {names.split()[-1]}"
    sentence = _SENTENCE.match(option.help or text)
    default = option.get_help_extra(context).get("default")
    shown = f" [{default}]" if default and not option.is_flag else ""
    return names, f"{sentence[1]}.{shown}" if sentence else text


def common_options(options: Iterable[click.Parameter]) -> list[click.Parameter]:
    """Those that stand first: what is searched and how, the settings used most, the command's other ones, --help."""
    return sorted(
        (option for option in options if not is_long_tail(option)),
        key=lambda option: (is_help(option), option.name not in FIRST_OPTIONS, not isinstance(option, SettingOption)),
    )


def is_help(option: click.Parameter) -> bool:
    """Whether it is --help or --help-all."""
    return option.opts[0] in ("--help", "--help-all")


def is_long_tail(option: click.Parameter) -> bool:
    """Whether the option belongs to the long list of settings."""
    return isinstance(option, SettingOption) and option.setting.key not in COMMON_SETTINGS


def write_options(
    heading: str, options: Iterable[click.Parameter], ctx: click.Context, formatter: click.HelpFormatter
) -> None:
    """Writes one list of a help page."""
    named = [option.get_help_record(ctx) for option in options if isinstance(option, click.Option)]
    records = [record for record in named if record is not None]
    if records:
        with formatter.section(heading):
            formatter.write_dl(records, col_max=OPTION_COLUMN)


# The settings of a profile as flags


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
