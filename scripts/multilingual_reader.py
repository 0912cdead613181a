"""Teach sections-multilingual-1 to read a question and a unit of a section together, and to say whether that answers.

    uv run scripts/multilingual_reader.py compare EXAMPLES.jsonl.gz DATA...
    uv run --extra training scripts/multilingual_reader.py learn RUN FOLDER --start START --examples EXAMPLES.jsonl.gz
    uv run --extra training scripts/multilingual_reader.py write RUN FOLDER

START and FOLDER are those of `scripts/multilingual.py`, whose `teach` comes before; where FOLDER reads already, `learn`
goes on from what it has, and `write` puts the new in its place. DATA are folders that
`scripts/reader_data.py` reads, made by `scripts/training_data.py`. `compare` puts each question beside units of its own
section and of others of its corpus that are near by the bundled model's vectors. Where the lines that answer are known,
these are right; of other questions, in other languages than English or about documents in these, one of the section's
best units is.

The weights of the encoder stay what they are: the reader has additions of low rank of its own (LoRA), switched on by
the type of the question's tokens. It is learned as the English one is (`scripts/train_reader.py`): by soft-max over the
logits of a question's units and a zero that stands for "no answer"; of some questions what answers is left out.
"""

import gzip
import json
import math
import random
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import click
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from pageindex.node import Unit, UnitKind
from retriever.embedding.encoder import BUNDLED_MODELS
from retriever.embedding.onnx import ASKED_TYPE, MODEL_NAME, READ_TYPE, ModelCard, OnnxEncoder
from retriever.lexical.tokens import tokenize_unit
from scripts.bert_graph import HIDDEN, LOGITS, Graph, Weights
from scripts.multilingual import ABROAD, MEASURED, MEASURED_ACROSS, PAD, TAUGHT_TOKENS, adapt, find_group, write_hashes
from scripts.multilingual_graph import add_adapters, move_large, read_adapters, replace_adapters, replace_constants
from scripts.reader_data import TRAINING, ask, cut, is_marked, measure_rarity, name, read_data, read_rows

if TYPE_CHECKING:
    import torch

# Of `compare`: questions of a corpus, and of its sections those without any.
MOST_QUESTIONS, OTHER_SECTIONS = 480, 100
# Sections that are near, units of each; right units of a section, and wrong ones.
RIVALS, OF_RIVAL, RIGHT, WRONG = 5, 2, 4, 6
# Of `learn`. From which layer on something is added, and the width of the head.
FROM_LAYER, HEAD = 4, 32
LEARNING_RATE, OF_HEAD, WARM_UP, QUESTIONS = 1e-3, 5, 10, 16
ABROAD_SHARE, LEFT_OUT = 0.45, 0.15
DRAWN_RIGHT, DRAWN_WRONG, DRAWN_RIVALS = 2, 2, 2  # units of a question in a step
FILL = 32  # texts are filled up to a multiple of it: oneDNN compiles each length anew
REPORT_S = 120.0
STATE, HALFWAY = "state.pt", "halfway.pt"


@dataclass(frozen=True, slots=True)
class Example:
    """A question beside texts of units that answer and that do not."""

    group: str
    """Of its section, as `scripts.multilingual.find_group` names it."""
    question: str
    known: bool
    """Whether each of `right` answers; else one of them does."""
    right: list[str]
    wrong: list[str]
    """Of the same section."""
    rivals: list[str]
    """Of others."""

    @property
    def is_abroad(self) -> bool:
        """Return whether the question or its section is in another language than English."""
        return not self.known or self.group.startswith("abroad")


@click.group()
def main() -> None:
    """Teach the multilingual model to read."""


# Examples.


