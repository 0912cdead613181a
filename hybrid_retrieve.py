"""Start the command line; the commands are in retriever/command_line."""

import os
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line: that of the process, or `arguments`.

    Returns:
        the exit status; see `ExitCode`.
    """
    # Before NumPy is imported: the threads of its OpenBLAS wait in a loop that takes a core, for too long by default.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    try:
        from retriever.command_line.program import run

        return run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:  # while modules are loaded: what else would say so may not be there yet
        sys.stderr.write("interrupted\n")
        return 130


if __name__ == "__main__":
    sys.exit(main())
