"""`eval` and `explain --why-not` as commands: what they refuse, and what they say."""

import json
from pathlib import Path

import pytest

from hybrid_retrieve import main
from pageindex.node import Node, NodeKind, Span
from retriever.command_line.explain import describe_fused, describe_loss, describe_source
from retriever.evaluation.runs import Stage
from retriever.evaluation.why_not import Bar, InRanking, WhyNot
from retriever.types import Source
from tests.fake_library import install


@pytest.fixture
def trec(tmp_path: Path) -> tuple[str, str, str]:
    """Judgements of 20 questions; a run that has them all right, and one that has none."""
    qrels, good, poor = tmp_path / "set.qrels", tmp_path / "good.run", tmp_path / "poor.run"
    qrels.write_text("".join(f"q{number} 0 right 1\n" for number in range(20)))
    good.write_text("".join(f"q{number} Q0 right 1 2.0 x\nq{number} Q0 wrong 2 1.0 x\n" for number in range(20)))
    poor.write_text("".join(f"q{number} Q0 wrong 1 2.0 x\n" for number in range(20)))
    return str(qrels), str(good), str(poor)


def test_runs_of_other_systems_are_measured_and_compared(
    trec: tuple[str, str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    qrels, good, poor = trec
    assert main(["eval", qrels, "--score", good, "--score", poor, "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["schema_version"] == 2
    assert [system["measures"]["file hit@1"]["mean"] for system in content["systems"]] == [1.0, 0.0]
    pair = content["comparisons"][0]
    assert (pair["first"], pair["second"], pair["mean"]) == (
        "poor",
        "good",
        -1.0,
    )
    assert pair["significant"]
    assert main(["eval", qrels, "--score", good, "--score", poor]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "set: 20 questions; means with 95 % intervals"
    assert lines[2].split()[:2] == ["good", "1.000"]
    assert any(line.split()[:3] == ["poor", "good", "file"] and " * " in line for line in lines)


def test_a_fall_below_the_baseline_is_an_error(
    trec: tuple[str, str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    qrels, good, poor = trec
    baseline = tmp_path / "baseline.json"
    run = tmp_path / "run.run"
    run.write_text(Path(good).read_text())
    assert main(["eval", qrels, "--score", str(run), "--save-baseline", str(baseline)]) == 0
    assert main(["eval", qrels, "--score", str(run), "--baseline", str(baseline)]) == 0
    run.write_text(Path(poor).read_text())
    capsys.readouterr()
    assert main(["eval", qrels, "--score", str(run), "--baseline", str(baseline)]) == 1
    assert "error: run: file nDCG@10 fell from 1.000 to 0.000" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["{qrels}"], "--score"),
        (["{questions}", "--top-k", "3"], "--depth"),
        (["{questions}", "--score", "{run}", "--ablate"], "leave out --ablate"),
        (["{questions}", "--profiles", ","], "--profiles names none"),
        (["{questions}", "--expansions", "{expansions}"], "no expansion of 1 questions: a"),
        (["{questions}", "--baseline", "{questions}"], "--save-baseline"),
        (["missing"], "missing: cannot be read"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    arguments: list[str],
    says: str,
    trec: tuple[str, str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    install(monkeypatch)
    questions, expansions = tmp_path / "questions.jsonl", tmp_path / "expansions.jsonl"
    questions.write_text('{"id": "a", "question": "q", "gold": []}\n')
    expansions.write_text('{"id": "b"}\n')
    names = {"qrels": trec[0], "run": trec[1], "questions": str(questions), "expansions": str(expansions)}
    assert main(["eval", *[argument.format(**names) for argument in arguments]]) == 2
    assert says in capsys.readouterr().err


NODE = Node("a.md#x", NodeKind.SECTION, "a.md", "X", 1, (), Span(3, 9), "# X\n")
LISTED = InRanking(Source.SEMANTIC, "cosine", 28, 25, 0.2611, True, 0.3819, 0.2479)
UNLISTED = InRanking(Source.KEYWORD, "bm25", 100, 241, 5.5, False, 23.7, 6.3)


def why(stage: Stage, rank: int | None, score: float | None) -> WhyNot:
    bars = Bar(5, 0.03), Bar(30, 0.01)
    return WhyNot("q", NODE, stage, rank, 175, score, *bars, sources=(LISTED, UNLISTED), degraded=())


def test_why_a_section_is_not_there() -> None:
    assert describe_loss(why(Stage.BELOW, 11, 0.02)) == "Lost at the end: #11 of the candidates, and top_k is 5."
    assert describe_loss(why(Stage.CUT, 40, 0.005)) == "Lost after the fusion: #40, and candidate_cap is 30."
    assert describe_loss(why(Stage.RETURNED, 1, 0.05)) == "It is a hit: #1."
    assert "none of them listed it" in describe_loss(why(Stage.NOT_FOUND, None, None))
    assert describe_fused(why(Stage.BELOW, 11, 0.02)) == "#11 of 175, score 0.02000; #5 has 0.03000: 0.01000 more"
    assert describe_fused(why(Stage.NOT_FOUND, None, None)) == "not among the 175 sections"
    assert describe_source(LISTED) == "#25, cosine 0.2611; its 28 go from 0.3819 to 0.2479"
    assert describe_source(UNLISTED) == "#241, bm25 5.5; its 100 go from 23.7 to 6.3; 0.8 more would have listed it"
    empty = InRanking(Source.NEIGHBORS, "decayed rrf", 0, None, None, False, None, None)
    assert describe_source(empty) == "not a neighbor of a hit; lists nothing"
