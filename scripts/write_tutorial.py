"""Runs the commands of docs/guide/start.md, and the first one of README.md, and writes what they print below them.

    uv run scripts/write_tutorial.py           # writes the pages
    uv run scripts/write_tutorial.py --check   # compares the citations, and all of README.md but its scores

They run in a home folder that is made for them and holds a copy of docs/tutorial-notes as `handbook`, and of docs.
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
PAGE = PROJECT / "docs" / "guide" / "start.md"
NOTES = PROJECT / "docs" / "tutorial-notes"
README = PROJECT / "README.md"

BLOCK = re.compile(r"```sh\n(?P<commands>.*?)```\n\n```text\n(?P<output>.*?)```\n", re.DOTALL)
CITATION = re.compile(r"[\w/-]+\.md:\d+(?:-\d+)?")
SAMPLE = re.compile(r"hybrid_retrieve\.py (?P<arguments>[^\n]*)\n```\n.*?```text\n(?P<output>.*?)```\n", re.DOTALL)
SCORE = re.compile(r"\d+(?:\.\d+)?(?=\))")


def run_commands(commands: str, home: Path) -> str:
    """What the commands print in that home folder, both streams in their order."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("HYBRID_RETRIEVE_", "XDG_"))
    }
    programs = f"{Path(sys.executable).parent}:{environment['PATH']}"
    done = subprocess.run(
        ["/bin/sh", "-ec", commands],
        cwd=home,
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
    """The hits that the sample shows; what is left out between them is seen."""
    shown = re.findall(r"^ *(\d+)  ", sample, re.MULTILINE)
    hits = re.split(r"\n\n(?= *\d+  )", output.rstrip("\n"))
    kept = [hit if hit.split()[0] in shown else " ..." for hit in hits]
    return "\n\n".join(text for text, _ in itertools.groupby(kept)) + "\n"


def main() -> int:
    """Writes the pages, or with --check says what they have wrong."""
    page, readme = PAGE.read_text(encoding="utf-8"), README.read_text(encoding="utf-8")
    mistakes = []
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder).resolve()
        shutil.copytree(NOTES, home / "handbook")
        for block in list(BLOCK.finditer(page)):
            output = run_commands(block["commands"], home)
            if CITATION.findall(output) != CITATION.findall(block["output"]):
                mistakes.append(f"{block['commands']}{output}")
            # A text with fences of its own, such as a context, would end the block.
            new = block[0].replace(f"```text\n{block['output']}```", f"```text\n{output.replace('```', '~~~')}```")
            page = page.replace(block[0], new)
        shutil.copytree(PROJECT / "docs", home / "docs")
        sample = SAMPLE.search(readme)
        assert sample, "README.md begins with a command and what it prints"
        printed = run_commands(f"hybrid-retrieve {sample['arguments']} 2>/dev/null", home)
        output = shorten(printed, sample["output"])
        if SCORE.sub("", output) != SCORE.sub("", sample["output"]):
            mistakes.append(f"README.md\n{output}")
        readme = readme.replace(sample["output"], output)
    if "--check" in sys.argv[1:]:
        print("\n".join(mistakes), end="")
        return int(bool(mistakes))
    PAGE.write_text(page, encoding="utf-8")
    README.write_text(readme, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
