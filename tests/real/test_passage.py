"""The lines of a hit that answer: what is cited, linked and opened, on every face; found by words alone."""

from collections.abc import Iterator
from pathlib import Path

import anyio
import httpx
import pytest

from retriever import Hit
from retriever.query import AskRequest
from retriever.serving.mcp_server import AnswerTool, SearchTool
from retriever.serving.pool import ServedIndex
from retriever.serving.web.app import make_web_app
from tests.program import Cli
from tests.real.served import indexed
from tests.shelf import NEVER_REFRESH, WORDS_ALONE
from tests.tables import read_table

OVEN = """\
# The oven

It stands in the bakery.

## Heating

Switch the main switch on, and wait.
Then choose a program. It takes fifty minutes.

- Rye bread goes in at 240 degrees.
- Rolls at 220 degrees.
  They rise first.
- Cakes at 180 degrees.

Clean the chamber with this command:

```sh
oven --clean chamber
```

| code | meaning |
|---|---|
| E12 | the door is open |
| E31 | a sensor is broken |

The technician of the sensor comes on Tuesday.

## Lamp

A lamp burns while it is hot.
"""
LONG = "## Long\n\n" + "".join(f"Ship {number} carries coal.\n\n" for number in range(200)) + "A walrus sleeps.\n"
BOATS = "".join(f"# How many boats of kind {number} there are.\nboats_{number} = {number}\n\n" for number in range(90))
CONFIGURATION = f"## Configuration\n\nAll settings:\n\n```toml\n{BOATS}# The whistle.\nwhistle = true\n```\n"
# More than is read of one section, with the row that is asked for far from the header.
ROWS = "".join(f"| buoy.{number}.color | Of the buoy with number {number}. | red |\n" for number in range(1_200))
TABLE = f"## Buoys\n\nEach has a color.\n\n| option | description | default |\n|---|---|---|\n{ROWS}"
TABLE += "| keeper | Knows the meaning of buoy.7.color. | Ada |\n"
CRANES = """\
## crane.height

Raise the crane with `crane.height: 12`, for instance a crane.height of 20 for a tall ship.

The crane.height of a neighbor is its own.

- Default: none
- Since: the third season
"""
DRAWER = "## Drawer\n\nTools in it:\n\n- a **knife**\n- a whisk, a sieve\n"
PAGES = {"oven.md": OVEN, "long.md": LONG, "settings.md": CONFIGURATION, "buoys.md": TABLE, "cranes.md": CRANES}
PAGES |= {"drawer.md": DRAWER}
PAGES["mill.md"] = (
    "---\ndescription: How the mill grinds wheat into flour.\n---\n# Mill\n\n## Stones\n\nTwo stones turn.\n"
)
PAGES["crew.md"] = "## Members of the crew\n\n" + "".join(f"- Ada {number}\n\n" for number in range(14))
PAGES["gas.md"] = "---\nstatus: superseded\n---\n# Gas\n\nThe pipe of the gas is yellow.\n"
SETTINGS = {**WORDS_ALONE, **NEVER_REFRESH}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("passages")
    indexed(place, PAGES, SETTINGS)
    return place


@pytest.fixture(scope="module")
def library(place: Path) -> Iterator[ServedIndex]:
    with ServedIndex(index=str(place / "index"), settings=SETTINGS) as library:
        yield library


def ask(library: ServedIndex, question: str) -> Hit:
    return library.open().search(question).hits[0]


@pytest.mark.parametrize(("question", "cited", "sentence"), read_table("found", "A line of a section"))
def test_what_is_cited(library: ServedIndex, question: str, cited: str, sentence: str) -> None:
    hit = ask(library, question)
    assert (hit.citation, hit.sentence) == (f"oven.md:{cited}", sentence)
    assert str(hit.span) == ("28-30" if question == "lamp" else "5-27")


def test_a_text_that_is_cut_begins_with_the_passage(library: ServedIndex) -> None:
    hit = ask(library, "where does the walrus sleep")
    assert (str(hit.passage), str(hit.span)) == ("403", "1-403")
    assert (hit.text, hit.text_cut) == ("…\nA walrus sleeps.\n", True)


def test_a_row_of_a_very_long_table_is_found_and_keeps_the_names_of_its_columns(library: ServedIndex) -> None:
    hit = ask(library, "default of buoy.840.color")
    assert hit.citation == f"buoys.md:{TABLE[: TABLE.index('buoy.840.')].count(chr(10)) + 1}"
    assert hit.sentence == ("option: buoy.840.color · description: Of the buoy with number 840. · default: red")
    assert hit.text.startswith("| option | description | default |\n|---|---|---|\n| buoy.840.color |")
    assert ask(library, "the meaning of buoy.7.color").sentence.startswith("option: buoy.7.color")


def test_words_of_the_title_speak_for_no_line(library: ServedIndex) -> None:
    hit = ask(library, "default of crane.height")
    assert (hit.citation, hit.sentence) == ("cranes.md:7", "Default: none")


