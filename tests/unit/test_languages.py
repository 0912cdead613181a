"""Which language a text and a question are in, and what its words become."""

import pytest

from retriever.lexical.languages import detect_language, detect_question
from tests.program import PROJECT
from tests.tables import read_table


@pytest.mark.parametrize(("folder", "language"), read_table("words", "The language of every page of a folder"))
def test_the_language_of_every_page_is_known(folder: str, language: str) -> None:
    for page in (PROJECT / folder).rglob("*.md"):
        assert detect_language(page.read_text("utf-8")) == language, page


@pytest.mark.parametrize(("question", "languages"), read_table("words", "The languages of a question"))
def test_the_languages_of_a_question(question: str, languages: str) -> None:
    expected = tuple(languages.split())
    assert detect_question(question, ("german", "french")) == expected
    assert detect_question(question, ()) == ()
    assert detect_question(question, ("german", "french", "chinese")) == expected
    assert "chinese" in detect_question(f"{question} 你好", ("german", "chinese"))
