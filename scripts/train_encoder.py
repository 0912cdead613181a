r"""Train a small encoder for sections, and write it as the folder that the encoder kind `onnx` reads.

    uv run --extra training scripts/train_encoder.py RUN --base MODEL --data DATA --minutes 170

MODEL is the folder of a sentence-transformers model of the BERT kind, with mean pooling, in float32. DATA is a folder
that `scripts/training_data.py` made: `sections.jsonl.gz` and `chunks.jsonl.gz`; more than one may be named. The
questions are `scripts/training/questions/*.jsonl`; those of sections that no DATA holds are passed over and counted.

RUN holds all of the run: settings.json, curve.jsonl (a line for each report), state.pt (from which the same command
goes on after an interruption), and the int8 models of each share of the tuned weights.

What is learned, in one step, from some sections of one corpus, each with all its questions:

- the mean vector: each question is nearer to its section (the nearest of its chunks) than to the others of the step
  and to sections that the model itself finds wrongly (InfoNCE: van den Oord, Li and Vinyals, "Representation learning
  with contrastive predictive coding", 2018);
- what the model knew: the cosines between the chunks of a step stay near those of the model that it began as.

That a section's questions share one reading of it makes a step cheap: about 75 tokens a question, where one question
with a chunk and a hard negative of its own reads 250.
"""

import gzip
import json
import random
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import accumulate
from pathlib import Path
from shutil import rmtree
from time import monotonic

import click
import numpy as np
import torch  # noqa: TID253 - the script is of no use without it
import yaml
from torch import Tensor  # noqa: TID253
from torch.nn import functional as F  # noqa: TID253
from transformers import AutoModel

sys.path.insert(0, str(Path(__file__).parents[1]))

from retriever.embedding.encoder import Tokens
from retriever.embedding.onnx import OnnxEncoder
from retriever.types import FloatMatrix
from scripts.export_model import Agreement, write_folder

QUESTIONS = Path(__file__).parent / "training" / "questions"
CORPORA = Path(__file__).parent / "training" / "corpora.yaml"
CHUNK_TOKENS = 160
"""The most tokens read of a chunk: almost none is longer, and a step is as slow as its longest text."""
OTHERS = 150
"""How many sections without a question join those with one, in each corpus, to be found wrongly."""
COMPARED = 600
"""The chunks on which the int8 model is compared with its float32 one."""
RANKS = slice(3, 43)
"""Sections at these places of the model's own ranking are hard negatives: the first few often are an answer as well."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All that decides a run, beside the data."""

    base: str
    seed: int
    steps: int
    minutes: float
    learning_rate: float
    sections: int
    """In a step."""
    temperature: float
    """Of the mean vectors' cosines."""
    keep_weight: float
    """Of the cosines that the base has between chunks."""
    dropout: float
    warm_up: float = 0.08
    """This share of the run the learning rate rises."""
    held_out: tuple[str, ...] = ()
    """Corpora whose questions are not learned."""
    limit: int = 0
    """Sections are drawn until they have this many questions, and the others' are not learned; 0 learns all."""


@dataclass(slots=True)
class Section:
    """A section and what is asked for it."""

    corpus: str
    chunks: list[int] = field(default_factory=list)
    """Places in `Data.texts`."""
    questions: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Data:
    """What there is to learn from."""

    sections: list[Section]
    """Those with questions first."""
    texts: list[str]
    """All chunks."""

    def of_corpus(self) -> dict[str, list[int]]:
        """Map each corpus to the places of its sections."""
        found = defaultdict(list)
        for place, section in enumerate(self.sections):
            found[section.corpus].append(place)
        return found


@dataclass(frozen=True, slots=True)
class Mined:
    """What a model finds for a question of a section."""

    chunk: int
    """The chunk of the right section that is nearest, as a place in `Data.texts`."""
    wrong: list[int]
    """The nearest chunks of sections at `RANKS`."""


@dataclass(frozen=True, slots=True)
class Step:
    """The texts of one step: the sections' chunks come first, the hard negatives after them."""

    questions: list[str]
    chunks: list[int]
    owner: list[int]
    """Of each chunk: which section of the step it is of; a hard negative is a section of its own."""
    answer: list[int]
    """Of each question: its section."""


