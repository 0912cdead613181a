"""What happens to an index that is damaged, full, locked, read while it is written, or not ours."""

import contextlib
import itertools
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from retriever.errors import (
    IndexDamagedError,
    IndexLockedError,
    IndexVersionError,
    NoIndexError,
    StorageError,
)
from retriever.indexing.snapshot import Snapshot
from retriever.searching.open_index import OpenIndex
from retriever.store.locks import writer_lock
from retriever.types import Answer, FloatMatrix
from retriever.vectors.chroma import VectorIndex
from retriever.vectors.exact import Neighbours
from tests.marks import slow
from tests.shelf import NEVER_REFRESH, PAGES, QUESTIONS, Shelf, found, same_hits

PROJECT = Path(__file__).parents[2]
CHAPTERS = {
    f"chapter-{number}.md": "".join(
        f"{'##' if part else '#'} Chapter {number} part {part}\n\nIt speaks of topic{number * 7 + part} alone.\n\n"
        for part in range(8)
    )
    for number in range(14)
}
"""Enough of them that ChromaDB writes its vectors to files of their own."""


def answers(shelf: Shelf) -> list[Answer]:
    """To all questions, by one retriever that is opened for them and does not look at the documents."""
    with shelf.open(**NEVER_REFRESH) as retriever:
        return [retriever.search(question) for question in QUESTIONS]


def hits(some: Sequence[Answer]) -> list[list[tuple[str, float]]]:
    return [found(answer) for answer in some]


def all_same(some: Sequence[Answer], truth: Sequence[Answer]) -> bool:
    return all(same_hits(one, other) for one, other in zip(hits(some), hits(truth), strict=True))


def said(some: Sequence[Answer]) -> str:
    return "; ".join(sentence for answer in some for sentence in map(str, answer.degraded))


@pytest.mark.parametrize("by", ["a question", "index"])
def test_a_deleted_generation_is_made_again_without_embedding(shelf: Shelf, by: str) -> None:
    truth = answers(shelf)
    shutil.rmtree(shelf.index / "snapshot-1")
    if by == "index":
        assert shelf.update().snapshot == 2
    first = answers(shelf)
    assert all_same(first, truth)
    assert ("it was rebuilt" in said(first)) == (by == "a question")
    assert said(answers(shelf)) == ""
    assert shelf.snapshots() == ["snapshot-2"]
    assert shelf.encoder.encoded == 0


def delete(file: Path, _: random.Random) -> None:
    file.unlink()


def empty(file: Path, _: random.Random) -> None:
    file.write_bytes(b"")


