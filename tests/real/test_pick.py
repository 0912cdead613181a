"""`pick` in a real terminal: what is typed, what is shown and opened."""

from pathlib import Path

import pytest

from tests.program import Cli, command, environment, in_terminal
from tests.shelf import write_pages

DOWN, BACKSPACE, CTRL_C = b"\x1b[B", b"\x7f", b"\x03"


@pytest.fixture
def notes(tmp_path: Path, cli: Cli) -> Path:
    """Two pages with an index, and an editor that says what it was to open."""
    pages = {
        "bees.md": "# Bees\n\nAll \x1b[31mabout bees.\n",
        "keys.md": "# Keys\n\n| key | May |\n\n## Old keys\n\nGone.\n",
    }
    write_pages(tmp_path / "notes", pages)
    cli("index", tmp_path / "notes", "--index", tmp_path / "index", "--encoder-kind", "none")
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\necho "OPENED $*"\n', encoding="utf-8")
    editor.chmod(0o755)
    return tmp_path


def pick(place: Path, *typed: tuple[bytes, bytes], question: str = "", **variables: str) -> tuple[int, bytes]:
    words = command("pick", *question.split(), "--index", place / "index")
    given = {"TERM": "xterm", "VISUAL": str(place / "editor"), **variables}
    return in_terminal(words, place / "notes", environment(**given), typed=typed)


def test_typing_finds_and_keys_choose_and_open(notes: Path) -> None:
    code, output = pick(
        notes,
        (b"> ", b"keys"),
        (b"1/2", DOWN),
        (b"Gone.", b"\r"),
        (b"\x1b[?1049h", BACKSPACE * 4 + b"bees"),  # it is back, and the question goes on
        (b"bees.md", CTRL_C),
    )
    assert code == 0
    assert f"OPENED +5 {notes}/notes/keys.md".encode() in output
    assert b"May |" in output, "the preview has the lines of a table as they stand"
    assert b"\x1b[31mabout" not in output, "no document speaks to the terminal"


def test_a_question_of_the_command_line_is_searched_at_once_and_an_editor_that_is_not_there_is_named(
    notes: Path,
) -> None:
    code, output = pick(
        notes,
        (b"1/1", b"\r"),
        (b"no-editor cannot be started", b" in:gone"),
        (b"no folder", CTRL_C),
        question="bees",
        VISUAL="no-editor",
    )
    assert code == 0
    assert b"\x1b[?1049l" in output, "the terminal is as it was"


def test_a_narrow_terminal_keeps_words_cited_lines_and_titles_whole(notes: Path, cli: Cli) -> None:
    long = "years/" * 8
    log = f"# The {'long ' * 20}log\n\n## Cold\n\nIntroduction.\n\n{'cellar ' * 5}refrigerators thermometer.\n"
    write_pages(notes / "notes", {f"{long}log.md": log})
    cli("index", notes / "notes", "--index", notes / "index", "--encoder-kind", "none")
    code, output = pick(notes, (b"tag:TAG", b"thermometer"), (b"1/1", CTRL_C))
    assert code == 0
    assert b"years/log.md:7" in output
    assert b"long log > Cold" in output, "the section's own title is not cut off"
    assert b"refrigerators" in output
    assert b"Introduction" not in output, "the preview begins at the cited line"


def test_without_a_terminal_it_says_what_to_use(notes: Path, cli: Cli) -> None:
    assert "needs a terminal; in a pipe, ask prints" in cli("pick", "bees", "--index", notes / "index", code=2).err
