"""What the known embedding models want to read before a question and before a document.

A library of models has these texts in each model's files; a server (Ollama, an OpenAI-compatible one) embeds what it is
sent and adds nothing. Without them a model that was trained with them finds far less: others measured nomic-embed-text
at a recall of .50 for the first hit, where all-MiniLM-L6-v2 has .875.
"""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from retriever.settings.schema import EncoderSettings

_FAMILIES = Path(__file__).with_name("prefixes.toml")
NO_PREFIX = "none"  # as a setting: nothing, whatever the model asks for


@dataclass(frozen=True, slots=True)
class ModelFamily:
    """Models that were trained with the same prefixes; `query` and `document` may be empty."""

    name: str
    query: str = ""
    document: str = ""


def find_family(model: str) -> ModelFamily | None:
    """The family of a model by its name and tag; None for one that is not known.

    >>> find_family("nomic-embed-text:latest").query
    'search_query: '
    """
    name = model.lower().replace("_", "-")
    for family in tomllib.loads(_FAMILIES.read_text(encoding="utf-8"))["family"]:
        if re.search(family.pop("pattern"), name):
            return ModelFamily(**family)
    return None


def choose_prefixes(settings: EncoderSettings, query: str, document: str) -> tuple[str, str]:
    """Before questions and before documents: what the settings say, where they do, else what the model asks for."""
    given = ((settings.query_prefix, query), (settings.document_prefix, document))
    query, document = ("" if setting == NO_PREFIX else setting or own for setting, own in given)
    return query, document


def served_prefixes(settings: EncoderSettings) -> tuple[str, str]:
    """Before questions and before documents, for a model that a server runs; empty for one that is not known."""
    family = find_family(settings.model) or ModelFamily("")
    return choose_prefixes(settings, family.query, family.document)


def describe_prefixes(settings: EncoderSettings) -> tuple[str, bool]:
    """What a served model is given before the texts, in words, and whether that is known to be right."""
    if settings.kind not in {"ollama", "openai"}:
        return "", True
    query, document = served_prefixes(settings)
    used = f"{query!r} before questions, {document!r} before documents" if query or document else "none"
    if settings.query_prefix and settings.document_prefix:
        return f"{used} (as set)", True
    family = find_family(settings.model)
    if family is None:
        return (
            f"{used}: {settings.model} is not among the known models; see its card and set encoder.query_prefix",
            False,
        )
    given = ", partly as set" if settings.query_prefix or settings.document_prefix else ""
    return f"{used} ({family.name}{given})", True
