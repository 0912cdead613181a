"""Looks whether everything is well, says what to do about what is not, and repairs what can be repaired.

`environment` and `index_parts` look; `repairing` makes derived parts anew, or a new index beside a damaged database;
`salvaging` reads from that what no document can give back.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from retriever.doctor.finding import Area, Finding, Level

if TYPE_CHECKING:
    from retriever.settings.stages import LlmSettings

__all__ = ["Area", "CheckUp", "Finding", "Level", "examine"]


@dataclass(frozen=True, slots=True)
class CheckUp:
    """What the doctor found, and did."""

    findings: tuple[Finding, ...]
    """As it is now, after the repairs."""
    repairs: tuple[str, ...] = ()
    """What was repaired, a sentence each."""


def examine(index: Path | None, llm: "LlmSettings | None" = None) -> Iterator[Finding]:
    """Looks at everything and changes nothing.

    Args:
        index: the index's folder; None when nothing has been indexed yet.
        llm: the language model to be asked as well; None to leave it alone.
    """
    from retriever.doctor.environment import examine_environment

    yield from examine_environment(index)
    if index is None:
        cure = "make one with: hybrid_retrieve.py index FOLDER"
        yield Finding("index", "index", "note", "nothing has been indexed yet", cure)
    else:
        from retriever.doctor.index_parts import examine_index

        yield from examine_index(index)
    if llm is not None:
        yield from _examine_llm(llm)


def _examine_llm(settings: "LlmSettings") -> Iterator[Finding]:
    from retriever.llm.check import check_llm

    for found in check_llm(settings):
        # What is amiss says what to do in the same sentence.
        yield Finding("language model", found.what, "well" if found.is_well else "problem", found.says)
