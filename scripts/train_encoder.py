"""Train the encoder: the vectors by which sections are found, and those of tokens by which their lines are chosen.

    uv run --extra training scripts/train_encoder.py train RUN --start MODEL --data DATA --minutes 2
    uv run --extra training scripts/train_encoder.py export RUN FOLDER --documents DOCS

DATA is what `scripts/training_data.py` wrote. MODEL is the folder of an exported encoder, whose weights are read as
exactly as 8 bits hold them, or of a model of the BERT kind in float32. RUN holds settings.json, curve.jsonl, and
state.pt, from which the same command goes on after an interruption. A GPU is used where there is one.

A text's vector is the mean of its tokens. A projection of each token to 128 dimensions gives the token vectors. A step
reads some questions, mostly of one corpus, the chunks that answer them, and some that were found wrongly. It learns:

- each question is nearer to its section (the nearest of its chunks, or the one that holds the lines that answer) than
  to the others of the step (InfoNCE: van den Oord, Li and Vinyals, "Representation learning with contrastive
  predictive coding", 2018);
- the same by tokens, each with its nearest of the chunk (MaxSim: Khattab and Zaharia, "ColBERT", 2020);
- what the model knew: the cosines between the chunks of a step stay near those of the model that it began as.

A section that answers too is not an opponent: one with the same text, or that `scripts/training/rivals.jsonl.gz` names.
The tables of embeddings stay as they are: a few thousand questions name few of their words.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import click
import numpy as np
import numpy.typing as npt
import torch  # noqa: TID253 - the script is of no use without it
from torch import Tensor  # noqa: TID253
from torch.nn import functional as F  # noqa: TID253
from transformers import AutoConfig, AutoModel

sys.path.insert(0, str(Path(__file__).parents[1]))

from retriever.embedding.encoder import LibraryTokens, Tokens
from retriever.embedding.onnx import OnnxEncoder
from scripts.bert_graph import read_weights
from scripts.export_model import Agreement, sample_of_chunks, write_folder
from scripts.training_data import MAX_TOKENS, Flags, Integers, find_held_out, read_data

TOKEN_DIMENSION = 128
DROPOUT, WORD_DROP = 0.1, 0.1  # the second: the share of a question's tokens that are left out
PER_SECTION = 3  # at most so many questions of a section in a step
HARD = 2  # chunks found wrongly, for each question
RANKS = slice(3, 43)  # they are of sections at these places: the first few often are an answer as well
MIXED = 0.1  # the share of steps with questions of all corpora
COMPARED = 64  # so many questions of a step are compared by their tokens
TEMPERATURE, TOKEN_TEMPERATURE = 0.05, 0.04
TOKEN_WEIGHT, KEEP_WEIGHT = 0.25, 10.0
WARM_UP = 0.08  # this share of the run the learning rate rises, then it falls
AVERAGE = 0.998  # of the weights: what is kept of their mean at each step
MINE_S, REPORT_S, SAVE_S = 90.0, 10.0, 300.0
LEFT_OUT = -4.0  # in the place of a cosine
PROJECTION = {"projection.weight"}
SAMPLE = 600  # chunks on which the int8 model is compared with the float32 one


@click.group()
def main() -> None:
    """Train an encoder, and export it."""


class Model(torch.nn.Module):  # type: ignore[misc] # its types come with the extra
    """A transformer of the BERT kind, the mean of its tokens, and a projection of each."""

    def __init__(self, start: Path, device: torch.device) -> None:
        super().__init__()
        dropouts = {"hidden_dropout_prob": DROPOUT, "attention_probs_dropout_prob": DROPOUT}
        config = AutoConfig.from_pretrained(start, local_files_only=True, **dropouts)
        # PyTorch's own attention saves most of a GPU's memory. The exporter, and a CPU, do better without it.
        kind = "sdpa" if device.type == "cuda" else "eager"
        options = {"add_pooling_layer": False, "attn_implementation": kind}
        self.projection = torch.nn.Linear(config.hidden_size, TOKEN_DIMENSION, bias=False)
        torch.nn.init.orthogonal_(self.projection.weight)
        if (start / "model.onnx").is_file():
            self.transformer = AutoModel.from_config(config, **options)
            load_exported(self, start / "model.onnx")
        else:
            self.transformer = AutoModel.from_pretrained(start, config=config, local_files_only=True, **options)
        for name, weights in self.transformer.embeddings.named_parameters():
            weights.requires_grad_("LayerNorm" in name)
        self.to(device)

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Map token numbers and a mask, each (n, t), to unit vectors of texts (n, d) and of tokens (n, t, 128)."""
        hidden = self.transformer(input_ids=ids, attention_mask=mask).last_hidden_state
        weights = mask.unsqueeze(-1).float()
        means = (hidden.float() * weights).sum(1) / weights.sum(1)
        return F.normalize(means, dim=-1), F.normalize(self.projection(hidden).float(), dim=-1)


