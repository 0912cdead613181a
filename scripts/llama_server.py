"""Put a real model server into the environment, for tests: llama.cpp's llama-server and three tiny models.

    uv run --group dev scripts/llama_server.py          # 10 seconds the first time, nothing when it is there

The server comes from Debian's packages, unpacked below the environment and run by their own loader: nothing is
installed, and no root is needed. The models are made here:

    embed.gguf    the bundled encoder, its weights as float32
    rerank.gguf   the same with a head of random numbers: a real /rerank with senseless scores
    chat.gguf     a table of which token follows which in benchmarks/data/lines: it loops and rambles, as small
                  models do
"""

import contextlib
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import httpx
import numpy as np
import numpy.typing as npt

from retriever.embedding.encoder import ENGLISH_MODEL

PROJECT = Path(__file__).parents[1]
FOLDER = Path(sys.prefix) / "llama"
INSTALL = "uv run --group dev scripts/llama_server.py"
SUITE = "sid"  # llama.cpp is in no release of Debian yet
PACKAGE = "llama.cpp-tools"
# Documents that stay as they are, since questions with lines belong to them: the model says the same next month.
TEXTS = PROJECT / "benchmarks" / "data" / "lines"
VOCABULARY = 1024  # tokens of the model that writes, and its dimension
Matrix = npt.NDArray[np.float32]


class MissingServerError(Exception):
    """Why no server can be had here."""


@click.command(help=__doc__)
def main() -> None:
    """Install what is missing, and print where it is."""
    started = time.monotonic()
    try:
        install()
    except MissingServerError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{FOLDER}: {', '.join(sorted(path.name for path in FOLDER.glob('*.gguf')))}, llama-server")
    click.echo(f"{time.monotonic() - started:.1f} s")


def install() -> None:
    """Put the server and its models into the environment, as far as they are missing."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    if not (FOLDER / "llama-server").exists():
        with tempfile.TemporaryDirectory(dir=FOLDER) as work:
            unpack_server(Path(work))
    for name, make in (("embed", make_encoder), ("rerank", make_reranker), ("chat", make_writer)):
        if not (FOLDER / f"{name}.gguf").exists():
            make(FOLDER / f"{name}.part")
            (FOLDER / f"{name}.part").rename(FOLDER / f"{name}.gguf")


def unpack_server(work: Path) -> None:
    """Download the server's packages with all that they need, and unpack them."""
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise MissingServerError("no llama-server: there is no apt here")

    def run(*command: str) -> str:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if done.returncode:
            raise MissingServerError(f"no llama-server: {shlex.join(command[:1])}: {done.stderr.strip()[-300:]}")
        return done.stdout

    # The mirror is the one that this machine uses; only the suite is another.
    sources = run("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages").split()
    mirror = next((uri for uri in sources if "security" not in uri), "")
    if not mirror:
        raise MissingServerError("no llama-server: apt has no source here")
    keys = "/usr/share/keyrings/debian-archive-keyring.gpg"
    (work / "sources.list").write_text(f"deb [signed-by={keys}] {mirror} {SUITE} main\n")
    (work / "status").touch()  # nothing counts as installed, so that the server comes with its own libraries
    (work / "lists" / "partial").mkdir(parents=True)
    (work / "archives" / "partial").mkdir(parents=True)
    places = {
        "Dir::Etc::sourcelist": work / "sources.list",
        "Dir::Etc::sourceparts": os.devnull,
        "Dir::State::lists": work / "lists",
        "Dir::State::status": work / "status",
        "Dir::Cache": work,
        "Dir::Cache::archives": work / "archives",
        "Debug::NoLocking": "1",
        "APT::Sandbox::User": "",
    }
    options = [part for name, value in places.items() for part in ("-o", f"{name}={value}")]
    run("apt-get", *options, "update", "-qq")
    run("apt-get", *options, "install", "-qq", "-y", "--download-only", "--no-install-recommends", PACKAGE)
    root = FOLDER / "root"
    shutil.rmtree(root, ignore_errors=True)
    for package in (work / "archives").glob("*.deb"):
        run("dpkg-deb", "-x", str(package), str(root))
    loader = next((root / "usr" / "lib").glob("*/ld-linux*.so.*"))
    libraries = loader.parent
    has_avx2 = "avx2" in Path("/proc/cpuinfo").read_text().split()
    backends = sorted((libraries / "ggml").glob("backends*/libggml-cpu-*.so"))
    wanted = "haswell" if has_avx2 else "x64"
    backend = next((path for path in backends if wanted in path.name), backends[0])
    script = FOLDER / "llama-server"
    program = root / "usr" / "bin" / "llama-server"
    command = shlex.join(map(str, (loader, "--library-path", f"{libraries}:{libraries / 'llama'}", program)))
    exported = f"export GGML_BACKEND_PATH={shlex.quote(str(backend))}"
    script.with_suffix(".part").write_text(f'#!/bin/sh\n{exported}\nexec {command} "$@"\n')
    script.with_suffix(".part").chmod(0o755)
    script.with_suffix(".part").rename(script)


# Models


