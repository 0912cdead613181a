"""The cross-encoder where its extra is not installed, and what is believed of its scores."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from retriever.errors import RerankerError
from retriever.rerank.cross_encoder import CrossEncoderReranker, check_scores
from retriever.rerank.stage import RerankInput
from retriever.settings.schema import RerankSettings

SHOWN = [RerankInput("A", "", "text")]


def test_without_the_extra_the_message_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"architectures": ["BertForSequenceClassification"], "id2label": {"0": "LABEL_0"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    for package in ("sentence_transformers", "torch"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(RerankerError, match="needs the extra `models`; run: uv sync --extra models"):
        CrossEncoderReranker(RerankSettings(model=str(tmp_path))).score("question", SHOWN)


def test_scores_are_believed_when_they_are_one_for_each_and_from_0_to_1() -> None:
    assert check_scores(np.array([0.5, 1.0], np.float32), 2, "m") == [0.5, 1.0]
    for rows in ([0.5], [[0.5], [0.5]], [0.5, np.nan], [0.5, 1.5], [-0.1, 0.5]):
        with pytest.raises(RerankerError, match="m gave no score from 0 to 1 for each of 2 texts"):
            check_scores(np.array(rows), 2, "m")
