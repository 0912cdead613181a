"""A profile without one of its parts, for each part in turn: what does it bring?"""

from collections.abc import Iterator, Mapping
from typing import Any

from retriever.evaluation.asking import System
from retriever.settings.profile import Profile, merged

PARTS: Mapping[str, Mapping[str, Any]] = {
    "dense arm": {"dense_weight": 0.0},
    "lexical arm": {"lexical_weight": 0.0},
    "late interaction": {"late_weight": 0.0},
    "neighbours": {"neighbor_depth": 0},
    "file roots": {"candidate_file_roots": 0},
    "links": {"links_per_node": 0},
    "evidence weights": {"rank_weighting": "constant"},
    "page prior": {"page_prior": 0.0},
    "reranking": {"rerank": {"kind": "none"}},
    "rewordings": {"rewording_weight": 0.0},
    "passages": {"hyde_variant_weight": 0.0, "passage_lexical_weight": 0.0},
    "passages' words": {"passage_lexical_weight": 0.0},
    "entities": {"entity_boost": 0.0},
}
"""What is taken away, and the settings that do it."""

OF_EXPANSION = ("rewordings", "passages", "passages' words", "entities")
"""Parts that take part only where questions are expanded."""


def without_each_part(system: System, profile: Profile, *, expanded: bool) -> Iterator[System]:
    """The system, then the same without each part that it has.

    Args:
        system: a profile and settings over it.
        profile: what they come to; a part that it has off already is left out.
        expanded: whether the questions come with expansions.
    """
    yield system
    for part, change in PARTS.items():
        if _differs(profile, change) and (expanded or part not in OF_EXPANSION):
            yield System(f"{system.name} - {part}", system.profile, merged(system.settings, change), system.name)
    if expanded:
        off = {"hyde": {"gate": "never"}}
        yield System(f"{system.name} - expansion", system.profile, merged(system.settings, off), system.name)


def _differs(settings: object, change: Mapping[str, Any]) -> bool:
    """Whether any of the settings, nested as in a profile file, has another value."""
    inside = ((getattr(settings, key), value) for key, value in change.items())
    return any(_differs(now, value) if isinstance(value, Mapping) else now != value for now, value in inside)
