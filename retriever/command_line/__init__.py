"""The command line, one module for each topic; `hybrid_retrieve.py` starts it.

A command's module is imported when the command runs, so that `--help` answers at once and a question loads little.
"""

from retriever.text import find_nearest

# The commands: where each is (module:function in this package), and its line of help.
COMMANDS = {
    "ask": ("ask:ask", "Answer a question with sections (the default command)."),
    "answer": ("answer:answer", "Answer a question in a few cited sentences, above its sections."),
    "pick": ("pick:pick", "Type, see sections as you type, and open one in your editor."),
    "index": ("index:index", "Index folders of documents, only what changed."),
    "watch": ("index:watch", "Index folders of documents again whenever a file is saved."),
    "tree": ("show:tree", "Show the outline of the documents, or of a part of them."),
    "read": ("show:read", "Print a section, a file, or lines of it."),
    "indexes": ("index:indexes", "List all your indexes, or delete one."),
    "similar": ("show:similar", "Show what is near in meaning to a section or a file."),
    "status": ("show:status", "Show what is indexed, how fresh it is, and what was not read."),
    "forget": ("forget:forget", "Remove documents from an index, with every trace of them."),
    "export": ("index:export", "Write an index into one file, for another machine."),
    "import": ("index:import_file", "Make an index of an exported one."),
    "doctor": ("index:doctor", "Check the installation and the index, and repair it."),
    "profiles": ("profiles:profiles", "List the profiles, or show every setting of one."),
    "eval": ("evaluate:evaluate", "Measure how well profiles find what answers a set of questions."),
    "skill": ("agent:skill", "Write a file that tells a coding agent how to ask your documents."),
    "mcp": ("serve:mcp", "Serve an agent (MCP) over standard input and output."),
    "serve": ("serve:serve", "Serve agents (MCP over HTTP) or a web page and its JSON API, on this machine."),
    "postgres": ("postgres:postgres", "Make the tables of an index in PostgreSQL."),
    "worker": ("worker:worker", "Index queued documents into PostgreSQL, beside other workers."),
    "completion": ("program:completion", "Print what makes a shell complete command lines."),
}

# What they are for, as --help shows them; each command is in one group.
GROUPS = {
    "Ask and read": ("ask", "answer", "pick", "read", "similar", "tree"),
    "Index": ("index", "indexes", "watch", "status", "forget", "export", "import", "doctor", "postgres", "worker"),
    "For programs and browsers": ("serve", "mcp", "skill", "completion"),
    "Choose and measure": ("profiles", "eval"),
}

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
    near = (known for known in (*COMMANDS, *OTHER_NAMES) if known[0] == name[0])
    found = find_nearest(name, near, LIKE)
    return (OTHER_NAMES.get(found, found), with_paths) if found else None
