"""Where to look: filters in a question and as options, on the command line, in JSON, on the page, in MCP, in Python."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from retriever import AskRequest, Scope, open_retriever
from retriever.errors import QuestionError, ScopeError
from retriever.retriever import Retriever
from retriever.searching.queries import split_filters
from tests.real.served import faces_of, indexed
from tests.tables import read_table

PAGES = {
    "journal/daily/2024-05-01.md": "---\ntags: [journal]\n---\n# Wednesday\n\nWe baked bread with the new oven. "
    "#baking\n\n## Evening\n\nRead about the jaguar, a fast car.\n",
    "journal/daily/2024-06-02.md": "# Sunday\n\nThe jaguar is a *big\ncat* of the forest. The oven stayed cold.\n",
    "handbook/station.md": "---\ntitle: The station\naliases: [Mise en place]\ntags:\n  - kitchen/prep\nstatus: draft\n"
    "date: 2023-02-01\nauthor:\n  name: Ann Lee\n---\n\n# The station\n\nPut everything where it belongs.\n\n"
    "## Archive\n\nUnpack the old lists with `tar -xzf lists.tar`.\n",
    "handbook/oven.md": "---\nstatus: final\ndate: 2022-01-01\n---\n# The oven\n\nThe oven bakes bread at 230 "
    "degrees.\n\n## Cleaning\n\nCleaning the oven takes an hour.\n",
}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return indexed(tmp_path_factory.mktemp("scope"), PAGES)


@pytest.fixture(scope="module")
def retriever(index: Path) -> Iterator[Retriever]:
    with open_retriever(index=index) as opened:
        yield opened


@pytest.mark.parametrize(("question", "files"), read_table("scope", "What a filter leaves"))
def test_a_filter_leaves_only_what_it_names(retriever: Retriever, question: str, files: str) -> None:
    answer = retriever.search(question)
    assert {Path(hit.file).stem for hit in answer.hits} == set(files.split())
    assert answer.question == question
    assert answer.scope is not None
    assert answer.scope.question.split()[0] in {"oven", "jaguar", "where"}


def test_what_is_left_out_is_left_out_of_every_ranking(retriever: Retriever) -> None:
    answer = retriever.search('jaguar -"car" in:daily')
    assert not any("fast car" in hit.text for hit in answer.hits)
    ids = {item.node_id for ranking in answer.trace.rankings for item in ranking.items}
    assert "journal/daily/2024-05-01.md#wednesday/evening" not in ids
    everywhere = {item.node_id for ranking in retriever.search("jaguar").trace.rankings for item in ranking.items}
    assert "journal/daily/2024-05-01.md#wednesday/evening" in everywhere


@pytest.mark.parametrize("vector_search", ["exact", "chroma"])
def test_the_filter_comes_before_the_first_n(index: Path, vector_search: str) -> None:
    """A scope finds a section far from the question where no other may be found."""
    one = {"vector_top_n": 1, "keyword_top_n": 1, "candidate_cap": 1, "top_k": 1, "vector_search": vector_search}
    with open_retriever(index=index, settings=one) as narrow:
        assert narrow.search("how hot is the oven for bread?").hits[0].file == "handbook/oven.md"
        assert narrow.search("how hot is the oven for bread? in:station").hits[0].file == "handbook/station.md"


def test_a_folder_finds_as_if_it_alone_were_indexed(retriever: Retriever, tmp_path: Path) -> None:
    alone = indexed(tmp_path, {name: text for name, text in PAGES.items() if name.startswith("handbook")})
    with open_retriever(index=alone) as other:
        for question in ("how hot is the oven?", "unpack the lists", "what is put where?"):
            here, there = retriever.search(f"{question} in:handbook"), other.search(question)
            assert [hit.node_id for hit in here.hits] == [hit.node_id for hit in there.hits]


@pytest.mark.parametrize(("question", "left", "without"), read_table("scope", "A year behind a dash"))
def test_a_year_behind_a_dash_is_left_out(question: str, left: str, without: str) -> None:
    text, scope = split_filters(question)
    assert (text, scope.without) == (left, tuple(without.split()))


def test_a_word_that_a_long_question_quotes_is_no_filter(retriever: Retriever) -> None:
    answer = retriever.search('error: the "jaguar" argument of the oven must be a number')
    assert answer.scope is None
    assert {Path(hit.file).stem for hit in answer.hits} > {"2024-05-01", "oven"}
    long = 'error: the "big cat" argument of the oven must be a number'
    assert {Path(hit.file).stem for hit in retriever.search(long).hits} == {"2024-06-02"}
    assert {Path(hit.file).stem for hit in retriever.search('is the oven "cold"?').hits} == {"2024-06-02"}


@pytest.mark.parametrize("question", read_table("scope", "No filter"))
def test_what_may_be_text_is_no_filter(question: str) -> None:
    assert split_filters(question) == (question, Scope())


@pytest.mark.parametrize(("question", "message"), read_table("scope", "What is not there"))
def test_what_is_not_there_says_what_there_is(retriever: Retriever, question: str, message: str) -> None:
    with pytest.raises(ScopeError) as caught:
        retriever.search(question)
    assert str(caught.value).startswith(message)
    assert caught.value.hint == "if that is no filter, put it in quotation marks"


@pytest.mark.parametrize("scope", [Scope(phrases=(" ",)), Scope(without=("",))])
def test_a_blank_phrase_of_a_program_is_an_error(retriever: Retriever, scope: Scope) -> None:
    with pytest.raises(ScopeError, match="a blank phrase names nothing"):
        retriever.search(AskRequest("oven", scope=scope))


@pytest.mark.parametrize("question", ['-"car" -"boat"', "in:daily", 'tag:baking -"car"'])
def test_filters_alone_are_an_error_with_an_example(question: str) -> None:
    with pytest.raises(QuestionError, match="says where to look, and not for what"):
        split_filters(question)


@pytest.mark.parametrize(("question", "reason"), read_table("scope", "A filter that leaves nothing"))
def test_a_filter_that_leaves_nothing_says_so(retriever: Retriever, question: str, reason: str) -> None:
    answer = retriever.search(question)
    assert (answer.hits, answer.verdict, answer.confidence) == ((), "none", 0.0)
    assert reason in answer.notes[0]
    assert answer.degraded == ()


def test_front_matter_is_no_text(retriever: Retriever) -> None:
    found = retriever.search("status draft author")
    assert not any("draft" in hit.text for hit in found.hits)
    pieces = retriever.context(AskRequest("Ann Lee", scope=Scope(folders=("station",)))).context.pieces
    assert not any("Ann Lee" in piece.text for piece in pieces)


def test_the_page_and_the_api(index: Path) -> None:
    with faces_of(index) as faces:
        client = faces.web
        asked: Any = [("question", 'oven -"microwave"'), ("in", "daily"), ("in", "station"), ("tag", "kitchen")]
        found = client.get("/api/search", params=asked).json()
        assert {hit["file"] for hit in found["hits"]} == {"handbook/station.md"}
        assert found["scope"]["folders"] == ["daily", "station"]
        page = client.get("/", params={"question": "oven in:daily"}).text
        for shown in (" (in:daily)", '<option value="journal/daily">', '<option value="kitchen/prep">'):
            assert shown in page
        kept = client.get("/", params=[*asked, ("since", "2022")]).text
        for filled in ('name="in" value="daily"', 'name="in" value="station"', 'name="since" value="2022" type="text"'):
            assert filled in kept
        unknown = client.get("/api/search", params={"question": "oven", "tag": "bakin"})
        assert unknown.status_code == 404
        assert "did you mean baking?" in unknown.json()["error"]


def test_an_agent(index: Path) -> None:
    with faces_of(index) as faces:
        found = faces.tell("search", question='oven -"car" since:2024-06', path="daily")
    assert set(re.findall(r"`([^`]*\.md):", found)) == {"journal/daily/2024-06-02.md"}
    assert 'searched `1 section of 1 file (in:daily since:2024-06 -"car")`' in found


def test_a_part_has_the_vectors_of_texts_that_stand_elsewhere_as_well(tmp_path: Path) -> None:
    """A text is searched by its first chunk, which may lie outside of the part."""
    page = "# Oven\n\n## Heat\n\nThe oven bakes bread at 230 degrees.\n"
    with open_retriever(index=indexed(tmp_path, {"a/oven.md": page, "z/oven.md": page})) as opened:
        (hit,) = opened.search("how hot must it be for bread? in:z").hits
    assert hit.node_id == "z/oven.md#oven/heat"
    assert "semantic" in {item.source for item in hit.evidence}
