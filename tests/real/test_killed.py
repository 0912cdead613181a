"""`index` is killed at any moment: nothing is lost, nothing is computed twice, and no answer is of half a state."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]

# One process imports everything and forks before it opens anything: a trial then takes as long as its own work.
TRIALS = """
import json, os, random, shutil, signal, sys, time
from pathlib import Path

sys.path.insert(0, sys.argv[1])
import retriever.embedding.rows, retriever.generation, retriever.indexing, retriever.lexical, retriever.pipeline
import retriever.unrelated, retriever.vectors
from retriever.vectors.chroma import _chromadb
from tests.shelf import PAGES, QUESTIONS, CountingEncoder, Shelf, found

_chromadb()
place, seed, trials = Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
retriever.indexing.TEXTS_AT_ONCE = 4


class SlowEncoder(CountingEncoder):
    def encode_documents(self, texts):
        time.sleep(0.02)
        return super().encode_documents(texts)


def in_a_child(work):
    '''Its process id, and where what it returns comes out.'''
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        os.close(reading)
        os.write(writing, json.dumps(work()).encode())
        os._exit(0)
    os.close(writing)
    return process, reading


def result(work):
    process, reading = in_a_child(work)
    with open(reading, "rb") as file:
        content = file.read()
    assert os.waitpid(process, 0)[1] == 0
    return json.loads(content)


def pages(number, kind):
    text = "# Part {i}\\n\\n{kind} text {i} of {number}.\\n\\n## More\\n\\nAnd {square}.\\n"
    return {f"part-{i}.md": text.format(i=i, kind=kind, number=number, square=i * i) for i in range(number)}


def prepared(work):
    '''The documents before a trial; for an update, with the index of what they were.'''
    shelf = Shelf(place / work, PAGES | pages(12, "first"))
    shelf.encoder = SlowEncoder()
    if work == "update":
        result(lambda: shelf.update().generation)
        for name, text in pages(9, "second").items():
            shelf.write(name, text)
        (shelf.docs / "part-11.md").unlink()
        (shelf.docs / "part-10.md").rename(shelf.docs / "moved.md")
        shutil.copytree(shelf.index, shelf.place / "before")
    return shelf


def put_back(shelf):
    shutil.rmtree(shelf.index)
    if (shelf.place / "before").exists():
        shutil.copytree(shelf.place / "before", shelf.index)


def asked(shelf):
    with shelf.open(refresh_max_files=0, top_k=8) as reader:
        answers = [reader.search(question) for question in (*QUESTIONS[:2], "text 3 of 9", "text 5 of 12")]
    hits = [[(node, round(score, 9)) for node, score in found(answer)] for answer in answers]
    return hits, [sentence for answer in answers for sentence in answer.degraded]


def updated_and_asked(shelf):
    return shelf.update().embedded, *asked(shelf)


def stored(shelf):
    if not (shelf.index / "index.sqlite").exists() or not (shelf.index / "index.sqlite").stat().st_size:
        return 0
    with shelf.rows() as rows:
        tables = rows.execute("SELECT count(*) FROM sqlite_master WHERE name = 'vectors'").fetchone()[0]
        return rows.execute("SELECT count(*) FROM vectors").fetchone()[0] if tables else 0


chance = random.Random(seed)
for work in ("first", "update"):
    shelf = prepared(work)
    old = result(lambda: asked(shelf))[0] if work == "update" else None
    begun = time.monotonic()
    all_texts = result(lambda: shelf.update().embedded)
    needed = time.monotonic() - begun
    new = result(lambda: asked(shelf))[0]
    for number in range(trials):
        put_back(shelf)
        before = stored(shelf)
        wait = (number + chance.random()) / trials * needed  # one in each part of the time that it takes
        process, reading = in_a_child(lambda: shelf.update().embedded)
        time.sleep(wait)
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(reading)
        kept = stored(shelf) - before
        between = result(lambda: asked(shelf)) if old else (None, [])
        embedded, after, degraded = result(lambda: updated_and_asked(shelf))
        trial = {
            "work": work,
            "wait": wait,
            "kept": kept,
            "embedded": embedded,
            "needed": all_texts,
            "between is a state": between[0] in (old, new),
            "as in one go": after == new,
            "degraded": [*between[1], *degraded],
            "generations": len(shelf.generations()),
        }
        print(json.dumps(trial), flush=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="it forks")
def test_a_killed_run_costs_nothing_but_time(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    seed, trials = 2, 5
    command = [sys.executable, "-c", TRIALS, str(PROJECT), str(tmp_path), str(seed), str(trials)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    record_property("seed", seed)
    assert finished.stderr == ""
    results = [json.loads(line) for line in finished.stdout.splitlines()]
    assert len(results) == 2 * trials
    for trial in results:
        assert trial["kept"] + trial["embedded"] == trial["needed"], trial
        assert trial["between is a state"], trial
        assert trial["as in one go"], trial
        assert trial["degraded"] == [], trial
        assert trial["generations"] == 1, trial
    assert any(trial["kept"] for trial in results)
