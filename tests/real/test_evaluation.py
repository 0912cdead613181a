"""The harness on the real thing: the bundled model, a real index, our own small set of questions."""

from pathlib import Path

from retriever.api import open_retriever
from retriever.embedding.onnx import OnnxEncoder
from retriever.evaluation import System, ask_all, read_questions
from retriever.types import Answer
from tests.fake_encoder import CrowdedEncoder
from tests.program import LARDER, Cli

SET = LARDER.parent
QUESTIONS = read_questions(SET / "larder.jsonl")


def test_the_ranking_is_no_worse_than_it_was(larder: Path) -> None:
    balanced = ask_all(System("balanced", "balanced"), QUESTIONS.questions, index=str(larder))
    assert balanced.overall["nDCG@10"].mean >= 0.8
    assert balanced.overall["hit@5"].mean >= 0.85
    assert balanced.by_kind["identifier"]["hit@5"].mean == 1.0
    assert balanced.failures == {}


def test_vectors_that_all_point_one_way_are_ranked_alike(larder: Path, tmp_path: Path) -> None:
    """Of many models all cosines lie between .7 and 1."""

    def describe(answer: Answer) -> tuple[object, ...]:
        return answer.verdict, [(hit.node_id, hit.passage, hit.sentence) for hit in answer.hits]

    crowded = CrowdedEncoder(OnnxEncoder())
    with (
        open_retriever((), larder) as plain,
        open_retriever([LARDER], tmp_path / "index", encoder=crowded) as other,
    ):
        asked = [item.question for item in QUESTIONS.questions[::3]]
        changed = [each for each in asked if describe(plain.search(each)) != describe(other.search(each))]
    assert len(changed) <= len(asked) / 10, changed  # vectors are rounded: equal sections may change places


def test_the_command_compares_profiles(larder: Path, tmp_path: Path, cli: Cli) -> None:
    questions = tmp_path / "some.jsonl"
    questions.write_text("\n".join((SET / "larder.jsonl").read_text("utf-8").splitlines()[::4]), "utf-8")
    deaf = tmp_path / "deaf.yaml"
    deaf.write_text("keyword_weight: 0\nsemantic_weight: 0\n", "utf-8")
    out = cli("eval", questions, "--index", larder, "--profiles", f"fast,{deaf}").out
    assert "means with 95 % intervals" in out
    assert "difference  won  lost  tied" in out
