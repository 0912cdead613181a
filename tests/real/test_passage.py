"""The lines of a hit that answer, on every face, found by words alone; tests/output_cases/passages.md has more."""

from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest

from retriever import Hit
from tests.program import Cli
from tests.real.served import Faces, faces_of, indexed
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
PAGES = {
    "oven.md": OVEN,
    "long.md": LONG,
    "settings.md": CONFIGURATION,
    "buoys.md": TABLE,
    "drawer.md": "## Drawer\n\nTools in it:\n\n- a **knife**\n- a whisk, a sieve\n",
    "crew.md": "## Members of the crew\n\n" + "".join(f"- Ada {number}\n\n" for number in range(14)),
    "gas.md": "---\nstatus: superseded\n---\n# Gas\n\nThe pipe of the gas is yellow.\n",
}
SETTINGS = {**WORDS_ALONE, **NEVER_REFRESH}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("passages")
    indexed(place, PAGES, SETTINGS)
    return place


@pytest.fixture(scope="module")
def faces(place: Path) -> Iterator[Faces]:
    with faces_of(place / "index", SETTINGS) as faces:
        yield faces


def ask(faces: Faces, question: str) -> Hit:
    return faces.library.open().search(question).hits[0]


def test_a_text_that_is_cut_begins_with_the_passage(faces: Faces) -> None:
    hit = ask(faces, "where does the walrus sleep")
    assert (str(hit.passage), str(hit.span)) == ("403", "1-403")
    assert (hit.text, hit.text_cut) == ("…\nA walrus sleeps.\n", True)


def test_a_row_of_a_very_long_table_is_found_and_keeps_the_names_of_its_columns(faces: Faces) -> None:
    hit = ask(faces, "default of buoy.840.color")
    assert hit.citation == f"buoys.md:{TABLE[: TABLE.index('buoy.840.')].count(chr(10)) + 1}"
    assert hit.sentence == ("option: buoy.840.color · description: Of the buoy with number 840. · default: red")
    assert hit.text.startswith("| option | description | default |\n|---|---|---|\n| buoy.840.color |")


def test_a_setting_in_a_long_block_of_code_is_shown_as_code(faces: Faces, place: Path, cli: Cli) -> None:
    hit = ask(faces, "the whistle")
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


@pytest.mark.parametrize(("tool", "question", "told"), read_table("mcp", "Lines that answer"))
def test_agents_are_told_the_lines(faces: Faces, tool: str, question: str, told: str) -> None:
    assert told in faces.tell(tool, question=question)


def test_the_page_is_opened_at_it(faces: Faces) -> None:
    answer = faces.web.get("/?question=rolls").text
    quoted = answer.partition("<blockquote")[2].partition("</blockquote>")[0]
    assert "<li><mark>Rolls</mark> at 220 degrees.\nThey rise first.</li>" in quoted
    assert answer.count("at 220 degrees") == 1, "no sentence is shown twice"
    assert 'docs/oven.md:11"' in answer  # what the editor opens
    link = "/read?node=oven.md%23the-oven%2Fheating&amp;first=11&amp;last=12&amp;question=rolls#passage"
    assert f'href="{link}"' in answer
    page = faces.web.get(unescape(link)).text
    assert '<li class="passage" id="passage"><mark>Rolls</mark> at 220 degrees.' in page
    assert page.count('id="passage"') == 1


@pytest.mark.parametrize(("lines", "marked"), read_table("web_addresses", "Lines that a link marks"))
def test_the_lines_of_a_link_are_marked(faces: Faces, lines: str, marked: str) -> None:
    assert marked in faces.web.get(f"/read?node=oven.md%23the-oven/heating&first={lines}").text


def test_the_items_of_a_list_are_lines_of_the_page(faces: Faces) -> None:
    assert "- Ada 0<br>- Ada 1<br>" in faces.web.get("/?question=which+crew+members+are+there").text