def make_encoder(path: Path) -> None:
    """Write the bundled encoder."""
    _write_bert(path, is_reranker=False)


def make_reranker(path: Path) -> None:
    """Write a reranker whose last layer is random."""
    _write_bert(path, is_reranker=True)


def _write_bert(path: Path, *, is_reranker: bool) -> None:
    import gguf

    config = json.loads((ENGLISH_MODEL / "config.json").read_text())
    words = json.loads((ENGLISH_MODEL / "tokenizer.json").read_text())["model"]["vocab"]
    kinds = gguf.TokenType
    writer = gguf.GGUFWriter(path, "bert")
    writer.add_name("tiny-reranker" if is_reranker else "bundled-encoder")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(width := config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config.get("layer_norm_eps", 1e-12))
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.RANK if is_reranker else gguf.PoolingType.MEAN)
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("jina-v2-en")
    ordered: list[str] = sorted(words, key=words.get)
    # WordPiece marks what goes on with a word, llama.cpp what begins one.
    is_special = re.compile(r"\[(?:PAD|UNK|CLS|SEP|MASK|unused\d+)\]")
    pieces = [w if is_special.fullmatch(w) else w[2:] if w.startswith("##") else f"\u2581{w}" for w in ordered]
    writer.add_token_list([piece.encode() for piece in pieces])
    writer.add_token_types([kinds.CONTROL if is_special.fullmatch(word) else kinds.NORMAL for word in ordered])
    writer.add_token_type_count(2)
    writer.add_bos_token_id(words["[CLS]"])
    writer.add_eos_token_id(words["[SEP]"])
    writer.add_sep_token_id(words["[SEP]"])
    writer.add_unk_token_id(words["[UNK]"])
    writer.add_pad_token_id(words["[PAD]"])
    writer.add_mask_token_id(words["[MASK]"])
    for name, weights in _read_bundled_weights().items():
        writer.add_tensor(name, weights)
    if is_reranker:
        random = np.random.default_rng(1)
        writer.add_tensor("cls.weight", random.normal(0, 0.05, (width, width)).astype(np.float32))
        writer.add_tensor("cls.bias", np.zeros(width, np.float32))
        writer.add_tensor("cls.output.weight", random.normal(0, 0.3, (1, width)).astype(np.float32))
        writer.add_tensor("cls.output.bias", np.zeros(1, np.float32))
        writer.add_array("bert.classifier.output_labels", ["LABEL_0"])
    _finish(writer)


def _read_bundled_weights() -> dict[str, Matrix]:
    """Return the bundled encoder's weights by llama.cpp's names, no longer int8."""
    import onnx

    values = {
        item.name: onnx.numpy_helper.to_array(item)
        for item in onnx.load(str(ENGLISH_MODEL / "model.onnx")).graph.initializer
    }

    def full(name: str) -> Matrix:
        quantized = values[f"{name}_quantized"].astype(np.float32)
        weights = (quantized - values[f"{name}_zero_point"].astype(np.float32)) * values[f"{name}_scale"]
        return np.ascontiguousarray(weights, np.float32)

    root = next(name for name in values if name.endswith("embeddings.LayerNorm.weight"))
    root = root.removesuffix("embeddings.LayerNorm.weight")
    found = {
        "token_embd.weight": full(f"{root}embeddings.word_embeddings.weight"),
        "position_embd.weight": full(f"{root}embeddings.position_embeddings.weight"),
        "token_types.weight": full(f"{root}embeddings.token_type_embeddings.weight"),
        "token_embd_norm.weight": values[f"{root}embeddings.LayerNorm.weight"],
        "token_embd_norm.bias": values[f"{root}embeddings.LayerNorm.bias"],
    }
    # The products with weights have names without meaning, in the order of the layers.
    products = iter(name.removesuffix("_scale") for name in values if re.fullmatch(r"onnx::MatMul_\d+_scale", name))
    parts = {
        "attn_q": "attention.self.query", "attn_k": "attention.self.key", "attn_v": "attention.self.value",
        "attn_output": "attention.output.dense", "ffn_up": "intermediate.dense", "ffn_down": "output.dense",
    }  # fmt: skip
    norms = {"attn_output_norm": "attention.output.LayerNorm", "layer_output_norm": "output.LayerNorm"}
    layers = sum(name.endswith("attention.self.query.bias") for name in values)
    for layer in range(layers):
        theirs = f"{root}encoder.layer.{layer}."
        for name, part in parts.items():
            found[f"blk.{layer}.{name}.weight"] = np.ascontiguousarray(full(next(products)).T)
            found[f"blk.{layer}.{name}.bias"] = values[f"{theirs}{part}.bias"]
        for name, part in norms.items():
            found[f"blk.{layer}.{name}.weight"] = values[f"{theirs}{part}.weight"]
            found[f"blk.{layer}.{name}.bias"] = values[f"{theirs}{part}.bias"]
    return found


