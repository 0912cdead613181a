"""What a section is called, so that a question which is a name finds what bears it.

Two spellings are one name when their words have the same stems: `what is splatting`, `Splatting` and `about_Splatting`,
`background tasks` and `BackgroundTasks`. A title may be numbered (`3.2 Splatting`); its number is not part of the name.
"""

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from retriever.lexical.tokens import stems

if TYPE_CHECKING:
    from pageindex.document import Document

_NUMBER = re.compile(r"^\s*(?:\d+[.)])+\d*\s+|^\s*\d+(?:\.\d+)+\s+")
LONGEST = 100  # characters: what is longer is a sentence, and no name


def spell_name(text: str) -> str:
    """The name that a text is; empty where it is none: stop words alone, or a whole sentence."""
    return "".join(stems(text)) if len(text) <= LONGEST else ""


def names_of_nodes(document: "Document") -> dict[str, set[str]]:
    """Node ids to their names: each heading; of the file's node its title, file name and aliases as well."""
    found: dict[str, set[str]] = {}
    for placed in document.nodes:
        title = placed.node.title
        found[placed.node.id] = set(map(spell_name, {title, _NUMBER.sub("", title)}))
    file_node = document.nodes[0].node
    names = (PurePosixPath(document.path).stem, *document.front_matter.aliases)
    found[file_node.id] |= {spell_name(name) for name in names}
    return {node_id: names - {""} for node_id, names in found.items()}
