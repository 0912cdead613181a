"""Make the folder that `encoder.kind: onnx` or `rerank.kind: onnx` reads, of a sentence-transformers model.

Needs the extra: uv run --extra models scripts/export_model.py MODEL FOLDER --documents DOCS [--sha256 HEX]

A model of a class `...ForSequenceClassification` with one output is a reranker (a cross-encoder), any other an encoder.

The weights are quantised to int8 for each channel, the activations while the model runs: an encoder of the BERT kind by
`scripts/bert_graph.py`, any other model by ONNX Runtime. The folder appears only when the quantised model agrees with
the original on real text.
"""

import json
import sys
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from pageindex.document import parse_document
from retriever.embedding.encoder import LibraryTokens, Prefixes
from retriever.embedding.external import find_model_folder, own_prefixes
from retriever.embedding.onnx import (
    ENCODER_CARD,
    MODEL_NAME,
    RERANKER_CARD,
    TOKENIZER_NAME,
    ModelCard,
    OnnxEncoder,
    file_sha256,
)
from retriever.errors import EncoderError, RetrieverError
from retriever.indexing.chunk import chunk_nodes
from retriever.rerank import OnnxReranker, RerankInput
from retriever.settings import RerankSettings
from scripts.bert_graph import find_greatest, write_encoder

if TYPE_CHECKING:
    import torch
    from sentence_transformers import SentenceTransformer

POOLINGS = ("mean", "cls")  # that the encoder knows
MIN_MEAN_COSINE = 0.99
MIN_COSINE = 0.97
SAMPLE = 2000
"""Chunks that are compared."""
MEASURED = 300
"""Chunks on which activations are measured."""
MIN_CORRELATION = 0.98
MAX_MEAN_DIFFERENCE = 0.02
QUESTIONS, CANDIDATES = 10, 20
"""Titles of sections that a reranker is asked, and how many sections it reads for each, its own among them."""
OPSET = 17
MAX_TOKENS = 512  # of a question and a candidate together: what cross-encoders were trained with
WEIGHTS = ("model.safetensors", "pytorch_model.bin")


@dataclass(frozen=True, slots=True)
class Agreement:
    """Cosines of the int8 vectors with the float32 ones of the same chunks."""

    chunks: int
    """How many were compared."""
    mean: float
    worst: float

    @property
    def is_enough(self) -> bool:
        """Whether the int8 model may stand for the original."""
        return self.mean >= MIN_MEAN_COSINE and self.worst >= MIN_COSINE

    def __str__(self) -> str:
        return f"cosine of int8 with float32 over {self.chunks} chunks: mean {self.mean:.4f}, worst {self.worst:.4f}"


@dataclass(frozen=True, slots=True)
class PairAgreement:
    """The int8 scores of titles beside sections, compared with the float32 ones of the same pairs."""

    pairs: int
    """How many were compared."""
    correlation: float
    """Pearson's, of the logits: it measures the order."""
    difference: float
    """The mean absolute difference of the scores, 0 to 1."""

    @property
    def is_enough(self) -> bool:
        """Whether the int8 model may stand for the original."""
        return self.correlation >= MIN_CORRELATION and self.difference <= MAX_MEAN_DIFFERENCE

    def __str__(self) -> str:
        what = f"int8 beside float32 over {self.pairs} pairs of texts: correlation of the logits"
        return f"{what} {self.correlation:.4f}, mean difference of the scores {self.difference:.4f}"


@click.command()
@click.argument("model")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--documents",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    required=True,
    help="Markdown to compare the two models on.",
)
@click.option("--sha256", help="What the SHA-256 of the source's weights must be.")
def main(model: str, folder: Path, documents: Path, sha256: str | None) -> None:
    """Export MODEL (a name in the cache of Hugging Face, or a folder) to FOLDER."""
    if folder.exists():
        raise click.UsageError(f"{folder} exists already")
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with TemporaryDirectory(dir=folder.parent, prefix=".export-") as place:
            made = Path(place) / folder.name
            if is_reranker(find_model_folder(model, owner="cross-encoder")):
                least = f"the correlation must be {MIN_CORRELATION}, the difference at most {MAX_MEAN_DIFFERENCE}"
                agreement: Agreement | PairAgreement = export_reranker(model, made, documents, sha256)
            else:
                least = f"the mean must be {MIN_MEAN_COSINE}, the worst {MIN_COSINE}"
                agreement = export(model, made, documents, sha256)
            print(agreement)
            if not agreement.is_enough:
                sys.exit(f"not enough: {least}")
            made.rename(folder)
    except RetrieverError as error:
        sys.exit(str(error))


