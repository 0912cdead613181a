"""What embedding models want to read before a question and before a document, such as `query: ` and `passage: `.

A library of models has these texts in each model's files; a server (Ollama, an OpenAI-compatible one) embeds what it is
sent and adds nothing. Without them a model that was trained with them finds far less: others measured nomic-embed-text
at a recall of .50 for the first hit, where all-MiniLM-L6-v2 has .875.
"""

import re
import tomllib
from pathlib import Path
from typing import NamedTuple

from retriever.settings.schema import EncoderSettings

_FAMILIES = Path(__file__).with_name("prefixes.toml")
NO_PREFIX = "none"  # as a setting: nothing, whatever the model asks for


class Prefixes(NamedTuple):
    """Texts that are put before what is encoded; empty: nothing."""

    query: str = ""
    document: str = ""

    def overridden(self, settings: EncoderSettings) -> "Prefixes":
        """Return what the settings say, where they do, else these."""
        given = zip((settings.query_prefix, settings.document_prefix), self, strict=True)
        return Prefixes(*("" if setting == NO_PREFIX else setting or own for setting, own in given))


def find_prefixes(model: str) -> Prefixes | None:
    """Return the prefixes of a model by its name and tag; None for one that is not known.

    >>> find_prefixes("nomic-embed-text:latest").query
    'search_query: '
    """
    name = model.lower().replace("_", "-")
    for family in tomllib.loads(_FAMILIES.read_text(encoding="utf-8"))["family"]:
        if re.search(family.pop("pattern"), name):
            return Prefixes(**family)
    return None


def served_prefixes(settings: EncoderSettings) -> Prefixes:
    """Return the prefixes for a model that a server runs; empty for one that is not known."""
    return (find_prefixes(settings.model) or Prefixes()).overridden(settings)


def describe_prefixes(settings: EncoderSettings) -> str:
    """Return in words what a served model is given before the texts; empty for a model that has its own files."""
    if settings.kind not in {"ollama", "openai"}:
        return ""
    query, document = served_prefixes(settings)
    used = f"{query!r} before questions, {document!r} before documents" if query or document else "none"
    if find_prefixes(settings.model) or (settings.query_prefix and settings.document_prefix):
        return used
    return f"{used}: {settings.model} is not among the known models; see its card and set encoder.query_prefix"
