"""Teach sections-multilingual-1 English texts: what the English model has learned of them.

    uv run --extra training scripts/multilingual_english.py learn RUN --start START --data DATA
    uv run --extra training scripts/multilingual_english.py write RUN FOLDER --start START

START and FOLDER are those of `scripts/multilingual.py`, whose `teach` comes before; DATA is of
`scripts/training_data.py`.

Texts in English get additions of low rank (LoRA), which english.onnx adds to the layers. The vectors of questions, in
any language, and of texts in other languages stay what they are. Learned is that English texts stand to questions as
they do for the English model (distillation: Hinton, Vinyals and Dean, "Distilling the knowledge in a neural network",
2015), and that the texts which answer are nearest (InfoNCE), to questions in other languages too.
"""

import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).parents[1]))

from retriever.embedding.encoder import BUNDLED_MODELS, measure_foreign
from retriever.embedding.onnx import ModelCard, OnnxEncoder
from retriever.types import FloatMatrix
from scripts.multilingual import (
    ABROAD,
    MEASURED,
    PREFIXES,
    TAUGHT_CHUNKS,
    TAUGHT_TOKENS,
    adapt,
    encode,
    find_right,
    read_start,
    write_hashes,
)
from scripts.multilingual_graph import write_english
from scripts.reader_data import TRAINING, read_rows

if TYPE_CHECKING:
    import torch

FIRST_LAYER, LEARNING_RATE, WARM_UP = 1, 1e-3, 15
# Of a step: questions, chunks near each by this model, by the English one, and out of how many these are drawn.
QUESTIONS, NEAR, NEAR_BY_TEACHER, DRAWN_FROM = 20, 2, 1, 12
ACROSS_WEIGHT = 3.0  # of a question in another language, of which the English model says nothing
# Cosines are divided by these. Between texts about anything and the nearest one this model's rise by a third as much.
TEMPERATURE, OF_TEACHER = 0.015, 0.05
FILL, AT_ONCE, REPORT_STEPS = 32, 16, 25
EARLY, EARLY_SHARE, END = "early.pt", 0.3, "end.pt"

Flags = npt.NDArray[np.bool_]