@click.command()
@click.argument("run", type=click.Path(file_okay=False, path_type=Path))
@click.option("--base", required=True, type=click.Path(exists=True, file_okay=False))
@click.option("--data", required=True, multiple=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--questions", type=click.Path(exists=True, file_okay=False, path_type=Path), default=QUESTIONS)
@click.option(
    "--hold-out",
    "held_out",
    multiple=True,
    default=lambda: [one["name"] for one in yaml.safe_load(CORPORA.read_text("utf-8")) if one.get("held_out")],
    help="A corpus whose questions are not learned.  [those that corpora.yaml holds out]",
)
@click.option("--limit", default=0, show_default=True, help="Learn about so many questions; 0: all.")
@click.option("--steps", default=1500, show_default=True)
@click.option("--minutes", default=170.0, show_default=True, help="The run is shortened to fit.")
@click.option("--seed", default=1, show_default=True)
@click.option("--learning-rate", default=5e-5, show_default=True)
@click.option("--sections", default=24, show_default=True, help="Sections in a step.")
@click.option("--temperature", default=0.05, show_default=True)
@click.option("--keep-weight", default=1.0, show_default=True)
@click.option("--dropout", default=0.0, show_default=True, help="A quarter slower with it.")
@click.option("--mine-again", default=2, show_default=True, help="So many times the hard negatives are found anew.")
@click.option("--average", default=(0.6, 1.0), multiple=True, help="Shares of the tuned weights in what is exported.")
@click.option("--threads", default=0, help="Of PyTorch; 0 lets it choose.")
def main(
    run: Path,
    data: tuple[Path, ...],
    questions: Path,
    mine_again: int,
    average: tuple[float, ...],
    threads: int,
    **chosen: object,
) -> None:
    """Train, or go on with, the RUN."""
    settings = Settings(**chosen)  # type: ignore[arg-type] # click has checked each
    if threads:
        torch.set_num_threads(threads)
    run.mkdir(parents=True, exist_ok=True)
    keep_settings(run / "settings.json", settings)
    learned = read_data(data, questions, settings)
    trainer = Trainer(run, settings, learned, mine_again)
    trainer.train()
    for share in average:
        export(trainer, share)


def keep_settings(path: Path, settings: Settings) -> None:
    """Write the settings of a new run; refuse to go on with a run that was begun with others."""
    now = json.loads(json.dumps(asdict(settings)))
    if path.exists() and (before := json.loads(path.read_text())) != now:
        other = ", ".join(name for name in now if before.get(name) != now[name])
        raise click.ClickException(
            f"{path.parent} was begun with another {other}: name another folder, or the same settings"
        )
    path.write_text(json.dumps(now, indent=2) + "\n")


def read_lines(path: Path) -> Iterator[dict[str, object]]:
    """Yield the objects of a JSONL file, gzip or not.

    Raises:
        click.ClickException: a line is not a JSON object; it is named.
    """
    read = gzip.open if path.suffix == ".gz" else open
    with read(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                row = json.loads(line)
            except ValueError as error:
                raise click.ClickException(f"{path}:{number}: not JSON: {error}") from error
            if not isinstance(row, dict):
                raise click.ClickException(f"{path}:{number}: not an object")
            yield row


def read_questions(folder: Path) -> dict[str, list[str]]:
    """Map each section to its questions, without the unanswerable ones.

    Raises:
        click.ClickException: a line lacks its section, style or question.
    """
    found = defaultdict(list)
    for path in sorted(folder.glob("*.jsonl")):
        for number, row in enumerate(read_lines(path), 1):
            if missing := [
                key for key in ("section", "style", "question") if not isinstance(row.get(key), str) or not row[key]
            ]:
                raise click.ClickException(f"{path}:{number}: no {' and no '.join(missing)}")
            if row["style"] != "unanswerable":
                found[str(row["section"])].append(str(row["question"]))
    return found


def read_data(folders: Sequence[Path], questions: Path, settings: Settings) -> Data:
    """Read the sections with questions, and beside them others of their corpora."""
    asked = read_questions(questions)
    wanted = {name: text for name, text in asked.items() if name.split("/", 1)[0] not in settings.held_out}
    chunks = defaultdict(list)
    for folder in folders:
        for row in read_lines(folder / "chunks.jsonl.gz"):
            chunks[str(row["sid"])].append(str(row["text"]))
    found = [name for name in wanted if name in chunks]
    if settings.limit:
        random.Random(settings.seed).shuffle(found)
        counts = accumulate(len(wanted[name]) for name in found)
        found = [name for name, count in zip(found, counts, strict=True) if count <= settings.limit]
    print(
        f"{sum(len(wanted[name]) for name in found)} questions of {len(found)} sections; "
        f"{len(wanted) - len(found)} sections are in no data",
        flush=True,
    )
    others = defaultdict(list)
    corpora = {name.split("/", 1)[0] for name in found}
    for name in chunks:
        if (corpus := name.split("/", 1)[0]) in corpora and name not in asked:
            others[corpus].append(name)
    chosen = random.Random(settings.seed)
    extra = [
        name for corpus in sorted(others) for name in chosen.sample(others[corpus], min(OTHERS, len(others[corpus])))
    ]
    sections: list[Section] = []
    texts: list[str] = []
    for name in (*found, *extra):
        section = Section(name.split("/", 1)[0], questions=wanted.get(name, []) if name in wanted else [])
        for text in chunks[name]:
            section.chunks.append(len(texts))
            texts.append(text)
        sections.append(section)
    return Data(sections, texts)


class Model(torch.nn.Module):  # type: ignore[misc] # its types come with the extra
    """The transformer, and the mean of its tokens."""

    def __init__(self, base: str, dropout: float) -> None:
        super().__init__()
        self.transformer = AutoModel.from_pretrained(
            base,
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
            local_files_only=True,
            add_pooling_layer=False,
            attn_implementation="eager",  # a third faster than PyTorch's own on a CPU, in bf16
        )

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Map token numbers (n, t), and which of them are of the text, to unit mean vectors (n, d)."""
        hidden = self.transformer(input_ids=ids, attention_mask=mask).last_hidden_state
        weights = mask.unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * weights).sum(1) / weights.sum(1)
        return F.normalize(mean.float(), dim=-1)


class Trainer:
    """A run: it can be stopped at any time and goes on from its last state."""

    def __init__(self, run: Path, settings: Settings, data: Data, mine_again: int) -> None:
        self.run, self.settings, self.data = run, settings, data
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        torch.manual_seed(settings.seed)
        self.model = Model(settings.base, settings.dropout).to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), weight_decay=0.01)
        self.tokens = Tokens.in_file(Path(settings.base) / "tokenizer.json")
        self.random = random.Random(settings.seed)
        self.step, self.seconds, self.mined_times = 0, 0.0, 0
        self.mine_at = [index / (mine_again + 1) for index in range(mine_again + 1)]
        self.mined: list[list[Mined]] = []
        self.base_vectors: FloatMatrix = np.empty((0, 0), np.float32)
        self.queue: dict[str, list[int]] = {}
        self.resume()

    # Being stopped, and going on.

    def resume(self) -> None:
        """Resume from the last state, if there is one."""
        path = self.run / "state.pt"
        if path.exists():
            state = torch.load(path, map_location=self.device, weights_only=False)
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.random.setstate(state["random"])
            torch.set_rng_state(state["torch_random"])
            for name in ("step", "seconds", "mined_times", "mined", "base_vectors", "queue"):
                setattr(self, name, state[name])
            print(f"going on after step {self.step}, {self.seconds / 60:.0f} minutes", flush=True)

    def save(self) -> None:
        """Write the state beside the old one, then put it in its place."""
        names = ("step", "seconds", "mined_times", "mined", "base_vectors", "queue")
        state = {name: getattr(self, name) for name in names}
        state |= {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        state |= {"random": self.random.getstate(), "torch_random": torch.get_rng_state()}
        torch.save(state, self.run / "state.new")
        (self.run / "state.new").replace(self.run / "state.pt")

    # The loop.

    @property
    def progress(self) -> float:
        """The share of the run that is done."""
        return max(self.step / self.settings.steps, self.seconds / 60 / self.settings.minutes)

    def train(self) -> None:
        """Do all steps that are left."""
        self.model.train()
        tokens = 0
        sums: dict[str, float] = defaultdict(float)
        reported = saved = begun = monotonic()
        while self.progress < 1:
            if self.mined_times < len(self.mine_at) and self.progress >= self.mine_at[self.mined_times]:
                self.mine()
            step = self.next_step()
            losses, count = self.learn(step)
            self.step += 1
            tokens += count
            for name, value in losses.items():
                sums[name] += value
            now = monotonic()
            self.seconds += now - begun
            begun = now
            if self.step % 20 == 0:
                self.report({name: value / 20 for name, value in sums.items()}, tokens / (now - reported))
                reported, tokens, sums = now, 0, defaultdict(float)
            if now - saved > 300:
                self.save()
                saved = now
        self.save()

    def report(self, losses: dict[str, float], speed: float) -> None:
        """Write a line to the terminal and to curve.jsonl."""
        row = {"step": self.step, "minutes": round(self.seconds / 60, 2), "tokens_per_second": round(speed)}
        row |= {name: round(value, 4) for name, value in losses.items()}
        with (self.run / "curve.jsonl").open("a") as curve:
            curve.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)

    def learn(self, step: Step) -> tuple[dict[str, float], int]:
        """Change the weights once; return the losses, and how many tokens were read."""
        share = self.progress
        warm = self.settings.warm_up
        factor = share / warm if share < warm else (1 - share) / (1 - warm)
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.learning_rate * max(factor, 0.01)
        bf16 = self.device.type == "cuda" or torch.cpu._is_avx512_bf16_supported()
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=bf16):
            questions = self.encode(step.questions)
            chunks = self.encode([self.data.texts[chunk] for chunk in step.chunks])
        losses = self.losses(step, questions, chunks)
        total = losses["mean"] + self.settings.keep_weight * losses["keep"]
        self.optimizer.zero_grad(set_to_none=True)
        total.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return {name: float(value.detach()) for name, value in losses.items()}, questions.count + chunks.count

    def losses(self, step: Step, questions: "Encoded", chunks: "Encoded") -> dict[str, Tensor]:
        """Return the loss of the mean vectors, and that of what has to stay."""
        settings = self.settings
        answer = torch.tensor(step.answer, device=self.device)
        owner = torch.tensor(step.owner, device=self.device)
        cosines = questions.means @ chunks.means.T
        mean = F.cross_entropy(best_of(cosines, owner) / settings.temperature, answer)
        before = torch.from_numpy(self.base_vectors[step.chunks]).to(self.device)
        keep = F.mse_loss(chunks.means @ chunks.means.T, before @ before.T) * 10
        return {"mean": mean, "keep": keep}

    def encode(self, texts: Sequence[str]) -> "Encoded":
        """Encode the texts by length, some at a time, so that little is padding."""
        ids = [row[: CHUNK_TOKENS - 1] + row[-1:] if len(row) > CHUNK_TOKENS else row for row in self.tokens.ids(texts)]
        order = sorted(range(len(ids)), key=lambda place: len(ids[place]))
        means = []
        for begin in range(0, len(order), 16):
            places = order[begin : begin + 16]
            width = len(ids[places[-1]])
            padded = torch.tensor(
                [ids[place] + [0] * (width - len(ids[place])) for place in places], device=self.device
            )
            mask = torch.tensor(
                [[1] * len(ids[place]) + [0] * (width - len(ids[place])) for place in places], device=self.device
            )
            means.append(self.model(padded, mask))
        back = torch.tensor(np.argsort(order), device=self.device)
        return Encoded(torch.cat(means)[back], sum(map(len, ids)))

    # What a step is made of.

    def next_step(self) -> Step:
        """Return sections of one corpus with all their questions, and as many that the model finds wrongly."""
        count = self.settings.sections
        if not any(len(rest) >= count // 2 for rest in self.queue.values()):
            self.queue = {}
            for corpus, places in sorted(self.data.of_corpus().items()):
                asked = [place for place in places if self.data.sections[place].questions]
                self.random.shuffle(asked)
                self.queue[corpus] = asked
        corpora = [corpus for corpus, rest in self.queue.items() if len(rest) >= count // 2] or [
            corpus for corpus, rest in self.queue.items() if rest
        ]
        corpus = self.random.choices(corpora, [len(self.queue[corpus]) for corpus in corpora])[0]
        chosen, self.queue[corpus] = self.queue[corpus][:count], self.queue[corpus][count:]
        questions, chunks, owner, answer = [], [], [], []
        taken = set()
        for number, place in enumerate(chosen):
            section, found = self.data.sections[place], self.mined[place]
            for chunk in sorted({one.chunk for one in found}):
                chunks.append(chunk)
                owner.append(number)
                taken.add(chunk)
            questions += section.questions
            answer += [number] * len(section.questions)
        of_chosen = {chunk for place in chosen for chunk in self.data.sections[place].chunks}
        for place in chosen:
            wrong = [
                chunk
                for chunk in self.random.choice(self.mined[place]).wrong
                if chunk not in taken and chunk not in of_chosen
            ]
            if wrong:
                chunk = self.random.choice(wrong)
                taken.add(chunk)
                chunks.append(chunk)
                owner.append(max(owner) + 1)
        return Step(questions, chunks, owner, answer)

    def mine(self) -> None:
        """Find, with the model as it is, each question's best chunk of its section and the sections in its way."""
        folder = self.run / "mining"
        rmtree(folder, ignore_errors=True)
        self.model.eval()
        write_model(folder, self.model, self.settings)
        self.model.train()
        encoder = OnnxEncoder(folder)
        vectors = encoder.encode_documents([self.tokens.cut(text, encoder.max_tokens).text for text in self.data.texts])
        if not len(self.base_vectors):
            self.base_vectors = vectors
        sections = self.data.sections
        mined: list[list[Mined]] = [[] for _ in sections]
        first = 0
        for places in self.data.of_corpus().values():
            chunks = np.array([chunk for place in places for chunk in sections[place].chunks])
            owner = np.array([place for place in places for _ in sections[place].chunks])
            asked = [(place, text) for place in places for text in sections[place].questions]
            if not asked:
                continue
            scores = encoder.encode_queries([text for _, text in asked]) @ vectors[chunks].T
            for (place, _), row in zip(asked, scores, strict=True):
                best: dict[int, int] = {}
                order = np.argsort(-row)
                for spot in order:
                    best.setdefault(int(owner[spot]), int(chunks[spot]))
                ranked = list(best)
                first += ranked.index(place) < 5
                wrong = [best[other] for other in ranked[RANKS] if other != place]
                mined[place].append(Mined(best[place], wrong))
        self.mined = mined
        self.mined_times += 1
        questions = sum(map(len, mined))
        row = {
            "step": self.step,
            "minutes": round(self.seconds / 60, 2),
            "mined": questions,
            "learned_hit@5": round(first / questions, 4),
        }
        with (self.run / "curve.jsonl").open("a") as curve:
            curve.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)


@dataclass(frozen=True, slots=True)
class Encoded:
    """Texts as the model reads them."""

    means: Tensor
    """(n, d) unit vectors."""
    count: int
    """How many tokens were read, special ones included."""


def best_of(similarities: Tensor, owner: Tensor) -> Tensor:
    """Map (q, chunks) to (q, sections): a section is as near as the nearest of its chunks."""
    best = similarities.new_full((len(similarities), int(owner.max()) + 1), -torch.inf)
    return best.scatter_reduce(1, owner.expand_as(similarities), similarities, "amax")


def write_model(folder: Path, model: Model, settings: Settings) -> None:
    """Write the model folder; it reads as many tokens of a text as the base reads."""
    base = Path(settings.base)
    limit = json.loads((base / "sentence_bert_config.json").read_text())["max_seq_length"]
    tokenizer = (base / "tokenizer.json").read_text(encoding="utf-8")
    write_folder(folder, model.transformer, tokenizer, limit)


def export(trainer: Trainer, share: float) -> None:
    """Write the model with this share of the tuned weights, else the base's (WiSE-FT: Wortsman et al., CVPR 2022)."""
    settings = trainer.settings
    mixed = Model(settings.base, 0.0)
    tuned = trainer.model.state_dict()
    with torch.no_grad():
        for name, value in mixed.state_dict().items():
            if value.is_floating_point():
                value.copy_(value.lerp(tuned[name].cpu(), share))
    folder = trainer.run / f"model-{share:g}"
    rmtree(folder, ignore_errors=True)
    write_model(folder, mixed.eval(), settings)
    texts = random.Random(settings.seed).sample(trainer.data.texts, min(COMPARED, len(trainer.data.texts)))
    agreement = compare(mixed, OnnxEncoder(folder), trainer.tokens, texts)
    print(f"{folder}: {share:g} of the tuned weights; {agreement}", flush=True)


def compare(model: Model, quantised: OnnxEncoder, tokens: Tokens, texts: Sequence[str]) -> Agreement:
    """Return how near the int8 model's mean vectors are to the float32 model's."""
    cosines = []
    for text in texts:
        piece = tokens.cut(text, quantised.max_tokens)
        with torch.no_grad():
            mean = model(torch.tensor([piece.ids]), torch.ones(1, len(piece.ids), dtype=torch.long))
        cosines.append(float(mean[0].numpy() @ quantised.encode_documents([piece.text])[0]))
    return Agreement(len(texts), float(np.mean(cosines)), min(cosines))


if __name__ == "__main__":
    main()
