"""The commands of docs/guide run and cite what the pages say; README.md shows what its first one prints."""

import sys

import pytest

from tests.program import PROJECT, run_command


@pytest.mark.timeout(400)  # some twenty processes, each of which loads the model
def test_what_the_pages_show_is_what_the_program_prints() -> None:
    checked = run_command([sys.executable, PROJECT / "scripts" / "write_tutorial.py", "--check"])
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
