"""Summaries by a language model: written by a scripted Ollama over HTTP, kept, and put into what is searched."""

import json
from pathlib import Path
from typing import Any

import pytest

from retriever.api import index_folders
from retriever.indexing.forget import forget
from retriever.indexing.report import SummaryReport
from retriever.indexing.summaries import summarize_index
from retriever.trace import NoProgress
from tests.program import command, run_command
from tests.real.scripted_server import Asked, ScriptedServer, cut_stream, killed, scripted_server
from tests.shelf import NEVER_REFRESH, Shelf


def long_page(title: str, word: str) -> str:
    """A page of one section that deserves a summary, about one word, and one that does not."""
    sentence = f"The {word} is described here in so many words that nobody reads them to the end. "
    return f"# {title}\n\n{sentence * 12}\n\n## Short\n\nA short note on the {word}.\n"


PAGES = {f"{word}.md": long_page(word.title(), word) for word in ("amber", "birch", "cedar", "delta")}


def section(asked: Asked) -> dict[str, str]:
    data: dict[str, str] = json.loads(asked.material.split("\n")[1])
    return data


def answered(asked: Asked) -> dict[str, str]:
    """A good one, with a word of the model's own."""
    word = section(asked)["title"].lower()
    return {"summary": f"Here the {word} is described in many words, quintessentially."}


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path, PAGES)


def wishes(ollama: ScriptedServer, **more: object) -> dict[str, Any]:
    return {"summaries": {"kind": "llm", **more}, "llm": {"url": ollama.url}}


def update(shelf: Shelf, settings: dict[str, Any]) -> SummaryReport:
    report = summarize_index(
        shelf.request(shelf.docs, settings=settings), shelf.update(settings=settings), NoProgress()
    ).summaries
    assert report
    return report


def summaries(shelf: Shelf) -> dict[str, str]:
    with shelf.rows() as rows:
        return dict(rows.execute("SELECT node_id, summary FROM nodes WHERE first_line IS NOT NULL"))


def by_model(shelf: Shelf) -> list[str]:
    return sorted(node_id for node_id, text in summaries(shelf).items() if "quintessentially" in text)


ALL = ["amber.md#amber", "birch.md#birch", "cedar.md#cedar", "delta.md#delta"]


def test_long_sections_get_one_and_it_is_searched_and_shown(shelf: Shelf, ollama: ScriptedServer) -> None:
    before = shelf.update().snapshot
    embedded = shelf.encoder.encoded
    report = update(shelf, wishes(ollama))
    assert (report.written, report.known, report.missing) == (4, 0, 0)
    assert by_model(shelf) == ALL
    assert summaries(shelf)["amber.md#amber/short"] == "A short note on the amber."
    assert report.snapshot > before
    assert shelf.encoder.encoded == embedded
    hits = shelf.ask("quintessentially", semantic_weight=0.0, **NEVER_REFRESH).hits
    assert sorted(hit.node_id for hit in hits if hit.evidence[0].source == "keyword") == ALL
    assert hits[0].summary == "Here the amber is described in many words, quintessentially."
    assert len(shelf.snapshots()) == 1


def test_nothing_is_written_twice(shelf: Shelf, ollama: ScriptedServer) -> None:
    first = update(shelf, wishes(ollama))
    again = update(shelf, wishes(ollama))
    assert (again.written, again.known) == (0, 4)
    assert again.snapshot == first.snapshot
    (shelf.docs / "amber.md").rename(shelf.docs / "moved.md")
    moved = update(shelf, wishes(ollama))
    assert moved.written == 0
    assert "moved.md#amber" in by_model(shelf)
    assert len(ollama.asked) == 4


def test_only_what_changed_is_read(shelf: Shelf, ollama: ScriptedServer) -> None:
    update(shelf, wishes(ollama))
    shelf.write("birch.md", PAGES["birch.md"].replace("nobody", "somebody"))
    report = update(shelf, wishes(ollama))
    assert (report.written, report.known) == (1, 3)
    assert "somebody" in section(ollama.asked[-1])["text"]


