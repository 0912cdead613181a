"""The profile file that `init` writes: all of it is true, and nothing is overwritten."""

import re
from pathlib import Path

import pytest
import yaml

from hybrid_retrieve import main
from retriever.indexing.consent import name_folders
from retriever.settings.layers import load_profile, profile_names
from retriever.settings.schema import Profile, list_settings
from tests.shelf import Shelf


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_file_loads_and_changes_nothing_by_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init"]) == 0
    assert capsys.readouterr().out == "wrote hybrid-retrieve.yaml; use it with --profile hybrid-retrieve.yaml\n"
    assert load_profile("hybrid-retrieve.yaml", environment={}) == Profile()


def test_every_setting_is_there_with_its_meaning_and_default() -> None:
    assert main(["init"]) == 0
    text = Path("hybrid-retrieve.yaml").read_text(encoding="utf-8")
    for item in list_settings():
        assert f"# {item.help}\n#{'  ' * (len(item.path) - 1)}{item.path[-1]}: " in text
    everything = re.sub(r"^#(?=\s*\w+:)(?! )", "", text, flags=re.MULTILINE)
    everything = re.sub(r"^#(?=  \w+: )", "", everything, flags=re.MULTILINE)
    Path("all.yaml").write_text(everything, encoding="utf-8")
    assert load_profile("all.yaml", environment={}) == Profile()
    assert everything.count("\n#top_k") == 0


@pytest.mark.parametrize("name", profile_names())
def test_it_can_begin_with_a_profile(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRID_RETRIEVE_TOP_K", "77")
    assert main(["init", "mine.yml", "--profile", name]) == 0
    assert load_profile("mine.yml", environment={}) == load_profile(name, environment={})


def test_a_file_is_written_over_only_when_that_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.yaml").write_text("top_k: 9\n", encoding="utf-8")
    assert main(["init", "mine.yaml"]) == 2
    assert "mine.yaml is there already; --force writes over it" in capsys.readouterr().err
    assert Path("mine.yaml").read_text(encoding="utf-8") == "top_k: 9\n"
    assert main(["init", "mine.yaml", "--force"]) == 0
    assert load_profile("mine.yaml", environment={}) == Profile()


def test_a_name_that_no_profile_can_have_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "mine"]) == 2
    assert main(["init", "nowhere/mine.yaml"]) == 1
    assert main(["init", "mine.yaml", "--profile", "nothing"]) == 2
    assert "ends with .yaml" in capsys.readouterr().err
    assert not list(Path().iterdir())


def test_a_name_cannot_leave_its_comment() -> None:
    assert main(["init", "a\ntop_k: 3\n.yaml"]) == 0
    assert load_profile("a\ntop_k: 3\n.yaml", environment={}) == Profile()


def test_a_skill_for_agents_is_written_once_and_kept_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    def said(*arguments: str, code: int = 0) -> str:
        assert main(["init", "--agent", "--index", "index", *arguments]) == code
        printed = capsys.readouterr()
        return printed.out + printed.err

    assert "nothing is indexed that an agent could ask" in said(code=1)
    shelf = Shelf(Path.cwd(), {"guide/a.md": '# Alpha\'s "rays"\n\nThey bend.\n', "README.md": "# All\n\nOn rays.\n"})
    shelf.update()
    name_folders(shelf.index, [shelf.docs], {})
    skill = Path(".claude/skills/search-documents/SKILL.md")
    assert said("--about", "Optics") == f"wrote {skill}: what is indexed, and how to ask it\n"
    text = skill.read_text(encoding="utf-8")
    head = yaml.safe_load(text.split("---")[1])
    assert head["name"] == "search-documents"
    assert 'Titles: Alpha\'s "rays"' in head["description"]
    assert "- `docs` (2 files): `On rays.`\n  - `guide/` (1 file)" in text
    assert "About them: Optics" in text
    assert f" ask --index {shelf.index} --json " in text
    assert said("--about", "Optics") == f"{skill} says this already; nothing was changed\n"
    shelf.write("guide/b.md", "# Beta\n\nThey do not.\n")
    shelf.update()
    assert said().startswith("wrote anew")
    skill.write_text("mine", encoding="utf-8")
    assert "--force writes over it" in said(code=2)
    assert said("--force").startswith("wrote anew")
    assert main(["init", "--about", "Optics"]) == 2
