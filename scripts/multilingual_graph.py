"""The multilingual encoder as ONNX: `scripts/bert_graph.py`, with the 4 bits in which its weights came.

Three files: `weights.bin` has what is large, and is mapped, not copied. `layers.onnx` gives the matrices of the layers
in 8 bits, out of 4; the program runs it once and hands what it gives to `model.onnx`. Products in blocks of 4 bits took
twice the time.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import numpy.typing as npt

from retriever.embedding.onnx import LAYERS_NAME, MODEL_NAME, WEIGHTS_NAME
from scripts.bert_graph import (
    GREATEST,
    HIDDEN,
    LAYER,
    OWN,
    POSITIONS,
    TYPES,
    WORDS,
    Factors,
    Graph,
    Matrix,
    Weights,
    find_unit,
    inputs_of,
    write_layer,
    write_norm,
    write_places,
)

if TYPE_CHECKING:
    import onnx

Adapters = dict[str, tuple[Matrix, Matrix]]  # by the matrix: A and B

BLOCK = 32  # weights that share a scale
LARGE, ALIGNED = 1024, 64  # bytes


def write_graph(folder: Path, weights: Weights, config: Mapping[str, Any], greatest: Weights, positions: int) -> None:
    """Write the files of a BERT model.

    Args:
        folder: is there.
        weights: by their names in transformers' BertModel, as the package held them in 4 bits.
        config: transformers' of the model.
        greatest: the greatest absolute value of each channel that a matrix reads, by the name of the matrix.
        positions: how many tokens of a text are read.
    """
    from onnx import TensorProto

    graph, layers, matrices = Graph(), Graph(), list[str]()

    def keep_matrix(name: str, rows: Matrix, factors: Factors) -> None:
        matrices.append(unpack(graph, layers, name, rows, factors))
        one = TensorProto(data_type=TensorProto.INT8, dims=rows.shape[::-1], data_location=TensorProto.EXTERNAL)
        one.name = matrices[-1]
        one.external_data.add(key="location", value=LAYERS_NAME)
        graph.constants[one.name] = one

    read = write_embeddings(graph, weights, config, positions)
    for number in range(config["num_hidden_layers"]):
        read = write_layer(graph, LAYER.format(number), read, weights, config, greatest, keep_matrix)
    graph.add("Identity", [read], HIDDEN)
    graph.save(folder / MODEL_NAME, ["input_ids"], [HIDDEN])
    layers.save(folder / LAYERS_NAME, [], matrices, TensorProto.INT8)
    move_large(folder)


def move_large(folder: Path) -> None:
    """Move what is large in both graphs behind what is in weights.bin."""
    import onnx
    from onnx import TensorProto

    weights = folder / WEIGHTS_NAME
    large = bytearray(weights.read_bytes() if weights.exists() else b"")
    for path in (folder / MODEL_NAME, folder / LAYERS_NAME):
        model = onnx.load(path, load_external_data=False)
        for one in model.graph.initializer:
            if len(one.raw_data) >= LARGE:
                large.extend(bytes(-len(large) % ALIGNED))
                place = {"location": WEIGHTS_NAME, "offset": len(large), "length": len(one.raw_data)}
                for key, value in place.items():
                    one.external_data.add(key=key, value=str(value))
                large.extend(one.raw_data)
                one.ClearField("raw_data")
                one.data_location = TensorProto.EXTERNAL
        path.write_bytes(model.SerializeToString())
    weights.write_bytes(large)


def write_embeddings(graph: Graph, weights: Weights, config: Mapping[str, Any], positions: int) -> str:
    """Add what makes vectors of numbers of pieces; types of tokens, all alike, are added to the positions."""
    from onnx import TensorProto

    nibbles, scales = pack(weights[WORDS])
    stored = [
        keep_nibbles(graph, "vocabulary", nibbles.reshape(len(nibbles), -1)),
        "input_ids",
        graph.keep("vocabulary.scales", scales, np.float16),
    ]
    options: dict[str, Any] = {"gather_axis": 0, "quantize_axis": 1, "block_size": BLOCK}
    graph.add("GatherBlockQuantized", stored, "pieces.half", domain=OWN, **options)
    graph.add("Cast", ["pieces.half"], "pieces", to=TensorProto.FLOAT)
    write_places(graph, weights[POSITIONS][:positions] + weights[TYPES][0])
    graph.add("Add", ["pieces", "placed"], "embeddings.sum")
    return write_norm(graph, "embeddings.sum", "embeddings.LayerNorm", weights, config)


def unpack(graph: Graph, layers: Graph, name: str, rows: Matrix, factors: Factors) -> str:
    """Add to `layers` what makes a matrix in 8 bits of 4, to the graph its scale; return the name of the matrix."""
    from onnx import TensorProto

    nibbles, scales = pack(rows)
    unit = find_unit(rows / factors)
    relative = (scales.astype(np.float32) / unit[:, None]).T
    stored = [
        keep_nibbles(layers, f"{name}.nibbles", np.ascontiguousarray(nibbles.reshape(rows.shape).T)),
        layers.add("Cast", [layers.keep(f"{name}.half", relative, np.float16)], f"{name}.scales", to=TensorProto.FLOAT),
    ]
    layers.add("DequantizeLinear", stored, f"{name}.float", axis=0, block_size=BLOCK)
    given = [layers.keep(f"{name}.factors", factors), layers.keep(f"{name}.zeros", np.zeros(len(factors)), np.int8)]
    graph.keep(f"{name}.scale", unit)
    return layers.add("QuantizeLinear", [f"{name}.float", *given], f"{name}.matrix", axis=0)


def keep_nibbles(graph: Graph, name: str, values: npt.NDArray[np.int8]) -> str:
    """Add a constant of 4 bits."""
    from onnx import TensorProto, helper

    graph.constants[name] = helper.make_tensor(name, TensorProto.INT4, values.shape, join(values), raw=True)
    return name


def add_adapters(path: Path, adapters: Adapters, token_type: int) -> None:
    """Write into the graph what is added to products where tokens have a type; texts of the type 0 do without it."""
    import onnx
    from onnx import TensorProto, helper

    graph = (made := onnx.load(path, load_external_data=False)).graph
    added, is_meant = Graph(), f"is_type.{token_type}"
    if all(item.name != "token_type_ids" for item in graph.input):
        graph.input.append(helper.make_tensor_value_info("token_type_ids", TensorProto.INT64, ("texts", "tokens")))
        added.add("ReduceMax", ["token_type_ids"], "greatest.type", keepdims=0)
    else:  # in the order in which they are computed
        added.nodes.append(next(node for node in graph.node if node.output[0] == "greatest.type"))
        graph.node.remove(added.nodes[0])
    added.add("Equal", ["greatest.type", added.keep(f"{is_meant}.number", token_type, np.int64)], is_meant)
    for node in graph.node:
        text = find_text_node(node)
        learned = [name for name in text.input if name in adapters]
        if not learned:
            added.nodes.append(node)
            continue
        (result,) = node.output
        own = f"{result}.{token_type}"
        meant = Graph()
        for name in learned:
            down, up = (
                keep_bytes(added, meant, f"{name}.{token_type}.{end}", rows)
                for end, rows in zip(("down", "up"), adapters[name], strict=True)
            )
            meant.add("MatMul", [inputs_of(name), down], f"{name}.{token_type}.lower")
            meant.add("MatMul", [f"{name}.{token_type}.lower", up], f"{name}.{token_type}.added")
            meant.add("Add", [name, f"{name}.{token_type}.added"], f"{name}.{token_type}")
        meant.nodes.append(renamed(text, {name: f"{name}.{token_type}" for name in learned} | {text.output[0]: own}))
        others = [renamed(node, {result: f"{result}.not.{token_type}"})]
        branches = {
            f"{word}_branch": helper.make_graph(
                nodes, word, [], [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)]
            )
            for word, nodes in (("then", meant.nodes), ("else", others))
        }
        added.add("If", [is_meant], result, **branches)
    del graph.node[:]
    graph.node.extend(added.nodes)
    graph.initializer.extend(added.constants.values())
    path.write_bytes(made.SerializeToString())


def keep_bytes(graph: Graph, branch: Graph, name: str, rows: Matrix) -> str:
    """Add a matrix in 8 bits to a graph, and what makes it of them to a branch; return the name of that."""
    from onnx import TensorProto

    # Not DequantizeLinear: ONNX Runtime makes products of blocks of it, and misses what is kept outside of a branch.
    unit = np.maximum(np.abs(rows).max(axis=0), 1e-12) / GREATEST
    stored = graph.keep(f"{name}.bytes", np.round(rows / unit), np.int8)
    whole = branch.add("Cast", [stored], f"{name}.whole", to=TensorProto.FLOAT)
    return branch.add("Mul", [whole, graph.keep(f"{name}.unit", unit)], name)


def find_text_node(node: "onnx.NodeProto") -> "onnx.NodeProto":
    """Return what computes a result for texts, of a node or of those that are chosen between."""
    while node.op_type == "If":
        node = next(item.g for item in node.attribute if item.name == "else_branch").node[-1]
    return node


def renamed(node: "onnx.NodeProto", names: Mapping[str, str]) -> "onnx.NodeProto":
    """Return a copy of a node with other names of what goes in and out."""
    import onnx

    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    for part in (copy.input, copy.output):
        part[:] = [names.get(name, name) for name in part]
    return copy


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
