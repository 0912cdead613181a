"""The command line, one module for each command or topic; `hybrid_retrieve.py` starts it.

A command's module is imported when the command runs, so that `--help` answers at once and a question loads little.
"""

# The commands: where each is (module:function in this package), and its line of help.
COMMANDS = {
    "ask": ("ask:ask", "Answer a question with sections (the default command)."),
    "answer": ("answer:answer", "Answer a question in a few cited sentences, above its sections."),
    "index": ("index:index", "Index folders of documents, only what changed."),
    "watch": ("index:watch", "Index folders of documents again whenever a file is saved."),
    "tree": ("show:tree", "Show the outline of the documents, or of a part of them."),
    "read": ("show:read", "Print a section, a file, or lines of it."),
    "indexes": ("indexes:indexes", "List all your indexes, or delete one."),
    "similar": ("show:similar", "Show what is near in meaning to a section or a file."),
    "status": ("show:status", "Show what is indexed, how fresh it is, and what was not read."),
    "history": ("history:history", "Show or delete the questions that were recorded (--record)."),
    "cache": ("history:cache", "Show or delete what is kept of the language model's answers."),
    "forget": ("history:forget", "Remove documents from an index, with every trace of them."),
    "export": ("archive:export", "Write an index into one file, for another machine."),
    "import": ("archive:import_file", "Make an index of an exported one."),
    "doctor": ("doctor:doctor", "Check the installation and the index, and repair it."),
    "profiles": ("profiles:profiles", "List the profiles, or show every setting of one."),
    "init": ("profiles:init", "Write a profile file to begin with."),
    "eval": ("evaluate:evaluate", "Measure how well profiles find what answers a set of questions."),
    "explain": ("explain:explain", "Show how an answer was made, or why a section is not in it."),
    "questions": ("evaluate:questions", "Make questions out of your own documents, for eval."),
    "mcp": ("serve:mcp", "Serve an agent (MCP) over standard input and output."),
    "serve": ("serve:serve", "Serve `ask`, agents (MCP over HTTP) or a web page, on this machine."),
    "postgres": ("postgres:postgres", "Make the tables of an index in PostgreSQL."),
    "completion": ("program:completion", "Print what makes a shell complete command lines."),
}

# What they are for, as --help shows them; each command is in one group.
GROUPS = {
    "Ask and read": ("ask", "answer", "read", "similar", "tree", "explain", "history", "cache"),
    "Index": ("index", "indexes", "watch", "status", "forget", "export", "import", "doctor", "postgres"),
    "For programs and browsers": ("serve", "mcp", "completion"),
    "Choose and measure": ("profiles", "init", "questions", "eval"),
}
