"""What deploy/ starts exists: no containers run here, but every command in it is one that the program takes."""

import re
import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import click
import pytest
import yaml

from retriever.command_line.program import command_line
from retriever.serving import http
from retriever.serving.guard import MAX_BODY_BYTES
from tests.program import PROJECT

DEPLOY = PROJECT / "deploy"
VARIABLES = dict(re.findall(r"^(\w+)=(.*)$", (DEPLOY / ".env").read_text(encoding="utf-8"), re.MULTILINE))
TEXT = re.sub(r"\$\{(\w+)\}", lambda match: VARIABLES[match[1]], (DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
COMPOSE = yaml.safe_load(TEXT)
SERVICES: Mapping[str, Mapping[str, Any]] = COMPOSE["services"]
PROGRAMS = [name for name, service in SERVICES.items() if service["image"] == "hybrid-retrieve"]
PROXY = (DEPLOY / "Caddyfile").read_text(encoding="utf-8")


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
    line, database = SERVICES[name]["command"], SERVICES["database"]["environment"]
    given = parse(line)
    index = given["index"] if "index" in given else given["indexes"][0]
    place = urlsplit(index)
    roles = re.findall(r"CREATE ROLE (\w+)", (DEPLOY / "roles.sql").read_text(encoding="utf-8"))
    assert place.username in {*roles, database["POSTGRES_USER"]}
    assert (place.hostname, place.path) == ("database", f"/{database['POSTGRES_DB']}")
    assert {*given.get("writers", ()), *given.get("readers", ())} <= {*roles}
    if name.startswith("server"):
        assert given["host"] == SERVICES[name]["hostname"] == name
        assert http.read_public_url(given["public_url"]) == SERVICES["proxy"]["environment"]["PUBLIC_URL"]
        assert f"{{file.{given['token_file']}}}" in PROXY


@pytest.mark.parametrize("name", SERVICES)
def test_every_path_and_every_other_service_exists(name: str) -> None:
    service = SERVICES[name]
    for volume in service.get("volumes", ()):
        source, target, *_ = volume.split(":")
        assert source in COMPOSE["volumes"] or (source.startswith("./") and (DEPLOY / source).is_file())
        assert target.startswith("/")
    assert service.get("depends_on", {}).keys() <= SERVICES.keys()
    if name in PROGRAMS:
        assert (DEPLOY / service["build"]["context"]).resolve() == PROJECT
        assert (PROJECT / service["build"]["dockerfile"]).is_file()
        assert int(service["stop_grace_period"].rstrip("s")) > http.SHUTDOWN_SECONDS


def test_the_proxy_leaves_the_servers_their_limits() -> None:
    upstreams = re.findall(r"[\w-]+:\d+", next(line for line in PROXY.splitlines() if "reverse_proxy" in line))
    assert upstreams == [f"{name}:{http.DEFAULT_PORT}" for name in SERVICES if name.startswith("server")]
    assert {*re.findall(r"\{\$(\w+)\}", PROXY)} == SERVICES["proxy"]["environment"].keys()
    most = {name: float(value) for name, value in re.findall(r"^\s+(\w+) ([\d.]+)(?:s|MB)$", PROXY, re.MULTILINE)}
    assert most["max_size"] * 1_000_000 == MAX_BODY_BYTES
    assert most["keepalive"] < http.KEEP_ALIVE_SECONDS
