"""Completion in a real shell, as a user presses Tab."""

import os
import shutil
import sys
from pathlib import Path

import click
import pytest

from retriever.api import index_folders
from retriever.command_line.completion import complete_condition
from tests.program import PROGRAM, environment, run_command
from tests.shelf import WORDS_ALONE, write_pages

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
    "--top": "--top-k",
    "how --top": "--top-k",
    "ask --profile prec": "precision",
    "index --encoder-kind on": "onnx",
    "--docs ''": "compopt -o dirnames\n",
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


def test_properties_of_the_documents_are_offered(tmp_path: Path) -> None:
    write_pages(tmp_path / "docs", {"a.md": "---\nstatus: superseded\nodd: a;b\n---\n# A\n", "b.md": "# B\n"})
    index_folders([tmp_path / "docs"], tmp_path / "index", settings=WORDS_ALONE)
    context = click.Context(click.Command("ask"))
    for place, offered in ((tmp_path / "index", ["status=superseded"]), (tmp_path / "nowhere", [])):
        context.params["index"] = str(place)
        assert [item.value for item in complete_condition(context, click.Option(["--where"]), "")] == offered