@main.command()
@click.argument("examples", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("data", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
def compare(examples: Path, data: Sequence[Path]) -> None:
    """Write EXAMPLES of each DATA."""
    sections, groups = read_questions(data)
    encoder = OnnxEncoder(BUNDLED_MODELS["multilingual"])
    with gzip.open(examples, "wt", encoding="utf-8") as file:
        for group, rows in groups.items():
            chance = random.Random(group)
            questions = chance.sample(rows, min(MOST_QUESTIONS, len(rows)))
            named = {row["section"] for row in questions}
            own = [section for key, section in sections.items() if find_group(key) == group]
            rest = [section for section in own if section["id"] not in named]
            others = chance.sample(rest, min(OTHER_SECTIONS, len(rest)))
            compared = [*(section for section in own if section["id"] in named), *others]
            for example in compare_group(group, questions, compared, encoder):
                file.write(json.dumps(asdict(example), ensure_ascii=False) + "\n")
            print(group, len(questions), flush=True)


def read_questions(data: Sequence[Path]) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Return the sections by their ids, and the questions of each group that is learned."""
    sections, rows = read_data(data)
    asked = [row | {"known": True} for row in rows]
    for path in sorted(TRAINING.glob("questions/*.jsonl")):
        own = (row for row in read_rows(path) if row["section"].startswith((ABROAD, "abroad-")))
        asked += [row | {"known": row["style"] == "unanswerable", "kind": "none"} for row in own]
    across = (row for row in read_rows(TRAINING / "across.jsonl") if row["language"] not in MEASURED_ACROSS)
    asked += [row | {"known": False, "kind": "other"} for row in across]
    groups = defaultdict(list)
    for row in asked:
        if row["section"] in sections and (group := find_group(row["section"])) not in MEASURED:
            groups[group].append(row)
    return sections, groups


def compare_group(group: str, rows: Sequence[Any], sections: Sequence[Any], encoder: OnnxEncoder) -> Iterator[Example]:
    """Yield the examples of a group."""
    # What is near is found by what a section begins with: that is soon done, and near enough for a rival.
    opened = [f"{' > '.join(section['crumb'])}\n{section['text'][:600]}" for section in sections]
    vectors = encoder.encode_documents([encoder._tokens.cut(text, TAUGHT_TOKENS) for text in opened])
    asked = encoder.encode_queries([row["question"] for row in rows])
    rarity = measure_rarity([section["text"] for section in sections])
    places = {section["id"]: place for place, section in enumerate(sections)}
    units = [cut(section) for section in sections]
    held = [[set(tokenize_unit(unit.in_full, ())) for unit in own] for own in units]
    for row, vector in zip(rows, asked, strict=True):
        words = ask(row["question"], rarity).rarity

        def order(place: int, words: Any = words) -> list[Unit]:  # noqa: ANN401 - as `ask` gives them
            shared = [sum(words.get(word, 0.0) for word in own) for own in held[place]]
            return [units[place][unit] for unit in sorted(range(len(shared)), key=lambda unit: -shared[unit])]

        own = places[row["section"]]
        near = np.argsort(-(vectors @ vector))[: RIVALS + 1]
        body = sections[own]["text"].strip()
        rivals = [
            name(sections[place], unit)
            for place in near.tolist()
            if sections[place]["text"].strip() != body
            for unit in order(place)[:OF_RIVAL]
        ]
        right, wrong = part_units(row, sections[own], order(own))
        if right or row["kind"] == "none":
            yield Example(group, row["question"], row["known"], right[:RIGHT], wrong[:WRONG], rivals)


def part_units(row: Any, section: Any, units: Sequence[Unit]) -> tuple[list[str], list[str]]:  # noqa: ANN401 - of JSON
    """Return the texts of a section's units that answer, and of those that do not; a whole list is right or nothing."""
    if not row["known"]:
        return [name(section, unit) for unit in units], []
    right, wrong = list[str](), list[str]()
    for unit in units:
        answers = row["kind"] != "none" and is_marked(row, section, unit.span)
        if unit.kind is not UnitKind.LIST or (answers and row["kind"] == "list"):
            (right if answers else wrong).append(name(section, unit))
    return right, wrong


# Learning.


class Reader:
    """The encoder with what is learned."""

    def __init__(self, start: Path) -> None:
        import torch
        from transformers import AutoModel

        torch.manual_seed(1)
        self.model = AutoModel.from_pretrained(start, add_pooling_layer=False, local_files_only=True).eval()
        self.encoder = OnnxEncoder(BUNDLED_MODELS["multilingual"])
        adapters = adapt(self.model, FROM_LAYER)
        self.learned = {f"{name}.down": down for name, (down, _) in adapters.items()}
        self.learned |= {f"{name}.up": up for name, (_, up) in adapters.items()}
        size = self.model.config.hidden_size
        self.learned |= {
            "head.down": (torch.randn(size, HEAD) / math.sqrt(size)).requires_grad_(),
            "head.bias": torch.zeros(HEAD).requires_grad_(),
            "head.up": (0.02 * torch.randn(HEAD)).requires_grad_(),
            "head.alike": torch.zeros(size).requires_grad_(),
            "head.zero": torch.zeros(1).requires_grad_(),
        }

    def go_on(self, path: Path) -> None:
        """Begin with what the model at a path has learned."""
        import torch

        known = read_head(path)
        for matrix, pair in read_adapters(path, str(ASKED_TYPE)).items():
            known |= dict(zip((f"{matrix}.down", f"{matrix}.up"), pair, strict=True))
        for part, values in known.items():
            self.learned[part].data.copy_(torch.from_numpy(values))

    def fill(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Begin with a head whose inner values are spread about 0, and whose logit is how alike the two texts are."""
        import torch

        with torch.no_grad():
            (ids, asked), *_ = self._group(pairs).values()
            mean, alike = self._means(ids, asked)
            inner, likeness = mean @ self.learned["head.down"], alike.sum(1)
            self.learned["head.down"].data /= inner.std(0)
            self.learned["head.bias"].data -= inner.mean(0) / inner.std(0)
            self.learned["head.alike"].data += 1 / likeness.std()
            self.learned["head.zero"].data -= likeness.mean() / likeness.std() + 1

    def logits(self, pairs: Sequence[tuple[str, str]]) -> "torch.Tensor":
        """Return (n,) logits of questions and texts."""
        import torch

        found = torch.empty(len(pairs))
        for places, (ids, asked) in self._group(pairs).items():
            mean, alike = self._means(ids, asked)
            inner = torch.tanh(mean @ self.learned["head.down"] + self.learned["head.bias"])
            values = inner @ self.learned["head.up"] + alike @ self.learned["head.alike"] + self.learned["head.zero"]
            found = found.index_put((torch.tensor(places),), values)
        return found

    def _group(self, pairs: Sequence[tuple[str, str]]) -> dict[tuple[int, ...], tuple["torch.Tensor", "torch.Tensor"]]:
        """Return tokens, (n, t), and which are the question's, of pairs of about one length, by their places."""
        import torch

        read = [self.encoder.join(question, [text])[0] for question, text in pairs]
        lengths = defaultdict(list)
        for place, (ids, _) in enumerate(read):
            lengths[-(-len(ids) // FILL) * FILL].append(place)
        found = {}
        for length, places in lengths.items():
            tokens, asked = np.full((len(places), length), PAD), np.zeros((len(places), length), np.float32)
            for row, place in enumerate(places):
                ids, types = read[place]
                tokens[row, : len(ids)] = ids
                asked[row, : len(ids)] = np.equal(types, ASKED_TYPE)
            found[tuple(places)] = torch.from_numpy(tokens), torch.from_numpy(asked)
        return found

    def _means(self, ids: "torch.Tensor", asked: "torch.Tensor") -> tuple["torch.Tensor", "torch.Tensor"]:
        """Return (n, d): the mean of all tokens, and the product of the question's mean with the text's."""
        import torch

        mask = (ids != PAD).float()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            hidden = self.model(input_ids=ids, attention_mask=mask.long()).last_hidden_state.float()

        def mean(tokens: "torch.Tensor") -> "torch.Tensor":
            return (hidden * tokens[..., None]).sum(1) / tokens.sum(1, keepdim=True)

        return mean(mask), mean(asked) * mean(mask - asked)


@main.command()
@click.argument("run", type=click.Path(file_okay=False, path_type=Path))
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--start", required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--examples", required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--minutes", default=60.0, show_default=True)
def learn(run: Path, folder: Path, start: Path, examples: Path, minutes: float) -> None:
    """Learn in RUN; the same command goes on after an interruption."""
    import torch

    run.mkdir(parents=True, exist_ok=True)
    read = [Example(**row) for row in read_rows(examples)]
    sources = [[row for row in read if row.is_abroad == is_abroad] for is_abroad in (False, True)]
    reader, chance = Reader(start), random.Random(2)
    if ModelCard.read(folder).is_reader:
        reader.go_on(folder / MODEL_NAME)
    else:
        reader.fill([(row.question, row.rivals[0]) for row in chance.sample(read, 60) if row.rivals])
    parts = [[one for name, one in reader.learned.items() if name.startswith("head.") == own] for own in (False, True)]
    optimizer = torch.optim.AdamW([{"params": part} for part in parts], weight_decay=0.0)
    step, before, losses = 0, 0.0, list[float]()
    if (run / STATE).exists():
        state = torch.load(run / STATE)
        for name, values in state["learned"].items():
            reader.learned[name].data.copy_(values)
        optimizer.load_state_dict(state["optimizer"])
        step, before = state["step"], state["seconds"]
    limit, began, saved, chance = minutes * 60, monotonic() - before, before, random.Random(step)
    while (seconds := monotonic() - began) < limit:
        rate = LEARNING_RATE * min(1.0, (step + 1) / WARM_UP) * (1 - seconds / limit)
        optimizer.param_groups[0]["lr"], optimizer.param_groups[1]["lr"] = rate, rate * OF_HEAD  # the head is new
        losses.append(make_step(reader, optimizer, [draw(sources, chance) for _ in range(QUESTIONS)], chance))
        step += 1
        if seconds - saved > REPORT_S:
            if saved < limit / 2 <= seconds:
                save(run / HALFWAY, reader, optimizer, step, seconds)
            saved = seconds
            save(run / STATE, reader, optimizer, step, seconds)
            print(f"{step} steps, {seconds / 60:.0f} minutes, loss {np.mean(losses[-100:]):.3f}", flush=True)
    save(run / STATE, reader, optimizer, step, seconds)


def draw(sources: Sequence[Sequence[Example]], chance: random.Random) -> Example:
    """Return a question in English, or one abroad."""
    return chance.choice(sources[chance.random() < ABROAD_SHARE])


def save(path: Path, reader: Reader, optimizer: "torch.optim.Optimizer", step: int, seconds: float) -> None:
    """Write the run's state; an interruption leaves the one before."""
    import torch

    learned = {name: values.detach() for name, values in reader.learned.items()}
    state = {"learned": learned, "optimizer": optimizer.state_dict(), "step": step, "seconds": seconds}
    torch.save(state, path.with_suffix(".tmp"))
    path.with_suffix(".tmp").rename(path)


def make_step(
    reader: Reader, optimizer: "torch.optim.Optimizer", batch: Sequence[Example], chance: random.Random
) -> float:
    """Make one step, and return its loss."""
    import torch

    drawn = [draw_texts(example, chance) for example in batch]
    pairs = [
        (example.question, text)
        for example, (right, wrong) in zip(batch, drawn, strict=True)
        for text in (*right, *wrong)
    ]
    logits = reader.logits(pairs).split([len(right) + len(wrong) for right, wrong in drawn])
    losses = []
    for own, (right, _) in zip(logits, drawn, strict=True):
        whole = torch.cat([own, torch.zeros(1)]).logsumexp(0)
        losses.append(whole - own[: len(right)].logsumexp(0) if right else whole)
    loss = torch.stack(losses).mean()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_([*reader.learned.values()], 1.0)
    optimizer.step()
    return float(loss.detach())


def draw_texts(example: Example, chance: random.Random) -> tuple[list[str], list[str]]:
    """Return texts that answer, or of some questions none, and texts that do not."""

    def some(texts: Sequence[str], count: int) -> list[str]:
        return chance.sample(texts, min(count, len(texts)))

    right = some(example.right, DRAWN_RIGHT) if example.known else example.right
    wrong = [*some(example.wrong, DRAWN_WRONG), *some(example.rivals, DRAWN_RIVALS + (not example.known))]
    return ([] if wrong and chance.random() < LEFT_OUT else right), wrong


# What the program reads.


@main.command()
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def write(run: Path, folder: Path) -> None:
    """Write what RUN has learned, the mean of halfway and of its end, into the model of FOLDER."""
    import torch
    from onnx.numpy_helper import from_array

    card = ModelCard.read(folder)
    halfway, end = (torch.load(run / name)["learned"] for name in (HALFWAY, STATE))
    learned = {name: ((values + halfway[name]) / 2).numpy() for name, values in end.items()}
    names = sorted({name.rpartition(".")[0] for name in learned if not name.startswith("head.")})
    adapters = {one: (learned[f"{one}.down"], learned[f"{one}.up"]) for one in names}
    head = {name: values for name, values in learned.items() if name.startswith("head.")}
    if card.is_reader:
        replace_adapters(folder / MODEL_NAME, adapters, ASKED_TYPE)
        replace_constants(folder / MODEL_NAME, {name: from_array(values, name) for name, values in head.items()})
    else:
        add_adapters(folder / MODEL_NAME, adapters, ASKED_TYPE)
        add_head(folder / MODEL_NAME, head)
        move_large(folder)
    write_hashes(folder, replace(card, is_reader=True))


def read_head(path: Path) -> Weights:
    """Return the weights of the head of a model that reads."""
    import onnx

    model = onnx.load(path, load_external_data=False)
    found = (one for one in model.graph.initializer if one.name.startswith("head."))
    return {one.name: onnx.numpy_helper.to_array(one, str(path.parent)).copy() for one in found}


def add_head(path: Path, head: Weights) -> None:
    """Add the output of the logit: of the mean of all tokens, and of the product of both means, a number each."""
    import onnx
    from onnx import TensorProto, helper

    graph = Graph()
    for part, number in (("question", ASKED_TYPE), ("unit", READ_TYPE)):
        graph.add("Equal", ["token_type_ids", graph.keep(f"{part}.type", number, np.int64)], f"{part}.is")
        graph.add("Cast", [f"{part}.is"], f"{part}.tokens", to=TensorProto.FLOAT)
        graph.add("MatMul", [f"{part}.tokens", HIDDEN], f"{part}.sums")
        axis = graph.keep(f"{part}.axis", [1], np.int64)
        graph.add("ReduceSum", [f"{part}.sums", axis], f"{part}.sum", keepdims=0)
        graph.add("ReduceSum", [f"{part}.tokens", axis], f"{part}.count", keepdims=1)
        graph.add("Div", [f"{part}.sum", f"{part}.count"], f"{part}.mean")
    for own, values in head.items():
        graph.keep(own, values)
    graph.add("ReduceMean", [HIDDEN, graph.keep("tokens", [1], np.int64)], "mean", keepdims=0)
    graph.add("MatMul", ["mean", "head.down"], "head.lower")
    graph.add("Add", ["head.lower", "head.bias"], "head.biased")
    graph.add("Tanh", ["head.biased"], "head.inner")
    graph.add("MatMul", ["head.inner", "head.up"], "head.of_mean")
    graph.add("Mul", ["question.mean", "unit.mean"], "head.product")
    graph.add("MatMul", ["head.product", "head.alike"], "head.of_product")
    graph.add("Sum", ["head.of_mean", "head.of_product", "head.zero"], LOGITS)
    made = onnx.load(path, load_external_data=False)
    made.graph.node.extend(graph.nodes)
    made.graph.initializer.extend(graph.constants.values())
    made.graph.output.append(helper.make_tensor_value_info(LOGITS, TensorProto.FLOAT, None))
    path.write_bytes(made.SerializeToString())


if __name__ == "__main__":
    main()
