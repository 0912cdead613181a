"""Which sections a reranker gets to see."""

from pathlib import Path

from retriever.embedding.onnx import OnnxEncoder
from tests.shelf import PAGES, Shelf


def test_the_token_match_chooses_from_more_than_are_kept(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, PAGES)
    encoder = OnnxEncoder()
    shelf.update(encoder=encoder)
    notes = {}
    for token_match_candidates in (1, 6):
        answer = shelf.ask(
            "who visits the blossom?",
            encoder=encoder,
            top_k=2,
            candidate_cap=2,
            token_match_candidates=token_match_candidates,
        )
        notes[token_match_candidates] = next(stage.note for stage in answer.trace.stages if stage.name == "token_match")
        (matched,) = [ranking for ranking in answer.trace.rankings if ranking.source == "token_match"]
        assert len(matched.items) == max(2, token_match_candidates)
        assert len(answer.hits) == len(answer.trace.order) == 2
    assert notes == {1: "2 sections", 6: "6 sections"}
