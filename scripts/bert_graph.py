"""A BERT model as ONNX, put together by hand: its layers are computed in 8 bits, and stay near to the weights.

PyTorch's exporter and ONNX Runtime's quantization gave a model that is a quarter slower, and whose vectors had a cosine
of .995 with the exact ones; these have .999.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import onnx

Matrix = npt.NDArray[np.float32]
Factors = npt.NDArray[np.floating[Any]]
Weights = dict[str, Matrix]
Keep = Callable[[str, Matrix, Factors], None]

OWN = "com.microsoft"  # operators of ONNX Runtime's own
OPSET, IR_VERSION = 21, 10  # the first with numbers of 4 bits
LAYER = "encoder.layer.{}"
QUERY, KEY, VALUE = "attention.self.query", "attention.self.key", "attention.self.value"
ATTENDED, INNER, OUTER = "attention.output.dense", "intermediate.dense", "output.dense"
WORDS, POSITIONS, TYPES = (f"embeddings.{name}_embeddings.weight" for name in ("word", "position", "token_type"))
# Of two neighbors of one sign in a column. Products with two activations are added in 16 bits, without VNNI: 255 times
# 128 fits.
GREATEST_PAIR, GREATEST = 127.4, 127
# How much of the differences between the channels of an input its matrix takes over, so that 8 bits fit all of them
# (Xiao and others, "SmoothQuant: accurate and efficient post-training quantization for LLMs", 2023).
SMOOTHED = 0.65
HIDDEN, LOGITS, TOKEN_VECTORS = "last_hidden_state", "logits", "token_vectors"  # outputs


class Graph:
    """Nodes and constants while they are put together."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}

    def add(self, kind: str, inputs: Sequence[str], output: str, /, *others: str, **options: Any) -> str:  # noqa: ANN401
        """Add a node, and return the name of its first output."""
        from onnx import helper

        self.nodes.append(helper.make_node(kind, inputs, [output, *others], name=output, **options))
        return output

    def keep(self, name: str, values: npt.ArrayLike, kind: type = np.float32) -> str:
        """Add a constant, and return its name."""
        from onnx import numpy_helper

        self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(np.asarray(values, kind)), name)
        return name

    def save(self, path: Path, inputs: Sequence[str], outputs: Sequence[str] | Mapping[str, int]) -> None:
        """Write the file; inputs are whole numbers for each token of each text, outputs of float32 or given kinds."""
        from onnx import TensorProto, helper

        kinds = outputs if isinstance(outputs, Mapping) else dict.fromkeys(outputs, TensorProto.FLOAT)
        graph = helper.make_graph(
            self.nodes,
            "encoder",
            [helper.make_tensor_value_info(name, TensorProto.INT64, ("texts", "tokens")) for name in inputs],
            [helper.make_tensor_value_info(name, kind, None) for name, kind in kinds.items()],
            list(self.constants.values()),
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(OWN, 1)]
        made = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
        path.write_bytes(made.SerializeToString())


# Models of 8 bits in one file.


def write_encoder(
    path: Path, weights: Weights, config: Mapping[str, Any], greatest: Weights, projection: Matrix | None = None
) -> None:
    """Write an encoder, with a second output where there is a projection of token vectors, (p, d).

    Args:
        path: of the file.
        weights: by their names in transformers' BertModel.
        config: transformers' of the model.
        greatest: the greatest absolute value of each channel that a matrix reads, by the name of the matrix.
        projection: makes token vectors out of the last layer's.
    """
    graph = Graph()
    hidden = graph.add("Identity", [write_body(graph, weights, config, greatest)], HIDDEN)
    if projection is None:
        graph.save(path, ["input_ids", "token_type_ids"], [HIDDEN])
        return
    graph.add("MatMul", [hidden, graph.keep("projection.weight", projection.T)], TOKEN_VECTORS)
    graph.save(path, ["input_ids", "token_type_ids"], [HIDDEN, TOKEN_VECTORS])


def write_reader(path: Path, weights: Weights, config: Mapping[str, Any], greatest: Weights, head: Weights) -> None:
    """Write a model that gives one number: of the mean of the last layer, by two linear layers with a tanh between.

    Args:
        path: of the file.
        weights: as of `write_encoder`.
        config: likewise.
        greatest: likewise.
        head: `head.0.weight`, `head.0.bias`, `head.2.weight`, `head.2.bias`.
    """
    graph = Graph()
    hidden = write_body(graph, weights, config, greatest)
    graph.add("ReduceMean", [hidden, graph.keep("tokens", [1], np.int64)], "mean", keepdims=0)
    for name, values in head.items():
        graph.keep(name, values)
    graph.add("Gemm", ["mean", "head.0.weight", "head.0.bias"], "head.0", transB=1)
    graph.add("Tanh", ["head.0"], "head.1")
    graph.add("Gemm", ["head.1", "head.2.weight", "head.2.bias"], "head.2", transB=1)
    graph.add("Reshape", ["head.2", graph.keep("flat", [-1], np.int64)], LOGITS)
    graph.save(path, ["input_ids", "token_type_ids"], [LOGITS])


