"""Build the documentation as a site: `uv run --group docs scripts/build_docs.py`, or `... build_docs.py serve`.

Two things are told once, and written from there before Zensical runs: the page of commands (reference/cli.md) from the
commands and settings, and the navigation from the links of docs/index.md (site.toml: zensical.toml with that). Git
ignores both.
"""

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import click

from retriever.command_line import GROUPS
from retriever.command_line.options import WithHelp
from retriever.command_line.program import command_line, load_command
from retriever.command_line.show import format_yaml
from retriever.settings import list_settings

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGE = DOCS / "reference" / "cli.md"
COMMON = 6  # commands: options that this many share are shown once, above those of each command
HEAD = """\
# Command line

Type `hybrid-retrieve` if you installed it, `uv run hybrid_retrieve.py` in a clone. `ask` may be left out, and words
without quotes are one question. Standard output has results only; everything else goes to standard error.
"""
SETTINGS = """\
## Settings

Each is a key of a profile file, a flag, and a variable: `encoder.kind` is `HYBRID_RETRIEVE_ENCODER_KIND`.
"""


def write_page() -> str:
    """Return the page of every command, option and setting."""
    common = list_common_options()
    parts = [HEAD, f"{command_line.epilog}\n", "Most commands take these options:\n", *option_table(common)]
    for heading, commands in GROUPS.items():
        parts.append(f"\n## {heading}\n")
        for name in commands:
            command = load_command(name)
            assert isinstance(command, WithHelp)
            paragraphs = [" ".join(text.split()) for text in (command.help or "").split("\n\n")]
            parts += [f"### {name}\n", *(f"{text}\n" for text in (*paragraphs, command.epilog) if text)]
            parts += ["```sh", *(f"hybrid-retrieve {example}" for example in command.examples), "```\n"]
            parts += [*option_table([row for row in option_rows(name) if row not in common]), ""]
    parts += [SETTINGS, "| key | flag | default | meaning |", "|---|---|---|---|"]
    for item in list_settings():
        flags = ", ".join(f"`{flag}`" for flag in item.flags)
        parts.append(f"| `{item.key}` | {flags} | {format_yaml(item.default)} | {cell(item.help)} |")
    return "\n".join([*parts, ""])


def option_table(rows: list[str]) -> list[str]:
    """Return the rows below the head of a table; nothing where there are none."""
    return ["| option | meaning |", "|---|---|", *rows] if rows else []


def list_common_options() -> list[str]:
    """Return the rows of the options that at least `COMMON` commands share, in the order of the first such command."""
    count = Counter(row for name in chain.from_iterable(GROUPS.values()) for row in option_rows(name))
    return [row for row, commands in count.items() if commands >= COMMON]


def option_rows(name: str) -> Iterator[str]:
    """Yield a row for each of a command's own options, without the settings and --help."""
    for option in load_command(name).params:
        if isinstance(option, click.Option) and not str(option.name).startswith("setting_"):
            names = ", ".join(f"`{name}`" for name in option.opts)
            metavar = "" if option.is_flag or not option.metavar else f" `{cell(option.metavar)}`"
            yield f"| {names}{metavar} | {cell(option.help or '')} |"


def cell(text: str) -> str:
    """Return the text as the inside of a table's cell."""
    return text.replace("|", "\\|")


def list_navigation() -> list[dict[str, str | list[str]]]:
    """Return the pages in the order of docs/index.md, by its headings; what it does not link to comes first."""
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    navigation: list[dict[str, str | list[str]]] = [{"Documentation": "index.md"}]
    for heading, text in re.findall(r"^## (.*)\n((?:(?!## ).*\n)*)", index, re.MULTILINE):
        folder = heading.lower()
        linked = list(dict.fromkeys(re.findall(rf"\(({folder}/[\w-]+\.md)\)", text)))
        written = sorted(path.relative_to(DOCS).as_posix() for path in (DOCS / folder).glob("*.md"))
        navigation.append({heading: [*(page for page in written if page not in linked), *linked]})
    return navigation


def main(action: str = "build") -> int:
    """Write what is generated, and build the site or serve it."""
    PAGE.write_text(write_page(), encoding="utf-8")
    navigation = json.dumps(list_navigation()).replace('": ', '" = ')
    config = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    (ROOT / "site.toml").write_text(
        config.replace("[project]\n", f"[project]\nnav = {navigation}\n", 1), encoding="utf-8"
    )
    options = ["--strict"] if action == "build" else []
    return subprocess.run(["zensical", action, *options, "-f", "site.toml"], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
