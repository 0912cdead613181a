"""Every reference that is printed reads back as the very same lines, and no reference is guessed."""

import json
import re
from collections.abc import Iterator
from functools import partial
from html import escape, unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from mcp.types import TextContent
from starlette.testclient import TestClient

from retriever.answering.context import load_token_counter
from retriever.api import forget_documents, index_folders, open_retriever
from retriever.errors import UsageError
from retriever.retriever import Retriever
from retriever.serving.mcp_server import call_tool
from retriever.serving.pool import ServedIndex
from retriever.serving.web.app import make_web_app
from tests.program import Cli
from tests.shelf import WORDS_ALONE, read_lines, write_pages

README = (
    "# Readme of {0}\n\nOf {0}.\n\n## Otters\n\nOtters of {0} sleep in the sun.\n\n## More\n\nNothing more of {0}.\n"
)
FOLDERS = ("a/docs", "b/docs", "notes")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three folders, of which two have one name, and all hold a file of one path; the current folder is the second."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / ".data"))
    monkeypatch.setenv("HYBRID_RETRIEVE_ENCODER_KIND", "none")
    for name in FOLDERS:
        pages = {"README.md": README.format(name), "sub/README.md": README.format(f"{name} below")}
        write_pages(tmp_path / name, pages)
    write_pages(tmp_path / "notes", {"alone.md": README.format("alone")})
    write_pages(
        tmp_path / "a/docs", {"b/docs:README.md": README.format("a colon"), "notes:alone.md": README.format("2")}
    )
    monkeypatch.chdir(tmp_path / "b/docs")
    return tmp_path


@pytest.fixture
def index(place: Path) -> Path:
    for name in FOLDERS:  # one after the other, as folders come
        index_folders([place / name], place / "index")
    return place / "index"


@pytest.fixture
def retriever(index: Path) -> Iterator[Retriever]:
    with open_retriever((), index, settings={"top_k": 40, **WORDS_ALONE}) as retriever:
        yield retriever


def test_a_library_reads_back_what_it_cites(retriever: Retriever) -> None:
    question = "otters sleep in the sun"
    hits = retriever.search(question).hits
    assert len(hits) == len({hit.citation for hit in hits}) > 10
    for hit in hits:
        for reference, span in ((hit.citation, hit.passage), (f"{hit.cited_as}:{hit.span}", hit.span)):
            passage = retriever.read(reference)
            assert passage.text == read_lines(hit.folder, hit.file, span.first, span.last)
            assert (passage.folder, passage.file, passage.citation) == (hit.folder, hit.file, reference)
        section = retriever.read(hit.node_id)  # with what is below it
        assert section.text.startswith(read_lines(hit.folder, hit.file, hit.span.first, hit.span.last))
        assert retriever.nodes(hit.node_id)[0].title == hit.title
    named = {f"{name}:{path}" for name in FOLDERS for path in ("README.md", "sub/README.md")}
    with_colons = {"a/docs:b/docs:README.md", "a/docs:notes:alone.md"}
    assert {hit.cited_as for hit in hits} == {*named, *with_colons, "notes:alone.md"}
    found = retriever.context(question)
    context = found.context
    assert found.answer.hits == hits
    assert context.tokens == load_token_counter()(context.markdown) <= context.max_tokens == 4000
    assert len(context.pieces) == 9, "one of each file"
    for piece in context.pieces:
        assert retriever.read(piece.citation).text == piece.text
        assert f"`{piece.citation}`" in context.markdown
    quoted = {node_id for piece in context.pieces for node_id in piece.node_ids}
    assert quoted >= {hit.node_id for hit in hits} - {section.node_id for section in context.left_out}
    sentences = retriever.answer(question).sentences
    assert sentences
    for sentence in sentences:
        expected = read_lines(sentence.folder, sentence.file, sentence.span.first, sentence.span.last)
        assert retriever.read(sentence.citation).text == expected


def test_the_command_line_prints_a_context_or_its_parts(index: Path, cli: Cli) -> None:
    words = ("otters sleep in the sun", "--context", "--index", index)
    page = cli(*words, "--max-tokens", "200").out
    content = json.loads(cli(*words, "--json", "--max-tokens", "200").out)
    assert page == content["markdown"]
    assert content["tokens"] <= content["max_tokens"] == 200
    piece = content["pieces"][0]
    assert piece["text"] == read_lines(piece["folder"], piece["file"], piece["start_line"], piece["end_line"])
    assert piece["citation"].endswith(f"{piece['file']}:{piece['start_line']}-{piece['end_line']}")
    assert f"## `{piece['citation']}` " in page


