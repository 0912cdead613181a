"""Run the commands of the pages in docs/guide, and the first one of README.md, and write below them what they print.

    uv run scripts/write_tutorial.py           # writes the pages
    uv run scripts/write_tutorial.py --check   # compares the citations of the pages of docs/guide

The commands of a page are those in `sh` blocks that a `text` block follows. They run in a home folder that is made for
them, in a copy of docs/tutorial-notes called `handbook`; start.md, which indexes it, comes first. README.md is compared
in tests/real/test_first_answer.py, which indexes docs as well.
"""

import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path

from hybrid_retrieve import main as run_program
from retriever.errors import INSTALLED

PROJECT = Path(__file__).resolve().parents[1]
FIRST = PROJECT / "docs" / "guide" / "start.md"
NOTES = PROJECT / "docs" / "tutorial-notes"
README = PROJECT / "README.md"

BLOCK = re.compile(r"```sh\n(?P<commands>.*?)```\n\n```text\n(?P<output>.*?)```\n", re.DOTALL)
CITATION = re.compile(r"[\w/-]+\.md:\d+(?:-\d+)?")
SAMPLE = re.compile(r"hybrid_retrieve\.py (?P<arguments>[^\n]*)\n```\n.*?```text\n(?P<output>.*?)```\n", re.DOTALL)
SCORE = re.compile(r"\d+(?:\.\d+)?(?=\))")


def run_commands(commands: str, home: Path, folder: Path, *, with_notes: bool = True) -> str:
    """Return what the commands print in that folder of that home, without standard error if no notes are wanted.

    The program runs in this process: each process of its own would import it and load its models again.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out, Path(os.devnull).open("w") as nowhere:
        with chdir(folder), redirect_stdout(out), redirect_stderr(out if with_notes else nowhere):
            for line in commands.splitlines():
                program, *arguments = shlex.split(line)
                if program == INSTALLED:
                    code = run_program(arguments)
                else:
                    code = subprocess.run(["/bin/sh", "-c", line], check=False).returncode
                if code:
                    out.seek(0)
                    raise SystemExit(f"exit code {code}:\n{line}\n{out.read()}")
        out.seek(0)
        lines = [line.rstrip() for line in out.read().replace(str(home), "/home/me").splitlines()]
    return "\n".join(lines).strip("\n") + "\n"


def prepare_surroundings(home: Path) -> None:
    """Make this process one that a new user started as `hybrid-retrieve`, with nothing to type."""
    for name in [name for name in os.environ if name.startswith(("HYBRID_RETRIEVE_", "XDG_", "UV_RUN_"))]:
        del os.environ[name]
    scripts = Path(sys.executable).parent
    path = f"{scripts}:{os.environ['PATH']}"
    os.environ |= {"HOME": str(home), "PATH": path, "NO_COLOR": "1", "COLUMNS": "120"}
    sys.argv[0] = str(scripts / INSTALLED)
    sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115 - until the end


def readme_sample(readme: str) -> re.Match[str]:
    """Return the first command of README.md and what it prints: `arguments` and `output`."""
    sample = SAMPLE.search(readme)
    assert sample, "README.md begins with a command and what it prints"
    return sample


def update_readme(readme: str, printed: str) -> str:
    """Return README.md with what its first command printed: the hits that it shows, with dots for those left out."""
    sample = readme_sample(readme)
    shown = re.findall(r"^ *(\d+)  ", sample["output"], re.MULTILINE)
    hits = re.split(r"\n\n(?= *\d+  )", printed.rstrip("\n"))
    kept = [hit if hit.split()[0] in shown else " ..." for hit in hits]
    return readme.replace(sample["output"], "\n\n".join(text for text, _ in itertools.groupby(kept)) + "\n")


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
        prepare_surroundings(home)
        shutil.copytree(NOTES, home / "handbook")
        for page in (FIRST, *others):
            pages[page], wrong = rewrite(page.read_text(encoding="utf-8"), home)
            mistakes += wrong
        if "--check" in sys.argv[1:]:
            print("\n".join(mistakes), end="")
            return int(bool(mistakes))
        shutil.copytree(PROJECT / "docs", home / "docs")
        for page, text in pages.items():
            (home / page.relative_to(PROJECT)).write_text(text, encoding="utf-8")
        readme = README.read_text(encoding="utf-8")
        printed = run_commands(f"{INSTALLED} {readme_sample(readme)['arguments']}", home, home, with_notes=False)
        by_meaning = printed.rpartition("by meaning as well:\n\n")[2]  # after the first answer, by words
        pages[README] = update_readme(readme, by_meaning)
    for page, text in pages.items():
        page.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
