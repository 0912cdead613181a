"""Files of questions: each format as it is written elsewhere, and every mistake named with its line."""

import json
from pathlib import Path

import pytest

from pageindex.document import parse_document
from pageindex.node import Span
from retriever.errors import UsageError
from retriever.evaluation.formats import check_expansions, open_source, read_expansions, read_questions
from retriever.evaluation.own_questions import format_question, make_own_questions, sample
from retriever.evaluation.questions import Gold, Question
from retriever.evaluation.runs import Found, Outcome, Run, check_runs, format_run, read_runs
from retriever.query import Expansion
from tests.program import Cli

GOLD = {"file": "a.md", "start_line": 3, "end_line": 9}


def write(path: Path, *lines: object) -> Path:
    text = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_questions_with_gold_lines(tmp_path: Path) -> None:
    path = write(
        tmp_path / "set.jsonl",
        {"id": 7, "question": "why?", "kind": "direct", "gold": [GOLD], "exclude": [{**GOLD, "file": "b.md"}]},
        "",
        {"id": "x", "question": "is it?", "gold": []},
    )
    with open_source(path) as source:
        assert source.questions.name == "set"
        assert source.questions.has_lines
        first, second = source.questions.questions
    assert first == Question("7", "why?", "direct", (Gold("a.md", Span(3, 9)),), (Gold("b.md", Span(3, 9)),))
    assert not second.is_answerable


def test_every_malformed_line_is_named(tmp_path: Path) -> None:
    path = write(
        tmp_path / "set.jsonl", {"id": "1", "question": "fine", "gold": []}, "not json",
        {"id": "1", "question": "again", "gold": []}, {"id": "2", "question": " ", "gold": []},
        {"id": "3", "question": "q"}, {"id": "4", "question": "q", "gold": [{**GOLD, "end_line": 2}]},
        {"id": "5", "question": "q", "gold": [{**GOLD, "start_line": "3"}]},
        {"id": True, "question": "q", "gold": []}, "[]",
    )  # fmt: skip
    with pytest.raises(UsageError) as caught:
        read_questions(path)
    lines = str(caught.value).splitlines()
    assert [line.removeprefix(f"{path}:").split(":")[0] for line in lines] == [str(number) for number in range(2, 10)]
    for part in ("not JSON", "line 1 already", "question must be", "gold is missing", "not a span", "whole numbers"):
        assert part in str(caught.value)


def test_a_folder_of_beir(tmp_path: Path) -> None:
    folder = tmp_path / "scifact"
    write(
        folder / "corpus.jsonl",
        {"_id": "d/1", "title": 'On "tea"', "text": "# Not a heading.\nTea is\n\n## hot."},
        {"_id": "d2", "title": "", "text": "Coffee: cold."},
    )
    write(folder / "queries.jsonl", {"_id": "q1", "text": "hot drinks"}, {"_id": "q2", "text": "not judged"})
    write(folder / "qrels" / "dev.tsv", "query-id\tcorpus-id\tscore", "q1\td2\t1")
    write(folder / "qrels" / "test.tsv", "query-id\tcorpus-id\tscore", "q1\td/1\t2", "q1\td2\t0")
    with open_source(folder) as source:
        assert source.documents is not None
        documents = source.documents
        pages = {path.relative_to(documents).as_posix(): path.read_text() for path in documents.rglob("*.md")}
        assert source.questions.questions == (Question("q1", "hot drinks", gold=(Gold("0000/0000000.md", gain=2),)),)
        assert not source.questions.has_lines
    assert pages == {
        "0000/0000000.md": '---\ntitle: "On \\"tea\\""\n---\n\n\\# Not a heading. Tea is ## hot.\n',
        "0000/0000001.md": "Coffee: cold.\n",
    }
    assert not documents.exists(), "the temporary folder is gone"


