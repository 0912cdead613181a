"""Words as people type them, in real indexes: other indexes' words, half-typed names, properties."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from retriever import open_retriever
from retriever.lexical.sections import mark_property
from retriever.query import AskRequest, Scope
from retriever.retriever import Retriever
from tests.shelf import open_pages, write_pages
from tests.tables import read_table

GEARS = (
    "# Gears\n\nOf a gear.\n\n## `--sprocket-size`\n\nHow large it is. See @scope/sprockets.\n\n## Chains\n\nOut.\n\n"
    "## Resultant force\n\nIt resets.\n\n## Restarting\n\nCall `gear --reset --output x` and see src/gear/oil.toml.\n\n"
    "## Installations\n\nx\n\n## Oiling\n\nInstall, then install again: installed.\n\n"
    "## Common problems\n\nx\n\n## Comments\n\nx\n\n## Comments of others\n\nx\n\n## A command\n\nx\n"
)


@pytest.mark.parametrize(("typed", "titles"), read_table("found", "Half typed"))
def test_what_is_half_typed_finds_what_is_called_so(tmp_path: Path, typed: str, titles: str) -> None:
    with open_pages(tmp_path, {"a.md": GEARS}) as retriever:
        request = AskRequest(typed, is_typing=True)
        expected = titles.split(", ")
        assert {hit.title for hit in retriever.search(request).hits[: len(expected)]} == set(expected)


VAULT = {
    "people/anna.md": "---\ngeburtstag: 1987-11-02\ntelefon: 0151 2345\n---\n# Anna\n\nMag Kaffee und Wandern.\n",
    "people/max.md": "---\ngeburtstag: 3. Mai 1990\n---\nMax hat einen Hund, der nicht gern allein ist.\n",
    "feier.md": "---\nstatus: draft\n---\n# Feier\n\nZum Geburtstag von Oma backen wir einen Kuchen. Wer kommt?\n",
    "adr/3.md": "---\nstatus: superseded\nsuperseded_by: '[[queue in tables]]'\n---\n# Message queue\n\nRabbit.\n",
    "adr/7.md": "---\nstatus: accepted\n---\n# Queue in tables\n\nRows of PostgreSQL, no message queue.\n",
    "adr/9.md": "---\nstatus: draft\n---\n# Cache\n\nPages for an hour.\n",
    "adr/10.md": "---\nstatus: veraltet\n---\n# Schlüssel\n\nLiegen beim Pförtner.\n\n## Schrank\n\nGrau.\n",
    **{f"wiki/{n}.md": f"---\nstatus: published\n---\n# Seite {n}\n\nSeite {n} des Wikis.\n" for n in range(9)},
}


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Retriever]:
    """Notes with properties, open."""
    with open_pages(tmp_path_factory.mktemp("vault"), VAULT) as retriever:
        yield retriever


@pytest.mark.parametrize(("question", "file", "key", "value"), read_table("found", "A property"))
def test_a_property_is_found_and_shown(vault: Retriever, question: str, file: str, key: str, value: str) -> None:
    hit = vault.search(question).hits[0]
    assert hit.file == file
    assert (key, value) in hit.matched_fields
    assert hit.span.overlap(hit.passage) or key != "status", "it is shown, and no answer"


def test_a_status_that_most_pages_have_is_not_shown(vault: Retriever) -> None:
    assert vault.search("Seite 3 des Wikis").hits[0].matched_fields == ()


def test_properties_are_no_words_of_texts(vault: Retriever) -> None:
    with vault.view() as view:
        assert len(view.lexical.find_holding(["draft"])) == 0
        assert len(view.lexical.find_holding([mark_property("draft")])) == 2


@pytest.mark.parametrize(("condition", "file"), read_table("found", "A condition"))
def test_a_condition_knows_dates_and_beginnings(vault: Retriever, condition: str, file: str) -> None:
    answer = vault.search(AskRequest("anything at all", scope=Scope(where=(condition,))))
    assert {hit.file for hit in answer.hits} <= {file}
    assert answer.scope is not None
    assert answer.scope.documents == 1


def write_people(folder: Path, head: str) -> Retriever:
    """Return an index of four notes that are alike but for the names of their files."""
    names = ("Ada Quill", "Bo Fern", "Cy Moss", "Di Larch")
    return open_pages(folder, {f"people/{name}.md": f"{head}\n\nPhone 555-{name[:2]}.\n" for name in names})


@pytest.mark.parametrize("head", ["# Contact", "---\ntitle: Contact\n---", "## Contact"])
def test_a_note_is_found_by_the_name_of_its_file(tmp_path: Path, head: str) -> None:
    with write_people(tmp_path, head) as retriever:
        for name in ("Bo Fern", "Di Larch"):
            hit = retriever.search(f"what is the phone number of {name}?").hits[0]
            assert hit.file == f"people/{name}.md"
            assert name in (*hit.breadcrumb, hit.title)


PROJECTS = ("falcon", "heron", "osprey")


@pytest.mark.parametrize(("file", "text", "question"), read_table("found", "By the name of a folder"))
def test_a_page_is_found_by_the_name_of_its_folder(tmp_path: Path, file: str, text: str, question: str) -> None:
    with open_pages(tmp_path, {f"{name}/{file}": text.format(name[1]) for name in PROJECTS}) as retriever:
        firsts = [retriever.search(question.format(name)).hits[0].file for name in PROJECTS]
    assert firsts == [f"{name}/{file}" for name in PROJECTS]


DAYS = {
    f"daily/2026-{month:02}-{day:02}.md": f"## Log\n\nSlept until {day}.\n" for month in (5, 6) for day in range(1, 29)
}


@pytest.mark.parametrize("question", read_table("found", "A day"))
def test_a_note_is_found_by_the_day_in_its_name(tmp_path: Path, question: str) -> None:
    with open_pages(tmp_path, DAYS) as retriever:
        assert retriever.search(question).hits[0].file == "daily/2026-05-17.md"


DIARY = {
    "fish.md": "# Fish\n\n| year | fish |\n| --- | --- |\n| 2025 | 38 |\n",
    "diary.md": "# Diary\n\n## 2024-04-05\n\nSaw a heron.\n\n## 2024-05-03\n\nSaw 4 herons in May.\n\n"
    "## 2024-05-04\n\nA quiet walk.\n\n## 2024-05-05\n\nSaw no heron.\n",
    **{
        f"back/{year}-{month}.md": f"# Looking back\n\nIt happened in a {month} of rain.\n"
        for year in (2019, 2020, 2021)
        for month in ("november", "december")
    },
    **{
        f"minutes/EC-2021-{month}-02.md": f"# Minutes\n\nWhat we decide: {what}.\n"
        for month, what in {"09": "a roof, to be built by November", "10": "a door", "11": "nothing"}.items()
    },
}


@pytest.mark.parametrize(("question", "first", "lacks"), read_table("found", "A day or a month in a title or a name"))
def test_a_section_is_found_by_the_day_in_its_title_or_name(
    tmp_path: Path, question: str, first: str, lacks: str
) -> None:
    with open_pages(tmp_path, DIARY) as retriever:
        answer = retriever.search(question)
    assert f"{answer.hits[0].file} {answer.hits[0].title}" == first
    assert answer.trace.signals.lacks_day == (lacks == "yes")
    assert answer.trace.signals.is_named == (question == "4 May 2024")


def test_of_a_day_the_section_about_the_topic_is_first(tmp_path: Path) -> None:
    meeting = "# Board\n\n## Attendance\n\nPresent: Ada, Bo.\n\n## Treasurer\n\nThe account stands at 43 euros.\n"
    pages = {f"2025-{month:02}-08.md": meeting for month in (3, 4, 5)}
    with open_retriever([write_pages(tmp_path / "docs", pages)], tmp_path / "index") as retriever:
        first = retriever.search("how much money did we have on 8 March 2025").hits[0]
    assert (first.file, first.title) == ("2025-03-08.md", "Treasurer")
