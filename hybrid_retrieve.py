"""The command line begins: a resident process answers where one runs, otherwise this one does.

Nothing heavy is imported before that is known; the commands are in retriever/command_line.
"""

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command line: that of the process, or `arguments` in this process whatever else runs.

    Returns:
        the exit status; see `ExitCode`.
    """
    try:
        code = let_resident_answer(sys.argv[1:]) if arguments is None else None
        if code is not None:
            return code
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
    from pathlib import Path

    place = Path(__file__).resolve().with_name("retriever") / "installation.py"
    spec = importlib.util.spec_from_file_location("_hybrid_retrieve_installation", place)
    if spec is None or spec.loader is None or not place.exists():
        sys.stderr.write(f"error: {place.parent} is not the package of hybrid-retrieve; install it again\n")
        return True
    installation = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(installation)
    conflicts = [sentence for sentence, is_in_the_way in installation.find_conflicts() if is_in_the_way]
    for sentence in conflicts:
        sys.stderr.write(f"error: {sentence}\n")
    if conflicts:
        sys.stderr.write(f"error: {installation.CURE}\n")
    return bool(conflicts)


def let_resident_answer(words: Sequence[str]) -> int | None:
    """Prints what the resident process answers, and returns its exit status; None when there is no answer."""
    from retriever.command_line import COMMANDS
    from retriever.serving.resident_client import ask_resident

    try:
        answer = ask_resident(words, COMMANDS)
        if answer is None:
            return None
        code, chunks = answer
        for number, data in chunks:
            stream = (sys.stdout if number == 1 else sys.stderr).buffer
            stream.write(data)
            stream.flush()
        return code
    except (OSError, KeyboardInterrupt) as error:
        from retriever.command_line.program import report_error

        return report_error(error)


if __name__ == "__main__":
    sys.exit(main())