def export(model: str, folder: Path, documents: Path, sha256: str | None = None) -> Agreement:
    """Write all files of `folder`, and say how well its vectors agree with the model's own.

    Raises:
        EncoderError: the model is not there, or of a kind that the encoder cannot run.
        click.ClickException: the weights are not those of the SHA-256, or there is no text to compare on.
    """
    source = find_model_folder(model)
    weights = checked_weights(source, sha256)
    original = load_original(source)
    card = write_folder(
        folder,
        transformer_of(original),
        original.tokenizer.backend_tokenizer.to_str(),
        original.max_seq_length or transformer_of(original).config.max_position_embeddings,
        documents,
        original[1].pooling_mode,
        own_prefixes(original),
    )
    agreement = compare(original, OnnxEncoder(folder), documents)
    made_of = f"{card.dimension} dimensions, {card.max_tokens} tokens, {card.pooling} pooling, then L2 normalisation."
    (folder / "README.md").write_text(readme(model, weights, card, made_of, agreement), encoding="utf-8")
    return agreement


def is_reranker(source: Path) -> bool:
    """Return whether a folder's model reads two texts and gives one number."""
    try:
        config = json.loads((source / "config.json").read_text(encoding="utf-8"))
        architectures, labels = config.get("architectures") or [], config.get("id2label", {"0": ""})
    except (OSError, ValueError, AttributeError):
        return False
    return any(str(name).endswith("ForSequenceClassification") for name in architectures) and len(labels) == 1


def export_reranker(model: str, folder: Path, documents: Path, sha256: str | None = None) -> PairAgreement:
    """Do as `export` for a cross-encoder."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    source = find_model_folder(model, owner="cross-encoder")
    weights = checked_weights(source, sha256)
    try:  # code of the model's own, as some have it, is not run
        tokenizer = AutoTokenizer.from_pretrained(str(source), local_files_only=True, trust_remote_code=False)
        original = AutoModelForSequenceClassification.from_pretrained(
            str(source), local_files_only=True, trust_remote_code=False
        ).eval()
    except (OSError, ValueError, KeyError) as error:
        raise click.ClickException(f"{source} cannot be loaded: {error}") from error
    config = original.config
    most = config.max_position_embeddings
    if "roberta" in config.model_type:  # its positions begin behind that of the filling
        most -= config.pad_token_id + 1
    write_tokenizer(folder, original, tokenizer.backend_tokenizer.to_str())
    write_quantised(original, folder / MODEL_NAME)
    hashes = file_sha256(folder / MODEL_NAME), file_sha256(folder / TOKENIZER_NAME)
    card = ModelCard(*hashes, max_tokens=min(most, tokenizer.model_max_length, MAX_TOKENS))
    write_card(folder, card, RERANKER_CARD)
    agreement = compare_pairs(original, tokenizer, folder, documents)
    made_of = f"A cross-encoder of {card.max_tokens} tokens, one logit for two texts."
    (folder / "README.md").write_text(readme(model, weights, card, made_of, agreement), encoding="utf-8")
    return agreement


def checked_weights(source: Path, expected: str | None) -> str:
    """Return the SHA-256 of the source's weights, which is the expected one if there is one."""
    path = next((source / name for name in WEIGHTS if (source / name).is_file()), None)
    if path is None:
        raise click.ClickException(f"{source} holds none of {', '.join(WEIGHTS)}")
    digest = file_sha256(path)
    if expected and digest != expected.lower():
        raise click.ClickException(f"{path} has the SHA-256 {digest}, not {expected}")
    return digest


