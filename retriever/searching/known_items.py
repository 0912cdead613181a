"""What names say of a ranking: which sections a question names, and which pages say that another one holds.

Known items are the sections that are called what was asked, and those that hold an identifier letter by letter. Who
types a title, a file name or a flag wants that, and not what resembles it. How sure a name is depends on how many
sections bear it: `Installation` stands above forty of them, `Splatting` above one.

A page with `superseded_by: 0007-queue.md` in its front matter ranks below that one: both are read by the same words,
and the newer one may have fewer of them.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import compress
from pathlib import PurePosixPath

from pageindex.node import Node
from retriever.lexical.names import find_codes, is_identifier, spell_code, spell_member, spell_name, spell_term
from retriever.lexical.properties import SUCCESSOR_KEYS
from retriever.searching.open_index import View
from retriever.store import reading
from retriever.types import Candidate, Ranked, Ranking, Source

MOST_NAMESAKES = 12  # more sections of one name than this, and the name says nothing
MOST_ASKED = 10 * MOST_NAMESAKES  # a scope may leave few of them
IN_QUESTION = 0.25  # the share of a name that a question has among its words
# What a question asks of a term: `snapshot meaning`, `default of nodeLinker`.
_ASIDE = re.compile(r"\b(?:meanings?|means?|definitions?|defined?|defaults?|values?)\b", re.IGNORECASE)
MOST_READ = 60  # sections of the keyword search that are looked through for an identifier


def rank_names(view: View, question: str, half_typed: str, found: Sequence[Ranked], weight: float) -> Ranking | None:
    """The sections that the question names; None where it names none, or names are switched off.

    Args:
        view: the index.
        question: as it is searched for.
        half_typed: the question as it was typed, where its last word may be half typed; else empty.
        found: by keywords, best first: where an identifier is looked for.
        weight: of the ranking; 0 switches it off.
    """
    if not weight:
        return None
    code = spell_code(question)
    named = find_code(view, question) or find_bearers(view, spell_name(question), spell_term(_ASIDE.sub(" ", question)))
    if not named and not code:  # `node --inspect-brk`, `how do I use fs.readFile?`
        for word in find_codes(question):
            for node_id, share in find_code(view, word).items():
                named.setdefault(node_id, share * IN_QUESTION)
    if not named:
        named = find_begun(view, half_typed)
    items = [Ranked(node_id, share, share) for node_id, share in named.items()]
    if half_typed:  # without the words that it may be the beginning of
        question = half_typed.split()[-1]
    if is_identifier(question):
        texts = reading.texts_of_nodes(view.connection, [item.node_id for item in found[:MOST_READ]])
        held = [(item, texts.get(item.node_id, "")) for item in found[:MOST_READ]]
        holding = [item for item, text in held if holds_identifier(text, question)]
        if not holding and half_typed:
            holding = [item for item, text in held if question.lower() in text.lower()]
        items += [Ranked(item.node_id, 0.5, 0.5) for item in holding if item.node_id not in named]
    if not items:
        return None
    return Ranking(Source.NAME, "share of the name", weight, tuple(items))


def find_begun(view: View, typed: str) -> dict[str, float]:
    """As `find_bearers`, of names in which a word begins as what was typed; the share is that of the whole name."""
    last = typed.rpartition(" ")[2]
    parts = [typed.lower() if typed.isalpha() else spell_name(typed), "" if last.isalpha() else spell_name(last)]
    for part in filter(None, parts):
        found = reading.nodes_called(view.connection, part, MOST_ASKED)
        if typed.isalpha():  # `port` begins no word of `import`, and one of `serverPort`
            begins = re.compile(rf"(?<![^\W_])(?i:{part})|(?<=[a-z]){part.capitalize()}")
            found = [item for item in found if begins.search(item[2]) or begins.search(item[0])]
        allowed = compress(found, view.are_allowed([node_id for node_id, _, _ in found]))
        named = {
            node_id: 0.5 + 0.5 * len(part) / len(name) for node_id, name, _ in reversed([*allowed][:MOST_NAMESAKES])
        }
        if named:
            return named
    return {}


def find_code(view: View, word: str) -> dict[str, float]:
    """As `find_bearers`, of a name of a program; where nothing has it as it is, of the member that it names."""
    return find_bearers(view, spell_code(word)) or find_bearers(view, spell_member(word))


def find_bearers(view: View, name: str, term: str = "") -> dict[str, float]:
    """The sections that may be found and bear a name, the highest headings first, each with its share of it.

    Where none bears it, those that define the term.
    Who types `plugins` wants the page of that title sooner than a section of another page: of several, one with fewer
    titles above it has more than an equal share, by the square of their number. None has less.
    """
    found = reading.nodes_named(view.connection, name, term, MOST_ASKED) if name or term else []
    named: dict[str, float] = {}
    for node_id, above in compress(found, view.are_allowed([node_id for node_id, _ in found])):
        named.setdefault(node_id, 1 / (1 + above) ** 2)
    if not 0 < len(named) <= MOST_NAMESAKES:
        return {}
    whole = sum(named.values())
    return {node_id: max(1 / len(named), share / whole) for node_id, share in named.items()}


def holds_identifier(text: str, question: str) -> bool:
    """Whether the text has it letter by letter, and not as a part of a longer word; case does not matter."""
    word = question.strip("`'\"() ")
    begins = r"(?<![^\W_])" if word[:1].isalnum() else ""
    ends = r"(?![^\W_])" if word[-1:].isalnum() else ""
    return bool(re.search(f"(?i:{begins}{re.escape(word)}{ends})", text))


def rank_below_successors(
    candidates: Sequence[Candidate], nodes: Mapping[str, Node], fields: Mapping[str, Sequence[tuple[str, str]]]
) -> list[Candidate]:
    """Return the candidates, those of a superseded document below the first one of its successor; else in their order.

    Args:
        candidates: best first.
        nodes: theirs, by id.
        fields: the front matter of the document of each node, by the node's id.
    """
    first: dict[str, int] = {}  # what a document is called -> the place of its first section
    for place, candidate in enumerate(candidates):
        node = nodes[candidate.node_id]
        for name in (PurePosixPath(node.path).stem, (*node.breadcrumb, node.title)[0]):
            first.setdefault(spell_name(name), place)

    def sort_key(item: tuple[int, Candidate]) -> float:
        place, candidate = item
        named = (find_name(value) for key, value in fields[candidate.node_id] if key in SUCCESSOR_KEYS)
        return max([place, *(first[name] + 0.5 for name in named if name in first)])

    return [candidate for _, candidate in sorted(enumerate(candidates), key=sort_key)]


def find_name(successor: str) -> str:
    """Return what a property calls a successor, by file name, path, title or link.

    >>> find_name("[[docs/0007-queue.md|the queue]]") == spell_name("0007 queue")
    True
    """
    name = successor.strip("[]\"' ").partition("|")[0].partition("#")[0]
    return spell_name(PurePosixPath(name).stem if "/" in name or name.endswith((".md", ".mdx")) else name)
