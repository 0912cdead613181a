"""Completion in the real shells, as a user presses Tab; what is offered, and what never is."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.program import PROGRAM, environment, run_command, slow
from tests.real.served import indexed
from tests.shelf import WORDS_ALONE

EVIL = "a;touch owned.md"
SHELLS = {
    "bash": """
eval "$(hybrid-retrieve completion bash)"
complete -p hybrid-retrieve > /dev/null || exit 9
compopt() { echo "compopt $1 $2"; }
complete_words() {
    COMP_WORDS=(hybrid-retrieve "$@"); COMP_CWORD=$#; COMPREPLY=()
    _hybrid_retrieve_completion hybrid-retrieve
    printf '%s\\n' "${COMPREPLY[@]}"
}
""",
    "zsh": """
compdef() { : }
eval "$(hybrid-retrieve completion zsh)"
compadd() { print -l -- "${completions[@]}" }
_describe() { print -l -- "${completions_with_descriptions[@]}" }
_path_files() { print compopt $@ }
complete_words() { words=(hybrid-retrieve "$@"); CURRENT=$(($# + 1)); _hybrid_retrieve_completion }
""",
    "fish": """
hybrid-retrieve completion fish | source
function complete_words
    complete --do-complete "hybrid-retrieve "(string join " " -- $argv)
end
""",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the program on the path, and an index."""
    place = tmp_path_factory.mktemp("completed")
    (place / "bin").mkdir()
    program = place / "bin" / "hybrid-retrieve"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{PROGRAM}" "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    page = "# Guide\n\n## Install\n\nWords.\n\n## Use\n\nWords.\n"
    pages = dict.fromkeys(("guide.md", "garden.md", EVIL, "g\x1b]0;owned\x07.md"), page)
    pages["guide.md"] = f"---\nstatus: superseded\n---\n{page}"
    indexed(place, pages, WORDS_ALONE)
    return place


def pressed(shell: str, place: Path, *lines: str) -> list[list[str]]:
    """What the shell offers for each command line, of which the last word is not finished."""
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"{shell} is not installed")
    calls = "\n".join(f"complete_words {line}\necho '=='" for line in lines)
    variables = {
        "PATH": f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}", "HOME": str(place),
        "HYBRID_RETRIEVE_INDEX": str(place / "index"),
    }  # fmt: skip
    finished = run_command([path, "-c", SHELLS[shell] + calls], place, environment(**variables))
    assert finished.stderr == ""
    blocks = finished.stdout.split("==\n")
    assert len(blocks) == len(lines) + 1
    return [[line for line in block.splitlines() if line] for block in blocks[:-1]]


@pytest.mark.parametrize("shell", ["bash", *slow(["zsh", "fish"])])
def test_a_shell_completes_what_is_typed(shell: str, place: Path) -> None:
    commands, options, profiles, documents, sections, evil = pressed(
        shell, place, "wat", "index --prof", "ask --profile prec", "read gar", "read 'guide.md#guide/i'", "read a"
    )
    assert any(line.startswith("watch") for line in commands)
    assert any(line.startswith("--profile") for line in options)
    assert any(line.startswith("precision") for line in profiles)
    assert any(line.startswith("garden.md") for line in documents)
    assert any(line.startswith("guide.md#guide/install") for line in sections)
    assert not any("touch" in line for line in evil)


def test_options_of_a_question_and_values(place: Path) -> None:
    first, folder, editor, kind, odd = pressed(
        "bash", place, "--top", "--docs ''", "how --editor v", "index --encoder-kind on", "read g"
    )
    assert first == ["--top-k"]
    assert folder == ["compopt -o dirnames"]
    assert editor == ["vscode", "vim"]
    assert kind == ["onnx"]
    assert odd == ["garden.md", "guide.md"]


def test_properties_and_their_values_are_offered(place: Path) -> None:
    keys, values = pressed("bash", place, "words --where st", "words --where status=su")
    assert keys == ["status"]
    assert values == ["status=superseded"]


def test_without_an_index_nothing_is_offered_and_nothing_said(place: Path, tmp_path: Path) -> None:
    [found] = pressed("bash", place, f"read --index {tmp_path / 'nowhere'} g")
    assert found == []
