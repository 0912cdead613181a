"""What a section is called, so that a question which is a name finds what bears it.

Two spellings are one name when their words have the same stems: `what is splatting`, `Splatting` and `about_Splatting`,
`background tasks` and `BackgroundTasks`. A title may be numbered (`3.2 Splatting`); its number is not part of the name.
Or it has the arguments of a function, as in `fs.access(path[, mode], callback)`, which is called `fs.access` as well.
"""

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from retriever.lexical.tokens import stems

if TYPE_CHECKING:
    from pageindex.document import Document

_NUMBER = re.compile(r"^\s*(?:\d+[.)])+\d*\s+|^\s*\d+(?:\.\d+)+\s+")
_ARGUMENTS = re.compile(r"(?<=\w)\(.*", re.DOTALL)
_DOTTED = re.compile(r"\w+(?:\.\w+)+(?:\(\))?")
LONGEST = 100  # characters: what is longer is a sentence, and no name


def spell_name(text: str) -> str:
    """The name that a text is; empty where it is none: stop words alone, or a whole sentence."""
    if len(text) > LONGEST:
        return ""
    if _DOTTED.fullmatch(text):  # no word of `emitter.on` is a stop word
        return text.casefold().removesuffix("()")
    return "".join(stems(text))


def drop_arguments(title: str) -> str:
    """`fs.access` of `fs.access(path[, mode], callback)`; `Install (Linux)` as it is."""
    return _ARGUMENTS.sub("", title)


def names_of_nodes(document: "Document") -> dict[str, set[str]]:
    """Node ids to their names: each heading; of the file's node its title, file name and aliases as well."""
    found: dict[str, set[str]] = {}
    for placed in document.nodes:
        title = placed.node.title
        found[placed.node.id] = {title, _NUMBER.sub("", title), drop_arguments(title)}
    found[document.nodes[0].node.id] |= {PurePosixPath(document.path).stem, *document.front_matter.aliases}
    return {
        node_id: {spell_name(name) for title in titles for name in (title, title.replace(".", " "))} - {""}
        for node_id, titles in found.items()
    }