def make_writer(path: Path) -> None:
    """Write a language model whose next token depends on the last one alone.

    A token's embedding has one number that is not 0, and the layer adds nothing, so that the output matrix is the
    table of the logarithms of the probabilities.
    """
    import gguf

    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    vocabulary, merges, after = _count_pairs(special)
    count = len(vocabulary)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny-writer")
    writer.add_context_length(32768)
    writer.add_embedding_length(count)
    writer.add_feed_forward_length(256)
    writer.add_block_count(1)
    writer.add_head_count(16)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_dimension_count(count // 16)
    writer.add_vocab_size(count)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([token.encode() for token in vocabulary])
    kinds = gguf.TokenType
    writer.add_token_types([kinds.CONTROL if token in special else kinds.NORMAL for token in vocabulary])
    writer.add_token_merges(merges)
    writer.add_bos_token_id(vocabulary.index("<|endoftext|>"))
    writer.add_eos_token_id(vocabulary.index("<|im_end|>"))
    writer.add_add_bos_token(False)
    writer.add_chat_template(
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    writer.add_tensor("token_embd.weight", np.eye(count, dtype=np.float32))
    # The norm before the output makes the one number of a row the root of its length.
    writer.add_tensor("output.weight", (np.log(after).T / np.sqrt(count)).astype(np.float32))
    writer.add_tensor("output_norm.weight", np.ones(count, np.float32))
    shapes = {
        "attn_q": (count, count), "attn_k": (count // 16, count), "attn_v": (count // 16, count),
        "attn_output": (count, count), "ffn_gate": (256, count), "ffn_up": (256, count), "ffn_down": (count, 256),
    }  # fmt: skip
    for name in ("attn_norm", "ffn_norm"):
        writer.add_tensor(f"blk.0.{name}.weight", np.ones(count, np.float32))
    for name, shape in shapes.items():
        writer.add_tensor(f"blk.0.{name}.weight", np.zeros(shape, np.float16))
    _finish(writer)


def _count_pairs(special: list[str]) -> tuple[list[str], list[str], npt.NDArray[np.float64]]:
    """Return tokens, merges of two tokens, and how probable each token is after each; of TEXTS."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    texts = [file.read_text(encoding="utf-8") for file in sorted(TEXTS.rglob("*.md"))]
    prose = [re.sub(r"\s+", " ", re.sub(r"[^A-Za-z0-9.,'? ]+", " ", text)) for text in texts]
    sentences = [text for text in re.findall(r"[A-Z][^.?]{20,150}[.?]", " ".join(prose)) if "  " not in text]
    # Strings as JSON has them: without these, none would ever begin with a word, or end.
    strings = [f'"{sentence}"{end}' for sentence in sentences for end in ("", ",", "]")]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=special, initial_alphabet=letters, show_progress=False
    )
    tokenizer.train_from_iterator(prose, trainer)
    spec = json.loads(tokenizer.to_str())["model"]
    numbers: dict[str, int] = spec["vocab"]
    pairs = np.zeros((len(numbers), len(numbers)), np.float64)
    # Numbers as lists have them: without these, none would ever end.
    lists = [", ".join(str((first + step) % 10) for step in range(100)) for first in range(10)]
    for text in [*prose, *strings, *lists]:
        ids = [*tokenizer.encode(text).ids, numbers["<|im_end|>"]]
        np.add.at(pairs, (ids[:-1], ids[1:]), 1)
    pairs[numbers['"'], [numbers[mark] for mark in ",]"]] *= 0.02  # inside a string they are rare
    alone = pairs.sum(axis=0) + 0.01
    alone /= alone.sum()
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in spec["merges"]]
    after = (pairs + 2 * alone) / (pairs.sum(axis=1, keepdims=True) + 2)
    return sorted(numbers, key=lambda token: numbers[token]), merges, after


def _finish(writer: Any) -> None:  # noqa: ANN401 - gguf is imported late, and has no types
    writer.add_file_type(0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# Servers


@contextlib.contextmanager
def running_server(model: str, *options: str) -> "Iterator[tuple[str, subprocess.Popen[bytes]]]":
    """Run a server of `embed`, `rerank` or `chat`; yield its address with /v1, and its process.

    Raises:
        MissingServerError: it is not in the environment, or does not start.
    """
    if not (FOLDER / "llama-server").exists() or not (FOLDER / f"{model}.gguf").exists():
        raise MissingServerError(f"no llama-server in this environment: run: {INSTALL}")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    kinds: dict[str, Sequence[str]] = {"embed": ("--embeddings",), "rerank": ("--reranking",)}
    command = [str(FOLDER / "llama-server"), "-m", str(FOLDER / f"{model}.gguf"), "--host", "127.0.0.1"]
    command += ["--port", str(port), "--threads", "1", *kinds.get(model, ()), *options]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            _wait_until_ready(f"http://127.0.0.1:{port}/health", process)
            yield f"http://127.0.0.1:{port}/v1", process
        except TimeoutError as error:
            log.seek(0)
            raise MissingServerError(f"llama-server does not start: {log.read().decode()[-500:]}") from error
        finally:
            process.kill()
            process.wait()


def _wait_until_ready(url: str, process: "subprocess.Popen[bytes]", seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(url, trust_env=False).is_success:
                return
        time.sleep(0.05)
    raise TimeoutError


if __name__ == "__main__":
    main()
