"""Tables of pure functions: of each row, the first cells are given, and the last ones are what has to come out."""

from collections.abc import Callable, Iterator
from inspect import signature

import pytest
from _pytest.mark import ParameterSet  # the type of pytest.param, which pytest does not export

from pageindex.blocks import read_blocks
from pageindex.document import name_document, parse_document
from pageindex.formats import decode
from pageindex.front_matter import read_front_matter
from pageindex.node import Span
from pageindex.summary import link_density
from pageindex.text import cut_text
from pageindex.units import read_units
from retriever.answering.sentences import find_conflict
from retriever.display import find_highlights, make_editor_link
from retriever.embedding.encoder import served_prefixes
from retriever.expansion import find_exact_names, reason_too_short, screen
from retriever.lexical.languages import detect_language
from retriever.lexical.sections import find_days, list_names, spell_name, split_number, tokenize_properties
from retriever.lexical.tokens import tokenize
from retriever.places.view import ScopedDocument
from retriever.query import Expansion
from retriever.searching.citations import find_anchor
from retriever.searching.confidence import assess, weigh_reading
from retriever.searching.follow_up import is_follow_up
from retriever.searching.hits import find_question_words
from retriever.searching.passage import Asked, find_passage, score_node
from retriever.searching.question_words import cut_words, read_form, read_kind
from retriever.settings import EncoderSettings
from retriever.text import cut
from retriever.types import Cited, QuestionForm, Reading, Signals
from tests.sections import make_node
from tests.tables import read_table


def compare_sentences(languages: str, claim: str, cited: str) -> str:
    return find_conflict(claim, cited, languages=tuple(languages.split()))


def call_document(path: str, title: str) -> tuple[str, str]:
    called, above = name_document(path, title, ())
    return called, "".join(above)


def decode_latin(raw: str) -> tuple[str, str]:
    text, warnings = decode(raw.encode("latin-1"))
    return text, ", ".join(warnings)


def find_prefixes(model: str, query: str, document: str) -> tuple[str, str]:
    return served_prefixes(EncoderSettings("ollama", model, query_prefix=query, document_prefix=document))


def give_verdict(
    coverage: float,
    known: float,
    together: float,
    form: QuestionForm,
    margin: float,
    lead: float,
    reading: float,
    kind: str,
) -> tuple[str, float]:
    kinds = [name in kind.split() for name in ("abroad", "is_strange", "lacks_day", "is_named")]
    found = assess(Signals(coverage, known, together, form, margin, lead, reading, "foreign" not in kind, *kinds))
    return found.verdict, round(found.confidence, 3)


def screen_passage(question: str, text: str, name: str) -> tuple[str, str]:
    usable, dropped = screen(question, Expansion(passages=(text,)), name.split())
    return "".join(usable.passages), "".join(item.reason for item in dropped)


def mark_words(text: str, stems: str) -> str:
    return ", ".join(text[first:last] for first, last in find_highlights(text, stems.split(), ("spanish",)))


def read_summary(dialect: str, text: str) -> str:
    return parse_document("a.md", text, dialect=dialect).nodes[0].node.summary


def read_section(text: str, question: str) -> tuple[str, str, str]:
    node = make_node(f"## Gear\n\n{text}", "a.md#gear", "Gear")
    asked = Asked(read_kind(question), dict.fromkeys(tokenize(question), 1.0), ())
    scored = score_node(node, asked)
    found = find_passage(node, asked, scored)
    return str(found.span), found.sentence, " ".join(f"{score:.2f}" for score in scored.scores)


def find_lines(text: str, now: str) -> str:
    return " ".join(map(str, find_anchor(Span(5, 8), text, now)))


DAY_NS = 86_400 * 10**9

TABLES: dict[str, dict[str, Callable[..., object]]] = {
    "claims": {"What sentences say otherwise": compare_sentences},
    "command_lines": {
        "The address of a line in an editor": lambda editor: make_editor_link(
            Cited(node_id="", folder="/docs", file="a b/\u00e9.md", span=Span(7, 9)), editor
        ),
    },
    "corpus": {"What bytes become": decode_latin},
    "models": {"What goes before each text": find_prefixes},
    "names": {
        "How a name is spelled": spell_name,
        "The number of a title": split_number,
        "What a document is called": call_document,
        "What a heading is called besides": lambda title: ", ".join(sorted(list_names(title) - {title})),
    },
    "questions": {
        "Texts that no search should follow": screen_passage,
        "Verdicts": give_verdict,
        "What a follow-up asks for": lambda before, question: read_kind(question, before).value,
        "What a question asks for": lambda question: read_kind(question).value,
        "What a reading counts": lambda logit, interaction: round(weigh_reading(Reading(logit, interaction)), 4),
        "What form a question has": lambda question: read_form(cut_words(question)),
        "What is meant as it is written": lambda question: ", ".join(find_exact_names(question)),
        "Whether a question follows others": lambda question: "yes" if is_follow_up(question) else "no",
        "Which question is too short to be expanded": reason_too_short,
        "Words that a section has": lambda question, text: ", ".join(
            find_question_words(question, tokenize(question), [text])
        ),
    },
    "scope": {"The day of a document": lambda path, title: ScopedDocument(0, path, (), title, None, DAY_NS).day},
    "sections": {
        "The summary": read_summary,
        "The lines that answer": read_section,
        "The share of links": lambda text: round(link_density(make_node(text).units), 4),
        "The term that is explained": lambda text: list(read_units(read_blocks(text)))[-1].term,
        "Where the lines 5-8 of a section are now": find_lines,
    },
    "words": {
        "A date of front matter, in seconds": lambda date: read_front_matter(f"---\ndate: {date}\n---\n").dated,
        "A text that is cut": cut,
        "Parts of a text": lambda text, most: "/".join(text[start:end] for start, end in cut_text(text, most)),
        "Days": lambda text: " ".join(find_days(text)),
        "Marked words": mark_words,
        "Terms of a property": lambda key, value: " ".join(tokenize_properties([(key, value)])),
        "Terms of a text": lambda text: " ".join(tokenize(text)),
        "Terms of a text in another language": lambda text, language: " ".join(tokenize(text, (language,))),
        "The language of a text": detect_language,
    },
}


def cases() -> Iterator[ParameterSet]:
    for page, tables in TABLES.items():
        for heading, function in tables.items():
            for row in read_table(page, heading):
                yield pytest.param(function, row, id=f"{page}: {heading}: {row[0]}")


@pytest.mark.parametrize(("function", "row"), list(cases()))
def test_a_row(function: Callable[..., object], row: tuple[object, ...]) -> None:
    count = len(signature(function).parameters)
    found = function(*row[:count])
    assert (found if isinstance(found, tuple) else (found,)) == row[count:]
