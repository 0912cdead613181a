"""The names of a section, so that a question which is a name finds what bears it.

Two spellings are one name when their words have the same stems: `what is splatting`, `Splatting` and `about_Splatting`,
`background tasks` and `BackgroundTasks`. A title may be numbered (`3.2 Splatting`); its number is not part of the name.
In references `fs.access(path[, mode], callback)` is called `fs.access` as well, and `--print "script"` `--print`. `Time
to Live (TTL)` is called by its words and by its abbreviation.
"""

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from retriever.lexical.tokens import stems

if TYPE_CHECKING:
    from pageindex.document import Document

_NUMBER = re.compile(r"^\s*(?:\d+[.)])+\d*\s+|^\s*\d+(?:\.\d+)+\s+")
_ARGUMENTS = re.compile(r"(?<=\w)\(.*", re.DOTALL)
# A flag, what is joined by `.`, `::` or `_`, and a call. Possessive: a long word is gone through once.
_CODE = re.compile(r"(--?[A-Za-z][\w-]++|(?:\w++(?:\.|::))++\w++|(?>\w*?[^\W_]_\w++)|\w++(?=\(\)))(?:\(\))?")
_FLAG = re.compile(r"(?:^|,\s*)(--?\w[\w-]*)")
_TWO_NAMES = re.compile(r"([^()]+?)\s+\(([^()]+)\)")
LONGEST = 100  # characters: what is longer is a sentence, and no name


def spell_name(text: str) -> str:
    """Return the name that a text is; empty where it is none: stop words alone, or a whole sentence."""
    return "".join(stems(text)) if len(text) <= LONGEST else ""


def spell_code(word: str) -> str:
    """Return the name that a word is letter by letter, as programs have them; empty where it is none.

    It has brackets, which no other name has: prose may be called `get current user`, and `emitter.on` is no `emitter`.

    >>> spell_code("fs.readFile"), spell_code("--print"), spell_code("open()"), spell_code("open")
    ('fs.readfile()', '--print()', 'open()', '')
    """
    found = _CODE.fullmatch(word) if len(word) <= LONGEST else None
    return f"{found[1].casefold()}()" if found else ""


def drop_arguments(title: str) -> str:
    """Return `fs.access` of `fs.access(path[, mode], callback)`; `Install (Linux)` as it is."""
    return _ARGUMENTS.sub("", title)


def list_names(title: str) -> set[str]:
    """Return what a heading is called: as it is written, without its number, and what references are looked up by.

    >>> sorted(list_names('-p, --print "script"'))
    ['--print', '-p', '-p, --print "script"']
    """
    called = drop_arguments(title)
    names = {title, _NUMBER.sub("", title), *(_FLAG.findall(title) if title.startswith("-") else ())}
    names |= list_abbreviated(title)
    if called != title:
        names |= {called, f"{called}()"}
    return names


def list_abbreviated(name: str) -> set[str]:
    """Return both names of `Time to Live (TTL)` or `TTL (Time to Live)`; none where neither abbreviates the other.

    >>> sorted(list_abbreviated("Time to Live (TTL)")), list_abbreviated("Install (Linux)")
    (['TTL', 'Time to Live'], set())
    """
    found = _TWO_NAMES.fullmatch(name)
    if not found:
        return set()
    short, full = sorted(found.groups(), key=len)
    letters = iter(full.casefold())
    is_short = short.isupper() and full.casefold().startswith(short[0].casefold())
    return {short, full} if is_short and all(sign in letters for sign in short.casefold()) else set()


def names_of_nodes(document: "Document") -> dict[str, set[str]]:
    """Map node ids to names: the heading; of the file also its file name and aliases."""
    found = {placed.node.id: list_names(placed.node.title) for placed in document.nodes}
    found[document.nodes[0].node.id] |= {PurePosixPath(document.path).stem, *document.front_matter.aliases}
    spells = (spell_name, spell_code)
    return {node_id: {spell(name) for name in names for spell in spells} - {""} for node_id, names in found.items()}
