"""Indexes that are damaged, full, locked, read while written, or not ours."""

import random
import shutil
import sqlite3
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from retriever.errors import IndexDamagedError, IndexLockedError, NoIndexError, StorageError
from retriever.store.files import writer_lock
from retriever.types import Answer
from tests.damage import HARMS, damage
from tests.program import Cli, slow
from tests.scenarios import chapter_pages
from tests.shelf import NEVER_REFRESH, PAGES, QUESTIONS, Shelf, found, same_hits
from tests.small_disk import read_only, small_disk


def hits(some: Sequence[Answer]) -> list[list[tuple[str, float]]]:
    return [found(answer) for answer in some]


def all_same(some: Sequence[Answer], truth: Sequence[Answer]) -> bool:
    return all(same_hits(one, other) for one, other in zip(hits(some), hits(truth), strict=True))


def said(some: Sequence[Answer]) -> str:
    return "; ".join(sentence for answer in some for sentence in map(str, answer.degraded))


def test_a_deleted_generation_is_not_missed_and_made_again_without_embedding(shelf: Shelf) -> None:
    truth = shelf.ask_all()
    shutil.rmtree(shelf.chroma)
    without = shelf.ask_all()
    assert all_same(without, truth)
    assert said(without) == ""
    shelf.update()
    assert shelf.chroma.is_dir()
    assert shelf.encoder.encoded == 0


def test_what_a_killed_process_left_of_chromadb_goes(shelf: Shelf) -> None:
    chroma = shelf.chroma
    draft = shutil.copytree(chroma, shelf.index / "chroma-0123456789abcdef.draft")
    shelf.update()
    assert not draft.exists()
    assert shelf.chroma == chroma


@pytest.fixture(scope="module")
def chapters(tmp_path_factory: pytest.TempPathFactory) -> tuple[Shelf, list[Answer]]:
    """A larger index, the answers of it, and a copy of it beside it, `good`."""
    shelf = Shelf(tmp_path_factory.mktemp("chapters"), PAGES | chapter_pages(14))  # ChromaDB writes files of vectors
    shelf.update()
    truth = shelf.ask_all()
    assert len(list(shelf.chroma.glob("*/index_metadata.pickle"))) == 1
    shutil.copytree(shelf.index, shelf.place / "good")
    shelf.encoder.encoded = 0
    return shelf, truth


@pytest.mark.parametrize("harm", ["each in turn", *slow(HARMS)])
def test_a_damaged_generation_never_answers_wrongly_nor_silently(
    chapters: tuple[Shelf, list[Answer]], harm: str
) -> None:
    shelf, truth = chapters
    chance = random.Random(1)
    chroma = shelf.chroma
    good = shelf.place / "good" / chroma.name
    names = sorted(path.relative_to(good) for path in good.rglob("*") if path.is_file())
    assert len(names) > 5
    with writer_lock(shelf.index, 0):  # nobody can rebuild it, which is faster to test
        for place, name in enumerate(names):
            shutil.rmtree(chroma)
            shutil.copytree(good, chroma)
            hurt = chroma / name
            damage(hurt, list(HARMS)[place % len(HARMS)] if harm == "each in turn" else harm, chance)
            if hurt.is_file() and hurt.read_bytes() == (good / name).read_bytes():
                continue  # its end was zeros already
            question = place % len(QUESTIONS)
            answer = shelf.ask(QUESTIONS[question], **NEVER_REFRESH)
            assert same_hits(found(answer), found(truth[question])), name
            if name.name != "chroma.sqlite3":
                assert "answered without it" in said([answer]), (name, said([answer]))
    assert shelf.encoder.encoded == 0


def test_an_old_generation_goes_and_who_reads_it_reads_on(shelf: Shelf) -> None:
    with shelf.open(**NEVER_REFRESH) as reader, reader.view() as view:
        before, old = view.lexical.search(["tomato"], 5), shelf.chroma
        shelf.write("garden/bees.md", "# Bees\n\nBees sleep.\n")
        shelf.update()
        assert shelf.chroma != old
        assert view.lexical.search(["tomato"], 5) == before != ()


@pytest.mark.parametrize("goes", [False, True])
def test_an_open_retriever_sees_the_new_state_or_another_index_in_its_place(shelf: Shelf, *, goes: bool) -> None:
    with shelf.open(**NEVER_REFRESH) as reader:
        assert reader.search("otter").index.documents == 4
        if goes:
            shelf.index.rename(shelf.place / "away")
            with pytest.raises(NoIndexError, match="there is no index in"):
                reader.search("otter")
        shelf.write("otter.md", "# Otters\n\nAn otter sleeps.\n")
        shelf.update()
        answer = reader.search("otter")
        assert (answer.index.documents, answer.hits[0].node_id, answer.degraded) == (5, "otter.md#otters", ())


