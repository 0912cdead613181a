"""YAML of profiles and variables: whatever is no plain YAML is an error of ours; nothing expands, recurses or runs."""

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pageindex.plain_yaml import PlainYamlError, read_plain_yaml
from retriever.errors import ProfileError
from retriever.settings.layers import load_profile
from retriever.settings.schema import Profile

BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
REFUSED = {
    "a bomb of aliases": (BOMB, "aliases"),
    "a value that holds itself": ("a: &a [*a]", "aliases"),
    "50,000 open brackets": ("[" * 50_000, "recursion"),
    "deep blocks": ("- " * 20_000, "recursion"),
    "an integer of 5,000 digits": (f"top_k: {'9' * 5000}", "4300 digits"),
    "an object": ("!!python/object/apply:os.system ['touch owned']", "python/object"),
    "a month 13": ("top_k: 2024-13-01", "month"),
    "a control character": ("top_k: \x01", "not allowed"),
    "NUL": ("top_k: \x00", "not allowed"),
    "a switch that is none": ("top_k: !!bool perhaps", "perhaps"),
    "an integer that is none": ('top_k: !!int ""', ""),
    "a time that is none": ("top_k: !!timestamp soon", ""),
    "a list as a key": ("? [a]\n: b", "unhashable"),
    "a key given twice": ("top_k: 5\nrerank: {kind: llm}\ntop_k: 9", "'top_k' is given twice, in lines 1 and 3"),
    "two documents": ("a: 1\n---\nb: 2", "single document"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_plain_is_named(name: str, tmp_path: Path) -> None:
    text, reason = REFUSED[name]
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


@given(st.text(alphabet="top_k:0123456789 \n-{}[]encodr&*!", max_size=60))
def test_any_profile_is_one_or_our_error(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    profile = tmp_path_factory.getbasetemp() / "any.yaml"
    profile.write_text(text, encoding="utf-8")
    with suppress(ProfileError):
        assert isinstance(load_profile(str(profile)), Profile)
