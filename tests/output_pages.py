"""Pages of commands with what they print; `uv run --group dev python -m tests.output_pages` writes them anew.

A page is Markdown. A block ```` ```md PATH ```` writes a document into the page's folder. A block ```` ```console ````
holds command lines behind `$ `, and below each what it prints: standard output, then standard error, then its exit
status where that is not 0. `hybrid-retrieve` runs in this process, with the variables before it; `agent TOOL ARGUMENTS`
prints what a tool of the MCP server answers, `browser ADDRESS` the results of a web page; all else runs in a shell.
"""

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from itertools import takewhile
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from hybrid_retrieve import main
from retriever.serving import ServedIndex
from retriever.serving.web import make_web_app
from tests.real.served import tell

CASES = Path(__file__).with_name("output_cases")
BLOCK = re.compile(r"^```(md (?P<path>\S+)|console)\n(?P<content>.*?)^```$", re.DOTALL | re.MULTILINE)
PROGRAM = "hybrid-retrieve"
# What differs from run to run.
CHANGING = (
    (re.compile(r"\d+\.\d+ s\b"), "0.0 s"),
    (re.compile(r"^ *\d+\.\d(?=  [a-z])", re.MULTILINE), "0.0"),  # milliseconds of a stage
    (re.compile(r"\d+ ms\b"), "0 ms"),
    (re.compile(r"Python 3.*"), "Python 3"),
    (re.compile(r"\d+(\.\d+)? (kB|MB)\b"), "0 kB"),
    (re.compile(r"-[0-9a-f]{8}\b"), "-00000000"),
    (re.compile(r'"[0-9a-f]{16}"'), '"0"'),
    (re.compile(r'"timings_ms": {[^}]*'), '"timings_ms": {'),
    (re.compile(r'"(milliseconds|seconds|size_bytes|updated)": [\d.]+'), r'"\1": 0'),
    (re.compile(r"(\.\d{8})\d+"), r"\1"),  # the last digits differ between machines
)


def run_page(text: str) -> str:
    """Return a page with what its commands print now; they run in a folder of their own, for a user of their own."""
    # Not pytest's folder: messages cut long names.
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        home = Path(folder).resolve() / "me"
        home.mkdir()
        for name in [name for name in os.environ if name.startswith(("HYBRID_RETRIEVE_", "UV_RUN_"))]:
            patch.delenv(name)
        for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME"):
            patch.setenv(name, str(home / name))
        patch.setenv("HYBRID_RETRIEVE_ENCODER_KIND", "none")  # by words alone: the same everywhere, and fast
        patch.setattr("tempfile.tempdir", "/nowhere")  # what is kept is written where it stays
        patch.setattr(sys, "argv", [PROGRAM])
        patch.setattr("retriever.indexing.changes.YOUNG_NS", 0)  # or what is printed depends on how fast it is
        patch.setattr("retriever.errors.shutil.which", lambda name: name)
        patch.chdir(home)

        def run_block(block: re.Match[str]) -> str:
            if path := block["path"]:
                (home / path).parent.mkdir(parents=True, exist_ok=True)
                (home / path).write_text(block["content"], encoding="utf-8")
                return block[0]
            commands = re.findall(r"^\$ (.*)$", block["content"], re.MULTILINE)
            printed = "".join(f"$ {command}\n{run_command(command)}" for command in commands)
            return f"```console\n{settle(printed, home)}```"

        return BLOCK.sub(run_block, text)


def run_command(command: str) -> str:
    """Return what a command line prints."""
    words = shlex.split(command)
    variables = [word.partition("=") for word in takewhile(lambda word: "=" in word, words)]
    words = words[len(variables) :]
    if words[0] == "cd":
        os.chdir(words[1])
        return ""
    if words[0] in ("agent", "browser"):
        with ServedIndex() as library:
            return visit(library, *words)
    if words[0] != PROGRAM:
        subprocess.run(["/bin/sh", "-ec", command], check=True)
        return ""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.MonkeyPatch.context() as patch:
        for name, _, value in variables:
            patch.setenv(name, value)
        code = main(words[1:])
    status = f"[exit status {code}]\n" if code else ""
    return f"{out.getvalue()}{err.getvalue()}{status}"


def visit(library: ServedIndex, who: str, name: str, given: str = "") -> str:
    """Return what a tool answers, or the lines of a web page from its results on, or from where it is `given`."""
    if who == "agent":
        return f"{tell(library, name, **json.loads(given))}\n"
    with TestClient(make_web_app(library)) as web:
        page = web.get(name).text
    lines = filter(None, map(str.strip, page[page.find(given or "<main") :].partition("<footer")[0].split("\n")))
    return "\n".join([*lines, ""])


def settle(printed: str, home: Path) -> str:
    """Return the text without what differs from run to run."""
    printed = printed.replace(str(home), "/home/me").replace("```", "~~~")  # which would end the block
    for pattern, text in CHANGING:
        printed = pattern.sub(text, printed)
    return "\n".join(line.rstrip() for line in printed.split("\n"))


def write_pages() -> None:
    """Write all pages anew; `git diff` then shows what has changed."""
    for page in sorted(CASES.glob("*.md")):
        page.write_text(run_page(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    write_pages()
