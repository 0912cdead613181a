"""YAML of profiles and variables: whatever is no plain YAML is an error of ours; nothing expands, recurses or runs."""

import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pageindex.plain_yaml import PlainYamlError, read_plain_yaml
from retriever.errors import ProfileError
from retriever.settings import load_profile
from tests.tables import read_table

BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
LARGE = [
    (BOMB, "aliases"),
    ("[" * 50_000, "recursion"),
    ("- " * 20_000, "recursion"),
    (f"top_k: {'9' * 5000}", "4300 digits"),
]


@pytest.mark.parametrize(("text", "reason"), [*read_table("yaml", "Refused"), *LARGE])
def test_what_is_not_plain_is_named(text: str, reason: str, tmp_path: Path) -> None:
    profile = tmp_path / "mine.yaml"
    profile.write_text(text, encoding="utf-8")
    with pytest.raises(ProfileError, match=r"mine\.yaml: not YAML: ") as raised:
        load_profile(str(profile))
    assert reason in str(raised.value)


def test_a_profile_of_more_than_64_kb_is_not_read(tmp_path: Path) -> None:
    profile = tmp_path / "mine.yaml"
    profile.write_text("top_k: 3\n" + "#" * 65_536, encoding="utf-8")
    with pytest.raises(ProfileError, match="more than the limit"):
        load_profile(str(profile))


@given(st.text(alphabet="ab01x:-[]{}&*!|>'\"#%\n \t,?.~_\x00\ud800", max_size=60))
@example("{[]: 1}")
@example("!!set {a, b}")
@example("!!binary aGk=")
@example("<<: [1]")
def test_any_text_is_a_value_or_our_error(text: str) -> None:
    try:
        value = read_plain_yaml(text)
    except PlainYamlError:
        return
    assert len(json.dumps(value, default=str, skipkeys=True)) < 100 * (len(text) + 1)
