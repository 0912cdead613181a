"""What a section is called, so that a question which is a name finds what bears it.

Two spellings are one name when their words have the same stems: `what is splatting`, `Splatting` and `about_Splatting`,
`background tasks` and `BackgroundTasks`. A title may be numbered (`3.2 Splatting`); its number is not part of the name.
In references `fs.access(path[, mode], callback)` is called `fs.access` as well, `--print "script"` `--print`, and
`Class: net.Server` `net.Server`, and `.send(data)` below `Reply` `reply.send`. `Time to Live (TTL)` is called by its
words and by its abbreviation.
"""

import re
from collections.abc import Iterable
from itertools import islice
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from pageindex.units import UnitKind
from retriever.lexical.tokens import stems

if TYPE_CHECKING:
    from pageindex.document import Document
    from pageindex.node import Node

_NUMBER = re.compile(r"^\s*(?:\d+[.)])+\d*\s+|^\s*\d+(?:\.\d+)+\s+")
_ARGUMENTS = re.compile(r"(?<=\w)\(.*", re.DOTALL)
# A flag, what is joined by `.`, `::` or `_`, and a call. Possessive: a long word is gone through once.
_CODE = re.compile(r"(--?[A-Za-z][\w-]++|(?:\w++(?:\.|::))++\w++|(?>\w*?[^\W_]_\w++)|\w++(?=\(\)))(?:\(\))?")
_CODE_AMONG = re.compile(rf"(?<![\w.:/@-]){_CODE.pattern}(?![\w/@-])")
_FLAG = re.compile(r"(?:^|,\s*)(--?\w[\w-]*)")
_WORD = re.compile(r"\w{1,60}")
_OWNER = re.compile(r"\w{1,60}(?:\.\w{1,60}){0,3}")
_LABEL = re.compile(r"\w[\w ]{1,30}:\s+['\"]?([^\s'\"]+)['\"]?")
_TWO_NAMES = re.compile(r"([^()]+?)\s+\(([^()]+)\)")
TERM = ":"  # before the name of a term
MAX_TERMS = 300  # of a section: a table with more rows is data
DEFINING = (UnitKind.DEFINITION, UnitKind.PROPERTY, UnitKind.ROW)
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


def spell_member(word: str) -> str:
    """Return the name of what belongs to something, by itself: people write `fastify.setErrorHandler` of any object.

    Empty where it is a word of the language as well (`fs.open`), and of what is no name of a program.

    >>> spell_member("fastify.setErrorHandler") == spell_name("setErrorHandler")
    True
    """
    found = _CODE.fullmatch(word) if len(word) <= LONGEST else None
    owner, _, member = found[1].replace("::", ".").rpartition(".") if found else ("", "", "")
    return spell_name(member) if owner and any(sign.isupper() or sign == "_" for sign in member[1:]) else ""


def find_codes(question: str) -> list[str]:
    """Return the names of programs among the words of a question, as it writes them, each once."""
    return [*dict.fromkeys(found[0] for found in _CODE_AMONG.finditer(question))]


def drop_arguments(title: str) -> str:
    """Return `fs.access` of `fs.access(path[, mode], callback)`; `Install (Linux)` as it is."""
    return _ARGUMENTS.sub("", title)


def is_identifier(text: str) -> bool:
    """Return whether a text is one word of code: a flag, a path, a call, a name in mixed case or with digits."""
    word = text.strip("`'\" ")
    if not word or any(sign.isspace() for sign in word):
        return False
    return not word.isalpha() or any(sign.isupper() for sign in word[1:])


def list_names(title: str) -> set[str]:
    """Return what a heading is called: as it is written, without its number, and what references are looked up by.

    >>> sorted(list_names("Class: net.Server"))
    ['Class: net.Server', 'net.Server']
    >>> sorted(list_names('-p, --print "script"'))
    ['--print', '-p', '-p, --print "script"']
    """
    called = drop_arguments(title)
    labelled = _LABEL.fullmatch(called)
    names = {title, _NUMBER.sub("", title), *(_FLAG.findall(title) if title.startswith("-") else ())}
    names |= list_abbreviated(title)
    if called != title:
        names |= {called, f"{called}()"}
    return names | {labelled[1]} if labelled and is_identifier(labelled[1]) else names


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


def list_members(title: str, above: Iterable[str]) -> set[str]:
    """Return what is called by the headings above it as well: `reply.send` is `.send(data)` below `Reply`."""
    member = drop_arguments(title).lstrip(".#")
    if not _WORD.fullmatch(member) or (member == title and not is_identifier(member)):
        return set()
    return {f"{owner}.{member}" for title in above for owner in list_names(title) if _OWNER.fullmatch(owner)}


def spell_term(term: str) -> str:
    """Return the name of what a unit of a section defines or sets, which no heading has; empty where it is none.

    >>> spell_term("nodeLinker") != spell_name("nodeLinker") != ""
    True
    """
    name = spell_name(term)
    return f"{TERM}{name}" if name else ""


def find_terms(node: "Node") -> set[str]:
    """Return the terms that a section defines, and the keys that it sets, as names: those of its first units."""
    terms = (unit.term for unit in node.units if unit.kind in DEFINING)
    first = islice(filter(None, terms), MAX_TERMS)
    return {spell_term(name) for term in first for name in (term, *list_abbreviated(term))}


def names_of_nodes(document: "Document") -> dict[str, set[str]]:
    """Map node ids to names: the heading and what is defined below it; of the file also its file name and aliases."""
    nodes = [placed.node for placed in document.nodes]
    found = {node.id: list_names(node.title) | list_members(node.title, node.breadcrumb) for node in nodes}
    found[document.nodes[0].node.id] |= {PurePosixPath(document.path).stem, *document.front_matter.aliases}
    spells = (spell_name, spell_code)
    spelled = {node_id: {spell(name) for name in names for spell in spells} for node_id, names in found.items()}
    return {node.id: (spelled[node.id] | find_terms(node)) - {""} for node in nodes}
