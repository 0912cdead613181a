"""A group of commands with one that is meant when none is named."""

import sys
from collections.abc import Iterator

import click
from click.shell_completion import CompletionItem

from retriever.command_line.exit_codes import ExitCode
from retriever.command_line.help_pages import WithExamples, common_options, is_help, write_options

VOICE_FLAGS = frozenset({"-q", "--quiet", "-v", "--verbose", "-qv", "-vq"})
"""Flags of every command that may stand before its name."""


IMPLIED = f"{__name__}.implied"
"""In the context's `meta`: the default command was not named."""


class QuestionOrCommand(WithExamples, click.Group):
    """`PROGRAM "question"` is `PROGRAM ask "question"`; options may stand before the question or after it."""

    default = "ask"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Names the default command where none is named; without any argument, shows the help and ends with 2."""
        if not args and not ctx.resilient_parsing:
            sys.stderr.write(f"{self.get_help(ctx)}\n")
            ctx.exit(ExitCode.USAGE)
        return super().parse_args(ctx, self._with_command(ctx, args) if args else args)

    def _with_command(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = {flag for option in self.get_params(ctx) for flag in option.opts}
        before = next((place for place, word in enumerate(args) if word not in VOICE_FLAGS), len(args))
        named = args[before : before + 1]
        if named and named[0] in own:
            return args[before:]
        if named and named[0] in self.commands:
            return [*named, *args[:before], *args[before + 1 :]]
        ctx.meta[IMPLIED] = True
        return [self.default, *args]

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands; of options, those of the default command as well."""
        items = super().shell_complete(ctx, incomplete)
        if not incomplete.startswith("-"):
            return items
        command = self.commands[self.default]
        inner = command.shell_complete(click.Context(command, parent=ctx, info_name=self.default), incomplete)
        return list({item.value: item for item in (*items, *inner)}.values())

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the default command's common options, then this group's own, then the commands."""
        write_options("Options of a question", self._common_options(ctx), ctx, formatter)
        write_options("Options", self.get_params(ctx), ctx, formatter)
        self.format_commands(ctx, formatter)

    def _common_options(self, ctx: click.Context) -> Iterator[click.Parameter]:
        command = self.commands[self.default]
        inner = click.Context(command, info_name=self.default, parent=ctx)
        return (option for option in common_options(command.get_params(inner)) if not is_help(option))

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which they were added."""
        return list(self.commands)


def refuse_misplaced_command(words: tuple[str, ...]) -> None:
    """For the default command: `--index DIR status` would silently ask "status".

    Raises:
        click.UsageError: no command was named, and the first word is the name of one.
    """
    context = click.get_current_context()
    group = context.parent.command if context.parent else None
    if context.meta.get(IMPLIED) and isinstance(group, click.Group) and words[:1] and words[0] in group.commands:
        raise click.UsageError(
            f"{words[0]} is a command, and a command comes first, before its options; "
            "a question that begins with this word comes after `ask`"
        )
