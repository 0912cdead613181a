"""The flags of settings, and help pages with examples."""

from collections.abc import Sequence
from typing import Any, Literal, get_args, get_origin

import click

from retriever.errors import name_program
from retriever.settings.schema import Setting

# Settings that --help shows; `profiles NAME` lists them all.
EVERYDAY = frozenset({"top_k", "exact", "documents.ignore", "context_tokens"})
HELP_WIDTH = 100  # columns, at most


class SettingOption(click.Option):
    """The flag of one setting; its bounds are checked with those of the other layers."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        origin = get_origin(setting.type)
        kind: Any = getattr(setting.type, "__origin__", setting.type)  # of Annotated[int, ...], the int
        super().__init__(
            ["setting_" + "_".join(setting.path), *setting_flags(setting)],
            type=click.Choice(get_args(setting.type)) if origin is Literal else kind if kind in (int, float) else None,
            multiple=origin is tuple,
            default=None,
            metavar="N" if kind in (int, float) else None,
            hidden=setting.key not in EVERYDAY,
            envvar=setting.variable,
            show_envvar=True,
            help=setting.help,
        )


def setting_flags(setting: Setting) -> tuple[str, ...]:
    """Return the flags of a setting, the shortest first; a switch has two words in one."""
    if setting.type is bool:
        return (f"{setting.flag}/--no-{setting.flag.removeprefix('--')}",)
    return (*setting.other_flags, setting.flag)


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
