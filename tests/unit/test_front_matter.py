"""Front matter as typed metadata; whatever is wrong with it is a warning and never an error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pageindex.document import parse_document
from pageindex.front_matter import FrontMatter, read_front_matter


def yaml_block(block: str) -> FrontMatter:
    return read_front_matter(f"---\n{block}\n---\ntext\n")


def test_fields_are_strings_as_they_were_written() -> None:
    found = yaml_block(
        "Title: >\n  2.10\n  folded\ndate: 2024-13-01\naliases: [on, 1e3, ~, 'two words ']\nextra: {deep: [1]}"
    )
    assert found == FrontMatter(
        lines=8,
        is_metadata=True,
        title="2.10 folded",
        date="2024-13-01",
        aliases=("on", "1e3", "two words"),
        fields=(
            ("title", "2.10 folded"),
            ("date", "2024-13-01"),
            *(("aliases", name) for name in ("on", "1e3", "", "two words")),
            ("extra.deep", "1"),
        ),
    )


def test_a_type_that_a_value_claims_is_not_made() -> None:
    assert yaml_block("a: !!python/object/apply:os.system ['touch /tmp/x']").fields == (("a", "touch /tmp/x"),)


def test_aliases_are_split_at_commas_and_toml_is_read() -> None:
    assert yaml_block("aliases: a, b c,").aliases == ("a", "b c")
    assert yaml_block("aliases: {a: b}").aliases == ()
    assert yaml_block("title: [a]").title == ""
    found = read_front_matter('+++\ntitle = "T"\ndate = 2024-01-02\naliases = ["x", 1, true]\n+++\n')
    assert (found.title, found.date, found.aliases) == ("T", "2024-01-02", ("x", "1", "true"))


HOSTILE = {
    "an alias bomb": ("---", "a: &a [1]\nb: &b [*a, *a]\nc: [*b, *b]"),
    "deep flow": ("---", "a: " + "[" * 50_000),
    "deep blocks": ("---", "- " * 30_000),
    "an escape beyond Unicode": ("---", 'title: "\\UFFFFFFFF"'),
    "a long number in a directive": ("---", "%YAML " + "9" * 5000 + ".1"),
    "a control character": ("---", "title: a\x01b"),
    "a tab": ("---", "title:\n\t- x"),
    "a key given twice": ("---", "tags: a\ntags: b"),
    "two documents": ("---", "a: b\n--- \tc\n"),
    "deep TOML": ("+++", "a = " + "[" * 30_000),
    "a dotted TOML key": ("+++", "a." * 20_000 + "b = 1"),
    "a long TOML number": ("+++", "a = " + "1" * 5000),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_blocks_stay_text(name: str) -> None:
    fence, block = HOSTILE[name]
    found = read_front_matter(f"{fence}\n{block}\n{fence}\n# A\n")
    assert not found.is_metadata
    assert found.warning.startswith("front matter is read as text: ")


def test_what_is_too_much_is_read_as_text() -> None:
    found = read_front_matter("+++\n" + "a." * 101 + "b = 1\n+++\n")  # few enough for it, in seconds at full length
    assert found.warning.endswith("it has a line with more than 100 dots")
    assert yaml_block("a: " + "x" * 65_000).lines == 3
    found = yaml_block("a: " + "x" * 66_000)
    assert (found.lines, found.warning) == (0, "front matter longer than 65,536 characters is read as text")
    assert yaml_block('title: "a\\uD800b"').title == "a?b"


@given(st.text(alphabet="ab:-[]{}&*!|>'\"#%\n \t,?0\x00\ud800", max_size=80))
def test_nothing_raises(block: str) -> None:
    for fence in ("---", "+++"):
        found = read_front_matter(f"{fence}\n{block}\n{fence}\n")
        assert found.is_metadata or found.title == ""


def test_tags_of_the_front_matter_and_of_the_text() -> None:
    assert yaml_block("tags: [a, '#b/c', two words, ~]").tags == ("a", "b/c", "two words")
    assert yaml_block("tags: a, b c\ntag: d e").tags == ("a", "b c", "d", "e")
    assert yaml_block("tags: {a: b}").tags == ()
    text = (
        "---\ntags: [A]\n---\n# Title #head\n\n#start and `#code`, [#link](x#y) #12 #x-1 #a (#bracket) mid#word\n\n"
        "- item #été/b_c\n\n## Install { #anchor }\n\n<p #html>\n\n```\n#fence\n```\n\n    #indented\n"
    )
    assert parse_document("page.md", text).tags == ("A", "head", "start", "x-1", "été/b_c")
