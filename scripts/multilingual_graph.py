"""The multilingual encoder as ONNX, put together by hand: its layers come in 4 bits and are computed in 8.

Two files: `layers.onnx` gives the matrices of the layers in 8 bits, out of the 4 in which the weights came; the program
runs it once and hands what it gives to `model.onnx`. What the exporter of PyTorch and products in blocks of 4 bits gave
took twice the time.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import numpy.typing as npt

from retriever.embedding.onnx import LAYERS_NAME, MODEL_NAME

if TYPE_CHECKING:
    import onnx

Matrix = npt.NDArray[np.float32]
Weights = dict[str, Matrix]
Adapters = dict[str, tuple[Matrix, Matrix]]  # by the matrix: A and B

BLOCK = 32  # weights that share a scale
OWN = "com.microsoft"  # operators of ONNX Runtime's own
OPSET, IR_VERSION = 21, 10  # the first with numbers of 4 bits
LAYER = "encoder.layer.{}"
QUERY, KEY, VALUE = "attention.self.query", "attention.self.key", "attention.self.value"
ATTENDED, INNER, OUTER = "attention.output.dense", "intermediate.dense", "output.dense"
# Of two neighbors of one sign in a column. Products with two activations are added in 16 bits, without VNNI: 255 times
# 128 fits. (Signed weights take half the time of unsigned ones there.)
GREATEST_PAIR, GREATEST = 127.4, 127
# How much of the differences between the channels of an input its matrix takes over, so that 8 bits fit all of them
# (Xiao and others, "SmoothQuant: accurate and efficient post-training quantization for LLMs", 2023).
SMOOTHED = 0.65


def write_graph(folder: Path, weights: Weights, config: Mapping[str, Any], greatest: Weights, positions: int) -> None:
    """Write both files of a BERT model.

    Args:
        folder: is there.
        weights: by their names in transformers' BertModel, as the package held them in 4 bits.
        config: transformers' of the model.
        greatest: the greatest absolute value of each channel that a matrix reads, by the name of the matrix.
        positions: how many tokens of a text are read.
    """
    graph = Graph()
    read = write_embeddings(graph, weights, config, positions)
    layers = Graph()
    for number in range(config["num_hidden_layers"]):
        read = write_layer(graph, layers, LAYER.format(number), read, weights, config, greatest)
    graph.add("Identity", [read], "last_hidden_state")
    graph.save(folder / MODEL_NAME, {"input_ids": ("texts", "tokens")}, {"last_hidden_state": None})
    layers.save(folder / LAYERS_NAME, {}, dict.fromkeys(graph.elsewhere))


class Graph:
    """Nodes and constants while they are put together."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}
        self.elsewhere: dict[str, tuple[int, ...]] = {}
        """Shapes of the constants that `layers.onnx` gives."""

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

    def keep_nibbles(self, name: str, values: npt.NDArray[np.int8]) -> str:
        """Add a constant of 4 bits."""
        from onnx import TensorProto, helper

        self.constants[name] = helper.make_tensor(name, TensorProto.INT4, values.shape, join(values), raw=True)
        return name

    def save(self, path: Path, inputs: Mapping[str, Sequence[str]], outputs: Mapping[str, None]) -> None:
        """Write the file; inputs are whole numbers, and the shapes of outputs follow from the nodes."""
        from onnx import TensorProto, helper

        constants = list(self.constants.values())
        for name, shape in self.elsewhere.items():
            one = TensorProto(name=name, data_type=TensorProto.INT8, dims=shape, data_location=TensorProto.EXTERNAL)
            one.external_data.add(key="location", value=LAYERS_NAME)
            constants.append(one)
        kind = TensorProto.INT8 if not inputs else TensorProto.FLOAT
        graph = helper.make_graph(
            self.nodes,
            "encoder",
            [helper.make_tensor_value_info(name, TensorProto.INT64, axes) for name, axes in inputs.items()],
            [helper.make_tensor_value_info(name, kind, None) for name in outputs],
            constants,
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(OWN, 1)]
        made = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
        path.write_bytes(made.SerializeToString())