def write_body(graph: Graph, weights: Weights, config: Mapping[str, Any], greatest: Weights) -> str:
    """Add all layers, and return the name of the last one's result."""
    read = write_embeddings(graph, weights, config)

    def keep_matrix(name: str, rows: Matrix, factors: Factors) -> None:
        unit = find_unit(rows / factors)
        graph.keep(f"{name}.matrix", np.round(rows / factors / unit[:, None]).T, np.int8)
        graph.keep(f"{name}.scale", unit)

    for number in range(config["num_hidden_layers"]):
        read = write_layer(graph, LAYER.format(number), read, weights, config, greatest, keep_matrix)
    return read


def write_embeddings(graph: Graph, weights: Weights, config: Mapping[str, Any]) -> str:
    """Add what makes vectors of the numbers of pieces and the types of tokens; the vocabulary is kept in 8 bits."""
    words = weights[WORDS]
    scale = (float(words.max()) - float(words.min())) / 255
    zero = round(-float(words.min()) / scale)
    stored = np.clip(np.round(words / scale) + zero, 0, 255)
    graph.add("Gather", [graph.keep("vocabulary", stored, np.uint8), "input_ids"], "pieces.bytes")
    units = [graph.keep("vocabulary.scale", scale), graph.keep("vocabulary.zero", zero, np.uint8)]
    graph.add("DequantizeLinear", ["pieces.bytes", *units], "pieces")
    write_places(graph, weights[POSITIONS])
    graph.add("Gather", [graph.keep("types", weights[TYPES]), "token_type_ids"], "typed")
    graph.add("Sum", ["pieces", "placed", "typed"], "embeddings.sum")
    return write_norm(graph, "embeddings.sum", "embeddings.LayerNorm", weights, config)


def read_weights(path: Path) -> Weights:
    """Return the weights of a model that was written so, by their names, as exactly as 8 bits hold them."""
    import onnx

    stored = {one.name: onnx.numpy_helper.to_array(one) for one in onnx.load(path).graph.initializer}
    kept = (".LayerNorm.weight", ".LayerNorm.bias", ".bias", "head.0.weight", "head.2.weight")
    weights = {name: values for name, values in stored.items() if name.endswith(kept)}
    words = stored["vocabulary"].astype(np.float32) - stored["vocabulary.zero"]
    weights |= {WORDS: words * stored["vocabulary.scale"], POSITIONS: stored["positions"], TYPES: stored["types"]}
    if "projection.weight" in stored:
        weights["projection.weight"] = stored["projection.weight"].T
    for whole in stored:
        if whole.endswith(".matrix"):
            name = whole.removesuffix(".matrix")
            factors = stored.get(f"{inputs_of(name)}.smooth", np.float32(1))
            weights[f"{name}.weight"] = stored[whole].T * stored[f"{name}.scale"][:, None] * factors
    return {name: np.array(values, np.float32) for name, values in weights.items()}


# Parts of any.


def write_places(graph: Graph, positions: Matrix) -> None:
    """Add `placed`, the vectors of the places of a text's tokens."""
    graph.add("Shape", ["input_ids"], "count", start=1, end=2)
    known = [graph.keep("positions", positions), graph.keep("first", [0], np.int64), "count"]
    graph.add("Slice", known, "placed")


def write_norm(graph: Graph, read: str, name: str, weights: Weights, config: Mapping[str, Any]) -> str:
    """Add a normalization, and return its name."""
    given = [graph.keep(f"{name}.{part}", weights[f"{name}.{part}"]) for part in ("weight", "bias")]
    return graph.add("LayerNormalization", [read, *given], name, axis=-1, epsilon=config["layer_norm_eps"])


