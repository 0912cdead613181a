"""Run the commands of the pages in docs/guide, and the first one of README.md, and write below them what they print.

    uv run scripts/write_tutorial.py           # writes the pages
    uv run scripts/write_tutorial.py --check   # compares the citations, and all of README.md but its scores

The commands of a page are those in `sh` blocks that a `text` block follows. They run in a home folder that is made for
them, in a copy of docs/tutorial-notes called `handbook`; start.md, which indexes it, comes first.
"""

import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
FIRST = PROJECT / "docs" / "guide" / "start.md"
NOTES = PROJECT / "docs" / "tutorial-notes"
README = PROJECT / "README.md"

BLOCK = re.compile(r"```sh\n(?P<commands>.*?)```\n\n```text\n(?P<output>.*?)```\n", re.DOTALL)
CITATION = re.compile(r"[\w/-]+\.md:\d+(?:-\d+)?")
SAMPLE = re.compile(r"hybrid_retrieve\.py (?P<arguments>[^\n]*)\n```\n.*?```text\n(?P<output>.*?)```\n", re.DOTALL)
SCORE = re.compile(r"\d+(?:\.\d+)?(?=\))")


def run_commands(commands: str, home: Path, folder: Path) -> str:
    """Return what the commands print in that folder of that home, both streams in their order."""
    others = ("HYBRID_RETRIEVE_", "XDG_", "UV_RUN_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    programs = f"{Path(sys.executable).parent}:{environment['PATH']}"
    done = subprocess.run(
        ["/bin/sh", "-ec", commands],
        cwd=folder,
        env=environment | {"HOME": str(home), "PATH": programs, "NO_COLOR": "1", "COLUMNS": "120"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"exit code {done.returncode}:\n{commands}{done.stdout}")
    lines = [line.rstrip() for line in done.stdout.replace(str(home), "/home/me").splitlines()]
    return "\n".join(lines).strip("\n") + "\n"


def shorten(output: str, sample: str) -> str:
    """Return the hits that the sample shows, with dots for those left out between them."""
    shown = re.findall(r"^ *(\d+)  ", sample, re.MULTILINE)
    hits = re.split(r"\n\n(?= *\d+  )", output.rstrip("\n"))
    kept = [hit if hit.split()[0] in shown else " ..." for hit in hits]
    return "\n\n".join(text for text, _ in itertools.groupby(kept)) + "\n"


def rewrite(page: str, home: Path) -> tuple[str, list[str]]:
    """Return the page with what its commands print, and those whose citations differ from the page's."""
    mistakes = []
    for block in list(BLOCK.finditer(page)):
        output = run_commands(block["commands"], home, home / "handbook")
        if CITATION.findall(output) != CITATION.findall(block["output"]):
            mistakes.append(f"{block['commands']}{output}")
        # A text with fences of its own, such as a context, would end the block.
        new = block[0].replace(f"```text\n{block['output']}```", f"```text\n{output.replace('```', '~~~')}```")
        page = page.replace(block[0], new)
    return page, mistakes


def main() -> int:
    """Write the pages, or with --check say what they have wrong."""
    others = sorted(set(FIRST.parent.glob("*.md")) - {FIRST})
    mistakes = []
    pages = {}
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder).resolve()
        shutil.copytree(NOTES, home / "handbook")
        for page in (FIRST, *others):
            pages[page], wrong = rewrite(page.read_text(encoding="utf-8"), home)
            mistakes += wrong
        shutil.copytree(PROJECT / "docs", home / "docs")
        for page, text in pages.items():
            (home / page.relative_to(PROJECT)).write_text(text, encoding="utf-8")
        readme = README.read_text(encoding="utf-8")
        sample = SAMPLE.search(readme)
        assert sample, "README.md begins with a command and what it prints"
        printed = run_commands(f"hybrid-retrieve {sample['arguments']} 2>/dev/null", home, home)
        output = shorten(printed, sample["output"])
        if SCORE.sub("", output) != SCORE.sub("", sample["output"]):
            mistakes.append(f"README.md\n{output}")
        pages[README] = readme.replace(sample["output"], output)
    if "--check" in sys.argv[1:]:
        print("\n".join(mistakes), end="")
        return int(bool(mistakes))
    for page, text in pages.items():
        page.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
