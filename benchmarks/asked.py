"""The program that the benchmarks of servers start, and what their clients ask it."""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = (sys.executable, str(ROOT / "hybrid_retrieve.py"))
CLIENTS = 8
"""At once."""
QUESTIONS = ("how are the two rankings fused?", "where is the index kept?", "which files are read?")
"""Of this project's documents."""


def read_questions(path: Path) -> tuple[str, ...]:
    """Of a JSONL file."""
    return tuple(json.loads(line)["question"] for line in path.read_text("utf-8").splitlines())
