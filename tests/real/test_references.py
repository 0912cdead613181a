"""Every reference that is printed reads back as the very same lines, and no reference is guessed."""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from retriever.api import index_folders, open_retriever
from retriever.errors import UsageError
from retriever.retriever import Retriever
from retriever.text import estimate_tokens
from retriever.types import Hit
from tests.program import Cli
from tests.real.served import Faces, faces_of
from tests.shelf import WORDS_ALONE, read_lines, write_pages
from tests.tables import read_table

README = (
    "# Readme of {0}\n\nOf {0}.\n\n## Otters\n\nOtters of {0} sleep in the sun.\n\n## More\n\nNothing more of {0}.\n"
)
FOLDERS = ("a/docs", "b/docs", "notes")
QUESTION = "otters sleep in the sun"
SETTINGS = {"top_k": 40, **WORDS_ALONE}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Three folders, of which two have one name, and all hold a file of one path; the current folder is the second."""
    place = tmp_path_factory.mktemp("references")
    for name in FOLDERS:
        pages = {"README.md": README.format(name), "sub/README.md": README.format(f"{name} below")}
        write_pages(place / name, pages)
    write_pages(place / "notes", {"alone.md": README.format("alone")})
    write_pages(place / "a/docs", {"b/docs:README.md": README.format("a colon"), "notes:alone.md": README.format("2")})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HYBRID_RETRIEVE_ENCODER_KIND", "none")
        patch.chdir(place / "b/docs")
        yield place


@pytest.fixture(scope="module")
def index(place: Path) -> Path:
    for name in FOLDERS:  # one after the other, as folders come
        index_folders([place / name], place / "index")
    return place / "index"


@pytest.fixture
def retriever(index: Path) -> Iterator[Retriever]:
    with open_retriever((), index, settings=SETTINGS) as retriever:
        yield retriever


@pytest.fixture
def faces(index: Path) -> Iterator[Faces]:
    with faces_of(index, SETTINGS) as faces:
        yield faces


@pytest.fixture
def hits(retriever: Retriever) -> tuple[Hit, ...]:
    return retriever.search(QUESTION).hits


def test_a_library_reads_back_what_it_cites(retriever: Retriever, hits: tuple[Hit, ...]) -> None:
    named = {f"{name}:{path}" for name in FOLDERS for path in ("README.md", "sub/README.md")}
    with_colons = {"a/docs:b/docs:README.md", "a/docs:notes:alone.md"}
    assert {hit.cited_as for hit in hits} == {*named, *with_colons, "notes:alone.md"}
    assert len(hits) == len({hit.citation for hit in hits})
    for hit in hits:
        for reference, span in ((hit.citation, hit.passage), (f"{hit.cited_as}:{hit.span}", hit.span)):
            passage = retriever.read(reference)
            assert passage.text == read_lines(hit.folder, hit.file, span.first, span.last)
            assert (passage.folder, passage.file, passage.citation) == (hit.folder, hit.file, reference)
        section = retriever.read(hit.node_id)  # with what is below it
        assert section.text.startswith(read_lines(hit.folder, hit.file, hit.span.first, hit.span.last))
        assert retriever.nodes(hit.node_id)[0].title == hit.title


def test_a_context_and_the_sentences_of_an_answer_read_back(retriever: Retriever) -> None:
    context = retriever.context(QUESTION).context
    assert context.tokens == estimate_tokens(context.markdown) <= context.max_tokens == 4000
    assert len({(piece.folder, piece.file) for piece in context.pieces}) == 9, "all files"
    for piece in context.pieces:
        assert retriever.read(piece.citation).text == piece.text
        assert f"`{piece.citation}`" in context.markdown
    sentences = retriever.answer(QUESTION).sentences
    assert sentences
    for sentence in sentences:
        expected = read_lines(sentence.folder, sentence.file, sentence.span.first, sentence.span.last)
        assert retriever.read(sentence.citation).text == expected


@pytest.mark.parametrize("folder", ["b/docs/sub", "."])
def test_the_command_line_reads_back_what_it_prints(
    place: Path, index: Path, cli: Cli, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place / folder)

    def read(reference: str) -> tuple[str, str, int, int]:
        found = cli("read", "--json", "--index", index, "--", reference).json
        return found["folder"], found["file"], found["start_line"], found["end_line"]

    asked = (QUESTION, "--top-k", "10", "--index", index)
    hits = cli("ask", "--json", *asked).json["hits"]
    printed = re.findall(r"^ *\d+  (.+?:\d+-\d+)(?:  |$)", cli("ask", *asked).out, re.MULTILINE)
    assert len(printed) == len(hits) == 10
    for hit, shown in zip(hits, printed, strict=True):
        lines = hit["passage"]["start_line"], hit["passage"]["end_line"]
        assert read(hit["citation"]) == read(shown) == (hit["folder"], hit["file"], *lines)
    tree = cli("tree", "--index", index).out
    places = re.findall(r"  (\S+\.md(?::\d+(?:-\d+)?)?)$", tree, re.MULTILINE)
    assert len(set(map(read, places))) == len(places) == 27


def test_an_agent_reads_back_what_a_tool_says(faces: Faces, retriever: Retriever, hits: tuple[Hit, ...]) -> None:
    found = faces.tell("search", question=QUESTION, top_k=30, max_tokens=10_000)
    assert re.findall(r"^\d+\. `(.+?)`", found, re.MULTILINE) == [hit.citation for hit in hits]
    for hit in hits:
        beside = re.findall(r"`([^`\n]+:\d+(?:-\d+)?)`", faces.tell("related", place=hit.citation))
        for reference in (hit.citation, *beside):
            assert retriever.read(reference).text in faces.tell("read", place=reference)


def test_the_api_reads_back_what_it_gives(faces: Faces, retriever: Retriever, hits: tuple[Hit, ...]) -> None:
    found = faces.web.get("/api/search", params={"question": QUESTION}).json()["hits"]
    assert [hit["citation"] for hit in found] == [hit.citation for hit in hits]
    for hit in hits:
        read = faces.web.get("/api/node", params={"reference": hit.citation}).json()
        assert read["text"] == retriever.read(hit.citation).text


def test_the_links_of_the_web_page_lead_to_what_they_name(
    faces: Faces, retriever: Retriever, hits: tuple[Hit, ...]
) -> None:
    page = faces.web.get("/", params={"question": QUESTION}).text
    links = {unescape(link) for link in re.findall(r'href="(/read\?[^"]+)"', page)}
    references = {link: parse_qs(urlsplit(link).query)["node"][0] for link in links}
    assert {hit.node_id for hit in hits} <= {*references.values()}
    for link, reference in references.items():
        title = retriever.nodes(reference)[0].title.rpartition("/")[2].rstrip(":")
        assert title in re.findall("<h1.*>(.*)</h1>", faces.web.get(link).text)[0], reference


@pytest.mark.parametrize(("reference", "named"), read_table("paths", "Of two files of one name"))
def test_of_two_files_of_one_name_none_is_guessed(retriever: Retriever, reference: str, named: str) -> None:
    for ask in (retriever.read, retriever.similar, retriever.tree):
        with pytest.raises(UsageError) as caught:
            ask(reference)
        assert all(name in str(caught.value) for name in named.split()), str(caught.value)
