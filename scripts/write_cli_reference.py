"""Write the tables of docs/reference/cli.md from the commands; --check only says whether they are up to date."""

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

from retriever.command_line import COMMANDS
from retriever.command_line.help import SettingOption, format_value, setting_flags
from retriever.command_line.program import load_command
from retriever.settings.schema import list_settings

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "cli.md"

COMMON = 6  # commands: their options are shown once, above those of each command
BLOCK = re.compile(r"(<!-- generated: (\w+) -->)\n.*?(<!-- end -->)", re.DOTALL)


def rewrite(page: str) -> str:
    """Return the page with each `<!-- generated: NAME -->` block made anew."""
    return BLOCK.sub(lambda block: "\n".join([block[1], *table_rows(block[2]), block[3]]), page)


def table_rows(name: str) -> Iterator[str]:
    """Yield one table: `settings`, `common`, or the options of the command of that name that are not common."""
    if name == "settings":
        yield from setting_rows()
        return
    common = common_options()
    yield "| option | meaning |"
    yield "|---|---|"
    yield from common if name == "common" else (row for row in option_rows(name) if row not in common)


def common_options() -> list[str]:
    """Return the rows of the options that at least `COMMON` commands share, in the order of the first such command."""
    count = Counter(row for name in COMMANDS for row in option_rows(name))
    return [row for row, commands in count.items() if commands >= COMMON]


def option_rows(name: str) -> Iterator[str]:
    """Yield a row for each of a command's own options, without the settings and --help."""
    for option in load_command(name).params:
        if isinstance(option, click.Option) and not isinstance(option, SettingOption) and option.name != "help_all":
            names = ", ".join(f"`{name}`" for name in option.opts)
            metavar = "" if option.is_flag or not option.metavar else f" `{cell(option.metavar)}`"
            yield f"| {names}{metavar} | {cell(option.help or '')} |"


def setting_rows() -> Iterator[str]:
    """Yield a row for every setting of a profile."""
    yield "| key | flag | default | meaning |"
    yield "|---|---|---|---|"
    for item in list_settings():
        names = ", ".join(f"`{name}`" for name in setting_flags(item))
        yield f"| `{item.key}` | {names} | {format_value(item.default)} | {cell(item.help)} |"


def cell(text: str) -> str:
    """Return the text as the inside of a table's cell."""
    return text.replace("|", "\\|")


def main() -> int:
    """Write the page, or with --check say whether that would change it."""
    before = PAGE.read_text(encoding="utf-8")
    after = rewrite(before)
    if "--check" in sys.argv[1:]:
        if before != after:
            print(f"{PAGE.name} is out of date; run: uv run scripts/write_cli_reference.py")
        return int(before != after)
    PAGE.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
