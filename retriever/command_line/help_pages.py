"""How --help looks: examples below the text, the few common options apart from the long list of settings."""

from collections.abc import Iterable, Sequence
from typing import Any

import click

from retriever.command_line.options import SettingOption

COMMON_SETTINGS = frozenset({"top_k", "documents.ignore", "context_tokens", "record"})
"""The settings that stand with a command's own options."""

FIRST_OPTIONS = ("docs", "index", "profile")

WIDTHS = {"max_content_width": 100}
"""Context settings: help is at most so wide."""

OPTION_COLUMN = 24
"""Columns: what is longer stands on a line of its own."""


class WithExamples(click.Command):
    """A command whose help shows how it is used."""

    def __init__(self, *args: Any, examples: Sequence[str], **kwargs: Any) -> None:  # noqa: ANN401 - passed on to click
        super().__init__(*args, **{"context_settings": WIDTHS, **kwargs})
        self.examples = examples
        """Command lines without the program's name."""

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the text, then the examples."""
        super().format_help_text(ctx, formatter)
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"{'':{formatter.current_indent}}{ctx.find_root().info_name} {example}\n")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the options in two lists."""
        options = self.get_params(ctx)
        write_options("Options", common_options(options), ctx, formatter)
        write_options("Every setting of a profile", filter(is_long_tail, options), ctx, formatter)


def common_options(options: Iterable[click.Parameter]) -> list[click.Parameter]:
    """Those that stand first: what is searched and how, the settings used most, the command's other ones, --help."""

    def place(option: click.Parameter) -> tuple[bool, bool, bool]:
        is_first = option.name in FIRST_OPTIONS
        return is_help(option), not is_first, not isinstance(option, SettingOption)

    return sorted((option for option in options if not is_long_tail(option)), key=place)


def is_help(option: click.Parameter) -> bool:
    """Whether it is --help."""
    return "--help" in option.opts


def is_long_tail(option: click.Parameter) -> bool:
    """Whether the option belongs to the long list of settings."""
    return isinstance(option, SettingOption) and option.setting.key not in COMMON_SETTINGS


def write_options(
    heading: str, options: Iterable[click.Parameter], ctx: click.Context, formatter: click.HelpFormatter
) -> None:
    """One list of a help page."""
    named = [option.get_help_record(ctx) for option in options if isinstance(option, click.Option)]
    records = [record for record in named if record is not None]
    if records:
        with formatter.section(heading):
            formatter.write_dl(records, col_max=OPTION_COLUMN)
