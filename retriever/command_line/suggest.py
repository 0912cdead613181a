"""A word that is nearly a command, as the whole question: it is asked, and the command is named beside the answer."""

from difflib import get_close_matches

from retriever.command_line import COMMANDS

# What people of other programs type, and what does it here.
OTHER_NAMES = {
    **dict.fromkeys(("help", "man", "usage"), "--help"),
    "version": "--version",
    **dict.fromkeys(("ask", "search", "find", "query", "question"), "ask"),
    **dict.fromkeys(("list", "ls", "toc", "outline", "files"), "tree"),
    **dict.fromkeys(("show", "cat", "open", "view", "print"), "read"),
    **dict.fromkeys(("related", "like", "near"), "similar"),
    **dict.fromkeys(("add", "update", "reindex", "refresh", "sync"), "index"),
    **dict.fromkeys(("remove", "delete", "rm", "drop"), "forget"),
    **dict.fromkeys(("check", "repair", "fix"), "doctor"),
    **dict.fromkeys(("info", "stats"), "status"),
    **dict.fromkeys(("config", "settings"), "profiles"),
    **dict.fromkeys(("web", "browser", "gui", "ui"), "serve --web"),
    **dict.fromkeys(("server", "start"), "serve"),
    **dict.fromkeys(("stop", "quit"), "serve --stop"),
}
LIKE = 0.8  # by difflib: `indx`, `staus`, `serach`; not `evil` for `eval`
SHORTEST = 4  # letters of a word that may be a slip: three are too near to too many


def suggest_command(word: str, *, with_paths: bool) -> tuple[str, bool] | None:
    """The command that a question may have been meant as, and whether that is so whatever the documents hold.

    Args:
        word: the whole question, letters alone.
        with_paths: whether paths follow it that are there, as behind a command.
    """
    name = word.casefold()
    if name in OTHER_NAMES:
        return OTHER_NAMES[name], True
    if len(name) < SHORTEST:
        return None
    near = [known for known in (*COMMANDS, *OTHER_NAMES) if known[0] == name[0]]
    for found in get_close_matches(name, near, n=1, cutoff=LIKE):
        return OTHER_NAMES.get(found, found), with_paths
    return None
