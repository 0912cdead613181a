"""Words of a question that no section holds, and what was probably meant."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retriever.lexical.spelling import Spellings, correct, write_words
from retriever.lexical.tokens import remove_accents
from retriever.store.database import FileConnection
from retriever.store.writing import NODE_BITS
from tests.rows import open_rows
from tests.tables import read_table

TEXTS = {
    1: "Severance package and severance pay. Vacation days.",
    2: "kubectl rollback, rollback again; the Deployment, a deployment",
    3: "Besançon, BackgroundTasks, vector_top_n and vacation days",
    4: "form from forms serialize disables; eval, and what is evaluated",
}


@pytest.fixture
def spellings() -> Spellings:
    return opened(TEXTS)


def opened(texts: Mapping[int, str]) -> Spellings:
    return Spellings(written(texts))


def written(texts: Mapping[int, str]) -> FileConnection:
    """The words of documents that are one section each."""
    connection = open_rows(texts)
    write_words(connection, {key << NODE_BITS: text for key, text in texts.items()})
    return connection


@pytest.mark.parametrize(("question", "meant"), read_table("spelling", "A typo is corrected"))
def test_a_typo_is_corrected_and_all_else_stays(spellings: Spellings, question: str, meant: str) -> None:
    found = correct(question, spellings)
    assert found.text == meant
    assert [item.wrote for item in found.corrections] == [
        own for own, other in zip(question.strip("?").split(), meant.strip("?").split(), strict=True) if own != other
    ]


def test_the_first_sixty_words_are_corrected(spellings: Spellings) -> None:
    found = correct("vacation pay " + "severence pakage " * 400, spellings)
    assert len(found.corrections) == 58
    assert found.text.split()[:4] == ["vacation", "pay", "severance", "package"]
    assert found.text.endswith("severence pakage ")


@pytest.mark.parametrize("question", read_table("spelling", "No typo"))
def test_what_is_no_typo_stays(spellings: Spellings, question: str) -> None:
    found = correct(question, spellings)
    assert (found.text, found.corrections) == (question, ())


@pytest.mark.parametrize(("question", "meant"), read_table("spelling", "Half typed"))
def test_a_half_typed_word_is_the_beginning_of_one(spellings: Spellings, question: str, meant: str) -> None:
    assert correct(question, spellings, is_typing=True).text == meant
    assert correct(question, spellings).text == question


NOTES = Path(__file__).parents[1] / "data/languages"
SETS = json.loads((NOTES.parent / "words.json").read_text(encoding="utf-8"))
CODES = {"de": "german", "fr": "french", "es": "spanish"}


@pytest.mark.parametrize("notes", [("de",), ("fr",), ("es",), ("de", "fr", "es"), ("docs",)])
def test_words_of_other_languages_stay(notes: tuple[str, ...]) -> None:
    """Two hundred everyday words of each of five languages, and what is wrong by a letter or two in some thirty."""
    folders = [NOTES.parents[2] / "docs" if name == "docs" else NOTES / name for name in notes]
    files = sorted(file for folder in folders for file in folder.rglob("*.md"))
    spellings = opened({key: file.read_text(encoding="utf-8") for key, file in enumerate(files)})
    documents = tuple(CODES[name] for name in notes if name in CODES)

    for words in SETS["words"].values():
        asked = [word for word in words if not spellings.holds(word.lower())]
        changed = [word for word in asked if correct(word, spellings, documents).corrections]
        assert 50 * len(changed) <= len(asked), changed
    for name in CODES.keys() & set(notes):
        typos = [(wrote, meant) for wrote, meant in SETS["typos"][name] if spellings.holds(meant.lower())]
        found = [correct(wrote, spellings, documents).text for wrote, _ in typos]
        right = [remove_accents(meant.lower()) == text for (_, meant), text in zip(typos, found, strict=True)]
        assert sum(right) >= 0.75 * len(typos) > 15


def test_another_form_of_a_word_is_no_typo() -> None:
    spellings = opened({1: "Dateien bearbeiten"})
    question = "wie bearbeite ich Dateien"
    assert correct(question, spellings, ("german",)).text == question


def test_of_words_as_near_that_of_more_sections_is_meant() -> None:
    assert opened({1: "lantern", 2: "lanyern", 3: "lantern"}).nearest("lankern") == "lantern"


@given(st.dictionaries(st.integers(1, 6), st.text("ab çé", max_size=30), max_size=6), st.sets(st.integers(1, 6)))
def test_the_words_of_a_document_go_with_it(texts: dict[int, str], gone: set[int]) -> None:
    texts = {key: text.replace(" ", "aaaa ") for key, text in texts.items()}
    changed, fresh = written(texts), written({key: text for key, text in texts.items() if key not in gone})
    changed.executemany("DELETE FROM documents WHERE document_key = ?", [(key,) for key in gone])
    query = "SELECT * FROM words"
    assert changed.execute(query).fetchall() == fresh.execute(query).fetchall()
