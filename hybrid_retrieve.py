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
    """Names on standard error what is found in the place of our packages; whether there is anything."""
    import importlib.util

    place = Path(__file__).resolve().with_name("retriever") / "upkeep" / "installation.py"
    spec = importlib.util.spec_from_file_location("_hybrid_retrieve_installation", place)
    if spec is None or spec.loader is None or not place.exists():
        sys.stderr.write(f"error: {place.parents[1]} is not the package of hybrid-retrieve; install it again\n")
        return True
    installation = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(installation)
    conflicts = [sentence for sentence, is_in_the_way in installation.find_conflicts() if is_in_the_way]
    for sentence in conflicts:
        sys.stderr.write(f"error: {sentence}\n")
    if conflicts:
        sys.stderr.write(f"error: {installation.CURE}\n")
    return bool(conflicts)


if __name__ == "__main__":
    sys.exit(main())