def test_several_threads_share_a_retriever(shelf: Shelf) -> None:
    """Its models as well: each question is read by the reader."""
    truth = shelf.ask_all()
    with shelf.open(read_passages=3) as reader, ThreadPoolExecutor(4) as pool:
        for _ in range(4):
            assert all_same(list(pool.map(reader.search, QUESTIONS)), truth)


def test_a_second_writer_waits_and_then_names_the_first(shelf: Shelf) -> None:
    with writer_lock(shelf.index, 0):
        with pytest.raises(IndexLockedError, match="another process is writing to the index"):
            shelf.update(wait_s=0.1)
        shelf.write("new.md", "# New\n\nword\n")
        answer = shelf.ask("word")
        assert answer.index.stale_files == 1
        assert any("another process is writing" in sentence for sentence in map(str, answer.degraded))
    held = threading.Event()

    def hold() -> None:
        with writer_lock(shelf.index, 5):
            held.set()
            time.sleep(0.2)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(hold)
        held.wait()
        assert shelf.update(wait_s=20).added == 1


def test_a_read_only_index_answers(shelf: Shelf) -> None:
    truth = shelf.ask_all()
    with read_only(shelf.index):
        with shelf.open() as reader:
            first = reader.search(QUESTIONS[0])
            assert same_hits(found(first), found(truth[0]))
            (reason,) = map(str, first.degraded)
            assert "is read-only" in reason
            assert "index the documents again" not in reason
            assert first.index.stale_files == 0
            assert all_same([reader.search(question) for question in QUESTIONS], truth)
            assert reader.read("mail.md:1").text == "# Mail\n"
        shelf.write("new.md", "# New\n\nword\n")
        late = shelf.ask("word")
        assert late.index.stale_files == 1
        assert any("refresh: " in sentence for sentence in map(str, late.degraded))
    assert all_same(shelf.ask_all(), truth)
    assert said(shelf.ask_all()) == ""


def test_doctor_finds_no_problem_in_a_read_only_index(shelf: Shelf, cli: Cli) -> None:
    with read_only(shelf.index):
        cli("doctor", "--repair", "--index", shelf.index, code=0)


@pytest.mark.parametrize("command", ["index", "forget"])
def test_a_command_that_cannot_write_blames_the_disk_and_not_the_lock(shelf: Shelf, cli: Cli, command: str) -> None:
    with read_only(shelf.index):
        shown = cli(command, shelf.docs, "--index", shelf.index, code=1).err
    assert f"{shelf.index}: cannot be written (Read-only file system)" in shown
    assert "writer.lock" not in shown


def test_an_empty_database_is_made_and_that_of_another_program_left_alone(shelf: Shelf, tmp_path: Path) -> None:
    (shelf.index / "index.sqlite").write_bytes(b"")
    with pytest.raises(NoIndexError, match=r"run: python -m retriever index"):
        shelf.ask("word")
    assert shelf.update().documents == 4
    assert said(shelf.ask_all()) == ""
    other = tmp_path / "other"
    other.mkdir()
    with closing(sqlite3.connect(other / "index.sqlite")) as theirs:
        theirs.execute("CREATE TABLE meta (mine TEXT)")
        theirs.commit()
    before = (other / "index.sqlite").read_bytes()
    with pytest.raises(IndexDamagedError, match="belongs to another program"):
        shelf.update(index=other)
    assert (other / "index.sqlite").read_bytes() == before


def test_a_disk_that_fills_up_leaves_what_answers_and_is_no_trouble_afterwards(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, PAGES)
    with small_disk(tmp_path / "disk", 12 << 20) as disk:
        shelf.index = disk / "index"
        shelf.update()
        filler = disk / "filler"
        for turn, free in enumerate((0, 40, 150, 600)):
            shelf.write("mail.md", f"# Mail\n\nAnother text, number {turn}.\n" + "word " * 2000)
            filler.write_bytes(bytes(shutil.disk_usage(disk).free - free * 1024))
            with pytest.raises(StorageError, match="free some space"):
                shelf.update()
            assert all(answer.hits for answer in shelf.ask_all()), free
            filler.unlink()
        shelf.update()
        assert said(shelf.ask_all()) == ""
        assert shelf.ask("another text number 3").hits[0].node_id == "mail.md#mail"
