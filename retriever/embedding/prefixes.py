"""What the known embedding models want to read before a question and before a document.

A library of models has these texts in each model's files; a server (Ollama, an OpenAI-compatible one) embeds what it is
sent and adds nothing. Without them a model that was trained with them finds far less: others measured nomic-embed-text
at a recall of .50 for the first hit, where all-MiniLM-L6-v2 has .875.
"""

import re
from dataclasses import dataclass

from retriever.settings.schema import EncoderSettings

NO_PREFIX = "none"  # as a setting: nothing, whatever the model asks for

_SEARCHING = "Represent this sentence for searching relevant passages: "
_INSTRUCT = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"


@dataclass(frozen=True, slots=True)
class ModelFamily:
    """Models that were trained with the same prefixes; `query` and `document` may be empty."""

    name: str
    query: str = ""
    document: str = ""


# (what the name holds, family), as the models' cards have them; the first that fits counts. A name is compared in lower
# case with its owner and tag, such as `hf.co/nomic-ai/nomic-embed-text-v1.5-gguf:q4_k_m`.
_FAMILIES = (
    (r"nomic-embed-code", ModelFamily("nomic-embed-code", "Represent this query for searching relevant code: ")),
    (r"nomic-embed", ModelFamily("nomic-embed-text", "search_query: ", "search_document: ")),
    (r"\be5-.*(?:instruct|mistral)", ModelFamily("e5-instruct", f"{_INSTRUCT} ")),
    (r"\be5-", ModelFamily("e5", "query: ", "passage: ")),
    (r"\bbge-m3", ModelFamily("bge-m3")),
    (
        r"\bbge-.*-zh",
        ModelFamily("bge-zh", "\u4e3a\u8fd9\u4e2a\u53e5\u5b50\u751f\u6210\u8868\u793a\u4ee5\u7528\u4e8e"
                              "\u68c0\u7d22\u76f8\u5173\u6587\u7ae0\uff1a"),
    ),
    (r"\bbge-(?:small|base|large)", ModelFamily("bge", _SEARCHING)),
    (r"\bgte-qwen", ModelFamily("gte-qwen", f"{_INSTRUCT} ")),
    (r"\bgte-", ModelFamily("gte")),
    (r"mxbai-embed-de", ModelFamily("mxbai-embed-de", "query: ", "passage: ")),
    (r"mxbai-embed", ModelFamily("mxbai-embed", _SEARCHING)),
    (r"arctic-embed(?:2|-[lm]-v2)", ModelFamily("snowflake-arctic-embed 2", "query: ")),
    (r"arctic-embed", ModelFamily("snowflake-arctic-embed", _SEARCHING)),
    (r"embedding-?gemma", ModelFamily("embeddinggemma", "task: search result | query: ", "title: none | text: ")),
    (r"qwen3-embedding", ModelFamily("qwen3-embedding", _INSTRUCT)),
    (r"granite-embedding", ModelFamily("granite-embedding")),
    (r"jina-embeddings-v2", ModelFamily("jina-embeddings-v2")),
    (
        r"jina-embeddings-v3",
        ModelFamily(
            "jina-embeddings-v3",
            "Represent the query for retrieving evidence documents: ",
            "Represent the document for retrieval: ",
        ),
    ),
    (r"jina-embeddings-v4", ModelFamily("jina-embeddings-v4", "Query: ", "Passage: ")),
    (r"jina-embeddings-v5", ModelFamily("jina-embeddings-v5", "Query: ", "Document: ")),
    (r"all-minilm|all-mpnet|paraphrase-", ModelFamily("sentence-transformers")),
    (r"^text-embedding-(?:3|ada)", ModelFamily("text-embedding of OpenAI")),
)  # fmt: skip


def find_family(model: str) -> ModelFamily | None:
    """The family of a model by its name and tag; None for one that is not known.

    >>> find_family("nomic-embed-text:latest").query
    'search_query: '
    """
    name = model.lower().replace("_", "-")
    return next((family for pattern, family in _FAMILIES if re.search(pattern, name)), None)


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
