"""A first indexing answers by words before anything is embedded, goes on, and ends as one that nobody interrupted."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from retriever.api import forget_documents, open_retriever
from retriever.errors import StorageError
from retriever.indexing.update import TEXTS_AT_ONCE
from retriever.retriever import Retriever
from retriever.types import Answer
from tests.program import Cli, command, environment, in_terminal
from tests.scenarios import chapter_pages
from tests.shelf import CountingEncoder, Interrupting, Shelf, found, same_hits, write_pages

CHAPTERS = 33
SECTIONS = 8 * CHAPTERS
QUESTION = "which chapter speaks of topic101?"
RIGHT = "chapter-14.md#chapter-14-part-0/chapter-14-part-3"

pytestmark = pytest.mark.timeout(300)  # seconds alone; others may be at work on the machine


@pytest.fixture
def library(tmp_path: Path) -> Shelf:
    """More sections than are embedded before words answer."""
    assert SECTIONS > TEXTS_AT_ONCE
    return Shelf(tmp_path, chapter_pages(CHAPTERS))


def ask(retriever: Retriever) -> Answer:
    return retriever.search(QUESTION)


def test_words_answer_before_anything_is_embedded(library: Shelf) -> None:
    encoder, early = CountingEncoder(), list[Answer]()

    def answer(retriever: Retriever) -> None:
        assert encoder.encoded == 0
        early.append(ask(retriever))

    with open_retriever([library.docs], library.index, encoder=encoder, on_words=answer) as retriever:
        whole = ask(retriever)
    (first,) = early
    assert first.hits[0].node_id == RIGHT
    assert "topic101" in first.hits[0].snippet
    assert first.hits[0].citation_state == "exact"
    assert first.index.embedded_share == 0.0
    assert [str(item) for item in first.degraded] == [
        "semantic: 0 % of the texts are embedded so far; the others are found by words alone"
    ]
    assert (whole.index.embedded_share, whole.degraded) == (1.0, ())


@pytest.mark.parametrize(
    ("stage", "at"),
    [("embedding", 0), ("embedding", 256), ("indexing vectors", 0)],
)
def test_an_interruption_leaves_what_answers_and_nothing_is_computed_twice(library: Shelf, stage: str, at: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        library.update(progress=Interrupting(stage, at))
    partial = library.ask(QUESTION)
    assert partial.hits[0].node_id == RIGHT
    assert partial.index.embedded_share == (256 / SECTIONS if at else float(stage == "indexing vectors"))
    assert bool(partial.degraded) == (partial.index.embedded_share < 1)
    library.update()
    assert library.encoder.encoded == SECTIONS
    fresh = Shelf(library.place / "fresh")
    fresh.docs = library.docs
    fresh.update()
    here, there = library.ask(QUESTION), fresh.ask(QUESTION)
    assert same_hits(found(here), found(there))
    assert here.confidence == there.confidence


def test_an_index_that_is_deleted_meanwhile_ends_it(library: Shelf) -> None:
    class Deleting(Interrupting):
        def advance(self, stage: str, done: int) -> None:
            if (stage, done) == ("embedding", 256):
                shutil.rmtree(library.index)

    with pytest.raises(StorageError, match="was deleted while"):
        library.update(progress=Deleting("embedding", 256))
    assert library.encoder.encoded == 256


def test_a_pipe_answers_by_words_before_by_meaning(library: Shelf, cli: Cli) -> None:
    printed = cli("--docs", library.docs, "--index", library.index, QUESTION)
    first, _, second = printed.out.partition("Now that everything is embedded")
    assert RIGHT.partition("#")[0] in first
    assert second or "the answer is the same" in printed.err


def test_what_changes_meanwhile_is_in_it_and_what_is_forgotten_is_not(library: Shelf) -> None:
    with pytest.raises(KeyboardInterrupt):
        library.update(progress=Interrupting("embedding", 256))
    library.write("chapter-3.md", "# Zebras\n\nA zebra eats topic7000 at noon.\n")
    (hit, *_) = library.ask("what does a zebra eat?").hits  # it is indexed before the answer, as in a whole index
    assert hit.node_id == "chapter-3.md#zebras"
    assert library.ask(QUESTION).index.embedded_share < 1
    forget_documents(["chapter-32.md"], library.index)
    assert b"topic227" not in (library.index / "index.sqlite").read_bytes()
    library.update()
    assert library.ask(QUESTION).index.embedded_share == 1.0
    assert library.encoder.encoded <= SECTIONS + 1


# The command line, with the bundled model.


def send_while_embedding(number: int) -> "Callable[[subprocess.Popen[bytes], bytes], None]":
    """Sends a signal once, when there is work to lose."""
    sent = list[int]()

    def send(process: "subprocess.Popen[bytes]", output: bytes) -> None:
        if b"embedding the rest" in output and not sent:
            sent.append(number)
            time.sleep(0.3)
            process.send_signal(number)

    return send


@pytest.mark.skipif(os.name != "posix", reason="a terminal of POSIX")
def test_the_first_command_answers_and_the_next_goes_on(tmp_path: Path, cli: Cli) -> None:
    """Told to end, then interrupted, each time with more to embed than words wait for."""
    docs, index = write_pages(tmp_path / "docs", chapter_pages(132)), tmp_path / "index"
    words = command("--docs", "docs", QUESTION, "--index", index)
    for number in (signal.SIGTERM, signal.SIGINT):
        code, output = in_terminal(words, tmp_path, environment(TERM="xterm"), send_while_embedding(number))
        assert b"docs/chapter-14.md" in output
        assert code == (130 if number is signal.SIGINT else -number)

    partial = cli("--json", "--index", index, QUESTION)
    assert 0 <= partial.json["index"]["embedded_share"] < 1, "what there is answers"
    assert "note: to embed the rest, run: " in partial.err
    whole = cli("--json", "--docs", docs, "--index", index, QUESTION)
    assert "to embed the rest" not in whole.err
    assert (whole.json["index"]["embedded_share"], whole.json["degraded"]) == (1.0, [])