def halve(file: Path, _: random.Random) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def cut_the_last_byte(file: Path, _: random.Random) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def flip_a_bit(file: Path, chance: random.Random) -> None:
    data = bytearray(file.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    file.write_bytes(data)


def zero_the_end(file: Path, _: random.Random) -> None:
    size = file.stat().st_size
    file.write_bytes(file.read_bytes()[: size // 2] + bytes(size - size // 2))


def make_a_folder_of_it(file: Path, _: random.Random) -> None:
    file.unlink()
    file.mkdir()


@pytest.fixture(scope="module")
def chapters(tmp_path_factory: pytest.TempPathFactory) -> tuple[Shelf, list[Answer]]:
    """A larger index, the answers of it, and a copy of it beside it, `good`."""
    shelf = Shelf(tmp_path_factory.mktemp("chapters"), PAGES | CHAPTERS)
    shelf.update()
    truth = answers(shelf)
    assert len(list((shelf.index / "snapshot-1" / "chroma").glob("*/index_metadata.pickle"))) == 1
    shutil.copytree(shelf.index, shelf.place / "good")
    shelf.encoder.encoded = 0
    return shelf, truth


@pytest.mark.parametrize(
    "harm", [delete, flip_a_bit, *slow([empty, halve, cut_the_last_byte, zero_the_end, make_a_folder_of_it])]
)
def test_a_damaged_generation_never_answers_wrongly_nor_silently(
    chapters: tuple[Shelf, list[Answer]], harm: Callable[[Path, random.Random], None]
) -> None:
    shelf, truth = chapters
    chance = random.Random(1)
    good = shelf.place / "good" / "snapshot-1"
    names = sorted(path.relative_to(good) for path in good.rglob("*") if path.is_file())
    assert len(names) > 15
    with writer_lock(shelf.index, 0):  # nobody can rebuild it: index.sqlite has to answer, which is faster to test
        for place, name in enumerate(names):
            if name.name == "readers.lock" and harm not in {delete, make_a_folder_of_it}:
                continue  # it is empty
            shutil.rmtree(shelf.index / "snapshot-1")
            shutil.copytree(shelf.place / "good" / "snapshot-1", shelf.index / "snapshot-1")
            harm(shelf.index / "snapshot-1" / name, chance)
            hurt = shelf.index / "snapshot-1" / name
            if hurt.is_file() and hurt.read_bytes() == (good / name).read_bytes():
                continue  # its end was zeros already
            question = place % len(QUESTIONS)
            answer = shelf.ask(QUESTIONS[question], **NEVER_REFRESH)
            assert same_hits(found(answer), found(truth[question])), name
            if name.name != "chroma.sqlite3" or harm is not flip_a_bit:  # in free pages one may go unnoticed
                assert "answered without it" in said([answer]), name
    assert shelf.encoder.encoded == 0


def test_a_chromadb_that_hangs_is_given_up_and_the_exact_scan_answers(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    from chromadb.api.models.Collection import Collection

    truth = answers(shelf)
    for_ever = threading.Event()
    monkeypatch.setattr("retriever.vectors.chroma.ANSWERS_WITHIN_S", 0.2)
    monkeypatch.setattr(Collection, "query", lambda *_, **__: for_ever.wait())
    with shelf.open() as reader:
        answer = reader.search(QUESTIONS[0])
        assert same_hits(found(answer), found(truth[0]))
        assert "ChromaDB did not answer within 0.2 s" in str(answer.degraded[-1])
        assert str(answer.degraded[-1]).endswith("; answered without it, slower")
    for_ever.set()


def test_the_damage_of_one_generation_does_not_live_on_in_the_next(shelf: Shelf) -> None:
    counts = shelf.index / "snapshot-1" / "lexical" / "counts.npy"
    known = np.load(counts)
    np.save(counts, np.arange(len(known), dtype=known.dtype) % 50 + 1)  # as large as before, and sound on its face
    shelf.write("new.md", "# New\n\nword\n")
    shelf.update()
    fresh = shelf.place / "fresh"
    shelf.update(index=fresh)
    after = answers(shelf)
    shelf.index = fresh
    assert all_same(after, answers(shelf))


def test_the_folder_of_another_generation_under_its_name_is_not_believed(shelf: Shelf) -> None:
    shutil.copytree(shelf.index / "snapshot-1", shelf.place / "older")
    shelf.write("mail.md", "# Mail\n\nNothing about stamps or parcels any more.\n")
    shelf.update()
    truth = answers(shelf)
    shutil.rmtree(shelf.index / "snapshot-2")
    shutil.copytree(shelf.place / "older", shelf.index / "snapshot-2")
    swapped = answers(shelf)
    assert all_same(swapped, truth)
    assert "snapshot-2 is not what index.sqlite names; it was rebuilt" in said(swapped)


@pytest.mark.parametrize("wrong", ["one is missing", "one is far off", "one is unknown"])
def test_vectors_that_are_not_those_of_the_index_are_not_believed(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    truth = answers(shelf)
    search = VectorIndex.search

    def astray(index: VectorIndex, queries: FloatMatrix, limit: int) -> list[Neighbours]:
        (nearest,) = search(index, queries, limit)
        first, *others = nearest
        changed = {
            "one is missing": others,
            "one is far off": [(first[0], first[1] - 0.01), *others],
            "one is unknown": [(10**6, first[1]), *others],
        }
        return [changed[wrong]]

    monkeypatch.setattr(VectorIndex, "search", astray)
    hurt = answers(shelf)
    assert all_same(hurt, truth)
    assert all("answered without it" in said([answer]) for answer in hurt)
    assert shelf.snapshots() == ["snapshot-2"]  # made anew once, not for every question


def test_what_a_dead_writer_left_is_in_nobodys_way(shelf: Shelf) -> None:
    dead = shelf.index / "snapshot-2"
    shutil.copytree(shelf.index / "snapshot-1", dead)
    (dead / "manifest.json").unlink()
    (dead / "lexical" / "rubbish").write_bytes(b"x" * 1000)
    assert said(answers(shelf)) == ""
    shelf.write("new.md", "# New\n\nword\n")
    assert shelf.update().snapshot == 2
    assert not (dead / "lexical" / "rubbish").exists()
    (shelf.index / "snapshot-9").mkdir()
    shelf.update()
    assert shelf.snapshots() == ["snapshot-2"]


HOLD = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from retriever.store.locks import share_snapshot, writer_lock
index = Path(sys.argv[2])
with writer_lock(index, 5) if sys.argv[3] == "write" else share_snapshot(index / "snapshot-1"):
    print("ready", flush=True)
    sys.stdin.read()
"""


@contextmanager
def another_process(shelf: Shelf, doing: str) -> Iterator[subprocess.Popen[str]]:
    """A process that reads snapshot 1, or writes, until its standard input is closed."""
    command = [sys.executable, "-c", HOLD, str(PROJECT), str(shelf.index), doing]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.stdin.close()


def test_an_old_generation_stays_while_another_process_reads_it(shelf: Shelf) -> None:
    with another_process(shelf, "read"):
        for number in range(2, 4):
            shelf.write("new.md", f"# New\n\nword {number}\n")
            shelf.update()
            assert shelf.snapshots() == ["snapshot-1", f"snapshot-{number}"]
    shelf.update()
    assert shelf.snapshots() == ["snapshot-3"]


def test_an_open_retriever_sees_the_new_state_at_its_next_question(shelf: Shelf) -> None:
    with shelf.open(**NEVER_REFRESH) as reader:
        assert reader.search("otter").index.snapshot == 1
        shelf.write("otter.md", "# Otters\n\nAn otter sleeps.\n")
        shelf.update()
        answer = reader.search("otter")
        assert (answer.index.snapshot, answer.index.documents) == (2, 5)
        assert answer.hits[0].node_id == "otter.md#otters"
        shelf.write("binary.md", b"\0")
        shelf.update()  # nothing new to search for, so no new snapshot
        answer = reader.search("otter")
        assert (answer.index.snapshot, answer.index.skipped_files) == (2, 1)
        assert answer.degraded == ()


def test_an_open_retriever_follows_to_the_index_that_takes_the_place_of_its_own(shelf: Shelf) -> None:
    with shelf.open(**NEVER_REFRESH) as reader:
        reader.search("otter")
        shelf.index.rename(shelf.place / "away")
        with pytest.raises(NoIndexError, match="there is no index in"):
            reader.search("otter")
        shelf.write("otter.md", "# Otters\n\nAn otter sleeps.\n")
        shelf.update()
        answer = reader.search("otter")
        assert (answer.index.documents, answer.hits[0].node_id) == (5, "otter.md#otters")
        assert answer.degraded == ()


def test_what_was_deleted_is_in_no_file_of_the_index(shelf: Shelf) -> None:
    shelf.write("secret.md", "# Plans\n\nThe treasure lies below the xyzzy.\n")
    shelf.update()
    with shelf.open() as reader:
        assert reader.search("treasure xyzzy").hits[0].node_id == "secret.md#plans"
    (shelf.docs / "secret.md").unlink()
    shelf.update()
    for path in shelf.index.rglob("*"):
        assert not path.is_file() or b"xyzzy" not in path.read_bytes(), path


def test_a_view_is_one_state(shelf: Shelf) -> None:
    with closing(OpenIndex(shelf.index)) as index:
        with index.view() as view:
            assert len(view.lexical) == 8
            shelf.write("otter.md", "# Otters\n\nAn otter sleeps.\n")
            shelf.update()
            assert (view.number, view.counts.documents, len(view.lexical), len(view.chroma)) == (1, 4, 8, 8)
        with index.view() as view:
            assert (view.number, view.counts.documents, len(view.lexical), len(view.chroma)) == (2, 5, 9, 9)
        with index.view() as again:
            assert again is view  # what was opened stays open


def test_a_generation_that_a_writer_removes_while_it_is_opened(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the name of a snapshot and its lock there is a moment; the next one in force is then taken."""

    def late(index: Path, number: int, manifest_hash: str) -> Snapshot:
        if number == 1:
            shelf.write("otter.md", "# Otters\n\nAn otter sleeps.\n")
            shelf.update()
        return Snapshot(index, number, manifest_hash)

    with shelf.open(**NEVER_REFRESH) as reader:
        monkeypatch.setattr("retriever.searching.open_index.Snapshot", late)
        answer = reader.search("otter")
    assert (answer.index.snapshot, answer.degraded) == (2, ())
    assert answer.hits[0].node_id == "otter.md#otters"
    assert [stage.name for stage in answer.trace.stages].count("embed") == 1
    assert (shelf.index / "snapshot-2" / "manifest.json").exists()
    assert shelf.snapshots() == ["snapshot-2"]


def test_several_threads_share_a_retriever(shelf: Shelf) -> None:
    truth = answers(shelf)
    wrong: list[object] = []

    def ask() -> None:
        for question, expected in zip(QUESTIONS, truth, strict=True):
            try:
                if not same_hits(found(reader.search(question)), found(expected)):
                    wrong.append(question)
            except Exception as error:
                wrong.append(error)

    with shelf.open() as reader:
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


@contextmanager
def writing_all_the_time(shelf: Shelf, name: str, texts: Sequence[str]) -> Iterator[None]:
    """A thread that gives a page one text after the other, and indexes it each time."""
    stop = threading.Event()
    failed: list[BaseException] = []

    def write() -> None:
        try:
            for text in itertools.cycle(texts):
                if stop.is_set():
                    return
                shelf.write(name, text)
                shelf.update()
        except BaseException as error:
            failed.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join()
    assert failed == []


@pytest.mark.slow
def test_readers_beside_a_writer_see_one_state_or_the_other(shelf: Shelf) -> None:
    texts = ["# Mail\n\nA letter with a stamp.\n", "# Mail\n\nA parcel on a train.\n\n## Post\n\nA letter.\n"]
    states = []
    for text in texts:
        shelf.write("mail.md", text)
        shelf.update()
        states.append(answers(shelf))
    seen = set()
    with writing_all_the_time(shelf, "mail.md", texts), shelf.open(**NEVER_REFRESH) as lasting:
        for question in itertools.cycle(range(len(QUESTIONS))):
            with shelf.open(**NEVER_REFRESH) as fresh:
                for answer in (lasting.search(QUESTIONS[question]), fresh.search(QUESTIONS[question])):
                    assert any(same_hits(found(answer), found(state[question])) for state in states)
                    assert answer.degraded == ()
                    seen.add(answer.index.snapshot)
            if len(seen) > 5:
                break


def test_a_second_writer_waits_and_then_names_the_first(shelf: Shelf) -> None:
    with another_process(shelf, "write") as other:
        with pytest.raises(IndexLockedError, match=f"process {other.pid} is writing to the index"):
            shelf.update(wait_s=0.1)
        shelf.write("new.md", "# New\n\nword\n")
        answer = shelf.ask("word")
        assert answer.index.stale_files == 1
        assert any(f"process {other.pid} is writing" in sentence for sentence in map(str, answer.degraded))
        assert other.stdin is not None
        threading.Timer(0.2, other.stdin.close).start()
        assert shelf.update(wait_s=20).added == 1


def test_the_lock_of_a_killed_process_blocks_nobody(shelf: Shelf) -> None:
    with another_process(shelf, "write") as other:
        other.send_signal(signal.SIGKILL)
        other.wait()
        shelf.write("new.md", "# New\n\nword\n")
        assert shelf.update().added == 1


def test_files_that_changed_while_a_writer_waited_are_not_lost(shelf: Shelf) -> None:
    """What a writer saw of the folder before it waited for another is old by then."""
    with writer_lock(shelf.index, 0):
        thread = threading.Thread(target=shelf.update, kwargs={"wait_s": 20})
        thread.start()
        threading.Event().wait(0.3)
        shelf.write("new.md", "# New\n\nword\n")
    thread.join()
    assert shelf.ask("word", **NEVER_REFRESH).index.documents == 5


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """The folder mounted over itself, read-only."""
    for command in (["mount", "--bind", str(folder), str(folder)], ["mount", "-o", "remount,bind,ro", str(folder)]):
        if subprocess.run(command, capture_output=True, check=False).returncode:
            subprocess.run(["umount", folder], capture_output=True, check=False)
            pytest.skip("this user may not mount a folder read-only")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.skipif(sys.platform != "linux", reason="mount is Linux's")
def test_a_read_only_index_answers(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    truth = answers(shelf)
    with read_only(shelf.index):
        with shelf.open() as reader:
            first = reader.search(QUESTIONS[0])
            assert same_hits(found(first), found(truth[0]))
            assert any("answered without it" in sentence for sentence in map(str, first.degraded))
            assert first.index.stale_files == 0
            monkeypatch.setattr("retriever.indexing.update.update_index", lambda *_: pytest.fail("tried again"))
            monkeypatch.setattr("retriever.lexical.bm25.build_lexical", lambda *_: pytest.fail("what is whole is used"))
            assert all_same([reader.search(question) for question in QUESTIONS], truth)
            assert reader.read("mail.md:1").text == "# Mail\n"
            monkeypatch.undo()
        with pytest.raises(StorageError, match="cannot be written"):
            shelf.update()
        shelf.write("new.md", "# New\n\nword\n")
        late = shelf.ask("word")
        assert late.index.stale_files == 1
        assert any("refresh: " in sentence for sentence in map(str, late.degraded))
    assert all_same(answers(shelf), truth)
    assert said(answers(shelf)) == ""


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="only root can become someone else")
@pytest.mark.parametrize("readable", [True, *slow([False])])
def test_the_index_of_someone_else(shelf: Shelf, readable: bool) -> None:
    if readable:
        for path in [shelf.index, *shelf.index.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
    for above in shelf.index.parents:
        if above.owner() == "root" and above != Path("/tmp"):
            above.chmod(above.stat().st_mode | 0o055)
    script = f"""
import os, sys
sys.path.insert(0, {str(PROJECT)!r})
from retriever.errors import RetrieverError
from tests.fake_encoder import FakeEncoder
from retriever.api import open_retriever
def ask():
    with open_retriever((), {str(shelf.index)!r}, encoder=FakeEncoder()) as retriever:
        return retriever.search({QUESTIONS[0]!r}).hits[0].node_id
ask()  # imports what someone else may not be allowed to read
os.seteuid(65534)
try:
    print(ask())
except RetrieverError as error:
    print(type(error).__name__, error)
"""
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert finished.stderr == ""
    if readable:
        assert finished.stdout == "mail.md#mail/stamps\n"
    else:
        assert "Error" in finished.stdout
        assert str(shelf.index) in finished.stdout


@pytest.mark.parametrize("command", ["ask", "index"])
@pytest.mark.parametrize("harm", ["rubbish", "half of it", "a page", "zeros"])
def test_a_damaged_database_says_what_to_do(shelf: Shelf, harm: str, command: str) -> None:
    path = shelf.index / "index.sqlite"
    data = path.read_bytes()
    harmed = {
        "rubbish": random.Random(1).randbytes(len(data)),
        "half of it": data[: len(data) // 2],
        "a page": data[:4096],
        "zeros": bytes(len(data)),
    }[harm]
    path.write_bytes(harmed)
    shelf.write("mail.md", "# Mail\n\nchanged\n")
    with pytest.raises(IndexDamagedError, match=r"is damaged .*; run: hybrid_retrieve\.py doctor --repair --index"):
        shelf.ask(QUESTIONS[0]) if command == "ask" else shelf.update()
    assert path.read_bytes() == harmed
    shelf.index.rename(shelf.place / "away")
    assert shelf.update().documents == 4


@pytest.mark.slow
def test_bits_flipped_in_the_database_are_an_error_of_ours_or_no_harm(shelf: Shelf) -> None:
    path = shelf.index / "index.sqlite"
    data = path.read_bytes()
    refused = 0
    for seed in range(25):
        chance = random.Random(seed)
        flipped = bytearray(data)
        for _ in range(20):
            flipped[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(flipped)
        try:
            shelf.ask(QUESTIONS[seed % 5], **NEVER_REFRESH)
        except (IndexDamagedError, IndexVersionError, NoIndexError):
            refused += 1
    assert refused > 5


def test_an_empty_database_is_an_index_that_is_not_made_yet(shelf: Shelf) -> None:
    (shelf.index / "index.sqlite").write_bytes(b"")
    with pytest.raises(NoIndexError, match=r"run: hybrid_retrieve.py index"):
        shelf.ask("word")
    assert shelf.update().documents == 4
    assert said(answers(shelf)) == ""


def test_the_database_of_another_program_is_left_alone(shelf: Shelf, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with closing(sqlite3.connect(other / "index.sqlite")) as theirs:
        theirs.execute("CREATE TABLE meta (mine TEXT)")
        theirs.commit()
    before = (other / "index.sqlite").read_bytes()
    with pytest.raises(IndexDamagedError, match="belongs to another program"):
        shelf.update(index=other)
    assert (other / "index.sqlite").read_bytes() == before


def test_a_database_that_may_not_grow(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite's own limit gives the error of a full disk, wherever it comes; nothing half is left of it."""
    from retriever.store import database

    truth = answers(shelf)
    connect = database._connect
    shelf.write("long.md", "".join(f"# Part {number}\n\n{'word ' * 200}\n" for number in range(20)))

    def limited(pages: int, uri: str) -> sqlite3.Connection:
        connection = connect(uri)
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    with shelf.rows() as rows:
        before = int(rows.execute("PRAGMA page_count").fetchone()[0])
    refused = 0
    for pages in range(before, before + 60, 6):
        monkeypatch.setattr(database, "_connect", partial(limited, pages))
        with contextlib.suppress(StorageError):
            shelf.update()
            break
        refused += 1
        monkeypatch.setattr(database, "_connect", connect)
        assert all_same(answers(shelf), truth)
    assert 2 < refused < 10
    monkeypatch.setattr(database, "_connect", connect)
    assert len(shelf.ask("part 7").hits) == 5
    assert said(answers(shelf)) == ""


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path]:
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", place], check=False).returncode:
        pytest.skip("this user may not mount a small disk")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.skipif(sys.platform != "linux", reason="mount is Linux's")
@pytest.mark.parametrize("size", ["120k", *slow(["16k", "400k", "1m"])])
def test_a_disk_that_is_too_small_for_an_index(tmp_path: Path, size: str) -> None:
    shelf = Shelf(tmp_path, PAGES)
    with small_disk(tmp_path / "disk", size) as disk:
        for _ in range(2):
            with pytest.raises(StorageError, match=r"free some space|needs \d+ MB"):
                shelf.update(index=disk / "index")


@pytest.mark.skipif(sys.platform != "linux", reason="mount is Linux's")
def test_a_disk_that_fills_up_leaves_the_old_state_and_is_no_trouble_afterwards(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, PAGES)
    with small_disk(tmp_path / "disk", "12m") as disk:
        shelf.index = disk / "index"
        shelf.update()
        truth = answers(shelf)
        filler = disk / "filler"
        for turn, free in enumerate((0, 8, 40, 150, 600, 1800)):
            shelf.write("mail.md", f"# Mail\n\nAnother text, number {turn}.\n" + "word " * 2000)
            filler.write_bytes(bytes(shutil.disk_usage(disk).free - free * 1024))
            with pytest.raises(StorageError, match=r"free some space|needs \d+ MB"):
                shelf.update()
            assert all_same(answers(shelf), truth), free
            late = shelf.ask(QUESTIONS[0])
            assert late.index.stale_files == 1
            assert same_hits(found(late), found(truth[0]))
            filler.unlink()
        assert shelf.update().changed == 1
        assert said(answers(shelf)) == ""
        assert shelf.ask("another text number 5").hits[0].node_id == "mail.md#mail"
