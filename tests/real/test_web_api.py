"""The JSON API and the headers of the web page, served by the program itself."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from retriever.api import forget_documents
from retriever.retriever import Retriever
from retriever.types import ShortAnswer
from tests.program import Cli
from tests.real.scripted_server import ScriptedServer
from tests.real.served import faces_of, index_pages, indexed, served
from tests.real.web_documents import DOT, PAGES, write_pictures
from tests.tables import read_table

QUESTION = "what pays for a letter?"


@pytest.fixture(scope="module")
def folder(any_place: str | Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of each index its own."""
    return tmp_path_factory.mktemp("web")


@pytest.fixture(scope="module")
def place(any_place: str | Path, folder: Path) -> str | Path:
    slow_to_embed = ("many.md", "hostile.md")
    index_pages(any_place, folder, {name: text for name, text in PAGES.items() if name not in slow_to_embed})
    write_pictures(folder / "docs")
    return any_place


@pytest.fixture(scope="module")
def client(place: str | Path) -> Iterator[httpx.Client]:
    with served(place, "--web") as server, httpx.Client(base_url=server.url, timeout=30) as client:
        yield client


def printed(cli: Cli, *arguments: str) -> Any:  # noqa: ANN401 - JSON
    return cli(*arguments, "--json", "-q").json


def test_the_api_gives_what_the_command_line_prints(client: httpx.Client, place: str | Path, cli: Cli) -> None:
    found = client.get("/api/search", params={"question": QUESTION, "full": "true", "explain": "true"}).json()
    said = printed(cli, "ask", QUESTION, "--index", str(place), "--full", "--explain")
    for key in ("question", "verdict", "confidence", "hits", "index", "degraded", "schema_version", "profile"):
        assert found[key] == said[key], key
    assert found["trace"]["rankings"] == said["trace"]["rankings"]
    node = client.get("/api/node", params={"reference": "mail.md#mail/stamps"}).json()
    assert node == printed(cli, "read", "mail.md#mail/stamps", "--index", str(place))


@pytest.mark.parametrize(("address", "status", "says"), read_table("web_addresses", "Answers"))
def test_every_answer_says_what_to_do(client: httpx.Client, address: str, status: int, says: str) -> None:
    response = client.get(address)
    assert response.status_code == status
    is_json = response.headers["content-type"] == "application/json"
    assert is_json == address.startswith("/api/")
    assert says in (response.json()["error"] if is_json else response.text)


def test_pictures_below_the_indexed_folders_alone_are_sent(client: httpx.Client, folder: Path) -> None:
    dot = client.get("/picture?file=art/dot.png")
    assert (dot.status_code, dot.content, dot.headers["content-type"]) == (200, DOT, "image/png")
    drawing, active = (client.get(f"/picture?file={name}.svg") for name in ("attachments/drawing", "art/active"))
    for sent in (dot, drawing, active):
        assert sent.headers["content-security-policy"] == "default-src 'none'; style-src 'unsafe-inline'; sandbox"
        assert sent.headers["x-content-type-options"] == "nosniff"
        assert sent.headers["cross-origin-resource-policy"] == "same-origin"
    assert active.headers["content-type"] == "image/svg+xml"
    refused = ("large.png", "link.png", ".hidden.png", "page.html", "no.png")
    outside = ("../outside.png", "art/../../outside.png", "/etc/passwd", "art/dot.png%00", "%ff.png", "mail.md", "")
    for name in (*(f"art/{name}" for name in refused), *outside, f"{folder}/outside.png", "art/dot.png&folder=none:"):
        assert client.get(f"/picture?file={name}").status_code == 404, name


def test_no_language_model_is_asked_while_somebody_types(index: Path, ollama: ScriptedServer) -> None:
    settings = {"use_llm": True, "llm": {"url": ollama.url}}
    with faces_of(index, settings) as faces:
        page = faces.web.get("/typed", params={"question": QUESTION})
    assert page.text.startswith('<main id="results"')
    assert ">Stamps</a>" in page.text
    assert ollama.requests == []


def test_a_section_that_went_after_the_search_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = indexed(tmp_path, {"box.md": "# Box\n\nA stamp.\n", "mail.md": "# Mail\n\nA letter.\n"})
    search = Retriever.answer

    def answer(*given: Any, **named: Any) -> ShortAnswer:  # noqa: ANN401 - as of the method
        found = search(*given, **named)
        forget_documents(["box.md"], index)
        return found

    monkeypatch.setattr(Retriever, "answer", answer)
    with faces_of(index) as faces:
        assert "A <mark>stamp</mark>." in faces.web.get("/", params={"question": "a stamp"}).text


def test_the_models_sentences_come_in_place_of_the_quoted_ones(index: Path, ollama: ScriptedServer) -> None:
    """Through the guard, each escaped, and only what holds; the sections follow."""
    quote = "A stamp pays for the journey"
    texts = ["A stamp pays for <a letter.", "The Moon pays for it <i.", "A letter has a stamp for the journey."]

    ollama.answer = lambda asked: asked.cite(quote, quote, *texts)
    given = {"question": "what pays for the journey of a letter?"}
    with served(index, "--web", "--llm-url", ollama.url) as server:
        server.wait_until_ready()
        response = httpx.get(f"{server.url}/answer", params=given, timeout=30)
        values = httpx.get(f"{server.url}/api/answer", params=given, timeout=30).json()
    assert response.headers["content-security-policy"].startswith("default-src 'none'; ")
    page = response.text
    assert "<blockquote" not in page
    assert "A stamp pays for &lt;a letter." in page
    assert page.index("&lt;a letter") < page.index("The Moon pays for it &lt;i.") < page.index('<ol class="hits">')
    assert "<s>The Moon" in page
    assert "the name Moon does not stand in" in page
    assert "<i." not in page
    assert [item["text"] for item in values["answer"]["sentences"]] == [texts[0], texts[2]]