def write_embeddings(graph: Graph, weights: Weights, config: Mapping[str, Any], positions: int) -> str:
    """Add what makes vectors of numbers of pieces; types of tokens, all alike, are added to the positions."""
    from onnx import TensorProto

    nibbles, scales = pack(weights["embeddings.word_embeddings.weight"])
    stored = [
        graph.keep_nibbles("vocabulary", nibbles.reshape(len(nibbles), -1)),
        "input_ids",
        graph.keep("vocabulary.scales", scales, np.float16),
    ]
    options: dict[str, Any] = {"gather_axis": 0, "quantize_axis": 1, "block_size": BLOCK}
    graph.add("GatherBlockQuantized", stored, "pieces.half", domain=OWN, **options)
    graph.add("Cast", ["pieces.half"], "pieces", to=TensorProto.FLOAT)
    types = weights["embeddings.token_type_embeddings.weight"]
    graph.keep("positions", weights["embeddings.position_embeddings.weight"][:positions] + types[0])
    graph.add("Shape", ["input_ids"], "count", start=1, end=2)
    graph.add("Slice", ["positions", graph.keep("first", [0], np.int64), "count"], "placed")
    graph.add("Add", ["pieces", "placed"], "embeddings.sum")
    return write_norm(graph, "embeddings.sum", "embeddings.LayerNorm", weights, config)


def write_norm(graph: Graph, read: str, name: str, weights: Weights, config: Mapping[str, Any]) -> str:
    """Add a normalization, and return its name."""
    given = [graph.keep(f"{name}.{part}", weights[f"{name}.{part}"]) for part in ("weight", "bias")]
    return graph.add("LayerNormalization", [read, *given], name, axis=-1, epsilon=config["layer_norm_eps"])


def write_layer(
    graph: Graph,
    layers: Graph,
    layer: str,
    read: str,
    weights: Weights,
    config: Mapping[str, Any],
    greatest: Weights,
) -> str:
    """Add a layer that reads `read`, its matrices to `layers`, and return the name of its result.

    Each product has the name of its matrix.
    """

    def smooth(given: str, *names: str) -> str:
        """Multiply the channels that some matrices read, and return the name of that."""
        most = np.max([np.abs(weights[f"{name}.weight"]).max(axis=0) for name in names], axis=0)
        factors = greatest[names[0]] ** -SMOOTHED * most ** (1 - SMOOTHED)
        factors *= np.mean(1 / factors)
        for name in names:
            keep_matrix(graph, layers, name, weights[f"{name}.weight"], factors)
        return graph.add("Mul", [given, graph.keep(f"{names[0]}.smooth", factors)], f"{names[0]}.input")

    def multiply(given: str, name: str) -> str:
        """Multiply by a matrix, whose input is quantized by itself, and add the bias."""
        known = [given, f"{name}.matrix", f"{name}.scale", "", graph.keep(f"{name}.bias", weights[f"{name}.bias"])]
        return graph.add("DynamicQuantizeMatMul", known, name, domain=OWN)

    def plain(name: str) -> None:
        keep_matrix(graph, layers, name, weights[f"{name}.weight"], np.ones(weights[f"{name}.weight"].shape[1]))

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


def keep_matrix(graph: Graph, layers: Graph, name: str, rows: Matrix, factors: npt.NDArray[np.floating[Any]]) -> None:
    """Add to `layers` what makes a matrix (inputs, outputs) in 8 bits of 4, and to the graph its scale, by output.

    Args:
        graph: takes the scale.
        layers: takes the rest.
        name: of the matrix.
        rows: (outputs, inputs).
        factors: by which its inputs are multiplied before it.
    """
    from onnx import TensorProto

    nibbles, scales = pack(rows)
    unit = find_unit(rows / factors)
    relative = (scales.astype(np.float32) / unit[:, None]).T
    stored = [
        layers.keep_nibbles(f"{name}.nibbles", np.ascontiguousarray(nibbles.reshape(rows.shape).T)),
        layers.add("Cast", [layers.keep(f"{name}.half", relative, np.float16)], f"{name}.scales", to=TensorProto.FLOAT),
    ]
    layers.add("DequantizeLinear", stored, f"{name}.float", axis=0, block_size=BLOCK)
    given = [layers.keep(f"{name}.factors", factors), layers.keep(f"{name}.zeros", np.zeros(len(factors)), np.int8)]
    layers.add("QuantizeLinear", [f"{name}.float", *given], f"{name}.matrix", axis=0)
    graph.elsewhere[f"{name}.matrix"] = rows.shape[::-1]
    graph.keep(f"{name}.scale", unit)


