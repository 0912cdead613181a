"""Another distribution with a package `retriever` or `pageindex` in the same environment is named."""

from pathlib import Path

import pytest

from retriever.upkeep.doctor import examine_software


def install_other(place: Path, package: str) -> None:
    """As pip leaves a distribution."""
    (place / package).mkdir()
    (place / package / "__init__.py").write_text('"""Something else."""\n', encoding="utf-8")
    metadata = place / f"{package}-9.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 9.0\n", encoding="utf-8")
    (metadata / "RECORD").write_text(f"{package}/__init__.py,,\n", encoding="utf-8")


def test_the_doctor_names_another_distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = [item for item in examine_software() if item.name == "package names"]
    assert found.level == "well"
    install_other(tmp_path, "retriever")
    monkeypatch.syspath_prepend(tmp_path)
    (found,) = [item for item in examine_software() if item.name == "package names"]
    assert (found.level, "retriever has a package" in found.says) == ("note", True)
