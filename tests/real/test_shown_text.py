"""Search, quotes and citations use the text that a page shows, wherever in a line it stands."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from retriever import Retriever, open_retriever
from tests.shelf import open_pages, write_pages

PHRASES = """\
# Phrases

The **silver** spoon shines.

The [glass](b.md) jar breaks.

The wooden<br>bowl cracks.

The clay&nbsp;pot leaks.

The iron\\
pan rusts.

The tin[^1] can rolls.

The \u201cgolden\u201d plate.

The paper <!-- why? --> cup, don\u2019t bend it.

> The linen
> cloth

[^1]: Of Cornwall.
"""
HIDDEN = {
    "a.md": "# Ink\n\nBlue ink.\n\n<!-- ask about ultramarine -->\n\nRed ink.\n",
    "b.md": "<!-- licence: periwinkle -->\n# Paper\n\nWhite paper, <!-- or mauve --> and grey.\n",
    "c.mdx": "# Pens\n\nA pen.\n\n{/* ask about turquoise */}\n\nA nib.\n",
    "d.md": "# Wax\n\nRed wax.\n\n[//]: # (ask about vermilion)\n\nA seal.\n",
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Retriever]:
    with open_pages(tmp_path_factory.mktemp("shown"), {"p.md": PHRASES, **HIDDEN}) as retriever:
        yield retriever


FOUND = "silver spoon/glass jar/wooden bowl/clay pot/iron pan/tin can/golden plate/paper cup/don't bend/linen cloth"


@pytest.mark.parametrize("phrase", FOUND.split("/"))
def test_a_phrase_is_found_across_markup(library: Retriever, phrase: str) -> None:
    assert library.search(f'"{phrase}"').hits[0].file == "p.md"


def test_a_phrase_ends_where_its_words_end(library: Retriever) -> None:
    assert library.search('"in can"').hits == ()


@pytest.mark.parametrize("word", ["ultramarine", "periwinkle", "mauve", "turquoise", "vermilion"])
def test_a_comment_is_not_found(library: Retriever, word: str) -> None:
    assert library.search(f"who asked about {word}?").verdict == "none"
    assert library.search(f'"{word}"').hits == ()


TALK = " ".join(["and then we went to the old mill and nobody there had seen it before so we"] * 60)


def test_of_a_transcript_on_one_line_the_place_that_matches_is_shown(tmp_path: Path) -> None:
    told = f"# Talk\n\n{TALK} found the ferryman asleep below the bridge with his oars {TALK}\n"
    with open_pages(tmp_path, {"talk.md": told}) as retriever:
        (hit,) = retriever.search("where was the ferryman asleep?").hits
    assert "ferryman asleep below the bridge" in hit.sentence
    assert "ferryman asleep below the bridge" in hit.text


def test_a_paragraph_on_one_line_is_judged_by_its_sentences(tmp_path: Path) -> None:
    filler = "The quiet man carried the lantern to the hill. The old man cleaned the boat on Monday. " * 12
    told = f"# Diary\n\n{filler}The sexton hid the keys inside the organ. {filler}\n"
    docs = write_pages(tmp_path / "docs", {"diary.md": told, "note.md": "# Note\n\nBuy bread.\n"})
    with open_retriever([docs], tmp_path / "index") as retriever:
        answer = retriever.search("where did the sexton hide the keys?")
    assert answer.verdict != "none"
    assert "inside the organ" in answer.hits[0].text
