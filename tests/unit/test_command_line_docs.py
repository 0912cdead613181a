"""The docs of the command line are true; tests/real/test_examples.py runs every example."""

import re
from itertools import chain
from pathlib import Path

import pytest
from click import Option

from retriever.command_line import GROUPS
from retriever.command_line.program import load_command
from retriever.settings import list_settings
from scripts.build_docs import write_page
from tests.output_pages import CASES, run_page
from tests.program import PROJECT, Cli

COMMANDS = {name: load_command(name) for name in chain.from_iterable(GROUPS.values())}


def test_the_reference_has_every_command_and_flag() -> None:
    page = write_page()
    for name, command in COMMANDS.items():
        assert f"### {name}\n" in page
        flags = {flag for option in command.params if isinstance(option, Option) for flag in option.opts}
        assert not {flag for flag in flags if f"`{flag}" not in page}


def test_every_setting_that_a_page_names_exists() -> None:
    keys = {setting.key for setting in list_settings()}
    groups = {key.partition(".")[0] for key in keys if "." in key}
    for page in (PROJECT / "docs").rglob("*.md"):
        named = re.findall(r"`([a-z]+)\.([a-z_]+)\b", page.read_text("utf-8"))
        wrong = {f"{group}.{name}" for group, name in named if group in groups and page.name != "json.md"} - keys
        assert not wrong, page


def test_the_help_of_a_question_has_its_options_and_few_settings(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    page = cli("ask", "--help").out
    assert len(page.splitlines()) <= 60
    assert max(map(len, page.splitlines())) <= 80
    for flag in ("--docs", "--index", "--top-k", "--json", "--since", "--after", "--max-tokens", "--verbose"):
        assert flag in page
    assert "--rrf-k" not in page


@pytest.mark.parametrize("page", sorted(CASES.glob("*.md")), ids=lambda page: page.stem)
def test_a_page_shows_what_its_commands_print(page: Path) -> None:
    text = page.read_text("utf-8")
    assert run_page(text) == text
