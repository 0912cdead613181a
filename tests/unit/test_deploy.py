"""The commands in deploy/ are ones that the program takes; no containers run here."""

import shlex
from collections.abc import Mapping
from string import Template
from typing import Any

import click
import pytest
import yaml

from retriever.command_line.program import command_line
from retriever.serving import http
from tests.program import PROJECT

pytest.importorskip("retriever.postgres")  # where its indexes are
DEPLOY = PROJECT / "deploy"
LINES = (DEPLOY / ".env").read_text(encoding="utf-8").splitlines()
VARIABLES = dict(line.split("=", 1) for line in LINES if not line.startswith("#"))
COMPOSE = yaml.safe_load(Template((DEPLOY / "compose.yaml").read_text(encoding="utf-8")).substitute(VARIABLES))
PROGRAMS = {name: service for name, service in COMPOSE["services"].items() if service["image"] == "hybrid-retrieve"}


def parse(line: str) -> Mapping[str, Any]:
    """The options of a command line as the program reads it."""
    command: click.Command = command_line
    context, words = None, shlex.split(line)
    while isinstance(command, click.Group):
        context = click.Context(command, parent=context)
        _, found, words = command.resolve_command(context, words)
        assert found is not None, line
        command = found
    return command.make_context(command.name, words, parent=context).params


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_command_is_one_that_the_program_takes(name: str) -> None:
    service = PROGRAMS[name]
    given = parse(service["command"])
    if name.startswith("server"):
        assert given["host"] == service["hostname"] == name
    assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
    assert int(service["stop_grace_period"].rstrip("s")) > http.SHUTDOWN_SECONDS
