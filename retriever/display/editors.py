"""Addresses that open a file at a line in an editor, for terminals and pages that make them links. Pure."""

import os
import re
from collections.abc import Mapping
from pathlib import PurePath
from types import MappingProxyType
from urllib.parse import quote

from retriever.errors import UsageError

# By editor: `{path}` is percent-encoded but for its slashes, `{argument}` with them. The schemes are those that the
# editors register themselves; MacVim's for Vim, that of the usual desktop entry for Emacs. Obsidian takes no line.
EDITOR_TEMPLATES: Mapping[str, str] = MappingProxyType(
    {
        "vscode": "vscode://file{path}:{line}",
        "vim": "mvim://open?url=file://{argument}&line={line}",
        "emacs": "emacs://open?url=file://{argument}&line={line}",
        "jetbrains": "idea://open?file={argument}&line={line}",
        "obsidian": "obsidian://open?path={argument}",
    }
)

EDITOR_VARIABLE = "HYBRID_RETRIEVE_EDITOR"
FILE_TEMPLATE = "file://{path}"  # opens what the desktop opens, without a line
AUTOMATIC = "auto"
NO_EDITOR = "none"

_LINKING_PROGRAMS = frozenset({"iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "Tabby", "zed", "rio"})
_LINKING_VARIABLES = ("WT_SESSION", "KITTY_WINDOW_ID", "KONSOLE_VERSION", "DOMTERM", "ALACRITTY_WINDOW_ID")
_LINKING_TERMS = ("xterm-kitty", "alacritty", "foot", "xterm-ghostty", "wezterm", "contour")
_LINKING_VTE = 5000  # version 0.50: 0.48 and 0.49 show links, and crash over them


def choose_template(choice: str, environment: Mapping[str, str]) -> str:
    """The template that `auto`, `none`, a key of EDITOR_TEMPLATES or a template names; empty for no link."""
    if choice == NO_EDITOR:
        return ""
    if choice != AUTOMATIC:
        return _find_template(choice)
    if environment.get("TERM_PROGRAM") == "vscode":
        return EDITOR_TEMPLATES["vscode"]
    if environment.get("TERMINAL_EMULATOR", "").startswith("JetBrains"):
        return EDITOR_TEMPLATES["jetbrains"]
    vte = environment.get("VTE_VERSION", "")
    shows_links = (
        environment.get("TERM_PROGRAM") in _LINKING_PROGRAMS
        or any(environment.get(name) for name in _LINKING_VARIABLES)
        or environment.get("TERM", "").startswith(_LINKING_TERMS)
        or (vte.isascii() and vte.isdecimal() and int(vte) >= _LINKING_VTE)
    )
    return FILE_TEMPLATE if shows_links else ""


def _find_template(name: str) -> str:
    """The template of an editor, or the caller's own; UsageError if it is none or holds what a terminal would obey."""
    template = EDITOR_TEMPLATES.get(name, name)
    if "{path}" not in template and "{argument}" not in template:
        known = ", ".join(EDITOR_TEMPLATES)
        raise UsageError(f"no editor is called {name!r}; there are {known}, or give a template with {{path}}")
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*:[!-~]*", template):
        raise UsageError(f"{name!r} is no address: write one such as vscode://file{{path}}:{{line}}, without spaces")
    return template


def make_editor_link(template_name: str, absolute_path: str, line: int) -> str:
    """The address of a 1-based line of a file, by a key of EDITOR_TEMPLATES or a template of the caller's own."""
    template = _find_template(template_name)
    path = os.fsencode(PurePath(absolute_path).as_posix())
    rooted = path if path.startswith(b"/") else b"/" + path  # C:/docs is /C:/docs in an address
    values = {"{path}": quote(rooted), "{argument}": quote(rooted, safe=""), "{line}": str(line)}
    for name, value in values.items():
        template = template.replace(name, value)
    return template
