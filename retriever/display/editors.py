"""Addresses that open a file at a line in an editor, for terminals and pages that make them links."""

import os
import re
from pathlib import PurePath
from urllib.parse import quote

from retriever.errors import UsageError

EDITOR_VARIABLE = "HYBRID_RETRIEVE_EDITOR"
NO_EDITOR = "none"
# By editor: `{path}` is percent-encoded but for its slashes, `{argument}` with them. The schemes are those that the
# editors register themselves; MacVim's for Vim, that of the usual desktop entry for Emacs. Obsidian takes no line.
EDITOR_TEMPLATES = {
    "vscode": "vscode://file{path}:{line}",
    "vim": "mvim://open?url=file://{argument}&line={line}",
    "emacs": "emacs://open?url=file://{argument}&line={line}",
    "jetbrains": "idea://open?file={argument}&line={line}",
    "obsidian": "obsidian://open?path={argument}",
}


def make_editor_link(absolute_path: str, line: int, default: str = NO_EDITOR) -> str:
    """Return the address of a 1-based line of a file in the editor of HYBRID_RETRIEVE_EDITOR; empty for none.

    Args:
        absolute_path: of the file.
        line: to open.
        default: the editor where the variable names none.

    Raises:
        UsageError: the variable names no editor, and is no address.
    """
    editor = os.environ.get(EDITOR_VARIABLE) or default
    if editor == NO_EDITOR:
        return ""
    address = EDITOR_TEMPLATES.get(editor, editor)
    # Printable ASCII alone: nothing in it can end the sequence that makes a terminal show a link.
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*:[!-~]*\{(path|argument)\}[!-~]*", address):
        known = ", ".join(EDITOR_TEMPLATES)
        raise UsageError(
            f"{EDITOR_VARIABLE}={editor!r}: no such editor; there are {known}, or myeditor:{{path}}:{{line}}"
        )
    path = os.fsencode(PurePath(absolute_path).as_posix())
    rooted = path if path.startswith(b"/") else b"/" + path  # C:/docs is /C:/docs in an address
    for name, value in {"path": quote(rooted), "argument": quote(rooted, safe=""), "line": str(line)}.items():
        address = address.replace(f"{{{name}}}", value)
    return address