def load_original(source: Path) -> "SentenceTransformer":
    """Load the model on the CPU, if it is made of a transformer, a pooling that the encoder knows, and no more."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(source), device="cpu", local_files_only=True, trust_remote_code=False)
    kinds = [type(module).__name__ for module in model]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise EncoderError(
            f"{source} is made of {', '.join(kinds)}: only Transformer, Pooling, Normalize can be exported"
        )
    if model[1].pooling_mode not in POOLINGS:
        raise EncoderError(f"{source} pools by {model[1].pooling_mode}: only {' and '.join(POOLINGS)} can be exported")
    return model


def transformer_of(model: "SentenceTransformer") -> "torch.nn.Module":
    """Return the part that is exported: token numbers to one vector for each token."""
    transformer: torch.nn.Module = model[0].auto_model
    return transformer


def write_folder(
    folder: Path,
    transformer: "torch.nn.Module",
    tokenizer: str,
    max_tokens: int,
    documents: Path,
    pooling: str = "mean",
    prefixes: Prefixes | None = None,
    projection: "torch.nn.Module | None" = None,
) -> ModelCard:
    """Make `folder` with all that the encoder reads.

    Args:
        folder: is not there yet.
        transformer: reads token numbers and a mask, and gives `last_hidden_state`.
        tokenizer: the content of its `tokenizer.json`.
        max_tokens: how many tokens of a text it reads, special ones included.
        documents: Markdown; on some of it activations are measured.
        pooling: one of POOLINGS.
        prefixes: what it wants before texts.
        projection: makes token vectors of the transformer's.
    """
    write_tokenizer(folder, transformer, tokenizer)
    card = ModelCard(
        model_sha256="",
        tokenizer_sha256=file_sha256(folder / TOKENIZER_NAME),
        dimension=transformer.config.hidden_size,
        max_tokens=max_tokens,
        pooling=pooling,
        query_prefix=prefixes.query if prefixes else "",
        document_prefix=prefixes.document if prefixes else "",
    )
    write_card(folder, card)
    if is_bert(transformer):
        texts = sample_of_chunks(documents, OnnxEncoder(folder))
        texts = [card.document_prefix + text for text in texts[:: -(-len(texts) // MEASURED)]]
        ids = LibraryTokens((folder / TOKENIZER_NAME).read_bytes).ids(texts)
        write_by_hand(transformer, folder / MODEL_NAME, ids, projection)
    else:
        write_quantised(transformer, folder / MODEL_NAME, projection)
    card = replace(card, model_sha256=file_sha256(folder / MODEL_NAME))
    write_card(folder, card)
    return card


def write_card(folder: Path, card: ModelCard, name: str = ENCODER_CARD) -> None:
    """Put the card beside its model."""
    (folder / name).write_text(json.dumps(asdict(card), indent=2) + "\n", encoding="utf-8")


def write_tokenizer(folder: Path, transformer: "torch.nn.Module", tokenizer: str) -> None:
    """Make `folder` with the tokenizer, and what is known of the transformer."""
    from tokenizers import Tokenizer

    folder.mkdir()
    whole = Tokenizer.from_str(tokenizer)
    whole.no_truncation()  # the encoder counts, and pads nothing
    whole.no_padding()
    whole.save(str(folder / TOKENIZER_NAME), pretty=False)
    transformer.config.to_json_file(folder / "config.json")


def is_bert(transformer: "torch.nn.Module") -> bool:
    """Return whether it is an encoder that `write_encoder` can write."""
    config = transformer.config
    kind = getattr(config, "position_embedding_type", "absolute")
    return type(transformer).__name__ == "BertModel" and config.hidden_act == "gelu" and kind == "absolute"


def write_by_hand(
    transformer: "torch.nn.Module",
    path: Path,
    texts: Sequence[Sequence[int]],
    projection: "torch.nn.Module | None" = None,
) -> None:
    """Write an encoder of the BERT kind, by how great its activations are on some texts, as token numbers."""
    weights = {name: values.numpy() for name, values in transformer.float().cpu().state_dict().items()}
    greatest = find_greatest(transformer, [{"input_ids": ids} for ids in texts])
    rows = projection.weight.detach().float().cpu().numpy() if projection else None
    write_encoder(path, weights, transformer.config.to_dict(), greatest, rows)


def write_quantised(transformer: "torch.nn.Module", path: Path, projection: "torch.nn.Module | None" = None) -> None:
    """Write the transformer as ONNX, its weights as 8 bits for each channel: for the whole tensor they lose much more.

    Unsigned: without VNNI, a processor's sums of products with signed ones are cut off at 16 bits.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with TemporaryDirectory() as place:
        exported = Path(place) / "float32.onnx"
        write_float32(transformer, exported, projection)
        quantize_dynamic(exported, path, per_channel=True, weight_type=QuantType.QUInt8)


