"""Questions that are recorded: kept, shown, bounded, deleted from every file; and an ask that never fails by it."""

import json
from contextlib import closing

import pytest

from retriever.errors import IndexLockedError
from retriever.looking import history
from retriever.looking.history import QuestionLog
from retriever.query import AskRequest, Expansion
from retriever.store import recorded
from retriever.store.store import open_store
from tests.program import Cli
from tests.shelf import NEVER_REFRESH, PAGES, QUESTIONS, Shelf, found
from tests.small_disk import read_only

SECRET = "who weighs the quixotic parcel?"


def ask(shelf: Shelf, *questions: str, **settings: object) -> list[tuple[str, ...]]:
    with shelf.open(**{**NEVER_REFRESH, "record": True, **settings}) as retriever:
        return [tuple(map(str, retriever.search(question).degraded)) for question in questions]


def opened(shelf: Shelf, *node_ids: str) -> dict[str, int]:
    with closing(open_store(shelf.index).open()) as connection:
        return recorded.opened_counts(connection, node_ids)


def test_nothing_is_recorded_unless_it_is_wished(shelf: Shelf) -> None:
    with shelf.open(**NEVER_REFRESH) as retriever:
        retriever.search(SECRET)
        retriever.read("mail.md")
    assert QuestionLog(open_store(shelf.index)).queries() == ()
    assert opened(shelf, "mail.md#mail") == {}
    assert shelf.files_with("quixotic") == []


def test_a_question_is_kept_with_all_that_made_its_answer(shelf: Shelf) -> None:
    expansion = Expansion(rewordings=("weigh the parcel",), passages=("A parcel is weighed before it travels.",))
    with shelf.open(**NEVER_REFRESH, record=True, hyde={"gate": "always"}) as retriever:
        answer = retriever.search(AskRequest(SECRET, expansion=expansion))
    assert answer.degraded == ()
    (query,) = QuestionLog(open_store(shelf.index)).queries()
    assert (query.question, query.verdict, query.citation) == (SECRET, answer.verdict, answer.hits[0].citation)
    record = QuestionLog(open_store(shelf.index)).record(query.key)
    assert record["asked_at"] == query.asked_at
    assert answer.expansion is not None
    kept = record["expansion"]
    texts = [*kept["rewordings"], *kept["passages"], *(item["text"] for item in kept["dropped"])]
    assert sorted(texts) == ["A parcel is weighed before it travels.", "weigh the parcel"]
    assert kept["rewordings"] == list(answer.expansion.rewordings)
    assert [(hit["node_id"], hit["score"]) for hit in record["hits"]] == found(answer)
    assert record["hits"][0]["text"] == answer.hits[0].text
    assert [item["source"] for item in record["hits"][0]["evidence"]] == [
        item.source for item in answer.hits[0].evidence
    ]
    assert (record["profile"], record["index"]["snapshot"]) == ("balanced", 1)
    assert [stage["name"] for stage in record["stages"]] == [stage.name for stage in answer.trace.stages]


def test_the_answer_is_the_same_whether_it_is_recorded(shelf: Shelf) -> None:
    plain = [found(shelf.ask(question, **NEVER_REFRESH)) for question in QUESTIONS]
    assert [found(shelf.ask(question, **NEVER_REFRESH, record=True)) for question in QUESTIONS] == plain
    assert [query.question for query in QuestionLog(open_store(shelf.index)).queries()] == list(reversed(QUESTIONS))


