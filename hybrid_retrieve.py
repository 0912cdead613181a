"""Start the command line; the commands are in retriever/command_line."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line: that of the process, or `arguments`.

    Returns:
        the exit status; see `ExitCode`.
    """
    if arguments is None and sys.getfilesystemencoding() != "utf-8":
        # In another locale the names of files are other texts, and an index would lose the files of these names. What
        # is printed stays in the terminal's encoding.
        os.environ.setdefault("PYTHONIOENCODING", sys.stdout.encoding)
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])
    try:
        from retriever.command_line.program import main as run

        return run(sys.argv[1:] if arguments is None else arguments)
    except (ImportError, AttributeError):
        # Another distribution may have a package `retriever` or `pageindex`, and be found in the place of ours.
        if not explain_conflicts():
            raise
        return 1
    except KeyboardInterrupt:  # while modules are loaded: what else would say so may not be there yet
        sys.stderr.write("interrupted\n")
        return 130


def explain_conflicts() -> bool:
    """Name on standard error what is found in the place of our packages; return whether there is anything."""
    from importlib.util import find_spec

    home, is_hidden = Path(__file__).resolve().parent, False
    for name in ("pageindex", "retriever"):
        spec = find_spec(name)
        place = Path(spec.origin).resolve().parent if spec and spec.origin else None
        if place is not None and place != home / name:
            is_hidden = True
            sys.stderr.write(f"error: the package `{name}` in {place} hides ours, in {home / name}\n")
    if is_hidden:
        sys.stderr.write("error: keep this program in an environment of its own: uv tool install .\n")
    return is_hidden


if __name__ == "__main__":
    sys.exit(main())
