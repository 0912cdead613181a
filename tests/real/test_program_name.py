"""Messages name the program as it was called: installed as a tool, in a checkout, as a module."""

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.program import PROJECT, environment, run_command

pytestmark = pytest.mark.timeout(150)  # six processes; others may be at work on the machine

MODULE = "python -m retriever"
OTHERS = {"hybrid-retrieve ", "hybrid_retrieve.py ", f"{MODULE} "}


def check_names(called: Sequence[str | Path], named: str, folder: Path, env: dict[str, str]) -> None:
    """Errors, help and `status` name the program so, and in no other way."""
    notes = folder / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("# Keys\n\nKeys are rotated in May.\n", encoding="utf-8")
    env = env | {name: str(folder / name) for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME")}
    index = ["--index", str(folder / "index")]

    def run(*arguments: str, code: int = 0) -> str:
        done = run_command([*called, *arguments], cwd=PROJECT if "hybrid_retrieve.py" in named else folder, env=env)
        assert done.returncode == code, done
        printed = done.stdout + done.stderr
        assert not any(other in printed.replace(named, "") for other in OTHERS), printed
        return printed

    assert f"\n  {named} read ranking.md:15-28\n" in run("--help")
    assert f"run: {named} index FOLDER" in run("read", "a.md", *index, code=1)
    run("index", str(notes), *index, "--encoder-kind", "none")
    (notes / "b.md").write_text("# Bees\n", encoding="utf-8")
    assert f"run: {named} index --index {folder / 'index'} {notes}" in run("status", *index)


def test_in_a_checkout(tmp_path: Path) -> None:
    variables = {"UV_RUN_RECURSION_DEPTH": "1"}  # as uv sets it
    check_names([sys.executable, "hybrid_retrieve.py"], "uv run hybrid_retrieve.py", tmp_path, environment(**variables))
    for called, named in ((["hybrid_retrieve.py"], "python hybrid_retrieve.py"), (["-m", "retriever"], MODULE)):
        page = run_command([sys.executable, *called, "--help"]).stdout
        assert f"\n  {named} read ranking.md:15-28\n" in page
        assert not any(other in page.replace(named, "") for other in OTHERS)


@pytest.mark.slow
def test_installed_from_a_wheel(tmp_path: Path) -> None:
    uv = shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not here")
    env = environment("XDG_CACHE_HOME")  # uv's own cache
    made = run_command([uv, "build", "--wheel", "--offline", "-o", tmp_path / "wheels"], env=env)
    if made.returncode:
        pytest.skip(f"no wheel can be built offline: {made.stderr[-200:]}")
    (wheel,) = (tmp_path / "wheels").glob("*.whl")
    subprocess.run([uv, "venv", "--offline", "-q", "-p", sys.executable, tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    install = [uv, "pip", "install", "--offline", "-q", "--no-deps", "-p", str(python), str(wheel)]
    subprocess.run(install, check=True)
    # What it needs comes from the environment of the tests; the path files there, by which a checkout is found, do not.
    libraries = next((tmp_path / "venv" / "lib").glob("python*/site-packages")) / "libraries.pth"
    libraries.write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    paths = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    check_names(["hybrid-retrieve"], "hybrid-retrieve", tmp_path, environment(PATH=paths))
    origin = run_command([python, "-c", "import retriever; print(retriever.__file__)"], tmp_path)
    assert str(tmp_path) in origin.stdout