def write_float32(transformer: "torch.nn.Module", path: Path, projection: "torch.nn.Module | None") -> None:
    """Write the transformer as ONNX: int64 (n, t) for each input in, `last_hidden_state` float32 (n, t, d) out.

    Of a model that classifies, the output is `logits` (n, classes). With a projection there is a second one,
    `token_vectors` (n, t, p).
    """
    import torch

    names = ["input_ids", "attention_mask"]
    if getattr(transformer.config, "type_vocab_size", 0) > 1:
        names.append("token_type_ids")
    classifies = type(transformer).__name__.endswith("ForSequenceClassification")
    outputs = ["logits"] if classifies else ["last_hidden_state"]
    if projection:
        outputs.append("token_vectors")

    class Vectors(torch.nn.Module):  # type: ignore[misc] # its types come with the extra
        def __init__(self) -> None:
            super().__init__()
            self.transformer = transformer  # as a part of it, its weights are parameters, not constants
            self.projection = projection

        def forward(self, *inputs: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
            output = self.transformer(**dict(zip(names, inputs, strict=True)))
            vectors: torch.Tensor = output.logits if classifies else output.last_hidden_state
            return (vectors, self.projection(vectors)) if self.projection else vectors

    example = torch.tensor([[1, 2, 3, 4], [1, 2, 0, 0]])
    known = {"input_ids": example, "attention_mask": (example > 0).long(), "token_type_ids": torch.zeros_like(example)}
    axes = {name: {0: "texts", 1: "tokens"} for name in (*names, *outputs)}
    was_training = transformer.training
    with torch.no_grad(), warnings.catch_warnings():
        # The exporter warns of itself and of what tracing may get wrong; the comparison at the end judges what it did.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Vectors().eval(),
            tuple(known[name] for name in names),
            str(path),
            input_names=names,
            output_names=outputs,
            dynamic_axes=axes,
            opset_version=OPSET,
            dynamo=False,
        )
    transformer.train(was_training)


def compare(original: "SentenceTransformer", quantised: OnnxEncoder, documents: Path) -> Agreement:
    """Encode the same chunks with both."""
    texts = sample_of_chunks(documents, quantised)
    prefix = own_prefixes(original).document
    expected = original.encode(texts, prompt=prefix, normalize_embeddings=True, show_progress_bar=False)
    cosines = np.sum(expected * quantised.encode_documents(texts), axis=1)
    return Agreement(len(texts), float(cosines.mean()), float(cosines.min()))


def compare_pairs(
    original: "torch.nn.Module",
    tokenizer: Any,  # noqa: ANN401 - of transformers, which has no types
    folder: Path,
    documents: Path,
) -> PairAgreement:
    """Ask both for titles of sections, each beside its own section and others."""
    import torch

    sections = [
        (placed.node.title, placed.node.body)
        for path in sorted(documents.rglob("*.md"))
        for placed in parse_document(path.name, path.read_text(encoding="utf-8", errors="replace")).nodes
        if placed.node.title and placed.node.body.strip()
    ]
    if not sections:
        raise click.ClickException(f"no Markdown with sections in {documents}")
    quantised = OnnxReranker(RerankSettings(kind="onnx", model=str(folder)))
    expected, found = list[float](), list[float]()
    for number in range(min(QUESTIONS, len(sections))):
        place = number * len(sections) // QUESTIONS
        title = sections[place][0]
        texts = [sections[(place + 7 * step) % len(sections)][1] for step in range(min(CANDIDATES, len(sections)))]
        found += quantised.score(title, [RerankInput(title, text) for text in texts])
        pairs = [(title, f"{title}\n{text}") for text in texts]
        for pair in pairs:
            read = tokenizer(*pair, truncation=True, max_length=MAX_TOKENS, return_tensors="pt")
            with torch.no_grad():
                expected.append(float(original(**read).logits[0, 0].sigmoid()))
    scores = np.clip(np.array([expected, found]), 1e-12, 1 - 1e-12)
    logits = np.log(scores / (1 - scores))
    correlation = float(np.corrcoef(logits)[0, 1])
    return PairAgreement(len(expected), correlation, float(np.abs(scores[0] - scores[1]).mean()))


def sample_of_chunks(documents: Path, encoder: OnnxEncoder) -> list[str]:
    """Return up to `SAMPLE` different chunks, evenly from all of the folder's Markdown."""
    texts: dict[str, None] = {}
    for path in sorted(documents.rglob("*.md")):
        document = parse_document(path.name, path.read_text(encoding="utf-8", errors="replace"))
        nodes = [placed.node for placed in document.nodes]
        chunks = chunk_nodes(nodes, encoder.count_tokens, encoder.max_tokens)
        texts |= {chunk.text: None for of_node in chunks for chunk in of_node}
    if not texts:
        raise click.ClickException(f"no Markdown in {documents}")
    return list(texts)[:: -(-len(texts) // SAMPLE)]


def readme(model: str, weights: str, card: ModelCard, made_of: str, agreement: Agreement | PairAgreement) -> str:
    """Return what the folder is and where it comes from; `made_of` says it of the model in a line."""
    name = Path(model).name if Path(model).is_dir() else model
    return f"""# {name}, int8 ONNX

Made by scripts/export_model.py from the weights with SHA-256 {weights}; their licence applies.
{made_of}
The {agreement}.

SHA-256: {MODEL_NAME} {card.model_sha256}
SHA-256: {TOKENIZER_NAME} {card.tokenizer_sha256}
"""


if __name__ == "__main__":
    main()
