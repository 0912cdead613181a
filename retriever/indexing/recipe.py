"""What is to be indexed and how, and whether an index was made just so."""

import json
import math
import sqlite3
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from retriever.embedding.model_card import card_digest
from retriever.settings.profile import Profile
from retriever.store import reading
from retriever.types import Encoder

RECIPE_VERSION = 3
"""Rises when the same documents and settings give other nodes, chunks or tokens: everything is then made anew, and
only texts that the encoder has never read are embedded."""
WAIT_FOR_WRITER_S = 10.0
_MODEL = 1
"""The place of the embedding model in a recipe."""


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """What is to be indexed, where, and how."""

    index: Path
    docs: tuple[Path, ...]
    """Folders to index, absolute; those that the index holds already are looked at too."""
    profile: Profile
    settings: Mapping[str, Any]
    """The index sections of the settings that were given; the index remembers them."""
    encoder: Encoder | None = None
    """The caller's own; None for the one of the profile."""
    wait_s: float = WAIT_FOR_WRITER_S
    """How long to wait for another writer, in seconds."""
    change_s: float = math.inf
    """How long to embed what a change of the embedding model has left, in seconds."""

    @property
    def recipe(self) -> str:
        """What decides how documents become nodes, chunks and vectors; another one makes every document anew."""
        model = self.encoder.fingerprint if self.encoder else _model(self.profile)
        return json.dumps([RECIPE_VERSION, model, asdict(self.profile.chunks), self.profile.summaries.kind])

    @property
    def kept(self) -> dict[str, str]:
        """What the index keeps of it: questions that come later begin with the same settings."""
        return {
            "settings": json.dumps(self.settings, sort_keys=True),
            "recipe": self.recipe,
            "documents": json.dumps(asdict(self.profile.documents)),
        }


def is_made_as(connection: sqlite3.Connection, request: IndexRequest) -> bool:
    """Whether an index was made with the settings of a request: otherwise an update would make all of it anew."""
    kept = request.kept
    return all(reading.meta(connection, key) == kept[key] for key in ("recipe", "documents"))


def is_other_model(connection: sqlite3.Connection, request: IndexRequest) -> bool:
    """Whether a request differs from how the index was made in its embedding model, and in nothing else of weight."""
    kept, wished = (json.loads(recipe or "[]") for recipe in (reading.meta(connection, "recipe"), request.recipe))
    if not kept or kept[_MODEL] == wished[_MODEL]:
        return False
    return all(kept[place] == wished[place] for place in range(len(wished)) if place != _MODEL)


def _model(profile: Profile) -> tuple[str | int, ...]:
    """Names the model; another one may stand behind its name, which only a local one's files tell without asking."""
    chosen = profile.encoder
    named = (chosen.kind, chosen.model, chosen.query_prefix, chosen.document_prefix, chosen.max_tokens)
    return (*named, card_digest(chosen.model)) if chosen.kind == "onnx" else named
