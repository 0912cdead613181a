r"""Whether a server for agents stays as it was: ten thousand calls of eight clients while the documents change.

    uv run python benchmarks/serving.py ../shared/eval/corpora/fastapi --questions ../shared/eval/fastapi.jsonl

Prints what docs/agents.md holds. The clients call `serve --mcp` over HTTP without a pause, and documents change all the
while, so that the server goes through fifty snapshots of its index. Its memory and its open files are told after a
twentieth of the calls, when every tool has been used; after a few changes, when all that indexing needs is loaded; and
at the end. `--quick` does the same with fewer calls.
"""

import http.client
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import click

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.asked import CLIENTS, PROGRAM, QUESTIONS, ROOT, read_questions
from benchmarks.costs import run
from retriever.store.database import open_database
from retriever.store.reading import snapshot_number

CHANGES_UNTIL_LOADED = 3
SETTLED = 0.05
"""The first part of the calls, in which memory may still grow."""
CHANGING = "changing.md"
HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


@dataclass(frozen=True, slots=True)
class Resources:
    """What a process holds."""

    megabytes: float
    """Resident memory."""
    files: int
    """Open ones, connections among them."""


@dataclass
class Load:
    """What the clients do and see."""

    many: int
    """Calls of all clients together."""
    asked: Sequence[str]
    numbers: Iterator[int] = field(default_factory=count)
    """Of the calls."""
    done: int = 0
    seconds: list[float] = field(default_factory=list)
    """Of each answer."""
    errors: list[str] = field(default_factory=list)


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path), default=ROOT / "docs")
@click.option("--questions", type=click.Path(exists=True, path_type=Path), help="JSONL, each line with a `question`.")
@click.option("--many", default=10_000, show_default=True, help="How many calls.")
@click.option("--switches", default=50, show_default=True, help="How often a document changes meanwhile.")
@click.option("--quick", is_flag=True, help="400 calls, 4 changes.")
def main(folder: Path, questions: Path | None, many: int, switches: int, quick: bool) -> None:
    """Measure with a copy of the documents of FOLDER; by default those of this project."""
    load = Load(400 if quick else many, read_questions(questions) if questions else QUESTIONS)
    with TemporaryDirectory(prefix="hybrid-retrieve-serving-") as name:
        docs, index = Path(name) / "docs", Path(name) / "index"
        shutil.copytree(folder, docs)
        change(docs, -1)
        os.environ["XDG_DATA_HOME"] = name
        run(*PROGRAM, "index", str(docs), "--index", str(index))
        with served(index) as (process, port):
            measure(load, process, port, docs, index, 4 if quick else switches)


