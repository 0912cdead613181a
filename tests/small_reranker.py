"""A small cross-encoder as int8 ONNX, made here: a real graph with a tokenizer of its own, without PyTorch.

It looks which part of the second text stands in the first: every word has a random vector, the texts are the sum and
the mean of theirs, and their product, after an int8 matrix, makes the logit.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from retriever.embedding.onnx import MODEL_NAME, TOKENIZER_NAME, RerankerCard, file_sha256, write_card

WIDTH = 512
MAX_TOKENS = 64


def make_reranker(folder: Path, texts: Iterable[str], *, outputs: int = 1) -> Path:
    """A folder as scripts/export_model.py makes it, for a model that knows the words of these texts."""
    folder.mkdir(parents=True)
    words = sorted({word for text in texts for word in re.findall(r"\w+", text.lower())})
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
    numbers = {word: number for number, word in enumerate([*special, *words])}
    tokenizer = Tokenizer(models.WordLevel(numbers, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save(str(folder / TOKENIZER_NAME))
    _write_model(folder / MODEL_NAME, len(numbers), len(special), outputs)
    card = RerankerCard(file_sha256(folder / MODEL_NAME), file_sha256(folder / TOKENIZER_NAME), MAX_TOKENS)
    write_card(card, folder)
    return folder


def _write_model(path: Path, words: int, special: int, outputs: int) -> None:
    vectors = np.random.default_rng(7).standard_normal((words, WIDTH), dtype=np.float32) / np.float32(WIDTH**0.5)
    vectors[:special] = 0
    weights = {
        "vectors": vectors,
        "matrix": 127 * np.eye(WIDTH, dtype=np.int8),
        "matrix_scale": np.array(1 / 127, dtype=np.float32),
        "last": np.ones((WIDTH, outputs), dtype=np.float32),
        "one": np.array(1.0, dtype=np.float32),
        "ten": np.array(10.0, dtype=np.float32),
        "minus_three": np.array(-3.0, dtype=np.float32),
        "axis_1": np.array([1], dtype=np.int64),
        "axis_2": np.array([2], dtype=np.int64),
    }
    node: Any = helper.make_node
    nodes = [
        node("Gather", ["vectors", "input_ids"], ["found"]),
        node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        node("Cast", ["token_type_ids"], ["types"], to=TensorProto.FLOAT),
        node("Sub", ["one", "types"], ["firsts"]),
    ]
    for side, share in (("question", "firsts"), ("passage", "types")):
        nodes += [
            node("Mul", [share, "mask"], [f"{side}_share"]),
            node("Unsqueeze", [f"{side}_share", "axis_2"], [f"{side}_column"]),
            node("Mul", ["found", f"{side}_column"], [f"{side}_words"]),
            node("ReduceSum", [f"{side}_words", "axis_1"], [side], keepdims=0),
        ]
    nodes += [
        # As quantisation writes it: activations by one scale for all that is in a batch.
        node("DynamicQuantizeLinear", ["question"], ["numbers", "scale", "zero"]),
        node("MatMulInteger", ["numbers", "matrix", "zero"], ["sums"]),
        node("Cast", ["sums"], ["sums_float"], to=TensorProto.FLOAT),
        node("Mul", ["scale", "matrix_scale"], ["scales"]),
        node("Mul", ["sums_float", "scales"], ["turned"]),
        node("ReduceSum", ["passage_share", "axis_1"], ["length"], keepdims=1),
        node("Div", ["passage", "length"], ["mean"]),
        node("Mul", ["turned", "mean"], ["product"]),
        node("MatMul", ["product", "last"], ["overlap"]),
        node("Mul", ["overlap", "ten"], ["stretched"]),
        node("Add", ["stretched", "minus_three"], ["logits"]),
    ]
    names = ("input_ids", "attention_mask", "token_type_ids")
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "tokens"]) for name in names]
    output = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["texts", outputs])
    kept = [numpy_helper.from_array(values, name) for name, values in weights.items()]
    model = helper.make_model(
        helper.make_graph(nodes, "overlap", inputs, [output], kept), opset_imports=[helper.make_opsetid("", 17)]
    )
    model.ir_version = 9
    onnx.save(model, str(path))
