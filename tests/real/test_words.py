"""Words as people type them, in real indexes: other indexes' words, half-typed names, properties."""

from pathlib import Path

import pytest

from retriever.api import index_folders, open_retriever
from retriever.retriever import Retriever
from retriever.several import SeveralRetrievers
from tests.shelf import WORDS_ALONE, write_pages


def open_pages(folder: Path, pages: dict[str, str]) -> Retriever:
    """Return an index of these pages, open, by words alone."""
    write_pages(folder / "docs", pages)
    index_folders([folder / "docs"], folder / "index", settings=WORDS_ALONE)
    return open_retriever(index=folder / "index", settings=WORDS_ALONE)


def test_a_word_that_one_index_holds_is_no_slip_in_another(tmp_path: Path) -> None:
    retrievers = {
        "shop": open_pages(tmp_path / "shop", {"a.md": "# Kubelwagen\n\nA kubelwagen is a car.\n"}),
        "cloud": open_pages(tmp_path / "cloud", {"b.md": "# Kubelwagon\n\nThe kubelwagon of the cluster.\n"}),
    }
    assert retrievers["cloud"].search("kubelwagen").corrections
    with SeveralRetrievers(retrievers, {}) as several:
        answer = several.search("kubelwagen")
    assert answer.corrections == ()
    assert {hit.index for hit in answer.hits} == {"shop"}


@pytest.mark.parametrize("typed", ["sprock", "--sprock", "gear sprock", "@scope/sprock", "--sprocket-si"])
def test_what_is_half_typed_finds_what_is_called_so(tmp_path: Path, typed: str) -> None:
    page = (
        "# Gears\n\nOf a gear.\n\n## `--sprocket-size`\n\nHow large it is. See @scope/sprockets.\n\n## Chains\n\nOil.\n"
    )
    with open_pages(tmp_path, {"a.md": page}) as retriever:
        assert retriever.search(typed).hits[0].title == "--sprocket-size"