def find_unit(rows: npt.NDArray[np.floating[Any]]) -> Matrix:
    """Return for each output what 1 of its 8 bits stands for: all of its weights fit, and so do neighbors together."""
    unit = np.abs(rows).max(axis=1) / GREATEST
    for sign in (1, -1):
        pairs = np.maximum(rows * sign, 0).reshape(len(rows), -1, 2).sum(axis=2)
        unit = np.maximum(unit, pairs.max(axis=1) / GREATEST_PAIR)
    found: Matrix = unit.astype(np.float32)
    return found


def add_adapters(path: Path, adapters: Adapters) -> None:
    """Write into the graph what questions add to products: a text, whose tokens have the type 0, does without it."""
    import onnx
    from onnx import TensorProto, helper

    graph = (made := onnx.load(path, load_external_data=False)).graph
    added = Graph()
    added.add("ReduceMax", ["token_type_ids"], "greatest.type", keepdims=0)
    added.add("Cast", ["greatest.type"], "is_question", to=TensorProto.BOOL)
    for node in graph.node:
        learned = [name for name in node.input if name in adapters]
        if not learned:
            added.nodes.append(node)
            continue
        (result,) = node.output
        text, question = Graph(), Graph()
        text.nodes.append(renamed(node, {result: f"{result}.text"}))
        for name in learned:
            for end, rows in zip(("down", "up"), adapters[name], strict=True):
                stored = added.keep(f"{name}.{end}", rows, np.float16)
                question.add("Cast", [stored], f"{stored}.float", to=TensorProto.FLOAT)
            question.add("MatMul", [inputs_of(name), f"{name}.down.float"], f"{name}.lower")
            question.add("MatMul", [f"{name}.lower", f"{name}.up.float"], f"{name}.added")
            question.add("Add", [name, f"{name}.added"], f"{name}.asked")
        question.nodes.append(renamed(node, {name: f"{name}.asked" for name in learned} | {result: f"{result}.asked"}))
        branches = {
            f"{word}_branch": helper.make_graph(
                part.nodes, word, [], [helper.make_tensor_value_info(part.nodes[-1].output[0], TensorProto.FLOAT, None)]
            )
            for word, part in (("then", question), ("else", text))
        }
        added.add("If", ["is_question"], result, **branches)
    del graph.node[:]
    graph.node.extend(added.nodes)
    graph.initializer.extend(added.constants.values())
    graph.input.append(helper.make_tensor_value_info("token_type_ids", TensorProto.INT64, ("texts", "tokens")))
    path.write_bytes(made.SerializeToString())


def renamed(node: "onnx.NodeProto", names: Mapping[str, str]) -> "onnx.NodeProto":
    """Return a copy of a node with other names of what goes in and out."""
    import onnx

    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    for part in (copy.input, copy.output):
        part[:] = [names.get(name, name) for name in part]
    return copy


def find_greatest(model: Any, texts: Sequence[Sequence[int]]) -> Weights:  # noqa: ANN401 - of transformers
    """Return the greatest absolute value of each channel that the matrices of a model read, over texts as tokens."""
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
        for ids in texts:
            model(input_ids=torch.tensor([ids]))
    for one in watches:
        one.remove()
    return {name: values.clamp(min=1e-5).numpy() for name, values in greatest.items()}


def join(nibbles: npt.NDArray[np.int8]) -> bytes:
    """Return numbers of 4 bits, two in a byte, the first in its lower half."""
    halves = (nibbles.reshape(-1) & 15).astype(np.uint8)
    return (halves[::2] | halves[1::2] << 4).tobytes()


def pack(rows: Matrix) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float16]]:
    """Return the weights as -8 to 7 and the scale of each block; the greatest of a block was stored as -8.

    Raises:
        click.ClickException: they were not made of such.
    """
    blocks = np.ascontiguousarray(rows).reshape(len(rows), -1, BLOCK)
    greatest = np.take_along_axis(blocks, np.abs(blocks).argmax(-1)[..., None], -1)
    scales = (greatest / -8).astype(np.float16)
    divided = np.divide(blocks, scales.astype(np.float32), out=np.zeros_like(blocks), where=scales != 0)
    nibbles = np.round(divided).astype(np.int8)
    if not np.array_equal(nibbles * scales.astype(np.float32), blocks):
        raise click.ClickException("the weights are not what the package held")
    return nibbles, scales[..., 0]
