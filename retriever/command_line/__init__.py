"""The command line, one module for each topic; `hybrid_retrieve.py` starts it.

A command's module is imported when the command runs, so that `--help` answers at once and a question loads little.
"""

from importlib.util import find_spec

# The commands by what they are for, as --help shows them: where each is (module:function), and its line of help.
GROUPS = {
    "Ask and read": {
        "ask": ("ask:ask", "Answer a question with sections (the default command)."),
        "answer": ("ask:answer", "Answer a question in a few cited sentences, above its sections."),
        "pick": ("pick:pick", "Type, see sections as you type, and open one in your editor."),
        "read": ("show:read", "Print a section, a file or some of its lines, or list similar sections."),
        "tree": ("show:tree", "Show the outline of the documents, or of a part of them."),
    },
    "Index": {
        "index": ("index:index", "Index folders of documents, reading only changed files; --watch repeats it."),
        "indexes": ("index:indexes", "List all your indexes, or delete one."),
        "status": ("show:status", "Show what is indexed, how fresh it is, and what was not read."),
        "forget": ("index:forget_paths", "Remove documents and all traces of them from an index."),
        "doctor": ("index:doctor", "Check the installation and the index, and repair it."),
        "postgres": (".postgres.command:postgres", "Set up an index in PostgreSQL, grant rights, or run a worker."),
    },
    "For programs and browsers": {
        "serve": ("index:serve", "Serve agents (MCP over HTTP) or a web page and its JSON API, on this machine."),
        "mcp": ("index:mcp", "Serve an agent (MCP) over standard input and output."),
    },
    "Choose and measure": {
        "profiles": ("show:profiles", "List the profiles, or show every setting of one."),
        "eval": ("evaluate:evaluate", "Measure how well profiles find the answers to your questions."),
    },
}
COMMANDS = {name: command for commands in GROUPS.values() for name, command in commands.items()}
# The one package that an installation may lack: then no page lists its command, which says so when it is called.
if not find_spec("retriever.postgres"):
    del GROUPS["Index"]["postgres"]
