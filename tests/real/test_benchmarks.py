import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="it measures processes with os.wait4")
@pytest.mark.timeout(300)
def test_speed_goes_through_all_its_steps(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / f"{name}.md").write_text(f"# Page {name}\n\nSome text.\n\n## Part\n\nMore of {name}.\n", "utf-8")
    command = [sys.executable, str(ROOT / "benchmarks" / "speed.py"), str(tmp_path), "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")]
    names = [row[0].removeprefix("| ") for row in rows]
    assert names[1:] == [
        "index all of it",
        "index all of it: memory",
        "`--help`",
        "cold ask",
        "cold ask: memory",
        "cold ask, `--vector-search chroma`",
        "index again, nothing changed",
        "index again, one file changed",
        "warm search, 12 sections",
        "warm search, 12 sections: beside its parts",
        "cold ask, 12 sections: memory",
        "stage of a warm search",
        "refresh, when the last look is a second old",
        *("embed", "semantic", "keyword", "neighbors", "fuse", "token_match", "rerank", "hits"),
    ]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="it measures processes with os.wait4")
@pytest.mark.timeout(300)
def test_limits_goes_through_all_its_steps() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "limits.py"), "--scale", "0.0001"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines()]
    assert [row[0] for row in rows[2:]] == [
        "one file of 0 MB, 3 sections, indexed without vectors",
        "one line of 0 MB, indexed without vectors",
        "10 files of 3 lines, indexed without vectors",
        "a question to that index",
        "a question of 1,000,000 characters to that index",
        "parsing and chunking a table of 20 rows",
        "parsing and chunking 100 list items in 0 MB",
        "parsing and chunking 10 headings",
        "parsing and chunking 100 blank lines",
    ]
    assert all(row[1].endswith(" s") and float(row[2].removesuffix(" MB")) > 0 for row in rows[2:])


LARDER = ROOT / "tests" / "eval_corpus"


def rows_of(name: str, *sets: Path) -> dict[str, list[float]]:
    """The rows of the table that a benchmark prints of these questions, which lie beside their documents."""
    pairs = [f"{questions}:{LARDER / 'larder'}" for questions in sets]
    command = [sys.executable, str(ROOT / "benchmarks" / name), *pairs]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = [line.strip("| ").split(" | ") for line in done.stdout.splitlines()[2:]]
    return {cells[0]: [float(cell.split(" ")[0].replace(",", "")) for cell in cells[1:]] for cells in lines}


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """Four questions, with expansions that hold the first words of the answers."""
    lines = (LARDER / "larder.jsonl").read_text(encoding="utf-8").splitlines()[:4]
    (tmp_path / "few.jsonl").write_text("\n".join(lines), encoding="utf-8")
    made = []
    for question in map(json.loads, lines):
        gold = question["gold"][0]
        page = (LARDER / "larder" / gold["file"]).read_text(encoding="utf-8").splitlines()
        made.append({"id": question["id"], "hyde": [" ".join(page[gold["start_line"] - 1 : gold["end_line"]])]})
    (tmp_path / "few.expansions.jsonl").write_text("\n".join(map(json.dumps, made)), encoding="utf-8")
    return tmp_path / "few.jsonl"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_context_measures_three_ways_to_fill_a_prompt(few: Path) -> None:
    rows = rows_of("context.py", few)
    assert list(rows) == ["5", "12"]
    tokens, *shares = rows["12"]
    assert tokens == 4_000
    assert len(shares) == 3
    assert all(0.0 < share <= 1.0 for share in shares)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_rerank_bounds_what_a_reranker_can_do(few: Path) -> None:
    rows = rows_of("rerank.py", few)
    plain, perfect, last = (rows[f"balanced: {name}"] for name in ("no reranking", "perfect", "last, blend 0"))
    assert perfect[1] == plain[3] == perfect[3] == last[3], "hit@1 of a perfect one is hit@30; none removes a section"
    assert last[1] == 0.0
    assert rows["expansions own, gate always"][0] > rows["expansions of others, gate always"][0]
