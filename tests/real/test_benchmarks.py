"""The benchmarks go through all their steps, on far less than they measure."""

import sys
from pathlib import Path

import pytest

from tests.program import PROGRAM, PROJECT, run_command
from tests.real.scripted_server import ScriptedServer

QUESTIONS = f"{PROJECT}/tests/eval_corpus/larder.jsonl:{PROJECT}/tests/eval_corpus/larder"


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(sys.platform == "win32", reason="they measure processes with os.wait4")
@pytest.mark.parametrize(
    "command",
    [
        ("speed.py", "PAGES", "--quick"),
        ("speed.py", "PAGES", "--quick", "--program", str(PROGRAM)),  # beside another version
        ("growth.py", "PAGES", "--editions", "1,2"),
        ("rerank.py", QUESTIONS),
        ("ablation.py", QUESTIONS, "--rules=prior"),
        ("hostile.py", "--scale", "0.002"),
        ("languages.py", "th"),
        ("words.py",),
    ],
    ids=lambda command: " ".join(word for word in command if ":" not in word),
)
def test_a_benchmark_prints_a_table(tmp_path: Path, command: tuple[str, ...]) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / f"{name}.md").write_text(f"# Page {name}\n\nSome text.\n\n## Part\n\nMore of {name}.\n", "utf-8")
    name, *arguments = command
    words = [str(tmp_path) if word == "PAGES" else word for word in arguments]
    done = run_command([sys.executable, PROJECT / "benchmarks" / name, *words])
    assert done.returncode == 0, done.stderr
    assert "|---" in done.stdout


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_language_model_is_measured(ollama: ScriptedServer) -> None:
    arguments = [ollama.url, QUESTIONS, "--count", "4", "--ways", "lists,texts"]
    done = run_command([sys.executable, PROJECT / "benchmarks/llm.py", *arguments])
    assert "| lists | " in done.stdout, done.stderr
