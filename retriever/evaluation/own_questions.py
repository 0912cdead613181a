"""Questions out of the documents themselves, without a model: for a first measurement of one's own folder.

A heading is asked as it stands; its section answers. A link is asked with the sentence that holds it; what it leads to
answers, and the section it stands in is left out, because the question was copied from there. (Anchor texts as queries
go back to Craswell, Hawking and Robertson, "Effective Site Finding using Link Anchor Information", SIGIR 2001.)
Both are easier than what people ask: they use the documents' own words. They compare settings, and find sections that
cannot be found at all; they do not say how good the answers to real questions are.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from urllib.parse import unquote

from pageindex.document import Document, resolve_links
from pageindex.links import Broken, Link
from pageindex.markdown import References
from pageindex.node import Node, NodeKind
from pageindex.summary import prose_sentences
from retriever.evaluation.questions import Gold, Question
from retriever.lexical.tokens import tokenize

MIN_HEADING_WORDS = 2
"""A heading with fewer words that say something (`Usage`, `See also`) asks nothing."""
MIN_SECTION_WORDS = 20
"""A section with fewer answers nothing."""
MIN_SENTENCE_WORDS = 6
MAX_SENTENCE_WORDS = 40
MIN_WORDS_AROUND = 3
"""A sentence that is hardly more than the link's text is an entry of a list of links."""

_WIKILINK = re.compile(r"\[\[([^\[\]|]+)(?:\|([^\[\]]*))?\]\]")

_LINK = re.compile(
    r"\[\[(?P<note>[^\[\]|]+)(?:\|(?P<alias>[^\[\]]*))?\]\]|(?<!!)\[(?P<label>[^\[\]]+)\]\(<?(?P<to>[^)\s>]*)"
)


@dataclass(frozen=True, slots=True)
class _Pages:
    """All documents, as questions need them."""

    documents: Sequence[Document]
    nodes: dict[str, Node]
    first_section: dict[str, Node]
    """By path: the first node of the file that has lines."""


def own_questions(documents: Sequence[Document]) -> list[Question]:
    """All questions that the documents make, by file and line: headings (`heading`), then links (`link`)."""
    nodes = {placed.node.id: placed.node for document in documents for placed in document.nodes}
    first: dict[str, Node] = {}
    for node in nodes.values():
        if node.span:
            first.setdefault(node.path, node)
    pages = _Pages(documents, nodes, first)
    return _numbered([*_headings(nodes.values()), *_links(pages)])


def sample(questions: Sequence[Question], limit: int) -> list[Question]:
    """At most so many of them, in their order: those with the lowest hashes, so that an edit changes few of them."""
    chosen = sorted(questions, key=lambda item: sha256(item.id.encode("utf-8", "surrogatepass")).digest())[:limit]
    kept = {question.id for question in chosen}
    return [question for question in questions if question.id in kept]


def question_line(question: Question) -> str:
    """The question as `eval` reads it."""
    item: dict[str, object] = {"id": question.id, "question": question.text, "kind": question.kind}
    item["gold"] = [_lines(gold) for gold in question.gold]
    if question.excluded:
        item["exclude"] = [_lines(gold) for gold in question.excluded]
    return json.dumps(item, ensure_ascii=False)


def _lines(gold: Gold) -> dict[str, object]:
    assert gold.span is not None, "questions are made of sections"
    return {"file": gold.file, "start_line": gold.span.first, "end_line": gold.span.last}


def _headings(nodes: Iterable[Node]) -> Iterator[Question]:
    """Sections with enough to say, under a heading that is there once and says what they are about."""
    listed = [node for node in nodes if node.kind is NodeKind.SECTION and node.span]
    times = Counter(node.title.casefold() for node in listed)
    for node in listed:
        body = node.text.partition("\n")[2]
        says_enough = len(set(tokenize(node.title))) >= MIN_HEADING_WORDS and len(body.split()) >= MIN_SECTION_WORDS
        if says_enough and times[node.title.casefold()] == 1:
            yield Question(f"heading:{node.id}", node.title, "heading", (_gold(node),))


def _links(pages: _Pages) -> Iterator[Question]:
    """Sentences with links to other sections, each once in its section; any of its targets answers."""
    targets: dict[tuple[str, str], dict[str, Gold]] = {}
    for source_id, link, target_id in resolve_links(pages.documents):
        if isinstance(target_id, Broken):
            continue
        target, text = _with_lines(pages, target_id), _sentence(pages.nodes[source_id], link)
        if target is not None and text and target.id != source_id:
            targets.setdefault((source_id, text), {})[target.id] = _gold(target)
    for (source_id, text), gold in targets.items():
        source = _gold(pages.nodes[source_id])
        yield Question(f"link:{source_id}->{next(iter(gold))}", text, "link", tuple(gold.values()), (source,))


def _with_lines(pages: _Pages, node_id: str) -> Node | None:
    """The node, or for a file that opens with a heading that section; None for a page without text."""
    node = pages.nodes[node_id]
    return node if node.span else pages.first_section.get(node.path)


def _gold(node: Node) -> Gold:
    assert node.span is not None, "only nodes with lines answer"
    return Gold(node.path, node.span)


def _sentence(source: Node, link: Link) -> str:
    """The sentence that holds the link, as plain text; empty where it cannot be told, or is too short or too long."""
    if source.span is None:
        return ""
    paragraph = _paragraph(source.text.split("\n"), link.line - source.span.first)
    label = _label(paragraph, link)
    plain = References().plain_text(label)
    shortest = max(MIN_SENTENCE_WORDS, len(plain.split()) + MIN_WORDS_AROUND)
    for sentence in prose_sentences(_WIKILINK.sub(_wikilink_text, paragraph), References()) if plain else ():
        if plain in sentence and shortest <= len(sentence.split()) <= MAX_SENTENCE_WORDS:
            return sentence
    return ""


def _wikilink_text(match: re.Match[str]) -> str:
    return match[2] or match[1]


def _paragraph(lines: Sequence[str], place: int) -> str:
    """The lines around a line of a text, up to the next blank ones."""
    first = last = place
    while first > 0 and lines[first - 1].strip():
        first -= 1
    while last + 1 < len(lines) and lines[last + 1].strip():
        last += 1
    return "\n".join(lines[first : last + 1])


def _label(paragraph: str, link: Link) -> str:
    """What is written in the link's brackets; empty for a link in another notation."""
    for match in _LINK.finditer(paragraph):
        path, _, anchor = unquote(match["to"] or match["note"] or "").partition("#")
        if (path.strip(), anchor) == (link.target_path, link.anchor):
            return (match["label"] or match["alias"] or match["note"] or "").strip()
    return ""


def _numbered(questions: Iterable[Question]) -> list[Question]:
    """The same, with `~2` after an id that was there before."""
    seen: Counter[str] = Counter()
    numbered = []
    for question in questions:
        seen[question.id] += 1
        number = seen[question.id]
        name = question.id if number == 1 else f"{question.id}~{number}"
        numbered.append(Question(name, question.text, question.kind, question.gold, question.excluded))
    return numbered