def read_json(cli: Cli, reference: str, *options: str | Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(cli("read", "--json", *options, "--", reference).out)
    return content


def place_of(passage: dict[str, Any]) -> tuple[str, str, int, int]:
    return passage["folder"], passage["file"], passage["start_line"], passage["end_line"]


@pytest.mark.parametrize("folder", ["b/docs/sub", "."])
def test_the_command_line_reads_back_what_it_prints(
    place: Path, index: Path, cli: Cli, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place / folder)
    asked = ("otters sleep in the sun", "--top-k", "10", "--index", index)
    hits = json.loads(cli("ask", "--json", *asked).out)["hits"]
    printed = re.findall(r"^ *\d+  (.+?:\d+-\d+)(?:  |$)", cli("ask", *asked).out, re.MULTILINE)
    assert len(printed) == len(hits) == 10
    for hit, shown in zip(hits, printed, strict=True):
        lines = hit["passage"]["start_line"], hit["passage"]["end_line"]
        expected = (hit["folder"], hit["file"], *lines)
        for reference in (hit["citation"], shown):
            assert place_of(read_json(cli, reference, "--index", index)) == expected, reference
        section = read_json(cli, hit["node_id"], "--index", index)
        assert place_of(section)[:3] == (hit["folder"], hit["file"], hit["start_line"])
        err = cli("read", hit["citation"], "--index", index).err
        assert place_of(read_json(cli, err.partition(" | ")[0].strip(), "--index", index)) == expected
    tree = cli("tree", "--index", index).out
    places = re.findall(r"  (\S+\.md(?::\d+(?:-\d+)?)?)$", tree, re.MULTILINE)
    assert len({place_of(read_json(cli, reference, "--index", index)) for reference in places}) == len(places) == 27


def call_text(served: ServedIndex, tool: str, **arguments: object) -> str:
    result = call_tool(served, tool, arguments)
    content = result.content[0]
    assert isinstance(content, TextContent)
    assert not result.is_error, content.text
    return content.text


def test_an_agent_reads_back_what_a_tool_says(index: Path) -> None:
    with ServedIndex(index=str(index), settings=WORDS_ALONE) as served:
        call = partial(call_text, served)
        found = call("search", question="otters sleep in the sun", top_k=30, max_tokens=10_000)
        entries = re.split(r"\n(?=\d+\. `)", found)[1:]
        assert len(entries) > 10
        for entry in entries:
            match = re.match(r"\d+\. `((.+?):[\d-]+)` (?:in section (\S+) )?`", entry)
            assert match is not None
            said = entry.replace("`", "").rstrip().split("\n")[-1].strip()
            for reference in (match[1], f"{match[2]}:{match[3]}" if match[3] else match[1]):
                assert said in call("read", place=reference), reference
            folder = said.removesuffix(".").removesuffix(" sleep in the sun").rpartition("f ")[2]
            for reference in re.findall(r"`([^`\n]+:\d+(?:-\d+)?)`", call("related", place=match[1])):
                assert f"f {folder}" in call("read", place=reference), reference


def test_the_web_page_and_its_api_read_back_what_they_print(index: Path) -> None:
    question = {"question": "otters sleep in the sun"}
    with (
        ServedIndex(index=str(index), settings={"top_k": 40, **WORDS_ALONE}) as served,
        TestClient(make_web_app(served)) as client,
    ):

        def read(reference: str) -> tuple[str, str, int, int]:
            response = client.get("/api/node", params={"reference": reference})
            assert response.status_code == 200, (reference, response.text)
            return place_of(response.json())

        hits = client.get("/api/search", params=question).json()["hits"]
        assert len(hits) > 10
        for hit in hits:
            lines = hit["passage"]["start_line"], hit["passage"]["end_line"]
            assert read(hit["citation"]) == (hit["folder"], hit["file"], *lines)
            assert read(hit["node_id"])[:3] == (hit["folder"], hit["file"], hit["start_line"])
        nodes = client.get("/api/tree").json()["nodes"]
        sections = [node for node in nodes if node.get("start_line")]
        assert len({read(node["node_id"])[:3] for node in sections}) == len(sections) == 27
        page = client.get("/", params=question).text
        links = sorted(set(re.findall(r'href="(/read\?[^"]+)"', page)))
        assert len(links) > 10
        for link in links:
            (reference,) = parse_qs(urlsplit(unescape(link)).query)["node"]
            shown = client.get(unescape(link))
            assert shown.status_code == 200, reference
            if not reference.endswith("/"):  # a folder
                file = Path(*read(reference)[:2])
                title = file.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
                assert escape(title) in shown.text, reference


@pytest.mark.parametrize(
    ("reference", "named"),
    [
        ("README.md", ["a/docs:README.md", "b/docs:README.md", "notes:README.md"]),
        ("README.md:5-7", ["a/docs:README.md", "b/docs:README.md", "notes:README.md"]),
        ("sub/README.md#otters", ["a/docs:sub/README.md", "b/docs:sub/README.md"]),
        ("[[README]]", ["a/docs:README.md", "b/docs:README.md", "notes:README.md"]),
    ],
)
def test_of_two_files_of_one_name_none_is_guessed(retriever: Retriever, reference: str, named: list[str]) -> None:
    for ask in (retriever.read, retriever.similar, retriever.tree):
        with pytest.raises(UsageError) as caught:
            ask(reference)
        assert all(name in str(caught.value) for name in named), str(caught.value)


def test_forget_names_both_files_of_one_name_and_forgets_neither(place: Path, index: Path) -> None:
    with pytest.raises(UsageError) as caught:
        forget_documents(["README.md"], index)
    assert all(f"{place}/{name}/README.md" in str(caught.value) for name in FOLDERS)
    assert forget_documents(["a/docs:README.md"], index).forgotten == ("a/docs:README.md",)


def test_status_names_the_folder_of_each_path_that_two_folders_hold(place: Path, index: Path, cli: Cli) -> None:
    link, bad = "\n[gone](gone.md)\n", b"---\ntags: [\n---\n# Same\n"
    for name in ("a/docs", "b/docs"):
        write_pages(place / name, {"links.md": f"# Links of {name}\n{link}"})
        (place / name / "bad.md").write_bytes(bad)
        (place / name / "binary.md").write_bytes(b"\0\1\2" * 99)
    index_folders([place / name for name in FOLDERS], index)
    for name in ("a/docs", "notes"):
        write_pages(place / name, {"README.md": "# Changed\n"})
    state = json.loads(cli("status", "--json", "--index", index).out)
    told = json.dumps(state)
    for path in ("links.md", "bad.md", "binary.md"):
        assert all(f'"{name}:{path}"' in told for name in ("a/docs", "b/docs")), path
        assert f'"{path}"' not in told
    assert {"a/docs:README.md", "notes:README.md"} <= set(state["changed_files"])
