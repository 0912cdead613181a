"""Fusion by scores, from documents and their dates to hits: what the profile's `fusion.method` changes."""

from pathlib import Path
from typing import Any

import pytest

from retriever.searching.fusion import Fusion, fuse
from retriever.store import queries
from retriever.types import Source
from tests.shelf import LONG_AGO_NS, NEVER_REFRESH, PAGES, QUESTIONS, Shelf, found

METHODS = ("rrf", "convex", "blended")
DAY_NS = 86_400_000_000_000
TEXT = "# Ferry\n\nThe ferry crosses the strait at noon.\n"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    shelf = Shelf(tmp_path_factory.mktemp("pages"), PAGES)
    shelf.update()
    return shelf


def first(shelf: Shelf, **fusion: float | str) -> str:
    """Which of two pages of one text is above the other; by their ids, but for their dates."""
    shelf.update()
    answer = shelf.ask("when does the ferry cross the strait?", **NEVER_REFRESH, fusion=fusion)
    assert {hit.file for hit in answer.hits} == {"a.md", "z.md"}
    return answer.hits[0].file


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("question", QUESTIONS)
def test_scores_are_sums_of_shares_and_can_be_computed_again(pages: Shelf, method: str, question: str) -> None:
    with pages.open(**NEVER_REFRESH, fusion={"method": method}) as retriever:
        answer = retriever.search(question)
        again = fuse(answer.trace.rankings, retriever.profile.part(Fusion), len(answer.hits))
    assert {hit.scale for hit in answer.hits} == {method}
    assert all(hit.score == pytest.approx(sum(piece.share for piece in hit.evidence)) for hit in answer.hits)
    assert [item.node_id for item in again] == [hit.node_id for hit in answer.hits]
    sources = [ranking.source for ranking in answer.trace.rankings]
    assert sources == ["semantic", "keyword", *(["recency"] if method == "blended" else []), "neighbors"]
    weights = {ranking.source: ranking.weight for ranking in answer.trace.rankings}
    if method == "blended":
        assert (weights[Source.SEMANTIC], weights[Source.KEYWORD], weights[Source.RECENCY]) == pytest.approx(
            (0.55, 0.30, 0.15)
        )
    if method == "convex":
        assert weights[Source.SEMANTIC] + weights[Source.KEYWORD] == pytest.approx(1.0)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("off", [{"semantic_weight": 0.0}, {"keyword_weight": 0.0}])
def test_one_arm_alone(pages: Shelf, method: str, off: dict[str, Any]) -> None:
    answer = pages.ask("bread over night", **NEVER_REFRESH, fusion={"method": method}, **off)
    assert answer.hits[0].node_id == "kitchen.md#kitchen/bread"


def test_the_front_matter_tells_which_is_newer(tmp_path: Path) -> None:
    shelf = Shelf(
        tmp_path, {"a.md": f"---\ndate: 2020-02-01\n---\n{TEXT}", "z.md": f"---\ndate: 2024-02-01\n---\n{TEXT}"}
    )
    assert first(shelf) == "a.md"
    assert first(shelf, method="blended") == "z.md"
    assert first(shelf, method="blended", recency_weight=0.0) == "a.md"
    shelf.write("a.md", f"---\ndate: 2025-02-01\n---\n{TEXT}")
    assert first(shelf, method="blended") == "a.md"


def test_else_the_file_does(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.write("a.md", TEXT, mtime_ns=LONG_AGO_NS)
    shelf.write("z.md", TEXT, mtime_ns=LONG_AGO_NS + DAY_NS)
    assert first(shelf, method="blended") == "z.md"


def test_what_is_opened_more_often_is_above_what_is_not(tmp_path: Path) -> None:
    shelf = Shelf(
        tmp_path, {"a.md": f"---\ndate: 2024-02-01\n---\n{TEXT}", "z.md": f"---\ndate: 2024-02-01\n---\n{TEXT}"}
    )
    assert first(shelf, method="blended") == "a.md"
    with shelf.rows() as rows:
        queries.note_opened(rows, "z.md#ferry")
    assert first(shelf, method="blended") == "z.md"
    assert first(shelf) == "a.md"


def test_what_is_not_near_is_no_dense_evidence(pages: Shelf) -> None:
    wishes = {"method": "blended", "min_cosine": 1.0}
    answer = pages.ask(QUESTIONS[0], **NEVER_REFRESH, fusion=wishes)
    assert "semantic" not in {piece.source for hit in answer.hits for piece in hit.evidence}
    assert answer.degraded == ()
    anything = pages.ask(QUESTIONS[0], **NEVER_REFRESH, fusion={**wishes, "min_cosine": -1.0})
    assert found(anything) != found(answer)
