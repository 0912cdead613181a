"""Tiny models with random weights; what needs one is skipped without the extra `models`."""

from pathlib import Path
from typing import Any

import pytest

from retriever.embedding.encoder import ENGLISH_MODEL

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}


def make_bert(place: Path, kind: str, **config: int) -> Path:
    """A model of that class of transformers, with the tokenizer of the bundled model."""
    pytest.importorskip("sentence_transformers", exc_type=ModuleNotFoundError)
    transformers: Any = pytest.importorskip("transformers")
    torch: Any = pytest.importorskip("torch")
    torch.manual_seed(1)
    tokens = {name: f"[{name[:3].upper()}]" for name in ("pad_token", "unk_token", "cls_token", "sep_token")}
    file = str(ENGLISH_MODEL / "tokenizer.json")
    names = ["input_ids", "attention_mask", "token_type_ids"]
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=file, model_input_names=names, **tokens)
    tokenizer.save_pretrained(place)
    model = getattr(transformers, kind)(transformers.BertConfig(**SIZES, **config))
    for weights in model.parameters():  # far enough from nothing for the scores to differ
        weights.data.mul_(4)
    model.save_pretrained(place)
    return place