def measure(load: Load, process: "subprocess.Popen[str]", port: int, docs: Path, index: Path, switches: int) -> None:
    """All clients at once, and an edit whenever their share of the calls is done."""
    first, begun = snapshot(index), perf_counter()
    clients = [threading.Thread(target=ask, args=(load, port)) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    samples: list[Resources] = []
    for turn in range(switches):
        wait_until(load, int(load.many * max(SETTLED, turn / switches)), clients)
        samples.append(resources(process.pid))
        known = snapshot(index)
        change(docs, turn)
        while snapshot(index) == known and any(client.is_alive() for client in clients):
            time.sleep(0.05)
    for client in clients:
        client.join()
    seconds = perf_counter() - begun
    print_load(load, seconds, snapshot(index) - first)
    print_resources(samples, resources(process.pid))


def ask(load: Load, port: int) -> None:
    """One client, over one connection after the other: the server closes one that pauses."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    while (number := next(load.numbers)) < load.many:
        begun = perf_counter()
        try:
            connection.request("POST", "/mcp", json.dumps(message(number, load.asked)), HEADERS)
            result = json.loads(connection.getresponse().read())["result"]
            if result.get("isError"):
                load.errors.append(result["content"][0]["text"])
        except Exception as error:
            load.errors.append(repr(error))
            connection.close()
        load.seconds.append(perf_counter() - begun)
        load.done = len(load.seconds)
    connection.close()


def message(number: int, asked: Sequence[str]) -> dict[str, Any]:
    """Mostly searches; now and then each other tool that reads."""
    question = asked[number % len(asked)]
    calls: dict[int, tuple[str, dict[str, object]]] = {
        3: ("outline", {"depth": 3}),
        7: ("read", {"node_id": CHANGING}),
        11: ("status", {}),
        13: ("search", {"question": question, "path": CHANGING, "profile": "recall"}),
    }
    name, arguments = calls.get(number % 20, ("search", {"question": question}))
    return {
        "jsonrpc": "2.0",
        "id": number,
        "method": "tools/call",
        "params": {"name": name, "arguments": arguments},
    }


def change(docs: Path, turn: int) -> None:
    """A document that is not what it was before, replaced as editors do: written in place, it is empty for a moment."""
    draft = docs / f"{CHANGING}.new"
    draft.write_text(f"# Change {turn}\n\nWritten while it is served, for the {turn}th time.\n", "utf-8")
    draft.replace(docs / CHANGING)


def wait_until(load: Load, done: int, clients: Sequence[threading.Thread]) -> None:
    """Until so many calls are answered, or nobody asks any more."""
    while load.done < done and any(client.is_alive() for client in clients):
        time.sleep(0.02)


def print_load(load: Load, seconds: float, switches: int) -> None:
    """The first table."""
    print(f"| {CLIENTS} clients at once | |\n|---|---|")
    print(f"| calls | {len(load.seconds):,} in {seconds:.0f} s |")
    print(f"| errors | {len(load.errors)} |")
    print(f"| snapshots | {switches} |")
    print(f"| time of a call, median | {1000 * median(load.seconds):.0f} ms |")
    print(f"| time of a call, 99 % | {1000 * quantiles(load.seconds, n=100)[-1]:.0f} ms |", flush=True)
    for error in sorted(set(load.errors)):
        print(f"error: {error}", file=sys.stderr)


def print_resources(samples: Sequence[Resources], last: Resources) -> None:
    """The second one; a sample is taken before each change."""
    print("\n| the server | memory | open files |\n|---|---|---|")
    chosen = {"before the first change": samples[0], f"after {CHANGES_UNTIL_LOADED}": samples[CHANGES_UNTIL_LOADED]}
    for when, item in (chosen | {"at the end": last}).items():
        print(f"| {when} | {item.megabytes:.0f} MB | {item.files} |")
    most = max((*samples, last), key=lambda item: item.megabytes)
    print(f"| at most | {most.megabytes:.0f} MB | {max(item.files for item in samples)} |")
    for when, item in chosen.items():
        print(f"| growth since {when} | {last.megabytes / item.megabytes - 1:+.0%} | {last.files - item.files:+} |")
    sys.stdout.flush()


def resources(process: int) -> Resources:
    """Of a process, where /proc tells."""
    place = Path(f"/proc/{process}")
    rows = dict(row.split(":", 1) for row in (place / "status").read_text("utf-8").splitlines())
    return Resources(int(rows["VmRSS"].split()[0]) / 1024, len(list((place / "fd").iterdir())))


def snapshot(index: Path) -> int:
    """The number of the one in force."""
    connection = open_database(index)
    try:
        return snapshot_number(connection)
    finally:
        connection.close()


@contextmanager
def served(index: Path) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """A server of this benchmark, and its port."""
    command = [*PROGRAM, "serve", "--mcp", "--port", "0", "--index", str(index)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        address = process.stderr.readline().split("http://")[1]
        said = partial(shutil.copyfileobj, process.stderr, sys.stderr)
        threading.Thread(target=said, daemon=True).start()  # a full pipe would stop it
        yield process, int(address.split("/")[0].rpartition(":")[2])
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()