def test_mistakes_in_a_folder_of_beir(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    write(folder / "corpus.jsonl", {"_id": "d1", "text": "x"}, {"_id": "d1", "text": "y"}, {"_id": "d3"})
    write(folder / "queries.jsonl", {"_id": "q1", "text": "q"})
    write(folder / "qrels" / "test.tsv", "query-id\tcorpus-id\tscore", "q1\td1\t1")
    with pytest.raises(UsageError, match=r"(?s)corpus.jsonl:2: .*corpus.jsonl:3: "), open_source(folder):
        pass
    write(folder / "corpus.jsonl", {"_id": "d1", "text": "x"})
    write(folder / "qrels" / "test.tsv", "query-id\tcorpus-id\tscore", "q1\td1\tmuch", "q9\td1\t1", "q1\td1")
    with pytest.raises(UsageError) as caught, open_source(folder):
        pass
    assert [line.rpartition(".tsv:")[2][0] for line in str(caught.value).splitlines()] == ["2", "3", "4"]


def test_a_fixture_of_qmd(tmp_path: Path) -> None:
    query = {"id": "q", "query": "trust", "type": "alias", "expected_files": ["qmd://wiki/a/b.md", "c.md"]}
    path = tmp_path / "wiki.json"
    path.write_text(json.dumps({"version": 1, "queries": [query]}, indent=2), encoding="utf-8")
    with open_source(path) as source:
        assert source.questions.questions == (Question("q", "trust", "alias", (Gold("a/b.md"), Gold("c.md"))),)
    path.write_text(json.dumps({"queries": [query, query, {"id": "r", "query": "x"}]}), encoding="utf-8")
    with pytest.raises(UsageError, match=r"(?s)query 2: .*query 3: expected_files is missing"), open_source(path):
        pass


def test_trec_judgements_and_runs(tmp_path: Path) -> None:
    path = write(tmp_path / "robust.qrels", "301 0 d1 1", "301 0 d2 0", "302 0 d3 2")
    with open_source(path) as source:
        assert not source.can_be_asked
        assert [item.gold for item in source.questions.questions] == [(Gold("d1"),), (Gold("d3", gain=2),)]
    run = write(tmp_path / "bm25.run", "301 Q0 d2 2 1.5 tag", "301 Q0 d1 1 7.25 tag", "302 Q0 d9 1 3 tag")
    (read,) = read_runs(run)
    assert read.system == "bm25"
    assert [found.node_id for found in read.outcomes["301"].found] == ["d1", "d2"]
    with pytest.raises(UsageError, match="bm25: answers 1 of the questions not: 303"):
        check_runs([read], ["301", "303"])
    write(run, "301 Q0 d2 2 1.5 tag", "301 Q0 d1 1 high tag", "301 Q0 d2 1 1 tag", "301 Q0 d2")
    with pytest.raises(UsageError, match=r"(?s)run:2: the score is no number.*run:3: ranks 'd2'.*run:4: not `query Q0"):
        read_runs(run)


def test_our_runs_are_read_as_they_are_written(tmp_path: Path) -> None:
    found = (Found("a.md#x", "a.md", Span(1, 4), 0.5), Found("b.md", "b.md", Span(1, 2), 0.25))
    runs = [
        Run(
            "one", {"1": Outcome("1", found, abstained=False), "2": Outcome("2", (), True, failures=("semantic: no",))}
        ),
        Run("two", {"1": Outcome("1", found[:1], abstained=False), "2": Outcome("2", (), abstained=True)}),
    ]
    path = write(tmp_path / "runs.jsonl", *[line for run in runs for line in format_run(run, 2)])
    assert list(read_runs(path)) == runs
    alone = write(tmp_path / "alone.jsonl", *format_run(runs[0], 1))
    assert "system" not in alone.read_text()
    assert [run.system for run in read_runs(alone)] == ["alone"]


def test_expansions(tmp_path: Path) -> None:
    path = write(
        tmp_path / "set.expansions.jsonl",
        {"id": "1", "queries": ["a", "b"], "hyde": ["c"], "hyde_answer": "d", "intent": "x", "entities": ["e"]},
        {"id": "2"},
    )
    expansions = read_expansions(path)
    assert expansions == {"1": Expansion(("a", "b"), ("c",), "d", "x", ("e",)), "2": Expansion()}
    questions = read_questions(write(tmp_path / "set.jsonl", {"id": "3", "question": "q", "gold": []}))
    with pytest.raises(UsageError, match="no expansion of 1 questions: 3"):
        check_expansions(expansions, questions, path)
    write(path, {"id": "1", "queries": "a"}, {"id": "1", "hyde": [""]}, {"id": "3"}, {"id": "3"})
    with pytest.raises(UsageError, match=r"(?s)jsonl:1: queries must.*jsonl:2: hyde must.*jsonl:4: the id '3'"):
        read_expansions(path)


@pytest.mark.parametrize("name", ["missing.jsonl", "empty.jsonl", "latin.jsonl"])
def test_what_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty.jsonl").write_text("\n\n")
    (tmp_path / "latin.jsonl").write_bytes('{"id": "é"}'.encode("latin-1"))
    with pytest.raises(UsageError, match=name), open_source(tmp_path / name):
        pass
    with pytest.raises(UsageError, match=r"corpus\.jsonl"), open_source(tmp_path):
        pass


GUIDE = """# Guide

Intro.

## Drying wild mushrooms

Slice them thinly, and lay them on a rack in a warm and airy room for two days, or in an oven at forty degrees
for six hours. How long they keep afterwards is told in [the page on storage](storage.md#keeping-dried-food).

- [the page on storage](storage.md)

## Usage

Short words in the title ask nothing, even when the section goes on and on for more than twenty words, as this one does
by saying nothing much at all.

## Keeping a long title without text

Too short.
"""

STORAGE = """# Storage

## Keeping dried food

Dried food keeps for a year in a jar that closes well, away from light, and longer in a freezer. Look at it every month,
and throw away what smells; the [[guide|mushrooms of the guide]] must be broken before they bend.
"""


def made() -> list[dict[str, object]]:
    documents = [parse_document("guide.md", GUIDE), parse_document("storage.md", STORAGE)]
    return [json.loads(format_question(question)) for question in make_own_questions(documents)]


def test_headings_and_links_ask() -> None:
    assert [(item["kind"], item["question"]) for item in made()] == [
        ("heading", "Drying wild mushrooms"),
        ("heading", "Keeping dried food"),
        ("link", "How long they keep afterwards is told in the page on storage."),
        (
            "link",
            "Look at it every month, and throw away what smells; the mushrooms of the guide must be broken before "
            "they bend.",
        ),
    ]


def test_the_gold_is_what_a_link_leads_to_and_its_own_section_is_left_out() -> None:
    _, _, to_section, to_file = made()
    assert to_section["gold"] == [{"file": "storage.md", "start_line": 3, "end_line": 6}]
    assert to_section["exclude"] == [{"file": "guide.md", "start_line": 5, "end_line": 11}]
    assert to_file["gold"] == [{"file": "guide.md", "start_line": 1, "end_line": 4}]


def test_a_sample_keeps_the_order_and_is_always_the_same() -> None:
    questions = make_own_questions([parse_document("guide.md", GUIDE), parse_document("storage.md", STORAGE)])
    assert sample(questions, 10) == questions
    two = sample(questions, 2)
    assert two == [question for question in questions if question in two]
    assert set(sample(questions, 1)) <= set(two), "fewer are a part of more"


def test_the_command_writes_what_eval_reads(tmp_path: Path, cli: Cli) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "guide.md").write_text(GUIDE, encoding="utf-8")
    (docs / "storage.md").write_text(STORAGE, encoding="utf-8")
    (docs / "bad.md").write_bytes(b"\0\0")
    out = tmp_path / "questions.jsonl"
    error = cli("questions", docs, "--out", out, "--limit", "3").err
    assert len(read_questions(out).questions) == 3
    assert "made 3 questions of 4" in error
    assert "skipped bad.md" in error
    assert len(cli("questions", docs).out.splitlines()) == 4


def test_wishes_that_cannot_be_met(tmp_path: Path, cli: Cli) -> None:
    cli("questions", tmp_path / "missing", code=1)
    (tmp_path / "a.md").write_text("Nothing to ask.\n")
    error = cli("questions", tmp_path, code=1).err
    assert "no heading or link of it makes a question" in error
