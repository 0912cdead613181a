"""Questions of every kind to folders of every kind: an answer, with what stood in the way of a better one."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from retriever.api import index_folders, open_retriever
from retriever.errors import EncoderError, NoIndexError, QuestionError
from retriever.types import FloatMatrix
from tests.shelf import NEVER_REFRESH, PAGES, QUESTIONS, CountingEncoder, Shelf, found, same_hits

pytestmark = pytest.mark.shared_index

PROJECT = Path(__file__).parents[2]


class Moody(CountingEncoder):
    """Encodes documents, but gives this for a question, or raises it."""

    def __init__(self, mood: "FloatMatrix | EncoderError") -> None:
        super().__init__()
        self._mood = mood

    def encode_queries(self, texts: Sequence[str]) -> FloatMatrix:
        if isinstance(self._mood, EncoderError):
            raise self._mood
        return self._mood


@pytest.mark.parametrize(
    ("mood", "reason"),
    [
        (EncoderError("the server is asleep"), "semantic: the server is asleep"),
        (np.full((1, 64), np.nan, np.float32), "NaN"),
        (np.zeros((1, 64), np.float32), "zeros"),
        (np.ones((2, 64), np.float32), "shape"),
        (np.ones((1, 63), np.float32), "63 numbers instead of 64"),
    ],
    ids=["raises", "not a number", "zeros", "too many", "too short"],
)
def test_without_a_vector_the_words_answer_and_it_is_said(
    shelf: Shelf, mood: "FloatMatrix | EncoderError", reason: str
) -> None:
    answer = shelf.ask("stamp for a letter", encoder=Moody(mood))
    assert answer.hits[0].node_id == "mail.md#mail/stamps"
    assert {item.source for hit in answer.hits for item in hit.evidence} == {"keyword", "neighbors"}
    (sentence,) = map(str, answer.degraded)
    assert sentence.startswith("semantic: ")
    assert reason in sentence


def test_a_vector_that_is_no_unit_vector_finds_the_same(shelf: Shelf) -> None:
    long = 3 * shelf.encoder.encode_queries([QUESTIONS[0]])
    answer = shelf.ask(QUESTIONS[0], encoder=Moody(long), **NEVER_REFRESH)
    assert same_hits(found(answer), found(shelf.ask(QUESTIONS[0])))
    assert answer.degraded == ()


def test_an_index_of_another_model_is_searched_by_words_and_says_so(shelf: Shelf) -> None:
    answer = shelf.ask("stamp for a letter", encoder=CountingEncoder(fingerprint="0f" * 8))
    assert answer.hits[0].node_id == "mail.md#mail/stamps"
    assert tuple(map(str, answer.degraded)) == (
        "semantic: the index was made with another embedding model; index the documents again",
    )


def test_an_index_without_vectors(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, PAGES)
    wordy = {"encoder": {"kind": "none"}}
    report = index_folders([shelf.docs], shelf.index, settings=wordy)
    assert (report.embedded, report.chunks) == (0, 8)
    assert not (shelf.index / "snapshot-1" / "chroma").exists()
    with open_retriever((), shelf.index) as retriever:  # the index remembers that it has none
        answer = retriever.search("stamp for a letter")
        assert (answer.hits[0].node_id, answer.degraded) == ("mail.md#mail/stamps", ())
        assert retriever.status().coverage == 0.0
    assert "no vectors" in str(shelf.ask("stamp for a letter").degraded[0])
    assert shelf.update().embedded == 8
    assert shelf.ask("stamp for a letter").degraded == ()


def test_the_cosines_are_those_of_the_stored_vectors(shelf: Shelf) -> None:
    """Not those of ChromaDB, which differ in the seventh digit by when a chunk came in."""
    texts = {hit.node_id: hit for hit in shelf.ask("tomatoes", top_k=100).hits}
    with shelf.rows() as rows:
        stored = dict(
            rows.execute(
                "SELECT node_id, vector FROM chunks JOIN nodes USING (node_key) JOIN vectors USING (text_hash)"
            )
        )
    assert stored.keys() == texts.keys()
    for question, vector_search in product(QUESTIONS, ("chroma", "exact")):
        answer = shelf.ask(question, vector_search=vector_search, page_prior=0, neighbor_depth=0)
        (dense,) = [ranking for ranking in answer.trace.rankings if ranking.source == "semantic"]
        asked = shelf.encoder.encode_queries([question])[0].astype(np.float64)
        for item in dense.items:
            vector = np.frombuffer(stored[item.node_id], dtype="<f4").astype(np.float64)
            assert item.score == pytest.approx(float(vector @ asked), abs=1e-12)
        assert [item.node_id for item in dense.items] == sorted(
            stored, key=lambda node_id: -float(np.frombuffer(stored[node_id], "<f4").astype(np.float64) @ asked)
        )


def test_more_than_there_is_and_more_than_the_candidates(shelf: Shelf) -> None:
    everything = shelf.ask("tomatoes", top_k=1000)
    assert len(everything.hits) == 8
    assert [hit.rank for hit in everything.hits] == list(range(1, 9))
    assert same_hits(found(shelf.ask("tomatoes", top_k=6, candidate_cap=2)), found(everything)[:6])
    few = shelf.ask("tomatoes", vector_top_n=1, keyword_top_n=1, neighbor_depth=0, candidate_file_roots=0, top_k=50)
    assert 1 <= len(few.hits) <= 2


def test_a_hit_is_what_its_citation_says(shelf: Shelf) -> None:
    for question in QUESTIONS:
        for hit in shelf.ask(question, top_k=100).hits:
            lines = (Path(hit.folder) / hit.file).read_text(encoding="utf-8").splitlines(keepends=True)
            assert hit.text == "".join(lines[hit.span.first - 1 : hit.span.last])
            assert not hit.text_cut
            assert hit.score == pytest.approx(sum(item.share for item in hit.evidence))
    (cut,) = shelf.ask("what pays for a letter?", top_k=1, final_text_chars=20, final_summary_chars=10).hits
    assert (cut.text, cut.text_cut, cut.summary) == ("## Stamps\n\nA stamp…", True, "A stamp…")


@pytest.mark.parametrize(
    "question",
    ["what is the of and", "?!... --- ***", "x " * 50_000, "\U0001f993", "(((", "*", "NEAR", '"'],
    ids=lambda question: ascii(question)[:12],
)
def test_questions_that_say_little(shelf: Shelf, question: str) -> None:
    answer = shelf.ask(question)
    assert all(np.isfinite(hit.score) for hit in answer.hits)
    cut = any("only its first 8,000 characters" in sentence for sentence in map(str, answer.degraded))
    assert cut == (len(question) > 8_000)


@pytest.mark.parametrize("question", ["", "  ", "\n\t", "\0", "\ud800"])
def test_a_question_without_a_character(shelf: Shelf, question: str) -> None:
    with pytest.raises(QuestionError, match="the question is empty"):
        shelf.ask(question)


@pytest.mark.parametrize(
    ("pages", "sections"),
    [
        ({"a.md": "# One\n\nword\n"}, 1),
        ({"a.md": "word\n"}, 1),
        ({f"{n}.md": "# Same\n\nThe very same words.\n" for n in range(60)}, 60),
        ({"a.md": ""}, 0),
        ({"a.md": "", "b/c.md": "", "d.txt": ""}, 0),
        ({"a.md": " \n\n\t\n"}, 1),
        ({"a.md": "---\ntitle: Only a title\n---\n"}, 1),
        ({"a.md": "# \n"}, 1),
        ({"a.md": "# Nothing below\n"}, 1),
        ({"a.md": "\ufeff# Byte order\r\n\r\nword\r\n"}, 1),
        ({"a.md": "```\n# not a heading\nword"}, 1),
        ({"a.md": "?! ... ---\n"}, 1),
    ],
    ids=[
        "one chunk",
        "no heading",
        "all the same",
        "empty",
        "all empty",
        "blank",
        "front matter alone",
        "heading without title",
        "heading alone",
        "BOM and CRLF",
        "unclosed fence",
        "punctuation",
    ],
)
def test_odd_folders(tmp_path: Path, pages: dict[str, str], sections: int) -> None:
    shelf = Shelf(tmp_path, pages)
    assert shelf.update().sections == sections
    with shelf.open(top_k=100) as retriever:
        for question in ("the very same words", "zebra", "?!"):
            first, second = retriever.search(question), retriever.search(question)
            assert found(first) == found(second)
            assert len(first.hits) <= sections
            assert first.degraded == ()
            assert all(np.isfinite(hit.score) for hit in first.hits)
        assert len(retriever.tree().splitlines()) >= len(pages) + 1
        assert retriever.status().coverage == 1.0
    shelf.write("new.md", "# Another\n\nwalrus\n")  # and the next state grows out of it
    assert shelf.ask("walrus").hits[0].node_id == "new.md#another"


def test_all_the_same_comes_in_the_order_of_the_ids(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, {f"{number:02}.md": "# Same\n\nThe very same words.\n" for number in range(30)})
    shelf.update()
    ids = [hit.node_id for hit in shelf.ask("the very same words", top_k=30).hits]
    assert ids == [f"{number:02}.md#same" for number in range(30)]


def test_one_text_in_many_files_hides_no_other(tmp_path: Path) -> None:
    """A graph of near vectors cannot be walked where many are equal: ChromaDB would find the others by luck."""
    same = {f"copies/{number:03}.md": "# Licence\n\nAll of it is free.\n" for number in range(150)}
    shelf = Shelf(tmp_path, PAGES | same)
    report = shelf.update()
    assert (report.chunks, report.embedded) == (158, 9)

    def dense(question: str) -> list[str]:
        answer = retriever.search(question)
        assert answer.degraded == ()
        (ranking,) = [ranking for ranking in answer.trace.rankings if ranking.source == "semantic"]
        return [item.node_id for item in ranking.items]

    with shelf.open(vector_top_n=5, page_prior=0) as retriever:
        for first in (0, 1):
            for question in QUESTIONS:
                assert dense(question)[0].partition("#")[0] in PAGES
            assert dense("is all free?") == [f"copies/{number:03}.md#licence" for number in range(first, first + 5)]
            (shelf.docs / f"copies/{first:03}.md").unlink()  # the one that stood for all
        shelf.write("copies/000.md", same["copies/000.md"])
        assert dense("is all free?")[:2] == ["copies/000.md#licence", "copies/002.md#licence"]
        assert retriever.status().coverage == 1.0


def test_a_section_with_thousands_of_children(tmp_path: Path) -> None:
    parts = "".join(f"## Part {number}\n\nword{number % 7} alone\n\n" for number in range(2_000))
    shelf = Shelf(tmp_path, {"flat.md": f"# Top\n\nIt begins.\n\n{parts}"})
    wordy = {"encoder": {"kind": "none"}}
    index_folders([shelf.docs], shelf.index, settings=wordy)
    with open_retriever((), shelf.index, settings=wordy) as retriever:
        answer = retriever.search("part 77")
        assert answer.hits[0].node_id == "flat.md#top/part-77"
        beside = retriever.search("top begins")
        assert beside.hits[0].node_id == "flat.md#top"
        (around,) = [ranking for ranking in beside.trace.rankings if ranking.source == "neighbors"]
        assert 0 < len(around.items) <= retriever.profile.candidate_cap
        assert len(retriever.tree().splitlines()) == 2_003


def test_an_index_that_was_never_finished_says_what_to_run(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, PAGES)
    with pytest.raises(EncoderError):
        shelf.update(encoder=Silent())
    with pytest.raises(
        NoIndexError, match=r"is not finished \(0% of its texts are embedded\); run: hybrid_retrieve.py index"
    ):
        shelf.ask("word")


class Silent(CountingEncoder):
    def encode_documents(self, texts: Sequence[str]) -> FloatMatrix:
        raise EncoderError("not today")