def test_a_question_waits_for_no_model_and_keeps_what_was_written(shelf: Shelf, ollama: ScriptedServer) -> None:
    update(shelf, wishes(ollama))
    shelf.write("birch.md", PAGES["birch.md"].replace("short note", "brief note"))
    shelf.write("cedar.md", PAGES["cedar.md"].replace("nobody", "somebody"))
    answer = shelf.ask("birch", **wishes(ollama))
    assert (answer.index.refreshed_files, len(ollama.asked)) == (2, 4)
    assert by_model(shelf) == [name for name in ALL if name != "cedar.md#cedar"]


def test_the_server_dies_in_the_middle(shelf: Shelf, ollama: ScriptedServer) -> None:
    answers = iter([answered, answered])

    def dying(asked: Asked) -> object:
        answer = next(answers, None)
        return answer(asked) if answer else killed()

    ollama.answer = dying
    report = update(shelf, wishes(ollama))
    assert (report.written, report.missing) == (2, 2)
    assert report.reason
    assert len(by_model(shelf)) == 2
    assert all(summaries(shelf).values())
    with scripted_server(answered) as alive:
        report = update(shelf, wishes(alive))
        assert (report.written, report.known, len(alive.asked)) == (2, 2, 2)
    assert by_model(shelf) == ALL


def test_interrupted_it_goes_on_where_it_was(shelf: Shelf, ollama: ScriptedServer) -> None:
    class Interrupting(NoProgress):
        def advance(self, stage: str, done: int) -> None:
            if (stage, done) == ("summaries", 3):
                raise KeyboardInterrupt

    settings = {**wishes(ollama), "encoder": {"kind": "none"}}
    with pytest.raises(KeyboardInterrupt):
        index_folders([shelf.docs], shelf.index, settings=settings, progress=Interrupting())
    report = index_folders([shelf.docs], shelf.index, settings=settings).summaries
    assert report
    assert (report.written, report.known, len(ollama.asked)) == (1, 3, 4)
    assert by_model(shelf) == ALL


def test_what_cannot_be_used_is_not_asked_for_again(shelf: Shelf, ollama: ScriptedServer) -> None:
    ollama.answer = lambda asked: {"summary": "Buy cheap watches at the market today, friends!"}
    report = update(shelf, wishes(ollama))
    assert (report.written, report.unusable, report.missing) == (0, 4, 0)
    assert summaries(shelf)["amber.md#amber"].startswith("The amber is described here")
    times = len(ollama.asked)
    ollama.answer = answered
    update(shelf, wishes(ollama))
    assert len(ollama.asked) == times
    ollama.models["other:latest"] = ollama.models["llama3.2:latest"]
    update(shelf, wishes(ollama, model="other"))
    assert by_model(shelf) == ALL


def test_a_forgotten_document_takes_its_summary_along(shelf: Shelf, ollama: ScriptedServer) -> None:
    ollama.answer = lambda asked: {"summary": f"{section(asked)['title']} is described here in xylophonic words."}
    update(shelf, wishes(ollama))
    forget(shelf.request(settings=wishes(ollama)), ["amber.md"])
    with shelf.rows() as rows:
        kept = [row[0] for row in rows.execute("SELECT summary FROM summaries ORDER BY summary")]
    assert kept == [f"{word} is described here in xylophonic words." for word in ("Birch", "Cedar", "Delta")]
    assert shelf.files_with("Amber is described") == []


def test_the_command_says_how_many_there_are(shelf: Shelf, ollama: ScriptedServer) -> None:
    ollama.once.extend([lambda asked: {"summary": ""}, cut_stream("{")])
    index = command("index", shelf.docs, "--index", shelf.index, "--ollama-url", ollama.url)
    run = run_command([*index, "--summaries", "llm", "--encoder-kind", "none"])
    (line,) = [line for line in run.stdout.split("\n") if "summaries" in line]
    assert "2 written by llama3.2, 0 known already; 1 could not be used" in line
    assert "1 missing, `index` goes on with them: " in line
    report = json.loads(run_command([*index, "--json"]).stdout)["summaries"]
    assert (report["written"], report["known"], report["missing"], report["reason"]) == (1, 3, 0, "")
