"""Make questions for `eval` out of the documents themselves, without a model: for a first measurement of your folder.

    uv run scripts/make_questions.py docs --limit 50 > questions.jsonl
    uv run hybrid_retrieve.py eval questions.jsonl --docs docs

A heading is asked as it stands; its section answers. A link is asked with the sentence that holds it; what it leads to
answers, and the section it stands in is left out, because the question was copied from there. (Anchor texts as queries
go back to Craswell, Hawking and Robertson, "Effective Site Finding using Link Anchor Information", SIGIR 2001.)
Both are easier than what people ask: they use the documents' own words. They compare settings, and find sections that
cannot be found at all; they do not say how good the answers to real questions are.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from urllib.parse import unquote

import click

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pageindex.corpus import UnreadableDocumentError, read_document
from pageindex.document import Document, parse_document, resolve_links
from pageindex.links import Broken, Link
from pageindex.markdown import References
from pageindex.node import Node, NodeKind
from pageindex.summary import prose_sentences
from retriever.evaluation.questions import Gold, Question
from retriever.indexing.changes import list_documents
from retriever.lexical.tokens import tokenize
from retriever.settings.layers import load_profile

MIN_HEADING_WORDS = 2  # a heading with fewer words that say something (`Usage`, `See also`) asks nothing
MIN_SECTION_WORDS = 20  # a section with fewer answers nothing
MIN_SENTENCE_WORDS = 6
MAX_SENTENCE_WORDS = 40
MIN_WORDS_AROUND = 3  # a sentence that is hardly more than the link's text is an entry of a list of links

_WIKILINK = re.compile(r"\[\[([^\[\]|]+)(?:\|([^\[\]]*))?\]\]")

_LINK = re.compile(
    r"\[\[(?P<note>[^\[\]|]+)(?:\|(?P<alias>[^\[\]]*))?\]\]|(?<!!)\[(?P<label>[^\[\]]+)\]\(<?(?P<to>[^)\s>]*)"
)


def make_own_questions(documents: Sequence[Document]) -> list[Question]:
    """Return all questions that the documents make, by file and line: headings (`heading`), then links (`link`)."""
    nodes = {placed.node.id: placed.node for document in documents for placed in document.nodes}
    seen: Counter[str] = Counter()
    questions = []
    for question in (*ask_headings(nodes.values()), *ask_links(documents, nodes)):
        seen[question.id] += 1
        number = seen[question.id]
        questions.append(question if number == 1 else replace(question, id=f"{question.id}~{number}"))
    return questions


def ask_headings(nodes: Iterable[Node]) -> Iterator[Question]:
    """Ask sections with enough to say, under a heading that is there once and says what they are about."""
    listed = [node for node in nodes if node.kind is NodeKind.SECTION and node.span]
    times = Counter(node.title.casefold() for node in listed)
    for node in listed:
        body = node.text.partition("\n")[2]
        says_enough = len(set(tokenize(node.title))) >= MIN_HEADING_WORDS and len(body.split()) >= MIN_SECTION_WORDS
        if says_enough and times[node.title.casefold()] == 1:
            yield Question(f"heading:{node.id}", node.title, "heading", (_gold(node),))


def ask_links(documents: Sequence[Document], nodes: Mapping[str, Node]) -> Iterator[Question]:
    """Ask sentences with links to other sections, each once in its section; any of its targets answers."""
    first_section: dict[str, Node] = {}
    for node in nodes.values():
        if node.span:
            first_section.setdefault(node.path, node)
    targets: dict[tuple[str, str], dict[str, Gold]] = {}
    for source_id, link, target_id in resolve_links(documents):
        if isinstance(target_id, Broken):
            continue
        # A file that opens with a heading has no lines of its own: its first section has them.
        node = nodes[target_id]
        target = node if node.span else first_section.get(node.path)
        text = find_sentence(nodes[source_id], link)
        if target is not None and text and target.id != source_id:
            targets.setdefault((source_id, text), {})[target.id] = _gold(target)
    for (source_id, text), gold in targets.items():
        source = _gold(nodes[source_id])
        yield Question(f"link:{source_id}->{next(iter(gold))}", text, "link", tuple(gold.values()), (source,))


def find_sentence(source: Node, link: Link) -> str:
    """Return the sentence that holds the link, as plain text; empty where it is too short or too long, or not found."""
    if source.span is None:
        return ""
    # The paragraph: the lines around the link, up to the next blank ones.
    lines = source.text.split("\n")
    first = last = link.line - source.span.first
    while first > 0 and lines[first - 1].strip():
        first -= 1
    while last + 1 < len(lines) and lines[last + 1].strip():
        last += 1
    paragraph = "\n".join(lines[first : last + 1])
    # What is written in the link's brackets; empty for a link in another notation.
    label = ""
    for match in _LINK.finditer(paragraph):
        path, _, anchor = unquote(match["to"] or match["note"] or "").partition("#")
        if (path.strip(), anchor) == (link.target_path, link.anchor):
            label = (match["label"] or match["alias"] or match["note"] or "").strip()
            break
    plain = References().plain_text(label)
    if not plain:
        return ""
    text = _WIKILINK.sub(lambda match: match[2] or match[1], paragraph)
    shortest = max(MIN_SENTENCE_WORDS, len(plain.split()) + MIN_WORDS_AROUND)
    fits = (
        sentence
        for sentence in prose_sentences(text, References())
        if plain in sentence and shortest <= len(sentence.split()) <= MAX_SENTENCE_WORDS
    )
    return next(iter(fits), "")


def sample(questions: Sequence[Question], limit: int) -> list[Question]:
    """Return at most `limit` of them, in their order: those with the lowest hashes; an edit changes few of them."""
    chosen = sorted(questions, key=lambda item: sha256(item.id.encode("utf-8", "surrogatepass")).digest())[:limit]
    kept = {question.id for question in chosen}
    return [question for question in questions if question.id in kept]


def format_question(question: Question) -> str:
    """Return its line of JSON."""

    def as_lines(gold: Gold) -> dict[str, object]:
        return {"file": gold.file, "start_line": gold.span.first, "end_line": gold.span.last}

    item: dict[str, object] = {"id": question.id, "question": question.text, "kind": question.kind}
    item["gold"] = [as_lines(gold) for gold in question.gold]
    if question.excluded:
        item["exclude"] = [as_lines(gold) for gold in question.excluded]
    return json.dumps(item, ensure_ascii=False)


def _gold(node: Node) -> Gold:
    assert node.span is not None, "only nodes with lines answer"
    return Gold(node.path, node.span)


@click.command()
@click.argument("docs", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--limit", type=click.IntRange(min=1), default=200, show_default=True, help="How many at most.")
def main(docs: Path, limit: int) -> None:
    """Print questions about the documents below DOCS: their headings, and their links with the sentence around them."""
    limits = load_profile().documents
    documents = []
    for file in list_documents(docs, limits).files:
        try:
            documents.append(parse_document(file.path, read_document(file, limits.max_file_bytes).text))
        except UnreadableDocumentError as error:
            click.echo(f"skipped {file.path}: {error.reason}", err=True)
    for question in sample(make_own_questions(documents), limit):
        click.echo(format_question(question))


if __name__ == "__main__":
    main()
