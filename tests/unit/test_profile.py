from pathlib import Path

import pytest

from retriever.errors import ProfileError
from retriever.settings.layers import collect_settings, load_profile, profile_names
from retriever.settings.schema import Profile, list_settings
from tests.program import Cli
from tests.tables import read_table


def mistakes_of(name: str, flags: dict[str, object] | None = None) -> tuple[str, ...]:
    with pytest.raises(ProfileError) as caught:
        load_profile(name, flags)
    return caught.value.mistakes


def written(folder: Path, text: str) -> str:
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_later_layers_win(tmp_path: Path) -> None:
    name = written(tmp_path, "top_k: 7\nencoder: {kind: none, max_tokens: 60}\n")
    given = collect_settings(name, {"top_k": 8, "encoder": {"model": "mine"}}, {"encoder": {"kind": "ollama"}})
    profile = given.profile
    assert profile.top_k == 8
    assert (profile.encoder.max_tokens, profile.encoder.model) == (60, "mine")
    assert profile.encoder.kind == "none"


def test_what_the_index_remembers_is_its_own_and_under_the_profile_file() -> None:
    given = collect_settings("balanced", None, {"encoder": {"kind": "none"}})
    assert given.profile.encoder.kind == "none"
    assert given.for_index() == {"encoder": {"kind": "none"}}
    flags = {"top_k": 3, "documents": {"dialect": "hugo"}}
    assert collect_settings("balanced", flags).for_index() == {"documents": {"dialect": "hugo"}}


def test_all_mistakes_are_reported_at_once_with_their_places(tmp_path: Path) -> None:
    name = written(tmp_path, "top_k: 0\nrrf_kk: 60\nparent_decay: much\nencoder: {knd: onnx}\ndocuments: 5\n")
    found = mistakes_of(name, {"sibling_decay": 2.0})
    assert len(found) == 6
    text = "\n".join(found)
    assert f"{name}: rrf_kk: no such setting; did you mean rrf_k?" in text
    assert f"{name}: encoder.knd: no such setting; did you mean encoder.kind?" in text
    assert f"{name}: top_k: input should be greater than or equal to 1, got 0" in text
    assert f"{name}: parent_decay: " in text
    assert f"{name}: documents: " in text
    assert "settings: sibling_decay: input should be less than or equal to 1, got 2.0" in text


@pytest.mark.parametrize(("text", "complaint"), read_table("command_lines", "A file that is no profile"))
def test_a_file_that_is_no_profile(tmp_path: Path, text: str, complaint: str) -> None:
    assert complaint in mistakes_of(written(tmp_path, text))[0]


def test_what_names_no_setting_or_profile_says_so() -> None:
    assert "cannot be read" in mistakes_of("nowhere/mine.yaml")[0]
    assert "balanced" in mistakes_of("balancd")[0]


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", profile_names())
def test_what_is_printed_of_a_profile_is_one(name: str, cli: Cli) -> None:
    text = cli("profiles", name).out
    Path("mine.yaml").write_text(text, encoding="utf-8")
    assert load_profile("mine.yaml") == load_profile(name)
    assert (load_profile(name) == Profile()) == (name == "balanced")
    assert all(f"# {item.help}\n" in text for item in list_settings())


def test_a_key_in_a_profile_is_refused_and_never_repeated(tmp_path: Path) -> None:
    name = written(tmp_path, "llm: {api_key: sk-one}\nrerank: {api_key_env: sk-two}\nencoder: {apikey: sk-three}\n")
    text = "\n".join(mistakes_of(name, {"api_key": "sk-four"}))
    assert text.count("no such setting") == 4
    assert "sk-" not in text


def test_a_variable_stands_for_its_flag(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRID_RETRIEVE_TOP_K", "many")
    assert "HYBRID_RETRIEVE_TOP_K" in cli("ask", "boats", code=2).err