@click.group()
def main() -> None:
    """Teach the multilingual model English texts."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """Chunks in English of one corpus, and questions about it."""

    tokens: list[list[int]]
    """Of each of m chunks."""
    vectors: FloatMatrix
    """(m, d), as this model has them; each is replaced as it is learned."""
    of_teacher: FloatMatrix
    """(m, d), of the English model."""
    questions: FloatMatrix
    """(n, d)"""
    asked_teacher: FloatMatrix
    """(n, d)"""
    is_across: Flags
    """(n,): whether a question is in another language."""
    right: Flags
    """(n, m): whether a chunk answers."""
    left_out: Flags
    """(n, m): other chunks of the section that answers."""


def read_corpora(data: Path) -> list[Corpus]:
    """Read the corpora that do not measure."""
    multilingual, english = (OnnxEncoder(BUNDLED_MODELS[name]) for name in ("multilingual", "english"))
    chunks: dict[str, list[Any]] = defaultdict(list)
    own: dict[str, list[int]] = defaultdict(list)
    for row in read_rows(data / "chunks.jsonl.gz"):
        name, section = row["sid"].partition("/")[0], row["sid"]
        if name not in MEASURED and not name.startswith(("abroad", ABROAD)) and len(own[section]) < TAUGHT_CHUNKS:
            text = multilingual._tokens.cut(row["text"], TAUGHT_TOKENS)
            if not measure_foreign([text]):
                own[section].append(len(chunks[name]))
                chunks[name].append(text)
    questions: dict[str, list[Any]] = defaultdict(list)
    across = read_rows(TRAINING / "across.jsonl")
    for row in (*read_rows(data / "questions.jsonl.gz"), *(row | {"chunk": None} for row in across)):
        if own[row["section"]]:
            questions[row["section"].partition("/")[0]].append(row)
    found = []
    for name, rows in questions.items():
        texts, asked = chunks[name], [row["question"] for row in rows]
        right = np.zeros((len(rows), len(texts)), bool)
        left_out = np.zeros_like(right)
        for place, row in enumerate(rows):
            places = own[row["section"]]
            right[place, find_right(row, places)] = True
            left_out[place, places] = True
        found.append(
            Corpus(
                multilingual._tokens.ids([PREFIXES.document + text for text in texts]),
                multilingual.encode_documents(texts),
                english.encode_documents(texts),
                multilingual.encode_queries(asked),
                english.encode_queries(asked),
                np.array(["language" in row for row in rows]),
                right,
                left_out & ~right,
            )
        )
        print(f"{name}: {len(texts)} chunks, {len(rows)} questions", flush=True)
    return found


@main.command()
@click.argument("run", type=click.Path(file_okay=False, path_type=Path))
@click.option("--start", required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--data", required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--minutes", default=50.0, show_default=True)
def learn(run: Path, start: Path, data: Path, minutes: float) -> None:
    """Learn in RUN, on one core."""
    import torch
    from transformers import AutoModel

    run.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    torch.manual_seed(1)
    chance = np.random.default_rng(1)
    corpora = read_corpora(data)
    share = np.array([len(corpus.questions) for corpus in corpora], float)
    model = AutoModel.from_pretrained(start, add_pooling_layer=False, local_files_only=True).eval()
    learned = adapt(model, FIRST_LAYER)
    parameters = [one for pair in learned.values() for one in pair]
    optimizer = torch.optim.AdamW(parameters, lr=LEARNING_RATE, weight_decay=0.0)
    step, begun, limit, losses = 0, monotonic(), minutes * 60, list[float]()
    while (seconds := monotonic() - begun) < limit:
        for part in optimizer.param_groups:
            part["lr"] = LEARNING_RATE * min(1.0, (step + 1) / WARM_UP) * max(0.02, 1 - seconds / limit)
        corpus = corpora[chance.choice(len(corpora), p=share / share.sum())]
        loss = measure_loss(model, corpus, draw(corpus, chance))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        losses.append(loss.item())
        step += 1
        if step % REPORT_STEPS == 0:
            print(f"{step} steps, {seconds / 60:.0f} minutes, loss {np.mean(losses[-100:]):.3f}", flush=True)
        torch.save(learned, run / (EARLY if seconds < EARLY_SHARE * limit else END))


def draw(corpus: Corpus, chance: np.random.Generator) -> list[int]:
    """Return chunks that answer some questions, and others that are near to these, by their places."""
    weight = np.where(corpus.is_across, ACROSS_WEIGHT, 1.0)
    count = min(QUESTIONS, len(weight))
    drawn = set[int]()
    for place in chance.choice(len(weight), count, replace=False, p=weight / weight.sum()):
        right = np.flatnonzero(corpus.right[place])
        cosines = corpus.vectors @ corpus.questions[place]
        cosines[right] = cosines[corpus.left_out[place]] = -1.0
        drawn.add(int(chance.choice(right)))
        drawn.update(chance.choice(np.argsort(-cosines)[:DRAWN_FROM], NEAR, replace=False).tolist())
        if not corpus.is_across[place]:
            of_teacher = corpus.of_teacher @ corpus.asked_teacher[place]
            drawn.update(chance.choice(np.argsort(-of_teacher)[:DRAWN_FROM], NEAR_BY_TEACHER).tolist())
    return sorted(drawn, key=lambda place: len(corpus.tokens[place]))


def measure_loss(model: "torch.nn.Module", corpus: Corpus, drawn: Sequence[int]) -> "torch.Tensor":
    """Return the loss of all questions of a corpus where some chunks are encoded anew; keep the vectors of these."""
    import torch

    questions = torch.from_numpy(corpus.questions)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        parts = [drawn[place : place + AT_ONCE] for place in range(0, len(drawn), AT_ONCE)]
        fresh = torch.cat([encode(model, [corpus.tokens[place] for place in part], FILL) for part in parts]).float()
    cosines = (questions @ torch.from_numpy(corpus.vectors).T).index_copy(1, torch.tensor(drawn), questions @ fresh.T)
    logits = cosines / TEMPERATURE
    compared = logits.masked_fill(torch.from_numpy(corpus.left_out), -torch.inf)
    right = compared.masked_fill(~torch.from_numpy(corpus.right), -torch.inf)
    contrast = compared.logsumexp(1) - right.logsumexp(1)
    across = torch.from_numpy(corpus.is_across)
    asked = torch.from_numpy(corpus.asked_teacher)[~across] @ torch.from_numpy(corpus.of_teacher).T
    divergence = torch.nn.functional.kl_div(
        logits[~across].log_softmax(1), (asked / OF_TEACHER).log_softmax(1), reduction="sum", log_target=True
    )
    corpus.vectors[list(drawn)] = fresh.detach().numpy()
    weighted = torch.where(across, ACROSS_WEIGHT, 1.0) * contrast
    return (weighted.sum() + divergence) / len(contrast)


@main.command()
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--start", required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
def write(run: Path, folder: Path, start: Path) -> None:
    """Write english.onnx of what RUN has learned, the mean of early and of its end, into FOLDER, made of START."""
    import torch

    if (card := ModelCard.read(folder)).english_sha256:
        raise click.ClickException(f"{folder} was taught before: make it anew with `scripts/multilingual.py`")
    early, end = torch.load(run / EARLY), torch.load(run / END)
    adapters = {}
    for name, pair in end.items():
        down, up = (((values + before) / 2).detach().numpy() for values, before in zip(pair, early[name], strict=True))
        adapters[name] = down, up
    write_english(folder, read_start(start), adapters)
    write_hashes(folder, card)


if __name__ == "__main__":
    main()
