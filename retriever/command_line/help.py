"""The flags of settings, and how --help looks: examples, then everyday options, a line each; --help-all adds others."""

import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, get_args, get_origin

import click

from retriever.errors import name_program
from retriever.settings.schema import Setting

# Most flags of settings are on neither page: `profiles NAME` lists them.
EVERYDAY = frozenset({"top_k", "exact", "documents.ignore"})  # settings on the first page
# What --help-all adds: options by their names, settings by their keys.
RARE = frozenset(
    {
        *("since", "until", "where", "conversation", "fail_on_none"),
        *("role_header", "roles", "context_tokens"),
    }
)
ALIASES = {"top_k": ("-n", "--limit")}  # as other programs call the flags of settings
HELP_WIDTH = 100  # columns, at most
OPTION_COLUMN = 24  # columns: what is longer stands on a line of its own
FIRST_SENTENCE = re.compile(r"(.{12,}?)(?:[.;:]\s|\.?$)")  # of a help text; what is shorter says nothing
ALL_HELP = f"{__name__}.all_help"  # in the context's `meta`: everything is wanted


class SettingOption(click.Option):
    """The flag of one setting."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        kind = click_type(setting.type)
        super().__init__(
            ["setting_" + "_".join(setting.path), *setting_flags(setting)],
            type=kind,
            multiple=get_origin(setting.type) is tuple,
            default=None,
            show_default=format_value(setting.default) if setting.default and kind is not click.BOOL else "",
            metavar="N" if kind in (click.INT, click.FLOAT) else None,
            help=setting.help,
        )


def setting_flags(setting: Setting) -> tuple[str, ...]:
    """Return the flags of a setting, the shortest first; a switch has two words in one."""
    if setting.type is bool:
        return (f"{setting.flag}/--no-{setting.flag.removeprefix('--')}",)
    own = (setting.short_flag, setting.flag) if setting.short_flag else (setting.flag,)
    return own + ALIASES.get(setting.key, ())


def format_value(value: object) -> str:
    """Return a setting's value as help pages show it."""
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    return "empty" if value == "" else str(value)


def click_type(kind: Any) -> "click.ParamType[Any]":  # noqa: ANN401 - a type form such as Annotated[int, Ge(1)] has no type of its own
    """Return how click reads a setting of this type; its bounds are checked with those of the other layers."""
    if get_origin(kind) is tuple:
        return click_type(get_args(kind)[0])
    if get_origin(kind) is Literal:
        return click.Choice(get_args(kind))
    bare = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    kinds: dict[type, click.ParamType[Any]] = {int: click.INT, float: click.FLOAT, bool: click.BOOL}
    return kinds.get(bare, click.STRING)


class WithHelp(click.Command):
    """A command whose help shows how it is used; `examples` are command lines without the program's name."""

    def __init__(self, *args: Any, examples: Sequence[str], **kwargs: Any) -> None:  # noqa: ANN401 - passed on to click
        settings = {"max_content_width": HELP_WIDTH, "help_option_names": ["--help", "-h"]}
        super().__init__(*args, **{"context_settings": settings, **kwargs})
        self.examples = examples

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_help_text(ctx, formatter)
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"{'':{formatter.current_indent}}{name_program()} {example}\n")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = [option for option in self.get_params(ctx) if isinstance(option, click.Option)]
        is_all = bool(ctx.meta.get(ALL_HELP))
        write_options([item for item in options if not is_hidden(item, is_all=is_all)], ctx, formatter)
        if is_all and any(isinstance(item, SettingOption) for item in options):
            formatter.write_paragraph()
            formatter.write_text("Every setting of a profile is a flag as well: `profiles balanced` lists them all.")


def is_hidden(option: click.Option, *, is_all: bool = False) -> bool:
    """Return whether --help leaves an option out; with `is_all`, whether --help-all does."""
    if isinstance(option, SettingOption):
        return option.setting.key not in (EVERYDAY | RARE if is_all else EVERYDAY)
    return option.name in RARE and not is_all


def all_help_option() -> click.Option:
    """Return --help-all."""

    def show(context: click.Context, _: click.Parameter, value: bool) -> None:
        if value and not context.resilient_parsing:
            context.meta[ALL_HELP] = True
            click.echo(context.get_help(), color=context.color)
            context.exit()

    help_text = "Show the other options as well, and exit."
    return click.Option(["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=show, help=help_text)


def write_options(options: Iterable[click.Option], context: click.Context, formatter: click.HelpFormatter) -> None:
    """Write the list of options of a help page: of each its names, and the first sentence about it."""
    rows = []
    for option in options:
        long = [flag for flag in option.opts if flag.startswith("--")]
        names = ", ".join([flag for flag in option.opts if flag not in long] + long[:1])
        metavar = "" if option.is_flag else f" {option.make_metavar(context)}"
        default = option.default if option.show_default is True else option.show_default
        rows.append((f"{names}{metavar}", f"{first_sentence(option.help)}{f' [{default}]' if default else ''}"))
    with formatter.section("Options"):
        formatter.write_dl(rows, col_max=OPTION_COLUMN)


def first_sentence(text: str | None) -> str:
    """Return the first sentence of a help text, or the whole."""
    found = FIRST_SENTENCE.match(text or "")
    return f"{found[1]}." if found else text or ""
