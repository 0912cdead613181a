"""Train a small cross-encoder, the reader: it reads a question and a unit of a section, and says whether that answers.

    uv run --extra training scripts/train_reader.py train RUN --base MODEL --examples EXAMPLES --minutes 60
    uv run --extra training scripts/train_reader.py export RUN FOLDER --examples EXAMPLES
    uv run --extra training scripts/train_reader.py measure FOLDER --examples EXAMPLES

EXAMPLES is what `scripts/reader_data.py` wrote; the documentations that it holds out are not learned, `measure` asks
for them. MODEL is a folder of the BERT kind in float32, of which the lower layers are kept. RUN holds settings.json,
curve.jsonl, and state.pt, from which the same command goes on after an interruption. A GPU is used where there is one.

The input is `[CLS] question [SEP] titles: unit [SEP]`, the output one logit: the mean of the last layer, a tanh layer,
a number. It is learned by soft-max over the logits of an example's units and a zero that stands for "no answer". So
a unit answers if its logit is above zero, and exp(logit) / (1 + the sum of exp(logits)) is its probability. Of some
examples the unit that answers is left out: that leaves a near miss, and the zero is right.
"""

import json
import random
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from time import monotonic

import click
import numpy as np
import torch  # noqa: TID253 - the script is of no use without it
from tokenizers import Tokenizer
from torch import Tensor  # noqa: TID253
from transformers import AutoModel

sys.path.insert(0, str(Path(__file__).parents[1]))

from scripts.bert_graph import find_greatest, read_weights, write_reader
from scripts.reader_data import HELD_OUT, Candidate, Example, read_rows

MAX_TOKENS = 128  # of question and unit together
MAX_QUESTION = 300  # characters
FILL = 32  # texts are filled up to a multiple of it: oneDNN compiles each length anew
SHARES = {"lines": 0.93, "terms": 0.07}  # of the examples of a step
LEFT_OUT = 0.12  # so often the units that answer are left out
WRONG, HARD, OTHERS = 2, 8, 3  # wrong units of the section, among the likeliest; units of other sections
REPORT_S = 90.0
MEASURED = 300  # examples on which activations are measured
INPUTS = ("input_ids", "token_type_ids")

Score = Callable[[str, Sequence[str]], np.ndarray]


@click.group()
def main() -> None:
    """Train a reader, measure it, export it."""


class Model(torch.nn.Module):  # type: ignore[misc] # its types come with the extra
    """The lower layers of a BERT, the mean of its last layer, and a head of one number."""

    def __init__(self, base: str, layers: int) -> None:
        super().__init__()
        self.bert = AutoModel.from_pretrained(
            base,
            num_hidden_layers=layers,
            hidden_dropout_prob=0.05,
            attention_probs_dropout_prob=0.0,
            add_pooling_layer=False,
            attn_implementation="eager",  # a third faster than PyTorch's own on a CPU, in bf16
            local_files_only=True,
        )
        size = self.bert.config.hidden_size
        self.head = torch.nn.Sequential(torch.nn.Linear(size, size), torch.nn.Tanh(), torch.nn.Linear(size, 1))

    def forward(self, ids: Tensor, mask: Tensor, types: Tensor) -> Tensor:
        """Map token numbers, mask and types, each (n, t), to (n,) logits."""
        hidden = self.bert(input_ids=ids, attention_mask=mask, token_type_ids=types).last_hidden_state
        weights = mask.unsqueeze(-1).to(hidden.dtype)
        logits: Tensor = self.head((hidden * weights).sum(1) / weights.sum(1))[:, 0]
        return logits


