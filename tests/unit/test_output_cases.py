"""Pages of commands print what they show; `tests/output_pages.py` explains the pages, and writes them anew."""

from pathlib import Path

import pytest

from tests.output_pages import CASES, run_page


@pytest.mark.parametrize("page", sorted(CASES.glob("*.md")), ids=lambda page: page.stem)
def test_a_page_shows_what_its_commands_print(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert run_page(text) == text
