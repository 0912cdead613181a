"""How --help looks: examples, then the everyday options, a line each; --help-all has every option and every setting."""

import re
import textwrap
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import click

from retriever.command_line.flags import SettingOption, format_value
from retriever.invocation import name_program

EVERYDAY = frozenset({"top_k", "exact", "documents.ignore", "context_tokens"})  # settings, among the options
FIRST_OPTIONS = ("docs", "index", "indexes", "profile")
HELP_WIDTH = 100  # columns, at most
OPTION_COLUMN = 24  # columns: what is longer stands on a line of its own
FIRST_SENTENCE = re.compile(r"(.{12,}?)(?:[.;:]\s|\.?$)")  # of a help text; what is shorter says nothing
ALL_HELP = f"{__name__}.all_help"  # in the context's `meta`: everything is wanted


class WithHelp(click.Command):
    """A command whose help shows how it is used.

    Args:
        examples: command lines without the program's name.
        rare: options that --help-all alone shows, as it does the settings: by their names, or the keys of settings.
    """

    def __init__(self, *args: Any, examples: Sequence[str], rare: Collection[str] = (), **kwargs: Any) -> None:  # noqa: ANN401 - passed on to click
        settings = {"max_content_width": HELP_WIDTH, "help_option_names": ["--help", "-h"]}
        super().__init__(*args, **{"context_settings": settings, **kwargs})
        self.examples = examples
        self.rare = frozenset(rare)
        if rare or any(isinstance(option, SettingOption) for option in self.params):
            text = "Show every option and every setting, and exit."
            flag = click.Option(["--help-all"], is_flag=True, is_eager=True, expose_value=False, help=text)
            flag.callback = show_all_help
            self.params.append(flag)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_help_text(ctx, formatter)
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"{'':{formatter.current_indent}}{name_program()} {example}\n")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = [option for option in self.get_params(ctx) if isinstance(option, click.Option)]
        settings = [item for item in options if isinstance(item, SettingOption) and item.setting.key not in EVERYDAY]
        shown = sorted((item for item in options if item not in settings), key=place_option)
        is_all = bool(ctx.meta.get(ALL_HELP))
        write_options(
            "Options", [item for item in shown if is_all or name_option(item) not in self.rare], ctx, formatter
        )
        if is_all and settings:
            with formatter.section("Settings of a profile (`profiles NAME` has all about them)"):
                for option in settings:
                    flag, value = option.opts[-1], format_value(option.setting.default)
                    line = f"{flag} [{value}]: {first_sentence(option.help)}"
                    formatter.write(f"  {textwrap.shorten(line, formatter.width - 2, placeholder=' ...')}\n")

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if ctx.meta.get(ALL_HELP) or not any(option.name == "help_all" for option in self.params):
            super().format_epilog(ctx, formatter)


def show_all_help(context: click.Context, _: click.Parameter, value: bool) -> None:
    """Print the whole help and end; a click callback."""
    if value and not context.resilient_parsing:
        context.meta[ALL_HELP] = True
        click.echo(context.get_help(), color=context.color)
        context.exit()


def name_option(option: click.Option) -> str:
    """Return what `rare` calls it: the key of its setting, or its name."""
    return option.setting.key if isinstance(option, SettingOption) else str(option.name)


def place_option(option: click.Parameter) -> tuple[bool, bool, bool]:
    """Return what options are sorted by: what is searched and how, the settings, the command's own ones, --help."""
    return is_help(option), option.name not in FIRST_OPTIONS, not isinstance(option, SettingOption)


def is_help(option: click.Parameter) -> bool:
    """Return whether it is --help or --help-all."""
    return option.opts[0] in ("--help", "--help-all")


def write_options(
    heading: str, options: Iterable[click.Option], context: click.Context, formatter: click.HelpFormatter
) -> None:
    """Write one list of a help page: of each option its first name, and the first sentence about it."""
    rows = []
    for option in options:
        if record := option.get_help_record(context):
            names = record[0]
            if len(names) > OPTION_COLUMN - 4 or option.secondary_opts:
                names = option.opts[0] if option.is_flag else f"{option.opts[0]} {names.split()[-1]}"
            setting = option.setting if isinstance(option, SettingOption) else option
            has_default = isinstance(option, SettingOption) or option.show_default
            shown = (
                f" [{format_value(setting.default)}]" if has_default and setting.default and not option.is_flag else ""
            )
            rows.append((names, f"{first_sentence(option.help)}{shown}"))
    if rows:
        with formatter.section(heading):
            formatter.write_dl(rows, col_max=OPTION_COLUMN)


def first_sentence(text: str | None) -> str:
    """Return the first sentence of a help text, or the whole."""
    found = FIRST_SENTENCE.match(text or "")
    return f"{found[1]}." if found else text or ""