class Reader:
    """The model with its tokenizer."""

    def __init__(self, base: str, layers: int) -> None:
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = Model(base, layers).to(self.device)
        self.tokenizer = Tokenizer.from_file(str(Path(base) / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(MAX_TOKENS, strategy="only_second")

    @classmethod
    def of_run(cls, run: Path) -> "Reader":
        """Return the reader of a run, to be used."""
        settings = json.loads((run / "settings.json").read_text())
        reader = cls(settings["base"], settings["layers"])
        reader.model.load_state_dict(torch.load(run / "state.pt", map_location=reader.device)["model"])
        reader.model.eval()
        return reader

    def logits(self, pairs: Sequence[tuple[str, str]]) -> Tensor:
        """Return (n,) logits of questions and texts; those of about one length are read together."""
        read = self.tokenizer.encode_batch([(question[:MAX_QUESTION], text) for question, text in pairs])
        groups = defaultdict(list)
        for place, one in enumerate(read):
            groups[-(-len(one) // FILL) * FILL].append(place)
        found: list[Tensor] = [torch.empty(0)] * len(pairs)
        for length, places in groups.items():
            arrays = np.zeros((3, len(places), length), np.int64)
            for row, place in enumerate(places):
                one = read[place]
                arrays[:, row, : len(one)] = one.ids, one.attention_mask, one.type_ids
            with torch.autocast(self.device.type, dtype=torch.bfloat16):
                values = self.model(*torch.from_numpy(arrays).to(self.device)).float()
            for place, value in zip(places, values, strict=True):
                found[place] = value
        return torch.stack(found)


@main.command()
@click.argument("run", type=click.Path(file_okay=False, path_type=Path))
@click.option("--base", required=True, type=click.Path(exists=True, file_okay=False))
@click.option("--examples", required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--minutes", default=60.0, show_default=True)
@click.option("--layers", default=4, show_default=True)
@click.option("--questions", default=8, show_default=True, help="In a step.")
@click.option("--learning-rate", default=8e-5, show_default=True)
@click.option("--start", type=click.Path(exists=True, path_type=Path), help="An exported reader to begin with.")
@click.option("--learn-all", is_flag=True, help="The held-out documentations too.")
def train(run: Path, examples: Path, *, start: Path | None, learn_all: bool, **chosen: float | str) -> None:
    """Train, or go on with, the RUN."""
    run.mkdir(parents=True, exist_ok=True)
    (run / "settings.json").write_text(json.dumps(chosen | {"learn_all": learn_all}, indent=2) + "\n")
    torch.manual_seed(1)
    torch.set_num_threads(1)
    sources: dict[str, list[Example]] = {source: [] for source in SHARES}
    for example in read_examples(examples):
        if learn_all or example.corpus not in HELD_OUT:
            sources[example.source].append(example)
    print({source: len(found) for source, found in sources.items()}, flush=True)
    reader = Reader(str(chosen["base"]), int(chosen["layers"]))
    if start:
        load_exported(reader.model, start / "model.onnx")
    # Three fifths of the weights: some thousand questions spoil them.
    reader.model.bert.embeddings.requires_grad_(False)
    parts = [[*reader.model.bert.encoder.parameters()], [*reader.model.head.parameters()]]
    optimizer = torch.optim.AdamW([{"params": part} for part in parts], weight_decay=0.01)
    step, before = 0, 0.0
    if (run / "state.pt").exists():
        state = torch.load(run / "state.pt", map_location=reader.device)
        reader.model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step, before = state["step"], state["seconds"]
    losses: list[float] = []
    limit, began, saved = float(chosen["minutes"]) * 60, monotonic() - before, before
    while (seconds := monotonic() - began) < limit:
        rate = float(chosen["learning_rate"]) * min(1.0, (step + 1) / 40) * (1 - seconds / limit)
        optimizer.param_groups[0]["lr"], optimizer.param_groups[1]["lr"] = rate, rate * 6  # the head is new
        chance = random.Random(step)
        drawn = chance.choices(list(sources), [SHARES[source] for source in sources], k=int(chosen["questions"]))
        losses.append(learn(reader, optimizer, [chance.choice(sources[source]) for source in drawn], chance))
        step += 1
        if seconds - saved > REPORT_S:
            saved = seconds
            save(run, reader, optimizer, step, seconds)
            line = {"step": step, "minutes": round(seconds / 60, 1), "loss": round(float(np.mean(losses[-100:])), 4)}
            with (run / "curve.jsonl").open("a") as curve:
                curve.write(json.dumps(line) + "\n")
    save(run, reader, optimizer, step, seconds)


def load_exported(model: Model, path: Path) -> None:
    """Fill a model with the weights of an exported one, as exact as int8 holds them."""
    weights = read_weights(path)
    known = {name: weights[name.removeprefix("bert.")] for name in model.state_dict()}
    model.load_state_dict({name: torch.from_numpy(values) for name, values in known.items()})


def read_examples(path: Path) -> Iterator[Example]:
    """Yield the examples that can be learned or measured."""
    for row in read_rows(path):
        example = Example(**row | {"units": [Candidate(**unit) for unit in row["units"]]})
        if example.kind == "none" or example.also or any(unit.answers for unit in example.units):
            yield example


def save(run: Path, reader: Reader, optimizer: "torch.optim.Optimizer", step: int, seconds: float) -> None:
    """Write the run's state; an interruption leaves the one before."""
    state = {"model": reader.model.state_dict(), "optimizer": optimizer.state_dict(), "step": step, "seconds": seconds}
    torch.save(state, run / "state.tmp")
    (run / "state.tmp").rename(run / "state.pt")


def learn(reader: Reader, optimizer: "torch.optim.Optimizer", batch: Sequence[Example], chance: random.Random) -> float:
    """Make one step, and return its loss."""
    drawn = [draw_texts(example, chance) for example in batch]
    pairs = [
        (example.question, text)
        for example, (right, wrong) in zip(batch, drawn, strict=True)
        for text in (*right, *wrong)
    ]
    reader.model.train()
    logits = reader.logits(pairs).split([len(right) + len(wrong) for right, wrong in drawn])
    losses = [answer_loss(own[: len(right)], own[len(right) :]) for own, (right, _) in zip(logits, drawn, strict=True)]
    loss = torch.stack(losses).mean()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(reader.model.parameters(), 1.0)
    optimizer.step()
    return float(loss.detach())


def draw_texts(example: Example, chance: random.Random) -> tuple[list[str], list[str]]:
    """Return texts that answer and texts that do not: some likely ones of the section, another, some of others."""
    right = [unit.text for unit in example.units if unit.answers] + example.also
    # A whole list is wrong where one of its items is asked for: that is learned from few of them, they are long.
    wrong = [
        unit.text
        for unit in sorted(example.units, key=lambda unit: -unit.score)
        if not unit.answers and (not unit.is_list or example.kind == "list" or chance.random() < 0.2)
    ]
    chosen = chance.sample(wrong[:HARD], min(WRONG, len(wrong)))
    chosen += chance.sample(rest, 1) if (rest := [text for text in wrong if text not in chosen]) else []
    if example.source == "lines" and chance.random() < LEFT_OUT:
        right = []
    chosen += chance.sample(example.others, min(OTHERS, len(example.others)))
    return chance.sample(right, min(2, len(right))), chosen


def answer_loss(right: Tensor, wrong: Tensor) -> Tensor:
    """Return the cross-entropy of an example's logits beside a zero; each that answers against all that do not."""
    none = torch.cat([wrong, wrong.new_zeros(1)])
    if not len(right):
        return none.logsumexp(0)  # the zero is right
    return (torch.cat([right[:, None], none.expand(len(right), -1)], 1).logsumexp(1) - right).mean()


@main.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--examples", required=True, type=click.Path(exists=True, path_type=Path))
def measure(folder: Path, examples: Path) -> None:
    """Print how often the right unit of its section comes first in the held-out documentations, and near misses known.

    It asks the exported model in FOLDER.
    """
    score = open_exported(folder)
    held_out = [one for one in read_examples(examples) if one.corpus in HELD_OUT and one.source == "lines"]
    print(summarise([(example.kind, *read_example(example, score)) for example in held_out]))


def open_exported(folder: Path) -> Score:
    """Return what scores a question and texts; each pair is run by itself.

    The activations are quantised by one scale for a whole batch: a logit would depend on the others of its batch.
    """
    from onnxruntime import InferenceSession

    session = InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(MAX_TOKENS, strategy="only_second")

    def score(question: str, texts: Sequence[str]) -> np.ndarray:
        found = []
        for one in tokenizer.encode_batch([(question[:MAX_QUESTION], text) for text in texts]):
            given = zip(INPUTS, (one.ids, one.type_ids), strict=True)
            found.append(session.run(None, {name: np.array([values]) for name, values in given})[0][0])
        return np.array(found, np.float32)

    return score


def read_example(example: Example, score: Score) -> tuple[dict[str, bool], float]:
    """Return whether each way finds a right unit in the section, and the reader's best logit, with four other units.

    A whole list is a candidate only where a list is asked for.
    """
    units = [unit for unit in example.units if example.kind == "list" or not unit.is_list] or example.units
    logits = score(example.question, [*(unit.text for unit in units), *example.others[:4]])
    ways = {
        "reader": logits[: len(units)],
        "words and shape": np.array([unit.score for unit in units]),
    }
    z = {way: (values - values.mean()) / (values.std() + 1e-6) for way, values in ways.items()}
    ways["both"] = z["reader"] + z["words and shape"]
    return {way: units[int(values.argmax())].answers for way, values in ways.items()}, float(logits.max())


def summarise(results: Sequence[tuple[str, dict[str, bool], float]]) -> str:
    """Return the measures, a line for each kind of question, and for the near misses."""
    lines = []
    for kind in ("", *sorted({kind for kind, _, _ in results} - {"none"})):
        found = [right for own, right, _ in results if own != "none" and kind in ("", own)]
        shares = (f"{way} {np.mean([right[way] for right in found]):.3f}" for way in found[0])
        lines.append(f"{kind or 'all'}, {len(found)}: {', '.join(shares)}")
    answered = np.array([best for kind, _, best in results if kind != "none"])
    none = np.array([best for kind, _, best in results if kind == "none"])
    for share in (0.99, 0.98, 0.95, 0.9):
        least = float(np.quantile(answered, 1 - share))
        known = float((none < least).mean())
        lines.append(f"{share:.0%} of the answerable kept at {least:.2f}: {known:.2f} of {len(none)} near misses known")
    return "\n".join(lines)


@main.command()
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--examples", required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--mix", type=click.Path(exists=True, path_type=Path), multiple=True, help="An exported reader.")
def export(run: Path, folder: Path, examples: Path, mix: Sequence[Path]) -> None:
    """Write the model of RUN as int8 ONNX, with its tokenizer, into FOLDER; activations are measured on EXAMPLES.

    It is the mean of its weights and those of MIX: of weights before and after a training that often beats both
    (Wortsman et al., 2022, "Model soups").
    """
    reader = Reader.of_run(run)
    mixed = [{name: values.clone() for name, values in reader.model.state_dict().items()}]
    for other in mix:
        load_exported(reader.model, other / "model.onnx")
        mixed.append({name: values.clone() for name, values in reader.model.state_dict().items()})
    reader.model.load_state_dict({name: torch.stack([one[name] for one in mixed]).mean(0) for name in mixed[0]})
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name.removeprefix("bert."): values.numpy() for name, values in reader.model.cpu().state_dict().items()}
    head = {name: weights.pop(name) for name in [*weights] if name.startswith("head.")}
    pairs = [(one.question[:MAX_QUESTION], one.units[0].text) for one in islice(read_examples(examples), MEASURED)]
    texts = [{"input_ids": one.ids, "token_type_ids": one.type_ids} for one in reader.tokenizer.encode_batch(pairs)]
    bert = reader.model.bert
    write_reader(folder / "model.onnx", weights, bert.config.to_dict(), find_greatest(bert, texts), head)
    reader.tokenizer.no_truncation()
    reader.tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    print(f"{(folder / 'model.onnx').stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