def test_a_busy_writer_makes_no_answer_fail_or_wait(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retriever.store.database.BUSY_TIMEOUT_S", 0.1)  # of the look at the folders
    with shelf.rows() as writer:
        writer.execute("BEGIN IMMEDIATE")
        (degraded,) = ask(shelf, SECRET)
        writer.execute("ROLLBACK")
    assert history.WAIT_S <= 0.5, "less than an indexing run takes"
    assert degraded == (
        f"record: another process is writing to the index {shelf.index}; try again when it has finished",
    )
    assert QuestionLog(open_store(shelf.index)).queries() == ()
    assert ask(shelf, SECRET) == [()]


def test_a_read_only_index_answers_and_says_that_it_records_nothing(shelf: Shelf) -> None:
    plain = found(shelf.ask(SECRET, **NEVER_REFRESH))
    with read_only(shelf.index), shelf.open(**NEVER_REFRESH, record=True) as retriever:
        answer = retriever.search(SECRET)
        assert retriever.read("mail.md").text == PAGES["mail.md"]
    assert found(answer) == plain
    assert any(sentence.startswith("record: the index") for sentence in map(str, answer.degraded))


@pytest.mark.parametrize("which", ["one", "all"])
def test_what_is_deleted_is_in_no_file(shelf: Shelf, which: str) -> None:
    ask(shelf, "bread over night", SECRET)
    (shelf.index / "draft-1").mkdir()  # as a repair that is killed leaves one
    (shelf.index / "draft-1" / "writer.lock").touch()
    (shelf.index / "draft-1" / "index.sqlite").write_text(SECRET, encoding="utf-8")
    with closing(open_store(shelf.index).open()) as other:  # keeps the log alive, and reads nothing just now
        other.execute("SELECT count(*) FROM queries").fetchone()
        assert shelf.files_with("quixotic") != []
        if which == "one":
            QuestionLog(open_store(shelf.index)).delete(2)
        else:
            assert QuestionLog(open_store(shelf.index)).delete_all() == 2
        assert shelf.files_with("quixotic") == []
    assert [query.key for query in QuestionLog(open_store(shelf.index)).queries()] == ([1] if which == "one" else [])
    assert (shelf.files_with("bread over night") != []) == (which == "one")


def test_a_reader_that_holds_the_text_is_named(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retriever.store.database.BUSY_TIMEOUT_S", 0.1)
    ask(shelf, SECRET)
    with shelf.rows() as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM queries").fetchone()
        with pytest.raises(IndexLockedError, match="deleted, but a process that reads the index"):
            QuestionLog(open_store(shelf.index)).delete_all()
    assert QuestionLog(open_store(shelf.index)).delete_all() == 0
    assert shelf.files_with("quixotic") == []


def test_what_was_opened_is_counted_and_outlives_an_edit_but_not_its_section(shelf: Shelf) -> None:
    with shelf.open(**NEVER_REFRESH, record=True) as retriever:
        for reference in ("mail.md#mail/stamps", "mail.md:6", "kitchen.md"):
            retriever.read(reference)
    stamps, kitchen = "mail.md#mail/stamps", "kitchen.md#kitchen"
    assert opened(shelf, stamps, kitchen, "mail.md#mail") == {stamps: 2, kitchen: 1}
    shelf.write("mail.md", PAGES["mail.md"].replace("journey", "long journey"))
    shelf.write("kitchen.md", "# Larder\n\nBread.\n")
    shelf.update()
    with shelf.open(**NEVER_REFRESH, record=True) as retriever:
        retriever.read(stamps)
    assert opened(shelf, stamps, kitchen) == {stamps: 3}


def test_the_command_line(shelf: Shelf, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    monkeypatch.setenv("HYBRID_RETRIEVE_INDEX", str(shelf.index))
    ask(shelf, "bread\tover \x1b[31mnight", SECRET)
    listed = cli("history").out.splitlines()
    assert [line.split()[0] for line in listed] == ["2", "1"]
    assert SECRET in listed[0]
    assert "\x1b" not in "".join(listed)
    assert SECRET in cli("history", "2").out
    content = json.loads(cli("history", "--json").out)
    assert [query["id"] for query in content["queries"]] == [2, 1]
    assert json.loads(cli("history", "2", "--json").out)["hits"][0]["citation"] == content["queries"][0]["citation"]
    assert json.loads(cli("history", "--delete", "2", "--json").out)["deleted"] == 1
    assert SECRET not in cli("history").out
    cli("read", "mail.md", "--record", "-q")
    assert opened(shelf, "mail.md#mail") == {"mail.md#mail": 1}
    cli("history", "--delete", "all")
    empty = cli("history")
    assert (empty.out, "no question is recorded here" in empty.err) == ("", True)
    assert opened(shelf, "mail.md#mail") == {}


@pytest.mark.parametrize("arguments", ["9", "--delete 9", "--delete x", "1 --delete 1"])
def test_what_cannot_be_meant(shelf: Shelf, arguments: str, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    monkeypatch.setenv("HYBRID_RETRIEVE_INDEX", str(shelf.index))
    assert cli("history", *arguments.split(), code=2).err.startswith("error: ")
