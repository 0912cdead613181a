"""Layers of settings; tests/output_cases/refused.md shows what is said of mistakes."""

from pathlib import Path

import pytest

from retriever.settings import Profile, collect_settings, list_settings, load_profile, profile_names
from tests.program import Cli


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def test_later_layers_win() -> None:
    Path("mine.yaml").write_text("top_k: 7\nencoder: {kind: none, max_tokens: 60}\n", encoding="utf-8")
    flags = {"top_k": 8, "encoder": {"model": "mine"}}
    profile = collect_settings("mine.yaml", flags, {"encoder": {"kind": "ollama"}}).profile
    assert profile.top_k == 8
    assert (profile.encoder.max_tokens, profile.encoder.model) == (60, "mine")
    assert profile.encoder.kind == "none"


def test_what_the_index_remembers_is_its_own_and_under_the_profile_file() -> None:
    given = collect_settings("balanced", None, {"encoder": {"kind": "none"}})
    assert given.profile.encoder.kind == "none"
    assert given.for_index() == {"encoder": {"kind": "none"}}
    flags = {"top_k": 3, "documents": {"dialect": "hugo"}}
    assert collect_settings("balanced", flags).for_index() == {"documents": {"dialect": "hugo"}}


@pytest.mark.parametrize("name", profile_names())
def test_what_is_printed_of_a_profile_is_one(name: str, cli: Cli) -> None:
    text = cli("profiles", name).out
    Path("mine.yaml").write_text(text, encoding="utf-8")
    assert load_profile("mine.yaml") == load_profile(name)
    assert (load_profile(name) == Profile()) == (name == "balanced")
    assert all(f"# {item.help}\n" in text for item in list_settings())
