"""The benchmarks go through all their steps, on far less than they measure."""

import sys
from pathlib import Path

import pytest

from tests.program import PROJECT, run_command

LARDER = PROJECT / "tests" / "eval_corpus" / "larder"
WAIT4 = pytest.mark.skipif(sys.platform == "win32", reason="it measures processes with os.wait4")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def printed(name: str, *arguments: str | Path) -> list[list[str]]:
    """The cells of the tables that a benchmark prints, without the first one's heading."""
    done = run_command([sys.executable, PROJECT / "benchmarks" / name, *arguments])
    assert done.returncode == 0, done.stderr
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")]
    return rows[1:]


def numbers(name: str, questions: Path) -> dict[str, list[float]]:
    """The rows of a benchmark of these questions, by their names."""
    rows = printed(name, f"{questions}:{LARDER}")
    return {cells[0]: [float(cell.split(" ")[0].replace(",", "")) for cell in cells[1:]] for cells in rows}


@WAIT4
def test_speed(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / f"{name}.md").write_text(f"# Page {name}\n\nSome text.\n\n## Part\n\nMore of {name}.\n", "utf-8")
    assert [row[0] for row in printed("speed.py", tmp_path, "--quick")] == [
        "index all of it", "index all of it: memory", "`--help`", "cold ask", "cold ask: memory",
        "cold ask, `--vector-search chroma`", "index again, nothing changed", "index again, one file changed",
        "warm search, 12 sections", "warm search, 12 sections: beside its parts", "cold ask, 12 sections: memory",
        "stage of a warm search", "refresh, when the last look is a second old",
        "embed", "semantic", "keyword", "name", "neighbors", "fuse", "rerank", "hits",
    ]  # fmt: skip


@WAIT4
def test_speed_beside_another_version(tmp_path: Path) -> None:
    (tmp_path / "one.md").write_text("# Page one\n\nSome text.\n", "utf-8")
    rows = printed("speed.py", tmp_path, "--quick", "--program", PROJECT / "hybrid_retrieve.py")
    assert [row[0] for row in rows] == [
        name for name in ("`--help`", "cold ask", "ask, one file changed") for _ in range(2)
    ]  # fmt: skip


@WAIT4
def test_growth(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.md").write_text(f"# Page {name}\n\nSome text.\n\n## Part\n\nMore of {name}.\n", "utf-8")
    rows = {row[0]: row[1:] for row in printed("growth.py", tmp_path, "--editions", "1,2")}
    assert rows["sections"] == ["4.0", "8.0", "1.00"]
    assert {"size of the index, MB", "`status`, ms", "stage semantic, ms", "stage hits, ms"} <= rows.keys()


@pytest.mark.skipif(sys.platform == "win32", reason="it watches a terminal of POSIX")
def test_first_answer() -> None:
    rows = printed("first_answer.py", LARDER)
    assert [row[0] for row in rows] == [
        "first sign of progress", "longest time without a sign, before the answer", "first answer",
        "everything embedded, and the end",
    ]  # fmt: skip


@WAIT4
def test_limits() -> None:
    rows = printed("limits.py", "--scale", "0.0001")
    assert [row[0] for row in rows] == [
        "one file of 0 MB, 3 sections, indexed without vectors", "one line of 0 MB, indexed without vectors",
        "10 files of 3 lines, indexed without vectors", "a question to that index",
        "a question of 1,000,000 characters to that index", "parsing and chunking a table of 20 rows",
        "parsing and chunking 100 list items in 0 MB", "100 list items in 0 MB, indexed without vectors",
        "parsing and chunking 10 headings",
        "parsing and chunking 100 blank lines",
    ]  # fmt: skip
    assert all(row[1].endswith(" s") and float(row[2].removesuffix(" MB")) > 0 for row in rows)


def test_context_measures_three_ways_to_fill_a_prompt(few: Path) -> None:
    rows = numbers("context.py", few)
    assert list(rows) == ["5", "12"]
    tokens, *shares = rows["12"]
    assert tokens == 4_000
    assert len(shares) == 3
    assert all(0.0 < share <= 1.0 for share in shares)


def test_rerank_bounds_what_a_reranker_can_do(few: Path) -> None:
    rows = numbers("rerank.py", few)
    plain, perfect, last = (rows[f"balanced: {name}"] for name in ("no reranking", "perfect", "last, blend 0"))
    assert perfect[1] == plain[3] == perfect[3] == last[3], "hit@1 of a perfect one is hit@30; none removes a section"
    assert last[1] == 0.0
    assert rows["margin 0"][1] == plain[3]
    assert rows["margin 0.1"][0] <= rows["margin 0.15"][0] <= rows["margin 0"][0]
    assert rows["expansions own, gate always"][0] > rows["expansions of others, gate always"][0]


def test_every_stage_takes_its_worst_cases() -> None:
    """The times are the benchmark's: a step that is not linear shows in its column of ratios."""
    rows = printed("hostile.py", "--scale", "0.002")
    assert {row[0] for row in rows} == {"read", "chunk", "front matter", "words", "ignore", "show", "web page"}
    assert len(rows) > 120


def test_languages() -> None:
    (row,) = printed("languages.py", "th")
    assert row[0] == "th"
    assert float(row[1]) >= 0.9
