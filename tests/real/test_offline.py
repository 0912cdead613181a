"""Nothing is sent anywhere but to the Ollama that was named: seen by Python's audit hook, and by a proxy."""

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.program import PROJECT, environment, run_all
from tests.real.scripted_server import Asked, scripted_server
from tests.shelf import write_pages

PAGE = "# Zebras\n\nA zebra is a striped animal of the savanna.\n\n## Food\n\nIt eats grass.\n"
QUESTION = "why does it not eat the leaves of trees all day?"
WATCHER = """
import os, sys
def watch(event, arguments):
    if event in ("socket.connect", "socket.sendto", "socket.getaddrinfo"):
        with open(os.environ["WATCHED"], "a") as file:
            file.write(f"{event} {arguments[-1] if event == 'socket.connect' else arguments[:2]}\\n")
sys.addaudithook(watch)
"""


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    return write_pages(tmp_path / "docs", {"zebra.md": PAGE})


def surroundings(place: Path, proxy_url: str) -> dict[str, str]:
    (place / "watcher").mkdir(exist_ok=True)
    (place / "watcher" / "sitecustomize.py").write_text(WATCHER, encoding="utf-8")
    proxies = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
    return environment(
        "PYTHONPATH", "OLLAMA", "NO_PROXY", "no_proxy", **dict.fromkeys(proxies, proxy_url), OLLAMA_API_KEY="secret",
        XDG_DATA_HOME=str(place / "data"), XDG_CACHE_HOME=str(place / "cache"), XDG_RUNTIME_DIR=str(place),
        PYTHONPATH=str(place / "watcher"), WATCHED=str(place / "watched"),
    )  # fmt: skip


def connections(place: Path, environment: Mapping[str, str], *commands: list[str]) -> set[str]:
    """Where the commands connected to, one after the other in one process, as `127.0.0.1:port`."""
    finished = run_all(*commands, cwd=place, env=environment)
    assert finished.returncode == 0, finished.stderr
    watched = place / "watched"
    lines = watched.read_text().splitlines() if watched.exists() else []
    return {
        f"{found[1]}:{found[2]}" if found else line
        for line in lines
        for found in [re.search(r"\('([^']*)', (\d+)", line)]
    }


def test_without_a_language_model_nobody_is_spoken_to(docs: Path, trap: tuple[str, list[str]]) -> None:
    url, used = trap
    environment = surroundings(docs.parent, url)
    seen = connections(
        docs.parent, environment,
        ["index", "docs"], ["--json", QUESTION], ["doctor"], ["--context", "zebra"], ["mcp"],
    )  # fmt: skip
    assert (seen, used) == (set(), [])


@pytest.mark.slow
def test_a_process_that_stays_open_speaks_to_nobody(tmp_path: Path, trap: tuple[str, list[str]]) -> None:
    """The runtime of the embedding model would report to its maker, some 8 s after it was loaded."""
    url, used = trap
    load = "from retriever.embedding.onnx import OnnxEncoder; OnnxEncoder().encode_queries(['a'])"
    code = f"{load}; import time; time.sleep(15)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=PROJECT, env=surroundings(tmp_path, url))
    assert used == []


def test_with_one_only_that_one_is_spoken_to(docs: Path, trap: tuple[str, list[str]]) -> None:
    url, used = trap

    def answer(asked: Asked) -> object:
        return {"rewordings": ["what do zebras eat"], "passages": ["Zebras eat grass."], "ranking": [1]}

    with scripted_server(answer) as ollama:
        environment = surroundings(docs.parent, url) | {"OLLAMA_HOST": ollama.url}
        seen = connections(
            docs.parent, environment, ["--docs", "docs", "--profile", "full", "--hyde", "always", "--json", QUESTION]
        )
        assert ollama.asked != []
        assert {headers.get("authorization") for _, _, headers in ollama.requests} == {None}
    assert seen == {ollama.url.removeprefix("http://")}
    assert used == []


@pytest.mark.slow
def test_without_any_network_everything_but_the_language_model_works(docs: Path) -> None:
    """In a network of its own, which has not even a loopback."""
    unshare = shutil.which("unshare")
    if not unshare or subprocess.run([unshare, "-n", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not make a network namespace")
    commands = [["index", "docs"], ["--json", QUESTION], ["doctor"], ["--profile", "full", QUESTION], ["mcp"]]
    env = surroundings(docs.parent, "http://127.0.0.1:9")
    finished = run_all(*commands, cwd=docs.parent, env=env, before=[unshare, "-n"])
    assert finished.returncode == 0, finished.stderr
    assert "rerank: " in finished.stderr
    assert "zebra.md" in finished.stdout
