"""The encoder against the bare model in batches: tokens a second, and what batches do to the vectors.

Run: uv run python benchmarks/encoder.py FOLDER [CHUNKS]

The texts are chunks of the folder's Markdown. The bare loop is the session alone on ready token numbers, in batches of
about 512 tokens sorted by length, on as many threads as the encoder uses; the encoder also tokenises.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np
import onnxruntime  # noqa: TID253 - what is measured

from pageindex.document import parse_document
from retriever.embedding import BUNDLED_MODEL
from retriever.embedding.onnx import OnnxEncoder, usable_cores
from retriever.embedding.tokens import Tokens, unit_rows
from retriever.indexing.chunk import chunk_nodes
from retriever.settings.schema import ChunkSettings
from retriever.types import FloatMatrix

TOKENS_PER_BATCH = 512


def main(folder: Path, most: int) -> None:
    """Print one line for each way, then the cosines."""
    start = perf_counter()
    encoder = OnnxEncoder()
    encoder.encode_queries(["how are the two rankings fused?"])
    print(f"open and first question: {1000 * (perf_counter() - start):.0f} ms (imports done)")
    texts = chunks_of(folder, encoder)[:most]
    ids = Tokens.in_file(BUNDLED_MODEL / "tokenizer.json").ids(texts)
    tokens = sum(map(len, ids))
    print(f"{len(texts):,} chunks, {tokens:,} tokens, {usable_cores()} threads")

    start = perf_counter()
    in_batches = bare_loop(ids)
    bare = tokens / (perf_counter() - start)
    start = perf_counter()
    alone = encoder.encode_documents(texts)
    ours = tokens / (perf_counter() - start)
    print(f"bare session, batches of {TOKENS_PER_BATCH} tokens: {bare:,.0f} tokens/s")
    print(f"encode_documents, each text alone: {ours:,.0f} tokens/s ({ours / bare:.0%})")
    cosines = np.sum(in_batches * alone, axis=1)
    print(f"cosine of a text in a batch with the same text alone: mean {cosines.mean():.4f}, worst {cosines.min():.4f}")


def chunks_of(folder: Path, encoder: OnnxEncoder) -> list[str]:
    """The different texts of the folder's chunks, in the order of the files."""
    texts: dict[str, None] = {}
    for path in sorted(folder.rglob("*.md")):
        document = parse_document(path.name, path.read_text(encoding="utf-8", errors="replace"))
        nodes = [placed.node for placed in document.nodes]
        for chunks in chunk_nodes(nodes, encoder.count_tokens, ChunkSettings()):
            texts |= dict.fromkeys(chunk.embedded_text for chunk in chunks)
    return list(texts)


def bare_loop(ids: list[list[int]]) -> FloatMatrix:
    """The vectors in the order of `ids`, from padded batches."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(BUNDLED_MODEL / "model.onnx"), options)
    batches = batches_by_length([len(numbers) for numbers in ids])
    with ThreadPoolExecutor(usable_cores()) as pool:
        rows = list(pool.map(partial(run_batch, session), ([ids[place] for place in batch] for batch in batches)))
    order = np.argsort(np.concatenate(batches))
    return unit_rows(np.concatenate(rows)[order], len(ids), "the bare session")


def batches_by_length(lengths: list[int]) -> list[list[int]]:
    """The places of the texts, shortest first, in runs of at most `TOKENS_PER_BATCH` tokens, padding included."""
    batches: list[list[int]] = [[]]
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batches[-1] and (len(batches[-1]) + 1) * lengths[place] > TOKENS_PER_BATCH:
            batches.append([])
        batches[-1].append(place)
    return batches


def run_batch(session: onnxruntime.InferenceSession, ids: list[list[int]]) -> FloatMatrix:
    """(n, d): the mean over each text's own tokens."""
    numbers = np.zeros((len(ids), max(map(len, ids))), dtype=np.int64)
    mask = np.zeros_like(numbers)
    for row, own in enumerate(ids):
        numbers[row, : len(own)] = own
        mask[row, : len(own)] = 1
    feed = {"input_ids": numbers, "attention_mask": mask, "token_type_ids": np.zeros_like(numbers)}
    hidden = session.run(None, feed)[0]
    pooled: FloatMatrix = (hidden * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
    return pooled


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 5000)