def write_layer(
    graph: Graph,
    layer: str,
    read: str,
    weights: Weights,
    config: Mapping[str, Any],
    greatest: Weights,
    keep_matrix: Keep,
) -> str:
    """Add a layer that reads `read`, and return the name of its result.

    Each product has the name of its matrix. `keep_matrix` stores NAME.matrix (inputs, outputs) in 8 bits and
    NAME.scale, by output, of a name, rows (outputs, inputs), and factors by which the inputs are multiplied before.
    """

    def smooth(given: str, *names: str) -> str:
        """Multiply the channels that some matrices read, and return the name of that."""
        most = np.max([np.abs(weights[f"{name}.weight"]).max(axis=0) for name in names], axis=0)
        factors = greatest[names[0]] ** -SMOOTHED * most ** (1 - SMOOTHED)
        factors *= np.mean(1 / factors)
        for name in names:
            keep_matrix(name, weights[f"{name}.weight"], factors)
        return graph.add("Mul", [given, graph.keep(f"{given}.smooth", factors)], f"{names[0]}.input")

    def multiply(given: str, name: str) -> str:
        """Multiply by a matrix, whose input is quantized by itself, and add the bias."""
        known = [given, f"{name}.matrix", f"{name}.scale", "", graph.keep(f"{name}.bias", weights[f"{name}.bias"])]
        return graph.add("DynamicQuantizeMatMul", known, name, domain=OWN)

    def plain(name: str) -> None:
        keep_matrix(name, weights[f"{name}.weight"], np.ones(weights[f"{name}.weight"].shape[1]))

    triple = [f"{layer}.{name}" for name in (QUERY, KEY, VALUE)]
    given = smooth(read, *triple)
    quantized = [f"{given}.{part}" for part in ("quantized", "scale", "zero")]
    graph.add("DynamicQuantizeLinear", [given], *quantized)
    for name in triple:
        matrix = [quantized[0], f"{name}.matrix", quantized[1], f"{name}.scale", quantized[2], ""]
        graph.add(
            "MatMulIntegerToFloat", [*matrix, graph.keep(f"{name}.bias", weights[f"{name}.bias"])], name, domain=OWN
        )
    heads = config["num_attention_heads"]
    graph.add("MultiHeadAttention", triple, f"{layer}.context", domain=OWN, num_heads=heads)

    # Not SkipLayerNormalization, which takes twice the time of its two parts, nor Add, which is made into it.
    plain(attended := f"{layer}.{ATTENDED}")
    graph.add("Sum", [multiply(f"{layer}.context", attended), read], f"{attended}.sum")
    middle = write_norm(graph, f"{attended}.sum", f"{layer}.attention.output.LayerNorm", weights, config)

    inner = f"{layer}.{INNER}"
    multiply(smooth(middle, inner), inner)
    active = graph.add("FastGelu", [inner], f"{layer}.active", domain=OWN)

    # A few tokens have values thirty times those of others: each is made as great as the others, and unmade behind.
    plain(outer := f"{layer}.{OUTER}")
    graph.add("ReduceMax", [active, graph.keep("last", [-1], np.int64)], f"{layer}.most", keepdims=1)
    graph.add("Div", [active, f"{layer}.most"], f"{layer}.even")
    graph.add(
        "DynamicQuantizeMatMul", [f"{layer}.even", f"{outer}.matrix", f"{outer}.scale"], f"{outer}.even", domain=OWN
    )
    graph.add("Mul", [f"{outer}.even", f"{layer}.most"], outer)
    graph.add("Sum", [outer, middle, graph.keep(f"{outer}.bias", weights[f"{outer}.bias"])], f"{outer}.sum")
    return write_norm(graph, f"{outer}.sum", f"{layer}.output.LayerNorm", weights, config)


def inputs_of(name: str) -> str:
    """Return the name of what a matrix multiplies, before it is made smoother or even.

    >>> inputs_of("encoder.layer.1.output.dense"), inputs_of("encoder.layer.1.attention.self.key")
    ('encoder.layer.1.active', 'encoder.layer.0.output.LayerNorm')
    """
    layer, number, part = LAYER.format(name.split(".")[2]), int(name.split(".")[2]), name.split(".", 3)[3]
    before = f"{LAYER.format(number - 1)}.output.LayerNorm" if number else "embeddings.LayerNorm"
    read = {ATTENDED: f"{layer}.context", INNER: f"{layer}.attention.output.LayerNorm", OUTER: f"{layer}.active"}
    return read.get(part, before)


def find_unit(rows: npt.NDArray[np.floating[Any]]) -> Matrix:
    """Return for each output what 1 of its 8 bits stands for: all of its weights fit, and so do neighbors together."""
    unit = np.abs(rows).max(axis=1) / GREATEST
    for sign in (1, -1):
        pairs = np.maximum(rows * sign, 0).reshape(len(rows), -1, 2).sum(axis=2)
        unit = np.maximum(unit, pairs.max(axis=1) / GREATEST_PAIR)
    found: Matrix = unit.astype(np.float32)
    return found


def find_greatest(model: Any, texts: Sequence[Mapping[str, Sequence[int]]]) -> Weights:  # noqa: ANN401 - of transformers
    """Return the greatest absolute value of each channel that the matrices of a model read.

    Args:
        model: transformers' BertModel.
        texts: what it is given of each: `input_ids`, and `token_type_ids` where they matter.
    """
    import torch

    greatest: dict[str, torch.Tensor] = {}

    def note(name: str, values: torch.Tensor) -> None:
        most = values.abs().flatten(0, -2).max(dim=0).values
        greatest[name] = torch.maximum(greatest.get(name, most), most)

    def watch() -> Iterator[Any]:
        for name, module in model.named_modules():
            if isinstance(module, torch.nn.Linear):
                yield module.register_forward_pre_hook(lambda _, given, name=name: note(name, given[0]))

    watches = [*watch()]
    with torch.no_grad():
        for text in texts:
            model(**{name: torch.tensor([values]) for name, values in text.items()})
    for one in watches:
        one.remove()
    return {name: values.clamp(min=1e-5).numpy() for name, values in greatest.items()}
