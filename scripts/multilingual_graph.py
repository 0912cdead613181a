"""The multilingual encoder as ONNX: `scripts/bert_graph.py`, with the 4 bits in which its weights came.

`weights.bin` has what is large, and is mapped, not copied. `layers.onnx` gives the matrices of the layers in 8 bits,
out of 4; the program runs it once and hands what it gives to `model.onnx`. Products in blocks of 4 bits took twice the
time. `english.onnx` does the same for texts in English, to which additions of low rank belong.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import numpy.typing as npt

from retriever.embedding.onnx import ENGLISH_NAME, LAYERS_NAME, MODEL_NAME, WEIGHTS_NAME
from scripts.bert_graph import (
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
Rounded = list[tuple[npt.NDArray[np.int8], Matrix]]  # of A and B: in 4 bits, and what 1 stands for

BLOCK = 32  # weights that share a scale
LARGE, ALIGNED = 1024, 64  # bytes
FILLED = (1.0, 0.9, 0.8, 0.7, 0.6)  # shares of the greatest value that 7 is tried to stand for
ROUNDED_UP = 1.0005  # by the half numbers that are near


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

    graph, layers, given = Graph(), Graph(), dict[str, tuple[int, tuple[int, ...]]]()

    def keep_matrix(name: str, rows: Matrix, factors: Factors) -> None:
        unpack(layers, name, rows, factors)
        given[f"{name}.matrix"] = TensorProto.INT8, rows.shape[::-1]
        given[f"{name}.scale"] = TensorProto.FLOAT, rows.shape[:1]

    read = write_embeddings(graph, weights, config, positions)
    for number in range(config["num_hidden_layers"]):
        read = write_layer(graph, LAYER.format(number), read, weights, config, greatest, keep_matrix)
    graph.add("Identity", [read], HIDDEN)
    for name, (kind, shape) in given.items():
        one = TensorProto(name=name, data_type=kind, dims=shape, data_location=TensorProto.EXTERNAL)
        one.external_data.add(key="location", value=LAYERS_NAME)
        graph.constants[name] = one
    graph.save(folder / MODEL_NAME, ["input_ids"], [HIDDEN])
    layers.save(folder / LAYERS_NAME, [], {name: kind for name, (kind, _) in given.items()})
    move_large(folder)


def move_large(folder: Path) -> None:
    """Move what is large in the graphs of a folder behind what is in weights.bin."""
    import onnx
    from onnx import TensorProto

    weights = folder / WEIGHTS_NAME
    large = bytearray(weights.read_bytes() if weights.exists() else b"")
    for path in folder.glob("*.onnx"):
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


def unpack(layers: Graph, name: str, rows: Matrix, factors: Factors) -> None:
    """Add what makes a matrix in 8 bits of 4, and its scale."""
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
    layers.add("QuantizeLinear", [f"{name}.float", *given], f"{name}.matrix", axis=0)
    layers.add("Identity", [layers.keep(f"{name}.unit", unit)], f"{name}.scale")


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
            rounded = round_low_rank(adapters[name])
            low = add_low_rank(added, meant, f"{name}.{token_type}", rounded, inputs_of(name))
            meant.add("Add", [name, low], f"{name}.{token_type}")
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


def add_low_rank(graph: Graph, branch: Graph, name: str, rounded: Rounded, given: str = "") -> str:
    """Add A and B in 4 bits to a graph, and to a branch what gives x A B, or A B; return the name of that.

    Each of the RANK columns of A has a scale, and so has each row of B: both scales are multiplied between them.
    """
    from onnx import TensorProto

    (down, of_down), (up, of_up) = rounded
    # Not DequantizeLinear: ONNX Runtime makes products of blocks of it, and misses what is kept outside of a branch.
    lower = branch.add("Cast", [keep_nibbles(graph, f"{name}.down", down)], f"{name}.lower", to=TensorProto.FLOAT)
    if given:
        lower = branch.add("MatMul", [given, lower], f"{name}.read")
    scaled = branch.add("Mul", [lower, graph.keep(f"{name}.scales", of_down * of_up.T)], f"{name}.scaled")
    upper = branch.add("Cast", [keep_nibbles(graph, f"{name}.up", up)], f"{name}.upper", to=TensorProto.FLOAT)
    return branch.add("MatMul", [scaled, upper], f"{name}.added")


def round_low_rank(adapter: tuple[Matrix, Matrix]) -> Rounded:
    """Return A and B as -8 to 7, and what 1 stands for in each column of A, (1, RANK), and row of B, (RANK, 1)."""
    found = []
    for rows, axis in zip(adapter, (0, 1), strict=True):
        greatest = np.maximum(np.abs(rows).max(axis=axis, keepdims=True), 1e-12)
        units = [part * greatest / 7 for part in FILLED]
        lost = [np.square(rows - unit * np.clip(np.round(rows / unit), -8, 7)).sum(axis) for unit in units]
        unit = np.take_along_axis(np.stack(units), np.expand_dims(np.argmin(lost, 0), (0, 1 + axis)), 0)[0]
        found.append((np.clip(np.round(rows / unit), -8, 7).astype(np.int8), unit.astype(np.float32)))
    return found


def read_adapters(path: Path, suffix: str) -> Adapters:
    """Return A and B of each matrix to which a graph adds such, as it has them in 4 bits; empty without the file."""
    import onnx

    if not path.exists():
        return {}
    model = onnx.load(path, load_external_data=False)
    ends = tuple(f".{suffix}.{part}" for part in ("down", "up", "scales"))
    stored = {
        one.name: onnx.numpy_helper.to_array(one, str(path.parent)).astype(np.float32)
        for one in model.graph.initializer
        if one.name.endswith(ends)
    }
    found = {}
    for name in {name.removesuffix(ends[0]) for name in stored if name.endswith(ends[0])}:
        down, up, scales = (stored[name + end] for end in ends)
        length = np.linalg.norm(down, axis=0) + 1e-6  # the columns of A have the length that they begin to learn with
        found[name] = down / length, up * (scales.reshape(-1) * length)[:, None]
    return found


def replace_adapters(path: Path, adapters: Adapters, token_type: int) -> None:
    """Write A and B into a graph in the place of those that `add_adapters` wrote."""
    made = Graph()
    for name, adapter in adapters.items():
        add_low_rank(made, Graph(), f"{name}.{token_type}", round_low_rank(adapter), inputs_of(name))
    replace_constants(path, made.constants)


def replace_constants(path: Path, constants: "Mapping[str, onnx.TensorProto]") -> None:
    """Write constants into a graph, or where it has moved them to, in the place of others of the same size."""
    import onnx

    model = onnx.load(path, load_external_data=False)
    with (path.parent / WEIGHTS_NAME).open("r+b") as weights:
        for one in model.graph.initializer:
            if made := constants.get(one.name):
                place = {item.key: int(item.value) for item in one.external_data if item.key != "location"}
                if place.get("length", len(one.raw_data)) != len(made.raw_data):
                    raise click.ClickException(f"{path.name} has {one.name} in another size")
                if place:
                    weights.seek(place["offset"])
                    weights.write(made.raw_data)
                else:
                    one.raw_data = made.raw_data
    path.write_bytes(model.SerializeToString())


def write_english(folder: Path, weights: Weights, adapters: Adapters) -> None:
    """Write what gives the matrices of the layers with what is added to them for texts in English, in 8 bits too.

    What was written so before is replaced.

    Args:
        folder: what `write_graph` wrote.
        weights: those that it wrote.
        adapters: A and B of each matrix that is changed.
    """
    import onnx
    from onnx import TensorProto

    model = onnx.load(folder / LAYERS_NAME, load_external_data=False)
    stored = {
        one.name: onnx.numpy_helper.to_array(one, str(folder))
        for one in model.graph.initializer
        if one.name.endswith((".unit", ".factors"))
    }
    rounded = {name: round_low_rank(adapter) for name, adapter in adapters.items()}
    added = Graph()
    for node in model.graph.node:
        name, _, part = node.output[0].rpartition(".")
        if name in adapters and part == "scale":
            down, up = (values * unit for values, unit in rounded[name])
            rows = weights[f"{name}.weight"] + (down @ up).T
            ratio = find_unit(rows / stored[f"{name}.factors"]) / stored[f"{name}.unit"]
            half = added.keep(f"{name}.ratio.half", ratio * ROUNDED_UP, np.float16)
            added.add("Cast", [half], f"{name}.ratio", to=TensorProto.FLOAT)
            added.add("Mul", [f"{name}.unit", f"{name}.ratio"], f"{name}.scale")
        elif name in adapters and part == "matrix":
            low = add_low_rank(added, added, f"{name}.own", rounded[name])
            parts = [
                added.add("Div", [f"{name}.float", f"{name}.ratio"], f"{name}.plain"),
                added.add("Div", [low, f"{name}.scale"], f"{name}.english"),
            ]
            added.add("Add", parts, f"{name}.sum")
            added.nodes.append(renamed(node, {f"{name}.float": f"{name}.sum"}))
        else:
            added.nodes.append(node)
    if (folder / ENGLISH_NAME).exists():
        replace_constants(folder / ENGLISH_NAME, added.constants)
        return
    del model.graph.node[:]
    model.graph.node.extend(added.nodes)
    model.graph.initializer.extend(added.constants.values())
    (folder / ENGLISH_NAME).write_bytes(model.SerializeToString())
    move_large(folder)


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
