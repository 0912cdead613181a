"""Which language a text and a question are in, and what its words become."""

import pytest

from retriever.lexical.languages import detect_language, detect_question
from tests.program import PROJECT
from tests.tables import read_table

NOTES = PROJECT / "tests/data/languages"
FOLDERS = {"de": "german", "fr": "french", "es": "spanish", "zh": "chinese", "ja": "japanese", "th": ""}


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_language_of_every_note_is_known(folder: str) -> None:
    for note in (NOTES / folder).glob("*.md"):
        assert detect_language(note.read_text("utf-8")) == FOLDERS[folder], note


def test_english_pages_have_no_language() -> None:
    pages = [*(PROJECT / "docs").rglob("*.md"), *(PROJECT / "tests/eval_corpus/larder").glob("*.md")]
    pages += (PROJECT.parent / "shared" / "eval" / "corpora").rglob("*.md")
    assert {detect_language(page.read_text("utf-8")) for page in pages} == {""}


@pytest.mark.parametrize(("question", "languages"), read_table("words", "The languages of a question"))
def test_the_languages_of_a_question(question: str, languages: str) -> None:
    expected = tuple(languages.split())
    assert detect_question(question, ("german", "french")) == expected
    assert detect_question(question, ()) == ()
    # Where documents are in English but for a few, a question that says nothing else is.
    says_it = expected != ("german", "french")
    assert detect_question(question, ("german", "french"), is_english=True) == (expected if says_it else ())
    assert detect_question(question, ("german", "french", "chinese")) == expected
    assert "chinese" in detect_question(f"{question} 你好", ("german", "chinese"))
