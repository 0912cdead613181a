"""Which sections a reranker gets to see."""

from pathlib import Path

from retriever.embedding.onnx import OnnxEncoder
from tests.shelf import PAGES, Shelf


def test_late_interaction_chooses_from_more_than_are_kept(tmp_path: Path) -> None:
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
        notes[token_match_candidates] = next(stage.note for stage in answer.trace.stages if stage.name == "late")
        (late,) = [ranking for ranking in answer.trace.rankings if ranking.arm == "late"]
        assert len(late.items) == max(2, token_match_candidates)
        assert len(answer.hits) == 2
    assert notes == {1: "2 sections, 2 kept", 6: "6 sections, 2 kept"}
