"""Builds the faulty disk, a library that is preloaded into a process: see faulty_disk.c."""

import shutil
import subprocess
from pathlib import Path

from _pytest.outcomes import Skipped  # what pytest.skip raises


class NoCompilerError(Skipped):
    """There is no C compiler, or it cannot build the library; a test that raises it is skipped."""


def built(folder: Path) -> Path:
    """The library, made in this folder.

    Raises:
        NoCompilerError: it cannot be made.
    """
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise NoCompilerError("there is no C compiler to build the faulty disk with")
    library = folder / "faulty_disk.so"
    source = Path(__file__).parent / "faulty_disk.c"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode:
        raise NoCompilerError(f"the faulty disk cannot be built: {finished.stderr}")
    return library
