"""A tiny cross-encoder with random weights, run by the extra `models`; skipped without the extra."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from retriever.errors import RerankerError
from retriever.rerank.cross_encoder import CrossEncoderReranker
from retriever.rerank.reranker import RerankInput
from retriever.settings.schema import RerankSettings
from tests.shelf import Shelf
from tests.torch.conftest import make_bert

QUESTION = "tomatoes in a wet summer"
SHOWN = [RerankInput("A > B", text) for text in ("one", "another, rather longer text on boats", "x " * 20)]


def opened(model: Path | str) -> CrossEncoderReranker:
    return CrossEncoderReranker(RerankSettings(kind="cross-encoder", model=str(model)))


def test_scores_are_probabilities_and_depend_on_no_other_candidate(tiny_model: Path) -> None:
    output = opened(tiny_model).score(QUESTION, SHOWN)
    assert all(0 <= score <= 1 for score in output.scores)
    assert len(set(output.scores)) == 3
    assert output.note == "3 candidates, 3 read, 0 cached"
    alone = [opened(tiny_model).score(QUESTION, [one]).scores[0] for one in reversed(SHOWN)]
    assert list(reversed(alone)) == pytest.approx(list(output.scores), abs=1e-5)
    assert opened(tiny_model).score(QUESTION, []).scores == ()


def test_what_was_read_is_cached(tiny_model: Path) -> None:
    reranker = opened(tiny_model)
    first = reranker.score(QUESTION, SHOWN[:2])
    second = reranker.score(QUESTION, SHOWN)
    assert second.note == "3 candidates, 1 read, 2 cached"
    assert second.scores[:2] == first.scores
    assert reranker.score("another question", SHOWN).note == "3 candidates, 3 read, 0 cached"


def test_a_long_candidate_is_cut_at_max_length(tiny_model: Path) -> None:
    long = [RerankInput("A", "word " * 1000), RerankInput("A", "word " * 2000)]
    one, other = opened(tiny_model).score(QUESTION, long).scores
    assert one == pytest.approx(other, abs=1e-5)
    whole = opened(tiny_model).score("word " * 3000, long[:1]).scores
    assert 0 <= whole[0] <= 1


def test_the_batch_is_halved_when_the_memory_is_not_enough(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    reranker = opened(tiny_model)
    sizes: list[int] = []
    predict = reranker._model.predict

    def small(pairs: Sequence[tuple[str, str]], batch_size: int, **more: Any) -> object:  # noqa: ANN401 - passed on
        sizes.append(batch_size)
        if batch_size > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return predict(pairs, batch_size=batch_size, **more)

    monkeypatch.setattr(reranker._model, "predict", small)
    many = [RerankInput("A", f"text {place}") for place in range(10)]
    scores = reranker.score(QUESTION, many).scores
    assert sizes[:3] == [8, 4, 2]
    assert set(sizes[3:]) == {2}
    assert scores == pytest.approx(opened(tiny_model).score(QUESTION, many).scores, abs=1e-5)

    monkeypatch.setattr(reranker._model, "predict", lambda *args, **more: small(args[0], 99))
    with pytest.raises(RerankerError, match="memory is too small"):
        reranker.score("another", many)


def test_what_is_no_reranker_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    embedding = make_bert(tmp_path / "embedding", "BertModel")
    with pytest.raises(RerankerError, match="is no reranker"):
        opened(embedding).score(QUESTION, SHOWN)
    classes = make_bert(tmp_path / "classes", "BertForSequenceClassification", num_labels=3)
    with pytest.raises(RerankerError, match="is no reranker"):
        opened(classes).score(QUESTION, SHOWN)
    (tmp_path / "empty").mkdir()
    with pytest.raises(RerankerError, match="holds no model"):
        opened(tmp_path / "empty").score(QUESTION, SHOWN)
    (classes / "config.json").write_bytes((tiny_model / "config.json").read_bytes())
    (classes / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(RerankerError, match="cannot be loaded"):
        opened(classes).score(QUESTION, SHOWN)


def test_a_search_in_the_order_of_the_cross_encoder(shared_shelf: Shelf, tiny_model: Path) -> None:
    rerank = {"kind": "cross-encoder", "model": str(tiny_model), "blend": 0.0}
    answer = shared_shelf.ask(QUESTION, rerank=rerank, top_k=8)
    assert answer.degraded == ()
    scores = [next(item for item in hit.evidence if item.source == "rerank") for hit in answer.hits]
    assert [item.rank for item in scores] == list(range(1, 9))
    assert [item.score for item in scores] == [hit.score for hit in answer.hits]
    assert {item.scale for item in scores} == {"cross-encoder, 0 to 1"}
    assert {hit.node_id for hit in answer.hits} == {hit.node_id for hit in shared_shelf.ask(QUESTION, top_k=8).hits}


def test_nothing_is_fetched_and_the_search_goes_on(shared_shelf: Shelf) -> None:
    pytest.importorskip("sentence_transformers", exc_type=ModuleNotFoundError)
    answer = shared_shelf.ask(QUESTION, rerank={"kind": "cross-encoder", "model": "no-such/reranker"})
    assert answer.hits == shared_shelf.ask(QUESTION).hits
    (reason,) = map(str, answer.degraded)
    assert reason.startswith("rerank: no-such/reranker is neither a folder nor a model on this machine")
    with pytest.raises(RerankerError, match="uv run hf download cross-encoder/no-such-model"):
        opened("no-such-model").score(QUESTION, SHOWN)