def load_exported(model: Model, path: Path) -> None:
    """Fill a model with the weights of an exported one; one without a projection leaves it as it is.

    Raises:
        click.ClickException: other weights are missing.
    """
    read = {name: torch.from_numpy(values) for name, values in read_weights(path).items()}
    weights = {name if name in PROJECTION else f"transformer.{name}": values for name, values in read.items()}
    wanted = model.state_dict()
    if missing := wanted.keys() - weights.keys() - PROJECTION:
        raise click.ClickException(f"{path} has no {min(missing)}: it was not made by scripts/train_encoder.py")
    model.load_state_dict({name: weights.get(name, values) for name, values in wanted.items()})


def mix_weights(start: Path, learned: dict[str, Tensor], share: float, device: torch.device) -> Model:
    """Return a model with this share of the learned weights, else the start's (Wortsman et al., WiSE-FT, CVPR 2022)."""
    model = Model(start, device)
    model.eval()
    before = model.state_dict()
    model.load_state_dict({name: before[name].lerp(values.to(device), share) for name, values in learned.items()})
    return model


@main.command()
@click.argument("run", type=click.Path(file_okay=False, path_type=Path))
@click.option("--start", required=True, type=click.Path(exists=True, file_okay=False))
@click.option("--data", required=True, type=click.Path(exists=True, file_okay=False))
@click.option("--hold-out", multiple=True, default=find_held_out, help="A corpus that measures.  [see corpora.yaml]")
@click.option("--minutes", default=2.0, show_default=True, help="Of training, without reading DATA.")
@click.option("--steps", default=1_000_000, show_default=True, help="It ends after so many, if they come first.")
@click.option("--batch", default=256, show_default=True, help="Questions in a step.")
@click.option("--learning-rate", default=5e-5, show_default=True)
@click.option("--seed", default=1, show_default=True)
def train(run: Path, **settings: Any) -> None:  # noqa: ANN401 - click has checked each
    """Train, or go on with, the RUN; then measure the start, the mean of both, and what was learned."""
    run.mkdir(parents=True, exist_ok=True)
    written = run / "settings.json"
    settings["hold_out"] = list(settings["hold_out"])
    if written.exists() and (before := json.loads(written.read_text())) != settings:
        other = ", ".join(name for name in settings if before.get(name) != settings[name])
        raise click.ClickException(f"{run} was begun with another {other}: name another folder, or the same settings")
    written.write_text(json.dumps(settings, indent=2) + "\n")
    trainer = Trainer(run, settings)
    trainer.train()
    start, learned = Path(settings["start"]), trainer.average.state_dict()
    for share in (0.0, 0.5, 1.0):
        trainer.measure(mix_weights(start, learned, share, trainer.device), f"share {share:g}")


