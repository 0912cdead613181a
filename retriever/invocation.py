"""How this program was called: errors, notes, help and pages name it so, and what they say can be typed."""

import os
import shlex
import shutil
import sys
from pathlib import Path

INSTALLED = "hybrid-retrieve"  # the console script
SCRIPT = "hybrid_retrieve.py"  # in a checkout
MODULE = "python -m retriever"  # wherever `import retriever` works: also for programs that use the package
_CHECKOUT = Path(__file__).parents[1]


def name_program() -> str:
    """Return what stands before a command's name.

    `hybrid-retrieve`, `uv run hybrid_retrieve.py` or `python -m retriever`; a path where the name alone is not found.
    """
    called = Path(sys.argv[0])
    by_uv = "uv run " if "UV_RUN_RECURSION_DEPTH" in os.environ else ""  # uv sets it
    if called.name == SCRIPT:
        return f"{by_uv or 'python '}{shlex.quote(str(called))}"
    if called.stem == INSTALLED:  # `.exe` on Windows
        return f"{by_uv}{INSTALLED if by_uv or shutil.which(INSTALLED) else shlex.quote(str(called))}"
    return f"{by_uv}{MODULE}"


def name_installer(extra: str = "") -> str:
    """Return the command that installs this program again, or an extra of it."""
    if (_CHECKOUT / "pyproject.toml").is_file():
        return f"uv sync --extra {extra}" if extra else "uv sync --reinstall"
    return f"pip install '{INSTALLED}[{extra}]'" if extra else f"pip install --force-reinstall {INSTALLED}"
