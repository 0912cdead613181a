"""Completion in a real shell, as a user presses Tab."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.program import PROGRAM, environment, run_command

BASH = """
eval "$(_HYBRID_RETRIEVE_COMPLETE=bash_source hybrid-retrieve)"
complete -p hybrid-retrieve > /dev/null || exit 9
compopt() { echo "compopt $1 $2"; }
complete_words() {
    COMP_WORDS=(hybrid-retrieve "$@"); COMP_CWORD=$#; COMPREPLY=()
    _hybrid_retrieve_completion hybrid-retrieve
    printf '%s\\n' "${COMPREPLY[@]}"
}
"""


OFFERED = {
    "forg": "forget",
    "how --top": "--top-k",
    "index --encoder-kind on": "onnx",
    "--docs ''": "compopt -o default\n",
}


def test_a_shell_completes_what_is_typed(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    program = tmp_path / "hybrid-retrieve"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{PROGRAM}" "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    variables = environment(PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    typed = "".join(f"complete_words {line}\necho ==\n" for line in OFFERED)
    done = run_command([bash, "-c", BASH + typed], tmp_path, variables)
    assert done.stderr == ""
    assert dict(zip(OFFERED, done.stdout.split("\n==\n"), strict=False)) == OFFERED
