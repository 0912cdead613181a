"""The commands of docs/tutorial.md run and cite what the page says."""

import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]


@pytest.mark.timeout(400)  # some twenty processes, each of which loads the model
def test_every_command_of_the_tutorial_cites_the_lines_that_the_page_shows() -> None:
    checked = subprocess.run(
        [sys.executable, PROJECT / "scripts" / "write_tutorial.py", "--check"],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
