"""Make questions for `eval` out of the documents themselves, without a model: for a first measurement of your folder.

    uv run scripts/make_questions.py docs --limit 50 > questions.jsonl
    uv run hybrid_retrieve.py eval questions.jsonl --docs docs

A heading is asked as it stands; its section answers. That is easier than what people ask: it uses the documents' own
words. It compares settings, and finds sections that cannot be found at all; it does not say how good the answers to
real questions are.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pageindex.corpus import UnreadableDocumentError, read_document
from pageindex.document import parse_document
from pageindex.node import Node, NodeKind
from retriever.evaluation import Gold, Question
from retriever.indexing.changes import list_documents
from retriever.lexical.tokens import tokenize
from retriever.settings import load_profile

MIN_HEADING_WORDS = 2  # a heading with fewer words that say something (`Usage`, `See also`) asks nothing
MIN_SECTION_WORDS = 20  # a section with fewer answers nothing


def ask_headings(nodes: Iterable[Node]) -> Iterator[Question]:
    """Ask sections with enough to say, under a heading that is there once and says what they are about."""
    listed = [node for node in nodes if node.kind is NodeKind.SECTION and node.span]
    times = Counter(node.title.casefold() for node in listed)
    for node in listed:
        body = node.text.partition("\n")[2]
        says_enough = len(set(tokenize(node.title))) >= MIN_HEADING_WORDS and len(body.split()) >= MIN_SECTION_WORDS
        if node.span and says_enough and times[node.title.casefold()] == 1:
            gold = Gold(node.path, node.span.first, node.span.last)
            yield Question(f"heading:{node.id}", node.title, (gold,), "heading")


def sample(questions: Sequence[Question], limit: int) -> list[Question]:
    """Return at most `limit` of them, in their order: those with the lowest hashes; an edit changes few of them."""
    chosen = sorted(questions, key=lambda item: sha256(item.id.encode("utf-8", "surrogatepass")).digest())[:limit]
    kept = {question.id for question in chosen}
    return [question for question in questions if question.id in kept]


@click.command()
@click.argument("docs", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--limit", type=click.IntRange(min=1), default=200, show_default=True, help="How many at most.")
def main(docs: Path, limit: int) -> None:
    """Print questions about the documents below DOCS: their headings."""
    nodes = list[Node]()
    for file in list_documents(docs, load_profile().documents).files:
        try:
            document = parse_document(file.path, read_document(file).text)
            nodes += [placed.node for placed in document.nodes]
        except UnreadableDocumentError as error:
            click.echo(f"skipped {file.path}: {error.reason}", err=True)
    for question in sample(list(ask_headings(nodes)), limit):
        click.echo(json.dumps(asdict(question), ensure_ascii=False))


if __name__ == "__main__":
    main()
