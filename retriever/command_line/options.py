"""Flags: those made from the profile's settings, and those that several commands share."""

import math
from collections.abc import Callable
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args, get_origin

import click
from annotated_types import Ge, Gt, Le

from retriever.command_line import completing
from retriever.display.editors import AUTOMATIC, EDITOR_TEMPLATES, EDITOR_VARIABLE
from retriever.settings.layers import DEFAULT_PROFILE, profile_names
from retriever.settings.profile import Setting, merged, nested, settings

if TYPE_CHECKING:
    from click.types import OptionHelpExtra

    from retriever.command_line.notes import Notes

Command = TypeVar("Command", bound=Callable[..., Any])

SHORT_FLAGS = {
    "top_k": "-k",
    "context_tokens": "--max-tokens",
    "documents.ignore": "--ignore",
    "llm.url": "--ollama-url",
    "hyde.gate": "--hyde",
    "summaries.kind": "--summaries",
}
"""Settings with a shorter flag beside their own."""


class Number(click.FloatRange):
    """A finite number in a range; click's own range lets NaN through."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401 - as click declares it
        """The number.

        Raises:
            click.BadParameter: it is none, or out of range.
        """
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class SettingOption(click.Option):
    """The flag of one setting; when it is not given, the layers below decide."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        kind = click_type(setting.type)
        repeated = get_origin(setting.type) is tuple
        super().__init__(
            [parameter_name(setting), *flags(setting)],
            type=kind,
            multiple=repeated,
            default=None,
            metavar=_metavar(kind),
            help=f"{setting.help}{' Repeat it to give several.' if repeated else ''}",
        )

    def get_help_extra(self, ctx: click.Context) -> "OptionHelpExtra":
        """As click's, with the setting's default; the option itself has none."""
        extra = super().get_help_extra(ctx)
        extra["default"] = shown_value(self.setting.default)
        return extra


def parameter_name(setting: Setting) -> str:
    """The name under which click hands its value over."""
    return "setting_" + "_".join(setting.path)


def flags(setting: Setting) -> tuple[str, ...]:
    """Its flags, the shortest first; a switch has two words in one."""
    if setting.type is bool:
        return (f"{setting.flag}/--no-{setting.flag.removeprefix('--')}",)
    short = SHORT_FLAGS.get(setting.key)
    return (short, setting.flag) if short else (setting.flag,)


def shown_value(value: object) -> str:
    """A setting's value in a help text."""
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    return "empty" if value == "" else str(value)


def click_type(kind: Any) -> "click.ParamType[Any]":  # noqa: ANN401 - a type form such as Annotated[int, Ge(1)] has no type of its own
    """How click reads a value of a setting's type.

    Raises:
        TypeError: a kind of setting that no flag can be made of.
    """
    if get_origin(kind) is tuple or NoneType in get_args(kind):
        return click_type(next(part for part in get_args(kind) if part is not NoneType))
    if get_origin(kind) is Literal:
        return click.Choice(get_args(kind))
    bare, *bounds = get_args(kind) if get_origin(kind) is Annotated else (kind,)
    if bare is str:
        return click.STRING
    if bare is bool:
        return click.BOOL
    low, high, low_open = _range(bounds)
    if bare is int:
        return click.IntRange(low, high, min_open=low_open)
    if bare is float:
        return Number(low, high, min_open=low_open)
    raise TypeError(f"no flag can be made of a setting of type {kind}")


def _range(bounds: list[Any]) -> tuple[Any, Any, bool]:
    low: Any = None
    high: Any = None
    low_open = False
    for bound in bounds:
        if isinstance(bound, Ge):
            low = bound.ge
        elif isinstance(bound, Gt):
            low, low_open = bound.gt, True
        elif isinstance(bound, Le):
            high = bound.le
        else:
            raise TypeError(f"no flag can be made of the bound {bound}")
    return low, high, low_open


def _metavar(kind: "click.ParamType[Any]") -> str | None:
    return "N" if isinstance(kind, click.IntRange | click.FloatRange) else None


def setting_parameters(sections: tuple[str, ...] | None = None) -> list[click.Parameter]:
    """The flags of every setting, or of those sections of the profile alone."""
    return [SettingOption(item) for item in settings() if sections is None or item.path[0] in sections]


def taken_settings(given: dict[str, Any]) -> dict[str, Any]:
    """Takes the settings out of a command's parameters: nested, those alone that were given."""
    layer: dict[str, Any] = {}
    for item in settings():
        value = given.pop(parameter_name(item), None)
        if value is not None and value != ():
            layer = merged(layer, nested(item.path, value))
    return layer


def index_option(command: Command) -> Command:
    """--index."""
    return click.option(
        "--index",
        metavar="DIR",
        shell_complete=completing.any_folder,
        help="The index's folder. Otherwise HYBRID_RETRIEVE_INDEX, else the one that belongs to --docs in your data "
        "folder, else the one used last.",
    )(command)


def docs_option(command: Command) -> Command:
    """--docs."""
    return click.option(
        "--docs",
        multiple=True,
        metavar="DIR",
        shell_complete=completing.any_folder,
        help="A folder of Markdown to index first: only what changed. Repeatable.",
    )(command)


def profile_option(command: Command) -> Command:
    """--profile."""
    return click.option(
        "--profile",
        default=DEFAULT_PROFILE,
        show_default=True,
        metavar="NAME|FILE",
        shell_complete=completing.profile,
        help=f"The recall mode: {', '.join(profile_names())}, or a YAML file of your own.",
    )(command)


def editor_option(command: Command) -> Command:
    """--editor."""
    return click.option(
        "--editor",
        default=AUTOMATIC,
        show_default=True,
        envvar=EDITOR_VARIABLE,
        metavar="NAME|URL",
        shell_complete=completing.editor,
        help=f"What citations open on a terminal: {', '.join(EDITOR_TEMPLATES)}, none, or a URL with {{path}} and "
        f"{{line}}; auto: the editor whose terminal it is, else what opens the file. Otherwise {EDITOR_VARIABLE}.",
    )(command)


def json_option(command: Command) -> Command:
    """--json."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for programs.")(command)


def voice_options(command: Command) -> Command:
    """-q and -v, which become the parameter `notes`."""
    quiet = click.option("-q", "--quiet", is_flag=True, help="Say nothing on standard error but errors.")
    verbose = click.option("-v", "--verbose", is_flag=True, help="Say what every stage does, and how long it takes.")
    return quiet(verbose(command))


def taken_notes(given: dict[str, Any]) -> "Notes":
    """Takes -q and -v out of a command's parameters, and lets the log follow them.

    Raises:
        click.UsageError: both were given.
    """
    from retriever.command_line.notes import Notes

    notes = Notes(quiet=given.pop("quiet"), verbose=given.pop("verbose"))
    if notes.quiet and notes.verbose:
        raise click.UsageError("-q and -v are opposites: give one of them")
    notes.follow_logging()
    return notes