class Trainer:
    """A run, which goes on from its last state."""

    def __init__(self, run: Path, settings: dict[str, Any]) -> None:
        self.run, self.settings = run, settings
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        start = Path(settings["start"])
        self.data = read_data(Path(settings["data"]), LibraryTokens((start / "tokenizer.json").read_bytes))
        self.held_out = [name for name in self.data.corpora if name in settings["hold_out"]]
        self.learned = [name for name in self.data.corpora if name not in self.held_out]
        if not self.learned:
            raise click.ClickException(f"{settings['data']} has no questions on a corpus that is not held out")
        counts = (sum(len(self.data.corpora[name][1]) for name in names) for names in (self.learned, self.held_out))
        print("{} questions to learn, {} to measure".format(*counts), flush=True)
        self.questions_of: dict[int, list[int]] = defaultdict(list)
        for name in self.learned:
            for question in self.data.corpora[name][1]:
                self.questions_of[int(self.data.answer[question])].append(int(question))
        torch.manual_seed(settings["seed"])
        self.model = Model(start, self.device)
        self.average = deepcopy(self.model).requires_grad_(False)
        self.weights = [values for values in self.model.parameters() if values.requires_grad]
        groups: list[dict[str, Any]] = [
            {"params": [values for values in self.weights if values.ndim > 1], "weight_decay": 0.01},
            {"params": [values for values in self.weights if values.ndim == 1], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups)
        self.step, self.seconds = 0, 0.0
        self.queue: dict[str, Integers] = {}
        self.right = self.data.answer_chunk.copy()  # the chunk that answers each question, where known or once mined
        self.wrong: dict[int, list[int]] = {}  # chunks of sections that are found wrongly
        self.vectors_before = torch.zeros(len(self.data.chunks), self.model.transformer.config.hidden_size)
        self.vectors_before = self.vectors_before.to(self.device)
        for name in self.learned:
            chunks = self.data.corpora[name][0]
            self.vectors_before[torch.from_numpy(chunks)] = self.embed_all(self.model, self.data.chunks, chunks)
        if (run / "state.pt").exists():
            state = torch.load(run / "state.pt", map_location=self.device)
            for part in ("model", "average", "optimizer"):
                getattr(self, part).load_state_dict(state[part])
            self.step, self.seconds = state["step"], state["seconds"]
            print(f"going on after step {self.step}", flush=True)

    def save(self) -> None:
        """Write the run's state; an interruption leaves the one before."""
        state = {part: getattr(self, part).state_dict() for part in ("model", "average", "optimizer")}
        torch.save(state | {"step": self.step, "seconds": self.seconds}, self.run / "state.tmp")
        (self.run / "state.tmp").rename(self.run / "state.pt")

    def report(self, row: dict[str, Any]) -> None:
        """Write a line to the terminal and to curve.jsonl."""
        line = json.dumps({"step": self.step, "seconds": round(self.seconds)} | row)
        with (self.run / "curve.jsonl").open("a") as curve:
            curve.write(line + "\n")
        print(line, flush=True)

    def train(self) -> None:
        """Do all steps that are left, and save the state."""
        limit, warm = self.settings["minutes"] * 60, WARM_UP
        losses: dict[str, list[Tensor]] = defaultdict(list)
        began = monotonic() - self.seconds
        mine_at, reported, saved = self.seconds, self.seconds, self.seconds
        while self.seconds < limit and self.step < self.settings["steps"]:
            if not self.wrong or (self.seconds >= mine_at and limit - self.seconds > MINE_S / 3):
                self.mine()
                # Where mining takes long, as on a CPU, it is done less often.
                mine_at = monotonic() - began + max(MINE_S, 4 * (monotonic() - began - self.seconds))
            share = max(self.seconds / limit, self.step / self.settings["steps"])
            factor = share / warm if share < warm else (1 - share) / (1 - warm)
            for group in self.optimizer.param_groups:
                group["lr"] = self.settings["learning_rate"] * max(factor, 0.01)
            for name, loss in self.learn().items():
                losses[name].append(loss.detach())
            self.step += 1
            kept = min(AVERAGE, (1 + self.step) / (10 + self.step))
            for mean, values in zip(self.average.parameters(), self.model.parameters(), strict=True):
                mean.lerp_(values.detach(), 1 - kept)
            self.seconds = monotonic() - began
            if self.seconds - reported > REPORT_S:
                reported = self.seconds
                self.report({name: round(float(torch.stack(found).mean()), 4) for name, found in losses.items()})
                losses.clear()
            if self.seconds - saved > SAVE_S:
                saved = self.seconds
                self.save()
        self.save()

    # A step.

    def learn(self) -> dict[str, Tensor]:
        """Change the weights once, and return the losses."""
        chance = np.random.default_rng([self.settings["seed"], self.step])
        self.model.train()
        losses = self.compute_losses(self.draw_questions(chance), chance)
        total = losses["mean"] + TOKEN_WEIGHT * losses["tokens"] + KEEP_WEIGHT * losses["keep"]
        self.optimizer.zero_grad(set_to_none=True)
        total.backward()
        torch.nn.utils.clip_grad_norm_(self.weights, 1.0)
        self.optimizer.step()
        return losses

    def draw_questions(self, chance: np.random.Generator) -> Integers:
        """Return the questions of a step: of sections of one corpus, each in its turn, at times of all."""
        is_mixed = chance.random() < MIXED
        if is_mixed:
            name, sections = "", chance.permutation(list(self.questions_of))
        else:
            if not self.queue:
                for corpus in self.learned:
                    asked = self.data.answer[self.data.corpora[corpus][1]]
                    self.queue[corpus] = chance.permutation(np.unique(asked))
            sizes = np.array([len(rest) for rest in self.queue.values()])
            name = str(chance.choice(list(self.queue), p=sizes / sizes.sum()))
            sections = self.queue.pop(name)
        drawn: list[int] = []
        used = 0
        while used < len(sections) and len(drawn) < self.settings["batch"]:
            own = self.questions_of[int(sections[used])]
            drawn += chance.choice(own, min(PER_SECTION, len(own)), replace=False).tolist()
            used += 1
        if not is_mixed and len(sections) - used > used // 3:  # a step with few questions teaches little
            self.queue[name] = sections[used:]
        return chance.permutation(drawn)  # the first are compared by their tokens

    def compute_losses(self, questions: Integers, chance: np.random.Generator) -> dict[str, Tensor]:
        """Return the losses of mean vectors, of token vectors, and of what has to stay."""
        data, right = self.data, self.right[questions]
        wrong = [self.wrong[int(question)] for question in questions]
        hard = [chance.choice(found, min(HARD, len(found)), replace=False) for found in wrong if found]
        by_tokens = np.unique(right[:COMPARED])
        others = np.setdiff1d(np.concatenate([right, *hard]), by_tokens)
        chunks = np.concatenate([by_tokens, others])
        asked, asked_tokens, asked_mask = self.read(self.model, [data.questions[one] for one in questions], chance)
        read, tokens, mask = self.read(self.model, [data.chunks[one] for one in by_tokens])
        if len(others):
            read = torch.cat([read, self.embed(self.model, data.chunks, others, 65_000)])
        owner, answer = data.section_of[chunks], data.answer[questions]
        # Left out: other sections that answer, and of the right one all but the chunk that is known to answer.
        is_own = owner[None] == answer[:, None]
        is_known = (data.answer_chunk[questions] >= 0)[:, None]
        left_out = data.find_answers(questions, owner) & ~is_own
        left_out |= is_own & is_known & (chunks[None] != right[:, None])
        near = max_similarities(asked_tokens[:COMPARED], asked_mask[:COMPARED], tokens, mask)
        count = len(by_tokens)
        before = self.vectors_before[torch.from_numpy(chunks)]
        return {
            "mean": contrast(asked @ read.T, TEMPERATURE, left_out, owner, answer),
            "tokens": contrast(near, TOKEN_TEMPERATURE, left_out[:COMPARED, :count], owner[:count], answer[:COMPARED]),
            "keep": F.mse_loss(read @ read.T, before @ before.T),
        }

    # Reading texts.

    def read(
        self, model: Model, texts: Sequence[Integers], drop: np.random.Generator | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return vectors of texts (n, d), of their tokens (n, t, 128), and which are tokens and not special (n, t)."""
        width = -(-max(map(len, texts)) // 8) * 8
        arrays = np.zeros((3, len(texts), width), np.int64)  # token numbers, what is read, what is not special
        for row, text in enumerate(texts):
            arrays[0, row, : len(text)] = text
            arrays[1:, row, 1 : len(text) - 1] = 1 if drop is None else drop.random(len(text) - 2) >= WORD_DROP
            arrays[1, row, [0, len(text) - 1]] = 1
        ids, seen, inner = torch.from_numpy(arrays).to(self.device)
        with torch.autocast(self.device.type, dtype=torch.bfloat16):
            means, tokens = model(ids, seen)
        return means, tokens, inner.bool()

    def embed(self, model: Model, texts: Sequence[Integers], places: Integers, budget: int) -> Tensor:
        """Return (n, d) vectors; texts of about one length are read together, so many tokens at once."""
        if self.device.type == "cpu":
            budget = 4_000  # what its caches hold
        order = np.argsort([-len(texts[place]) for place in places], kind="stable")
        found, begin = [], 0
        while begin < len(order):
            size = max(1, budget // len(texts[places[order[begin]]]))
            found.append(self.read(model, [texts[places[one]] for one in order[begin : begin + size]])[0])
            begin += size
        return torch.cat(found)[torch.from_numpy(np.argsort(order)).to(self.device)]

    def embed_all(self, model: Model, texts: Sequence[Integers], places: Integers) -> Tensor:
        """Return (n, d) vectors, of a model that is used and not trained."""
        model.eval()
        with torch.no_grad():
            return self.embed(model, texts, places, 260_000)

    # Searching.

    def search(self, model: Model, corpus: str) -> "Found":
        """Ask a corpus all its questions."""
        chunks, questions = self.data.corpora[corpus]
        vectors = self.embed_all(model, self.data.chunks, chunks)
        asked = self.embed_all(model, self.data.questions, questions)
        scores = (asked @ vectors.T).cpu().numpy()
        sections, first = np.unique(self.data.section_of[chunks], return_index=True)
        best = np.maximum.reduceat(scores, first, axis=1)
        own = np.searchsorted(sections, self.data.answer[questions])
        is_wrong = ~self.data.find_answers(questions, sections)
        better = (best > best[np.arange(len(own)), own][:, None]) & is_wrong
        return Found(scores, np.append(first, len(chunks)), np.where(is_wrong, best, LEFT_OUT), own, 1 + better.sum(1))

    def mine(self) -> None:
        """Find each question's best chunk of its section where it is not known, and those that are found wrongly."""
        ranks = []
        for name in self.learned:
            chunks, questions = self.data.corpora[name]
            found = self.search(self.model, name)
            ranks.append(found.rank)
            order = np.argsort(-found.wrong, axis=1, kind="stable")[:, : RANKS.stop]
            for row, question in enumerate(questions):
                if self.data.answer_chunk[question] < 0:
                    self.right[question] = chunks[found.best_chunk(row, found.own[row])]
                sections = [one for one in order[row] if found.wrong[row, one] > LEFT_OUT]
                sections = sections[min(RANKS.start, len(sections) // 2) :]
                self.wrong[int(question)] = [int(chunks[found.best_chunk(row, one)]) for one in sections]
        self.report({"mined": len(self.wrong), "learned_hit@5": round(float(np.mean(np.concatenate(ranks) <= 5)), 4)})

    def measure(self, model: Model, title: str) -> None:
        """Report how well a model finds the sections of each corpus that is held out, among all of the corpus."""
        row = {}
        for name in self.held_out:
            rank = self.search(model, name).rank
            measures = {"R@1": (rank <= 1).mean(), "R@5": (rank <= 5).mean(), "MRR": (1 / rank).mean()}
            row[name] = {measure: round(float(value), 4) for measure, value in measures.items()}
        self.report({"measured": title} | row)


@dataclass(frozen=True, slots=True)
class Found:
    """The hits of a model for the questions of a corpus, whose chunks and sections are counted from 0."""

    scores: npt.NDArray[np.float32]
    """(questions, chunks) cosines."""
    first: Integers
    """The first chunk of each section, and the number of chunks."""
    wrong: npt.NDArray[np.float32]
    """(questions, sections): the cosine of the nearest chunk, or `LEFT_OUT` if the section answers."""
    own: Integers
    """The section of each question."""
    rank: Integers
    """At which place it is found, from 1, without the others that answer."""

    def best_chunk(self, row: int, section: int) -> int:
        """Return a section's nearest chunk to a question."""
        begin, end = self.first[section : section + 2]
        return int(begin + self.scores[row, begin:end].argmax())


def max_similarities(asked: Tensor, asked_mask: Tensor, read: Tensor, read_mask: Tensor) -> Tensor:
    """Return (questions, chunks): the mean, over a question's tokens, of the greatest cosine with one of the chunk."""
    cosines = torch.einsum("qtd,cwd->qctw", asked, read)
    greatest = cosines.masked_fill(~read_mask[None, :, None], LEFT_OUT).amax(-1)
    weights = asked_mask.float()[:, None]
    return (greatest * weights).sum(-1) / weights.sum(-1).clamp(min=1)


def contrast(cosines: Tensor, temperature: float, left_out: Flags, owner: Integers, answer: Integers) -> Tensor:
    """Return the cross-entropy of the right sections; a section is as near as its nearest chunk.

    Args:
        cosines: (questions, chunks).
        temperature: what they are divided by.
        left_out: of the same shape, which of them do not count.
        owner: the section of each chunk.
        answer: the section of each question.
    """
    sections, column = np.unique(owner, return_inverse=True)
    cosines = cosines.masked_fill(torch.from_numpy(left_out).to(cosines.device), LEFT_OUT)
    best = cosines.new_full((len(cosines), len(sections)), LEFT_OUT)
    best = best.scatter_reduce(1, torch.from_numpy(column).to(best.device).expand_as(cosines), cosines, "amax")
    return F.cross_entropy(best / temperature, torch.from_numpy(np.searchsorted(sections, answer)).to(best.device))


@main.command()
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("folder", type=click.Path(exists=False, path_type=Path))
@click.option("--documents", required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--share", default=0.5, show_default=True, help="Of the learned weights; the others are the start's.")
def export(run: Path, folder: Path, documents: Path, share: float) -> None:
    """Write the model of RUN as int8 ONNX into the new FOLDER, and compare both on Markdown."""
    if folder.exists():
        raise click.ClickException(f"{folder} exists already")
    if not (run / "state.pt").exists():
        raise click.ClickException(f"{run} has no state.pt: train it first")
    start = Path(json.loads((run / "settings.json").read_text())["start"])
    learned = torch.load(run / "state.pt", map_location="cpu")["average"]
    model = mix_weights(start, learned, share, torch.device("cpu"))
    tokenizer = (start / "tokenizer.json").read_text(encoding="utf-8")
    write_folder(folder, model.transformer, tokenizer, MAX_TOKENS, documents, projection=model.projection)
    print(compare(model, OnnxEncoder(folder), LibraryTokens((start / "tokenizer.json").read_bytes), documents))


def compare(model: Model, quantised: OnnxEncoder, tokens: Tokens, documents: Path) -> Agreement:
    """Encode the same chunks with both."""
    texts = sample_of_chunks(documents, quantised)[:SAMPLE]
    cosines = []
    for text, ids in zip(texts, tokens.ids(texts), strict=True):
        with torch.no_grad():
            mean, _ = model(torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.long))
        cosines.append(float(mean[0].numpy() @ quantised.encode_documents([text])[0]))
    return Agreement(len(texts), float(np.mean(cosines)), min(cosines))


if __name__ == "__main__":
    main()
