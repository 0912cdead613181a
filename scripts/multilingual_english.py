"""Teach sections-multilingual-1 English texts, and questions to go with these.

    uv run --extra training scripts/multilingual_english.py learn RUN FOLDER --start START --data DATA
    uv run --extra training scripts/multilingual_english.py write RUN FOLDER --start START

START and FOLDER are those of `scripts/multilingual.py`, whose `teach` comes before; DATA is of
`scripts/training_data.py`.

Texts in English get additions of low rank (LoRA), which english.onnx adds to the layers; those of questions, in any
language, are changed together with them. `learn` goes on from what FOLDER has. Texts in other languages keep their
vectors. Learned is that English texts stand to questions as they do for the English model (distillation: Hinton,
Vinyals and Dean, "Distilling the knowledge in a neural network", 2015), that the texts which answer are nearest
(InfoNCE), to questions in other languages too, and that questions stand to texts in other languages as before. The mean
cosine of a question with the texts of each language is kept: an index measures how near is near by questions about
nothing in it, and these come no nearer while those that are taught go elsewhere.
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
from retriever.embedding.onnx import ENGLISH_NAME, MODEL_NAME, ModelCard, OnnxEncoder
from retriever.types import FloatMatrix
from scripts.multilingual import (
    FIRST_LAYER,
    MEASURED,
    MEASURED_ACROSS,
    PREFIXES,
    QUESTION_TYPE,
    TAUGHT_CHUNKS,
    TAUGHT_TOKENS,
    adapt,
    encode,
    find_group,
    find_right,
    read_start,
    write_hashes,
)
from scripts.multilingual_graph import Adapters, read_adapters, replace_adapters, write_english
from scripts.reader_data import TRAINING, read_rows

if TYPE_CHECKING:
    import torch

    Adapted = tuple[torch.nn.Module, dict[str, tuple[torch.Tensor, torch.Tensor]]]
    Means = tuple[torch.Tensor, torch.Tensor]  # (d, languages): of texts, as they are and as they were

LEARNING_RATE, WARM_UP = 5e-4, 15
# Of a step: questions, chunks near each by this model, by the English one, and out of how many these are drawn.
QUESTIONS, NEAR, NEAR_BY_TEACHER, DRAWN_FROM = 20, 2, 1, 12
MORE_QUESTIONS, QUESTIONS_ABROAD, FEWEST_ABROAD, MOST_ABROAD = 44, 32, 10, 200
ACROSS_WEIGHT = 3.0  # of a question in another language, of which the English model says nothing
# Cosines are divided by these. Between texts about anything and the nearest one this model's rise by a third as much.
TEMPERATURE, OF_TEACHER, OF_ABROAD = 0.015, 0.05, 0.02
DRIFT_WEIGHT = 1000.0  # of the square by which mean cosines move
FILL, FILL_QUESTIONS, AT_ONCE, REPORT_STEPS = 32, 8, 32, 10
SAVED_MINUTES, QUESTIONS_MINUTES = 15, 15  # after which what is learned is kept, and all questions are encoded anew
END = "end.pt"

Flags = npt.NDArray[np.bool_]


@click.group()
def main() -> None:
    """Teach the multilingual model English texts, and questions about them."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """Chunks in one language, and questions about them."""

    tokens: list[list[int]]
    """Of each of m chunks."""
    vectors: FloatMatrix
    """(m, d), as this model has them; in English each is replaced as it is learned."""
    of_teacher: FloatMatrix
    """(m, d), of the English model; without rows where texts are in another language."""
    asked: list[list[int]]
    """The tokens of each of n questions."""
    questions: FloatMatrix
    """(n, d); each is replaced as it is learned."""
    questions_before: FloatMatrix
    """(n, d), as they were."""
    asked_teacher: FloatMatrix
    """(n, d), of the English model; without rows where texts are in another language."""
    is_across: Flags
    """(n,): whether a question about texts in English is in another language."""
    right: Flags
    """(n, m): whether a chunk answers."""
    left_out: Flags
    """(n, m): other chunks of the section that answers."""


def read_corpora(data: Path, folder: Path) -> tuple[list[Corpus], list[Corpus]]:
    """Read the corpora that do not measure, by the model of a folder: in English, and one for each other language."""
    model, english = OnnxEncoder(folder), OnnxEncoder(BUNDLED_MODELS["english"])
    chunks: dict[str, list[str]] = defaultdict(list)
    own: dict[str, list[int]] = defaultdict(list)
    for row in read_rows(data / "chunks.jsonl.gz"):
        name, section = find_corpus(row["sid"]), row["sid"]
        if name and len(own[section]) < TAUGHT_CHUNKS:
            text = model._tokens.cut(row["text"], TAUGHT_TOKENS)
            if bool(measure_foreign([text])) == is_abroad(name):
                own[section].append(len(chunks[name]))
                chunks[name].append(text)
    questions: dict[str, list[dict[str, Any]]] = defaultdict(list)
    across = (row for row in read_rows(TRAINING / "across.jsonl") if row["language"] not in MEASURED_ACROSS)
    for row in (*read_rows(data / "questions.jsonl.gz"), *(row | {"chunk": None} for row in across)):
        if own[row["section"]]:
            questions[find_corpus(row["section"])].append(row)
    found = tuple[list[Corpus], list[Corpus]](([], []))
    for name, rows in questions.items():
        if is_abroad(name) and len(rows) < FEWEST_ABROAD:
            continue
        texts, asked = chunks[name], [row["question"] for row in rows]
        right = np.zeros((len(rows), len(texts)), bool)
        left_out = np.zeros_like(right)
        for place, row in enumerate(rows):
            places = own[row["section"]]
            right[place, find_right(row, places)] = True
            left_out[place, places] = True
        vectors = model.encode_queries(asked)
        found[is_abroad(name)].append(
            Corpus(
                tokens=model._tokens.ids([PREFIXES.document + text for text in texts]),
                vectors=model.encode_documents(texts),
                of_teacher=vectors[:0] if is_abroad(name) else english.encode_documents(texts),
                asked=model._tokens.ids([PREFIXES.query + question for question in asked]),
                questions=vectors,
                questions_before=vectors.copy(),
                asked_teacher=vectors[:0] if is_abroad(name) else english.encode_queries(asked),
                is_across=np.array(["language" in row for row in rows]),
                right=right,
                left_out=left_out & ~right,
            )
        )
        print(f"{name}: {len(texts)} chunks, {len(rows)} questions", flush=True)
    return found


def find_corpus(section: str) -> str:
    """Return `abroad/de` for what is in German, else the name of the corpus; empty where it measures."""
    group = find_group(section)
    return "" if group in MEASURED else group.replace("abroad-", "abroad/")


def is_abroad(name: str) -> bool:
    """Return whether a corpus is in another language than English."""
    return name.startswith("abroad/")


@main.command()
@click.argument("run", type=click.Path(file_okay=False, path_type=Path))
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--start", required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--data", required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--minutes", default=58.0, show_default=True)
def learn(run: Path, folder: Path, start: Path, data: Path, minutes: float) -> None:
    """Learn in RUN, on one core."""
    import torch

    run.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    torch.manual_seed(1)
    chance = np.random.default_rng(1)
    english, abroad = read_corpora(data, folder)
    questions = begin(start, read_adapters(folder / MODEL_NAME, str(QUESTION_TYPE)))
    texts = begin(start, read_adapters(folder / ENGLISH_NAME, "own"))
    parameters = [[one for pair in learned.values() for one in pair] for _, learned in (questions, texts)]
    optimizer = torch.optim.AdamW([one for part in parameters for one in part], lr=LEARNING_RATE, weight_decay=0.0)
    share = np.array([len(corpus.asked) for corpus in english], float)
    share_abroad = np.array([min(len(corpus.asked), MOST_ABROAD) for corpus in abroad], float)
    step, begun, limit, losses = 0, monotonic(), minutes * 60, list[float]()
    saved = encoded = 0.0
    before = mean_texts(english, abroad)
    while (seconds := monotonic() - begun) < limit:
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * min(1.0, (step + 1) / WARM_UP) * max(0.02, 1 - seconds / limit)
        means = mean_texts(english, abroad), before
        own = english[chance.choice(len(english), p=share / share.sum())]
        other = abroad[chance.choice(len(abroad), p=share_abroad / share_abroad.sum())]
        loss = measure_loss(questions, texts, own, means, chance)
        optimizer.zero_grad()
        (loss + measure_abroad(questions, other, means, chance)).backward()
        for part in parameters:
            torch.nn.utils.clip_grad_norm_(part, 1.0)
        optimizer.step()
        losses.append(loss.item())
        step += 1
        if step % REPORT_STEPS == 0:
            print(f"{step} steps, {seconds / 60:.0f} minutes, loss {np.mean(losses[-60:]):.3f}", flush=True)
        if seconds - saved > SAVED_MINUTES * 60:
            saved = seconds
            torch.save((questions[1], texts[1]), run / f"{seconds / 60:.0f}.pt")
        if seconds - encoded > QUESTIONS_MINUTES * 60:
            encoded = seconds
            with torch.no_grad():
                for corpus in english:
                    corpus.questions[:] = encode_all(questions, corpus.asked, FILL_QUESTIONS).numpy()
    torch.save((questions[1], texts[1]), run / END)


def mean_texts(english: Sequence[Corpus], abroad: Sequence[Corpus]) -> "torch.Tensor":
    """Return (d, languages): the mean vectors of the texts in English, and of those in each other language."""
    import torch

    parts = [np.concatenate([corpus.vectors for corpus in english]), *(corpus.vectors for corpus in abroad)]
    return torch.from_numpy(np.stack([part.mean(0) for part in parts], axis=1))


def begin(start: Path, adapters: Adapters) -> "Adapted":
    """Return the model, and what is to be learned of it, as it is now; without such it adds nothing."""
    import torch
    from transformers import AutoModel

    model = AutoModel.from_pretrained(start, add_pooling_layer=False, local_files_only=True).eval()
    learned = adapt(model, FIRST_LAYER)
    with torch.no_grad():
        for name, pair in adapters.items():
            for one, values in zip(learned[name], pair, strict=True):
                one.copy_(torch.from_numpy(values))
    return model, learned


def encode_all(adapted: "Adapted", texts: Sequence[Sequence[int]], fill: int) -> "torch.Tensor":
    """Return (n, d) of texts, given by their tokens, a few at once."""
    import torch

    with torch.autocast("cpu", dtype=torch.bfloat16):
        parts = [texts[place : place + AT_ONCE] for place in range(0, len(texts), AT_ONCE)]
        return torch.cat([encode(adapted[0], part, fill) for part in parts]).float()


def draw_chunks(corpus: Corpus, asked: Sequence[int], chance: np.random.Generator) -> list[int]:
    """Return chunks that answer some questions, and others that are near to these, by their places."""
    drawn = set[int]()
    for place in asked:
        right = np.flatnonzero(corpus.right[place])
        cosines = corpus.vectors @ corpus.questions[place]
        cosines[right] = cosines[corpus.left_out[place]] = -1.0
        drawn.add(int(chance.choice(right)))
        drawn.update(chance.choice(np.argsort(-cosines)[:DRAWN_FROM], NEAR, replace=False).tolist())
        if not corpus.is_across[place]:
            of_teacher = corpus.of_teacher @ corpus.asked_teacher[place]
            drawn.update(chance.choice(np.argsort(-of_teacher)[:DRAWN_FROM], NEAR_BY_TEACHER).tolist())
    return sorted(drawn, key=lambda place: len(corpus.tokens[place]))


def draw_questions(corpus: Corpus, count: int, chance: np.random.Generator, across: float = 1.0) -> list[int]:
    """Return questions by their places, those across languages as often as is said; short ones first."""
    weight = np.where(corpus.is_across, across, 1.0)
    drawn = chance.choice(len(weight), min(count, len(weight)), replace=False, p=weight / weight.sum())
    return sorted(drawn.tolist(), key=lambda place: len(corpus.asked[place]))


def measure_loss(
    questions: "Adapted", texts: "Adapted", corpus: Corpus, means: "Means", chance: np.random.Generator
) -> "torch.Tensor":
    """Return the loss of a corpus in English where some of it is encoded anew; keep the vectors of that."""
    import torch

    asked = draw_questions(corpus, QUESTIONS, chance, ACROSS_WEIGHT)
    drawn = draw_chunks(corpus, asked, chance)
    asked = sorted({*asked, *draw_questions(corpus, MORE_QUESTIONS, chance)}, key=lambda one: len(corpus.asked[one]))
    fresh = encode_all(texts, [corpus.tokens[place] for place in drawn], FILL)
    asked_fresh = encode_all(questions, [corpus.asked[place] for place in asked], FILL_QUESTIONS)
    all_questions = torch.from_numpy(corpus.questions).index_copy(0, torch.tensor(asked), asked_fresh)
    chunks = torch.from_numpy(corpus.vectors).index_copy(0, torch.tensor(drawn), fresh)
    logits = all_questions @ chunks.T / TEMPERATURE
    of_teacher = torch.from_numpy(corpus.asked_teacher @ corpus.of_teacher.T) / OF_TEACHER
    across = torch.from_numpy(corpus.is_across)
    contrasted = contrast(logits, corpus.right, corpus.left_out)
    each = torch.where(across, ACROSS_WEIGHT * contrasted, contrasted + diverge(logits, of_teacher))
    corpus.vectors[drawn] = fresh.detach().numpy()
    corpus.questions[asked] = asked_fresh.detach().numpy()
    drift = measure_drift(asked_fresh, torch.from_numpy(corpus.questions_before[asked]), means)
    return each.mean() + (each[asked] + drift).mean()


def measure_abroad(questions: "Adapted", corpus: Corpus, means: "Means", chance: np.random.Generator) -> "torch.Tensor":
    """Return the loss of some questions about texts in another language, which keep their vectors."""
    import torch

    asked = draw_questions(corpus, QUESTIONS_ABROAD, chance)
    chunks = torch.from_numpy(corpus.vectors).T / OF_ABROAD
    vectors = encode_all(questions, [corpus.asked[place] for place in asked], FILL_QUESTIONS)
    logits = vectors @ chunks
    before = torch.from_numpy(corpus.questions_before[asked])
    contrasted = contrast(logits, corpus.right[asked], corpus.left_out[asked])
    return (contrasted + diverge(logits, before @ chunks) + measure_drift(vectors, before, means)).mean()


def measure_drift(vectors: "torch.Tensor", before: "torch.Tensor", means: "Means") -> "torch.Tensor":
    """Return (n,): how far the mean cosines of questions, (n, d), with texts have moved, as it is weighed."""
    now, then = means
    return DRIFT_WEIGHT * (vectors @ now - before @ then).square().mean(1)


def contrast(logits: "torch.Tensor", right: Flags, left_out: Flags) -> "torch.Tensor":
    """Return (n,): how little of what each question is compared with is right, of logits (n, m)."""
    import torch

    compared = logits.masked_fill(torch.from_numpy(left_out), -torch.inf)
    return compared.logsumexp(1) - compared.masked_fill(~torch.from_numpy(right), -torch.inf).logsumexp(1)


def diverge(logits: "torch.Tensor", wanted: "torch.Tensor") -> "torch.Tensor":
    """Return (n,): how far what each question is near to is from what it should be near to, both (n, m)."""
    import torch

    given, wanted = logits.log_softmax(1), wanted.log_softmax(1)
    return torch.nn.functional.kl_div(given, wanted, reduction="none", log_target=True).sum(1)


@main.command()
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--start", required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
def write(run: Path, folder: Path, start: Path) -> None:
    """Write what RUN has learned, the mean of all that it kept, into the model in FOLDER, made of START."""
    import torch

    kept = [torch.load(path) for path in run.glob("*.pt")]
    questions, texts = (
        {
            name: tuple(torch.stack(values).mean(0).detach().numpy() for values in zip(*pairs, strict=True))
            for name, pairs in ((name, [one[place][name] for one in kept]) for name in kept[0][place])
        }
        for place in range(2)
    )
    replace_adapters(folder / MODEL_NAME, questions, QUESTION_TYPE)
    write_english(folder, read_start(start), texts)
    write_hashes(folder, ModelCard.read(folder))


if __name__ == "__main__":
    main()
