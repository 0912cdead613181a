"""How --help looks: examples, then the everyday options, a line each; --help-all has every option and all about it."""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import click

from retriever.command_line.setting_flags import SettingOption

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
        super().__init__(*args, **{"context_settings": {"max_content_width": HELP_WIDTH}, **kwargs})
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
