r"""Whether a server on standard streams survives what is no message, and ends when its client does.

    uv run python benchmarks/stdio.py

Prints what docs/agents.md holds: fuzzed frames, each answered or passed over, and for each way of ending the time from
there to the end of the process. `--quick` does the same a few times.
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import click

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.asked import PROGRAM
from benchmarks.costs import run

CLIENT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "benchmark", "version": "1"}}
INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": CLIENT}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}
LAST = 12_345
"""The id of the request after all frames."""
PARENT = (
    "import subprocess, sys; child = subprocess.Popen(sys.argv[1:]); print(child.pid, file=sys.stderr); child.wait()"
)
"""Starts the server, says its process id and waits for it."""

Process = subprocess.Popen[bytes]


@click.command()
@click.option("--frames", default=2_000, show_default=True, help="How many fuzzed frames.")
@click.option("--trials", default=20, show_default=True, help="How often each way of ending is tried.")
@click.option("--quick", is_flag=True, help="100 frames, 2 trials.")
def main(frames: int, trials: int, quick: bool) -> None:
    """Measure with the documents of this project."""
    with TemporaryDirectory(prefix="hybrid-retrieve-stdio-") as name:
        os.environ["XDG_DATA_HOME"] = name
        (Path(name) / "docs").mkdir()
        (Path(name) / "docs" / "mail.md").write_text("# Mail\n\nA stamp pays for the journey.\n", encoding="utf-8")
        index = Path(name) / "index"
        run(*PROGRAM, "index", str(Path(name) / "docs"), "--index", str(index))
        answers = survived(index, 100 if quick else frames)
        print(f"{100 if quick else frames:,} fuzzed frames: {answers:,} answers, then a call is answered as ever")
        print("\n| end | trials | longest | median |\n|---|---|---|---|")
        for way, end in (("end of input", close_input), ("SIGTERM", terminate), ("parent killed", kill_parent)):
            seconds = sorted(lifetime_after(index, end) for _ in range(2 if quick else trials))
            typical = seconds[len(seconds) // 2]
            print(f"| {way} | {len(seconds)} | {seconds[-1]:.2f} s | {typical:.2f} s |", flush=True)


def survived(index: Path, count: int) -> int:
    """How many answers come to real messages with a few bytes changed.

    Raises:
        JSONDecodeError: the server wrote what is no message, or ended.
    """
    server = started(index)
    assert server.stdin is not None
    assert server.stdout is not None
    content = b"".join(frame + b"\n" for frame in fuzzed(count)) + call(LAST)
    sender = threading.Thread(target=lambda: (server.stdin.write(content), server.stdin.flush()))  # type: ignore[union-attr]  # as asserted
    sender.start()
    answers = 0
    while json.loads(server.stdout.readline()).get("id") != LAST:
        answers += 1
    sender.join()
    server.stdin.close()
    server.wait()
    return answers


def fuzzed(count: int) -> list[bytes]:
    """The same frames each time."""
    chance = random.Random(7)
    seeds = [json.dumps(INITIALIZE).encode(), call(3).strip(), json.dumps(READY).encode()]
    frames = []
    for _ in range(count):
        frame = bytearray(chance.choice(seeds))
        for _ in range(chance.randint(1, 6)):
            frame[chance.randrange(len(frame))] = chance.choice(b'{}[]":,0aZ\\\x00\xff ')
        frames.append(bytes(frame))
    return frames


def call(number: int) -> bytes:
    """A line that asks for a document."""
    params = {"name": "read", "arguments": {"node_id": "mail.md"}}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode() + b"\n"


def lifetime_after(index: Path, end: Callable[[Process, int], None]) -> float:
    """Seconds from an end to the end of the server's output, which it alone holds open."""
    parent = started(index, sys.executable, "-c", PARENT)
    assert parent.stderr is not None
    assert parent.stdout is not None
    server = int(parent.stderr.readline())
    begun = perf_counter()
    end(parent, server)
    rest = parent.stdout.read()
    seconds = perf_counter() - begun
    assert rest == b"", "nothing was asked"
    parent.wait()
    return seconds


def close_input(parent: Process, server: int) -> None:
    """The client closes the server's input."""
    assert parent.stdin is not None
    parent.stdin.close()


def terminate(parent: Process, server: int) -> None:
    """The client sends a signal."""
    os.kill(server, signal.SIGTERM)


def kill_parent(parent: Process, server: int) -> None:
    """The client is killed; the server's input stays open, in this process."""
    parent.kill()


def started(index: Path, *launcher: str) -> Process:
    """A server that has answered `initialize`."""
    command = [*launcher, *PROGRAM, "mcp", "--index", str(index)]
    stderr = subprocess.PIPE if launcher else subprocess.DEVNULL
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr)
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(INITIALIZE).encode() + b"\n" + json.dumps(READY).encode() + b"\n")
    server.stdin.flush()
    json.loads(server.stdout.readline())
    return server


if __name__ == "__main__":
    main()
