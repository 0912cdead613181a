"""Front matter as typed metadata; whatever is wrong with it is a warning and never an error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pageindex.document import parse_document
from pageindex.front_matter import FrontMatter, read_front_matter


def yaml_block(block: str) -> FrontMatter:
    return read_front_matter(f"---\n{block}\n---\ntext\n")


FIELDS = {
    "a version keeps its zero": ("version: 2.10", ("version", "2.10")),
    "no date is checked": ("date: 2024-13-01", ("date", "2024-13-01")),
    "no word becomes a switch": ("draft: on", ("draft", "on")),
    "a folded text is one line": ("Title: >\n  2.10\n  folded", ("title", "2.10 folded")),
    "null is empty": ("author: ~", ("author", "")),
    "keys of a nested one are joined": ("author: {name: [Ann]}", ("author.name", "Ann")),
    "a type that a value claims is not made": (
        "a: !!python/object/apply:os.system ['touch /tmp/x']",
        ("a", "touch /tmp/x"),
    ),
    "a lone surrogate is replaced": ('title: "a\\uD800b"', ("title", "a\ufffdb")),
}


@pytest.mark.parametrize("name", FIELDS)
def test_fields_are_texts_as_they_were_written(name: str) -> None:
    block, field = FIELDS[name]
    assert yaml_block(block).fields == (field,)


def test_a_list_is_a_field_for_each_item() -> None:
    assert yaml_block("cities: [Rome, Oslo]").fields == (("cities", "Rome"), ("cities", "Oslo"))


@pytest.mark.parametrize(
    ("written", "aliases"),
    [("[on, ~, 'two words ']", ("on", "two words")), ("a, b c,", ("a", "b c")), ("{a: b}", ())],
)
def test_aliases_are_a_list_or_stand_between_commas(written: str, aliases: tuple[str, ...]) -> None:
    assert yaml_block(f"aliases: {written}").aliases == aliases


def test_a_title_is_no_list() -> None:
    assert yaml_block("title: [a]").title == ""


@pytest.mark.parametrize(
    "block",
    [
        '+++\ntitle = "Owls"\ndate = 2024-01-02\ntags = ["x", 1, true]\n+++\n',
        '---toml\ntitle = "Owls"\ndate = 2024-01-02\ntags = ["x", 1, true]\n---\n',
        '---json\n{"title": "Owls", "date": "2024-01-02", "tags": ["x", 1, true]}\n---\n',
    ],
)
def test_toml_and_json_are_read(block: str) -> None:
    found = read_front_matter(block)
    assert (found.title, found.date, found.tags) == ("Owls", "2024-01-02", ("x", "1", "true"))


def test_numbers_of_json_stay_as_they_were_written() -> None:
    assert read_front_matter('---json\n{"version": 2.10}\n---\n').fields == (("version", "2.10"),)


@pytest.mark.parametrize(
    "block",
    ["tags:\t[owl]", "tags:\n  -\towl", "tags: [owl]\t ", "tags: [\n\towl,\n]", "tags:\towl\t# bird", "tags:\n\t- owl"],
)
def test_a_tab_is_a_blank(block: str) -> None:
    assert yaml_block(block).tags == ("owl",)


BAD_LINES = {
    "a second colon": "title: Rust: a book",
    "an open bracket": "authors: [Ann, Bob",
    "an open quotation mark": 'subtitle: "Rust',
    "a sign that YAML keeps for itself": "author: @ann",
    "no field": "by Ann",
    "a key given twice": "date: 2023-01-01",
}


@pytest.mark.parametrize("name", BAD_LINES)
def test_a_bad_line_leaves_the_other_fields(name: str) -> None:
    found = yaml_block(f"tags:\n- owl\ndate: 2024-05-01\n{BAD_LINES[name]}\nstatus: draft")
    assert found.fields == (("tags", "owl"), ("date", "2024-05-01"), ("status", "draft"))
    assert found.warning.endswith("its fields are read, except in line 5")


def test_a_block_with_a_bad_line_is_text_as_well() -> None:
    assert not yaml_block("tags: [owl]\ntitle: Rust: a book").is_metadata


HOSTILE = {
    "an alias bomb": ("---", "a: &a [1]\nb: &b [*a, *a]\nc: [*b, *b]"),
    "deep flow": ("---", "a: " + "[" * 50_000),
    "deep blocks": ("---", "- " * 30_000),
    "an escape beyond Unicode": ("---", 'title: "\\UFFFFFFFF"'),
    "a long number in a directive": ("---", "%YAML " + "9" * 5000 + ".1"),
    "a control character": ("---", "title: a\x01b"),
    "a key given twice": ("---", "tags: a\ntags: b"),
    "two documents": ("---", "a: b\n--- \tc\n"),
    "deep TOML": ("+++", "a = " + "[" * 30_000),
    "a dotted TOML key": ("+++", "a." * 20_000 + "b = 1"),
    "a long TOML number": ("+++", "a = " + "1" * 5000),
    "deep JSON": ("---json", "[" * 30_000),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_blocks_stay_text(name: str) -> None:
    fence, block = HOSTILE[name]
    found = read_front_matter(f"{fence}\n{block}\n{fence[:3]}\n# A\n")
    assert not found.is_metadata
    assert found.warning.startswith("front matter is read as text: ")


def test_toml_with_many_dots_is_read_as_text() -> None:
    found = read_front_matter("+++\n" + "a." * 101 + "b = 1\n+++\n")  # few enough for it, in seconds at full length
    assert found.warning.endswith("it has a line with more than 100 dots")


def test_a_block_of_64_kb_is_read() -> None:
    assert yaml_block("a: " + "x" * 65_000).lines == 3


def test_a_longer_block_is_text() -> None:
    found = yaml_block("a: " + "x" * 66_000)
    assert (found.lines, found.warning) == (0, "front matter longer than 65,536 characters is read as text")


@pytest.mark.parametrize("fence", ["---", "+++", "---json"])
@given(st.text(alphabet="ab:-[]{}&*!|>'\"#%\n \t,?0\x00\ud800", max_size=80))
def test_nothing_raises(fence: str, block: str) -> None:
    found = read_front_matter(f"{fence}\n{block}\n{fence[:3]}\n")
    assert found.is_metadata or found.warning or not found.fields


@pytest.mark.parametrize(
    ("block", "tags"),
    [
        ("tags: [a, '#b/c', two words, ~]", ("a", "b/c", "two words")),
        ("tags: a, b c\ntag: d e", ("a", "b c", "d", "e")),
        ("tags: {a: b}", ()),
    ],
)
def test_tags_of_the_front_matter(block: str, tags: tuple[str, ...]) -> None:
    assert yaml_block(block).tags == tags


TAGGED = {
    "in a heading": ("# Title #head", "head"),
    "at the beginning": ("#start", "start"),
    "with a number behind": ("see #x-1", "x-1"),
    "in any script, below another one": ("- item #été/b_c", "été/b_c"),
}


@pytest.mark.parametrize("name", TAGGED)
def test_tags_of_the_text(name: str) -> None:
    text, tag = TAGGED[name]
    assert parse_document("page.md", text).tags == (tag,)


@pytest.mark.parametrize(
    "text",
    [
        "`#code`",
        "[#link](x#y)",
        "#12",
        "(#bracket)",
        "mid#word",
        "## Install { #anchor }",
        "<p #html>",
        "```\n#fence\n```",
        "    #indented",
    ],
)
def test_what_is_no_tag(text: str) -> None:
    assert parse_document("page.md", f"{text}\n").tags == ()


def test_a_tag_that_comes_again_in_another_case_is_one() -> None:
    assert parse_document("page.md", "---\ntags: [A]\n---\nsee #a\n").tags == ("A",)
