"""What the known embedding models want to read before a question and before a document.

A library of models has these texts in each model's files; a server (Ollama, an OpenAI-compatible one) embeds what it is
sent and adds nothing. Without them a model that was trained with them finds far less: others measured nomic-embed-text
at a recall of .50 for the first hit, where all-MiniLM-L6-v2 has .875.
"""

import re

from retriever.settings.schema import EncoderSettings

NO_PREFIX = "none"  # as a setting: nothing, whatever the model asks for

_SEARCHING = "Represent this sentence for searching relevant passages: "
_INSTRUCT = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"


# (what the name holds, before a question, before a document), as the models' cards have them; the first that fits.
# A name is compared in lower case with its owner and tag, such as `hf.co/nomic-ai/nomic-embed-text-v1.5-gguf:q4_k_m`.
_FAMILIES = (
    (r"nomic-embed-code", "Represent this query for searching relevant code: ", ""),
    (r"nomic-embed", "search_query: ", "search_document: "),
    (r"\be5-.*(?:instruct|mistral)|\bgte-qwen", f"{_INSTRUCT} ", ""),
    (r"\be5-|mxbai-embed-de", "query: ", "passage: "),
    (
        r"\bbge-.*-zh",
        "\u4e3a\u8fd9\u4e2a\u53e5\u5b50\u751f\u6210\u8868\u793a\u4ee5\u7528\u4e8e"
        "\u68c0\u7d22\u76f8\u5173\u6587\u7ae0\uff1a",
        "",
    ),
    (r"arctic-embed(?:2|-[lm]-v2)", "query: ", ""),
    (r"\bbge-(?:small|base|large)|mxbai-embed|arctic-embed", _SEARCHING, ""),
    (r"embedding-?gemma", "task: search result | query: ", "title: none | text: "),
    (r"qwen3-embedding", _INSTRUCT, ""),
    (
        r"jina-embeddings-v3",
        "Represent the query for retrieving evidence documents: ",
        "Represent the document for retrieval: ",
    ),
    (r"jina-embeddings-v4", "Query: ", "Passage: "),
    (r"jina-embeddings-v5", "Query: ", "Document: "),
    (r"\bbge-m3|\bgte-|granite-embedding|jina-embeddings-v2|all-minilm|all-mpnet|paraphrase-", "", ""),
    (r"^text-embedding-(?:3|ada)", "", ""),
)


def find_prefixes(model: str) -> tuple[str, str] | None:
    """Return what a model wants before a question and before a document; None for one that is not known.

    >>> find_prefixes("nomic-embed-text:latest")
    ('search_query: ', 'search_document: ')
    """
    name = model.lower().replace("_", "-")
    return next(((query, document) for pattern, query, document in _FAMILIES if re.search(pattern, name)), None)


def choose_prefixes(settings: EncoderSettings, query: str, document: str) -> tuple[str, str]:
    """Return the prefixes of questions and documents: those of the settings, where given, else the model's own."""
    given = ((settings.query_prefix, query), (settings.document_prefix, document))
    query, document = ("" if setting == NO_PREFIX else setting or own for setting, own in given)
    return query, document


def served_prefixes(settings: EncoderSettings) -> tuple[str, str]:
    """Return the prefixes for a model that a server runs; empty for one that is not known."""
    return choose_prefixes(settings, *(find_prefixes(settings.model) or ("", "")))


def describe_prefixes(settings: EncoderSettings) -> tuple[str, bool]:
    """Return the prefixes of a served model in words, and whether they are known to be right."""
    if settings.kind not in {"ollama", "openai"}:
        return "", True
    query, document = served_prefixes(settings)
    used = f"{query!r} before questions, {document!r} before documents" if query or document else "none"
    if (settings.query_prefix and settings.document_prefix) or find_prefixes(settings.model) is not None:
        return used, True
    return f"{used}: {settings.model} is not among the known models; see its card and set encoder.query_prefix", False
