"""Context for a prompt out of a real index: the library and the command line."""

import json
from pathlib import Path

import pytest

from retriever.answering.context import load_token_counter
from tests.program import Cli
from tests.shelf import NEVER_REFRESH, Shelf


def lines_of(shelf: Shelf, file: str, first: int, last: int) -> str:
    return "".join((shelf.docs / file).read_text(encoding="utf-8").splitlines(keepends=True)[first - 1 : last])


def test_what_is_quoted_is_what_the_files_say(shelf: Shelf) -> None:
    with shelf.open(**NEVER_REFRESH) as retriever:
        found = retriever.context("what pays for a letter?")
        assert found.answer.hits == retriever.search("what pays for a letter?").hits
    context = found.context
    assert context.max_tokens == 4000
    assert context.tokens == load_token_counter()(context.markdown)
    best = next(piece for piece in context.pieces if piece.rank == 1)
    assert "A stamp pays for the journey of a letter." in best.text
    for piece in context.pieces:
        assert piece.text == lines_of(shelf, piece.file, piece.span.first, piece.span.last)
    quoted = {node_id for piece in context.pieces for node_id in piece.node_ids}
    assert quoted >= {hit.node_id for hit in found.answer.hits} - {section.node_id for section in context.left_out}


def test_the_command_line_prints_the_page_or_its_parts(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    monkeypatch.setenv("HYBRID_RETRIEVE_INDEX", str(tmp_path / "index"))
    words = ["--encoder-kind", "none", "bread over night", "--context"]
    cli("index", shelf.docs, "--encoder-kind", "none", "-q")
    page = cli(*words, "--max-tokens", "200")
    assert "## `kitchen.md:1-7` `Kitchen`\n```\n# Kitchen\n" in page.out
    content = json.loads(cli(*words, "--json", "--max-tokens", "200").out)
    assert page.out == content["markdown"]
    assert content["tokens"] <= content["max_tokens"] == 200
    piece = content["pieces"][0]
    assert piece["text"] == lines_of(shelf, piece["file"], piece["start_line"], piece["end_line"])
    assert piece["citation"] == f"{piece['file']}:{piece['start_line']}-{piece['end_line']}"
    assert "--full" in cli("word", "--context", "--full", code=2).err
