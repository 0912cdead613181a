"""Front matter that is too long or hostile gives a warning, never an error; tests/markdown_cases has the rest.

Other YAML is in test_fuzz_yaml.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pageindex.front_matter import FrontMatter, read_front_matter
from tests.tables import read_table


def yaml_block(block: str) -> FrontMatter:
    return read_front_matter(f"---\n{block}\n---\ntext\n")


LONG = [
    ("---", "a: " + "[" * 50_000),
    ("---", "%YAML " + "9" * 5000 + ".1"),
    ("+++", "a = " + "[" * 30_000),
    ("+++", "a." * 20_000 + "b = 1"),
    ("+++", "a = " + "1" * 5000),
]


@pytest.mark.parametrize(("fence", "block"), [*read_table("yaml", "Front matter that is text"), *LONG])
def test_hostile_blocks_stay_text(fence: str, block: str) -> None:
    found = read_front_matter(f"{fence}\n{block}\n{fence}\n# A\n")
    assert found.warning.startswith("front matter is read as text: ")


def test_toml_with_many_dots_is_read_as_text() -> None:
    found = read_front_matter("+++\n" + "a." * 101 + "b = 1\n+++\n")  # few enough for it, in seconds at full length
    assert found.warning.endswith("it has a line with more than 100 dots")


def test_a_block_of_64_kb_is_read() -> None:
    assert yaml_block("a: " + "x" * 65_000).lines == 3


def test_a_longer_block_is_text() -> None:
    found = yaml_block("a: " + "x" * 66_000)
    assert (found.lines, found.warning) == (0, "front matter longer than 65,536 characters is read as text")


@pytest.mark.parametrize("fence", ["---", "+++"])
@given(st.text(alphabet="ab:-[]{}&*!|>'\"#%\n \t,?0\x00\ud800", max_size=80))
def test_nothing_raises(fence: str, block: str) -> None:
    found = read_front_matter(f"{fence}\n{block}\n{fence}\n")
    assert found.lines or not found.fields