def test_a_setting_in_a_long_block_of_code_is_shown_as_code(library: ServedIndex, place: Path, cli: Cli) -> None:
    hit = ask(library, "the whistle")
    assert (hit.citation, hit.sentence) == ("settings.md:276-277", "# The whistle. whistle = true")
    assert hit.text == "```toml\n# The whistle.\nwhistle = true\n```\n"
    shown = cli("whistle", "--index", place / "index", "--encoder-kind", "none", "-q", "--top-k", "1").out
    assert "│ # The whistle.\n    │ whistle = true\n    because" in shown


def test_the_json_of_a_hit_has_its_section_and_its_passage(place: Path, cli: Cli) -> None:
    asked = ["rolls", "--index", str(place / "index"), "--encoder-kind", "none", "-q", "--top-k", "1", "--json"]
    (hit,) = cli(*asked).json["hits"]
    assert (hit["start_line"], hit["end_line"], hit["citation"]) == (5, 27, "oven.md:11-12")
    assert (hit["passage"], hit["sentence"]) == (
        {"start_line": 11, "end_line": 12},
        "Rolls at 220 degrees. They rise first.",
    )


def test_the_items_of_a_list_are_lines_on_every_face(library: ServedIndex, place: Path, cli: Cli) -> None:
    question = "which tools are in the drawer"
    shown = "Tools in it:\n- a knife\n- a whisk, a sieve\n"
    flags = ["--index", str(place / "index"), "--encoder-kind", "none", "-q", "--top-k", "1"]
    assert shown in cli("answer", question, *flags).out
    assert "    - a knife\n    - a whisk, a sieve\n" in cli(question, *flags).out
    reply = AnswerTool(question=question).answer(library)
    assert "`Tools in it:`\n`- a knife`\n`- a whisk, a sieve` `drawer.md:1-6`" in reply


def test_a_description_is_found_by_and_not_shown(library: ServedIndex) -> None:
    hits = library.open().search("how does the mill grind wheat into flour").hits
    assert hits[0].file == "mill.md"
    assert not [hit for hit in hits if "description" in hit.sentence]


def test_a_sentence_of_a_superseded_page_is_marked(library: ServedIndex, place: Path, cli: Cli) -> None:
    question = "which colour has the pipe of the gas"
    flags = ["--index", str(place / "index"), "--encoder-kind", "none", "-q", "--top-k", "1"]
    assert "gas.md:4-6  status: superseded\n" in cli("answer", question, *flags).out
    assert "`status: superseded`" in AnswerTool(question=question).answer(library).split("1. ")[0]


@pytest.mark.parametrize(("before", "question", "sentence"), read_table("found", "A line by a follow-up"))
def test_new_words_of_a_follow_up_choose_the_line(
    library: ServedIndex, before: str, question: str, sentence: str
) -> None:
    assert library.open().search(AskRequest(question, [before])).hits[0].sentence == sentence


def test_agents_get_it(library: ServedIndex) -> None:
    reply = SearchTool(question="rolls", top_k=1).answer(library)
    assert "`oven.md:11-12` in section 5-27" in reply
    assert "Rolls at 220 degrees." in reply


def test_the_page_is_opened_at_it(library: ServedIndex) -> None:
    async def fetch(path: str) -> str:
        transport = httpx.ASGITransport(app=make_web_app(library))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            response = await client.get(path)
            assert response.status_code == 200, response.text
            return response.text

    answer = anyio.run(fetch, "/?question=rolls")
    quoted = answer.partition("<blockquote")[2].partition("</blockquote>")[0]
    assert "<li><mark>Rolls</mark> at 220 degrees.\nThey rise first.</li>" in quoted
    assert "- Ada 0<br>- Ada 1<br>" in anyio.run(fetch, "/?question=which+crew+members+are+there")
    assert answer.count("at 220 degrees") == 1, "no sentence is shown twice"
    assert 'docs/oven.md:11"' in answer  # what the editor opens
    link = "/read?node=oven.md%23the-oven%2Fheating&amp;first=11&amp;last=12&amp;question=rolls#passage"
    assert f'href="{link}"' in answer
    page = anyio.run(fetch, link.partition("#")[0].replace("&amp;", "&"))
    assert '<li class="passage" id="passage"><mark>Rolls</mark> at 220 degrees.' in page
    assert page.count('id="passage"') == 1
    for lines, marked in (
        ("15&last=19", '<p class="passage" id="passage">Clean'),
        ("15&last=19", '<div class="passage code">'),
        ("24", '<tr class="passage" id="passage">\n<td>E31</td>'),
        ("18", '<div class="passage code" id="passage">'),  # within a block: the block
    ):
        assert marked in anyio.run(fetch, f"/read?node=oven.md%23the-oven/heating&first={lines}")
    assert ">Buoys</h1>" in anyio.run(fetch, "/read?node=buoys.md&first=9999"), "the file was longer once"
