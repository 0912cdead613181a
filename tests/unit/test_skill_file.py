"""The skill that `skill` writes: it says what is indexed, and replaces no other file."""

from pathlib import Path

import pytest
import yaml

from retriever.indexing.consent import name_folders
from retriever.store.store import open_store
from tests.program import Cli
from tests.shelf import Shelf

SKILL = Path(".claude/skills/search-documents/SKILL.md")


def test_a_skill_is_written_once_and_kept_up_to_date(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)

    def said(*arguments: str, code: int = 0) -> str:
        return "".join(cli("skill", "--index", tmp_path / "index", *arguments, code=code))

    assert "run: python -m retriever index" in said(code=1)
    shelf = Shelf(tmp_path, {"guide/a.md": '# Alpha\'s "rays"\n\nThey bend.\n', "README.md": "# All\n\nOn rays.\n"})
    shelf.update()
    name_folders(open_store(shelf.index), [shelf.docs])
    assert said("--about", "Optics") == f"wrote {SKILL}: what is indexed, and how to ask it\n"
    text = SKILL.read_text(encoding="utf-8")
    head = yaml.safe_load(text.split("---")[1])
    assert head["name"] == "search-documents"
    assert 'Titles: Alpha\'s "rays"' in head["description"]
    assert "- `docs` (2 files): `On rays.`\n  - `guide/` (1 file)" in text
    assert "About them: Optics" in text
    assert f" ask --index {shelf.index} --json " in text
    shelf.write("guide/b.md", "# Beta\n\nThey do not.\n")
    shelf.update()
    assert said().startswith("wrote")
    SKILL.write_text("mine", encoding="utf-8")
    assert "--force writes over it" in said(code=2)
    assert said("--force").startswith("wrote")
