"""Values as JSON objects: their keys, their description, and names that pydantic would refuse."""

import json
from dataclasses import replace

import pytest

from pageindex.node import Span
from retriever.display.json import AnswerJson, FoundJson, HitJson, dump_answer, dump_expansion
from retriever.evaluation.runs import Found
from retriever.query import Dropped, ExpansionReport, Query
from retriever.trace import Spent
from tests.answers import HIT, answer

SPENT = Spent(1.5, 2.25)
REPORT = ExpansionReport("two texts", (Query("invented", 0.5, 0.5, "passage"),), (Dropped("passage", "wild", "far"),))


def test_a_name_that_is_not_utf8_stays_as_it_is() -> None:
    hit = replace(HIT, file="a\udcff.md", breadcrumb=("\udcfe",))
    content = HitJson.dump(hit)
    assert (content["file"], content["breadcrumb"]) == ("a\udcff.md", ["\udcfe"])
    assert json.dumps(content)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("explain", [False, True])
def test_an_answer_has_the_parts_that_are_asked_for(full: bool, explain: bool) -> None:
    content = dump_answer(answer(HIT), SPENT, full=full, explain=explain)
    assert ("text" in content["hits"][0], "trace" in content) == (full, explain)
    assert list(content)[:3] == ["schema_version", "question", "profile"]
    assert content["timings_ms"]["total"] == 2.25
    assert content["hits"][0]["start_line"] == HIT.span.first


def test_what_a_model_made_up_is_hidden() -> None:
    told = dump_answer(replace(answer(HIT), expansion=REPORT), SPENT)
    assert "invented" not in json.dumps(told)
    assert "wild" not in json.dumps(told)
    shown = dump_expansion(REPORT, hypothetical=True)
    assert (shown["passages"], shown["dropped"][0]["text"]) == (["invented"], "wild")


def test_every_key_of_an_answer_is_described() -> None:
    schema = AnswerJson.model_json_schema(by_alias=False)
    content = dump_answer(replace(answer(HIT), expansion=REPORT), SPENT, full=True, explain=True, hypothetical=True)
    assert set(content) == set(schema["properties"])
    assert set(content["hits"][0]) == set(schema["$defs"]["HitJson"]["properties"])
    assert set(content["expansion"]) == set(schema["$defs"]["ExpansionJson"]["properties"])


def test_a_section_of_a_run_may_have_no_lines() -> None:
    found = Found("a.md", "a.md", None, 1.0)
    assert FoundJson.dump(found)["start_line"] is None
    assert FoundJson.dump(replace(found, span=Span(2, 5)))["end_line"] == 5
