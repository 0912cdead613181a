"""A document that sets off a bug of this program, or of what a caller brings to it, is left out, and named."""

from collections.abc import Sequence

import pytest

from tests.program import Cli
from tests.shelf import CountingEncoder, Shelf

REASON = "left out because of a bug, please report it: ValueError('stripes')"


class Stumbling(CountingEncoder):
    """Cannot count the tokens of zebras."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        if any("zebra" in text for text in texts):
            raise self._error
        return super().count_tokens(texts)


@pytest.fixture
def stumbling(shelf: Shelf) -> Shelf:
    """Its encoder cannot read one of two new pages."""
    shelf.encoder = Stumbling(ValueError("stripes"))
    shelf.write("striped.md", "# Zebras\n\nA zebra runs.\n")
    shelf.write("otter.md", "# Otters\n\nAn otter sleeps.\n")
    return shelf


def test_the_others_are_indexed_and_it_is_named(stumbling: Shelf) -> None:
    report = stumbling.update()
    assert (report.added, report.documents, report.skipped) == (1, 5, (("striped.md", REASON),))


def test_a_question_that_meets_it_is_answered(stumbling: Shelf) -> None:
    answer = stumbling.ask("otter")
    assert (answer.hits[0].file, answer.degraded, answer.index.skipped_files) == ("otter.md", (), 1)


def test_what_it_said_before_is_found_no_more(stumbling: Shelf) -> None:
    stumbling.write("mail.md", "# Mail\n\nA zebra carries it.\n")
    assert "mail.md" not in {hit.file for hit in stumbling.ask("stamp for a letter", top_k=100).hits}


def test_it_is_read_again_when_it_changes(stumbling: Shelf) -> None:
    stumbling.update()
    stumbling.write("striped.md", "# Horses\n\nA horse runs.\n")
    assert stumbling.ask("horse").hits[0].file == "striped.md"


def test_status_shows_why(stumbling: Shelf, cli: Cli) -> None:
    stumbling.update()
    assert f"striped.md: {REASON}" in cli("status", "-v", "--index", stumbling.index).out


def test_a_block_of_data_with_more_chunks_than_there_are_keys_is_left_out(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retriever.store.writing.MAX_CHUNKS", 10)
    numbers = "0.25, -1.75, 3.5, 0.125, -8\n" * 1_000
    shelf.write("weights.md", f"# Weights\n\n```\n{numbers}```\n\n## Use\n\nLoad them.\n")
    report = shelf.update()
    assert report.skipped == (("weights.md", "it has more than 1,048,576 sections, or 10 chunks in one"),)
    assert report.documents == 4


def test_an_encoder_that_cannot_be_reached_is_not_blamed_on_the_document(stumbling: Shelf) -> None:
    with pytest.raises(TimeoutError):
        stumbling.update(encoder=Stumbling(TimeoutError()))
    assert stumbling.update().documents == 5
