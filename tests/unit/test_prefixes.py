"""What served embedding models are given before each text."""

import pytest

from retriever.embedding.prefixes import describe_prefixes, find_family, served_prefixes
from retriever.settings.schema import EncoderSettings

SEARCHING = "Represent this sentence for searching relevant passages: "


def of(model: str, query_prefix: str = "", document_prefix: str = "") -> EncoderSettings:
    return EncoderSettings("ollama", model, query_prefix=query_prefix, document_prefix=document_prefix)


@pytest.mark.parametrize(
    ("model", "query", "document"),
    [
        ("nomic-embed-text", "search_query: ", "search_document: "),
        ("hf.co/nomic-ai/nomic-embed-text-v1.5-GGUF:Q4_K_M", "search_query: ", "search_document: "),
        ("text-embedding-nomic-embed-text-v1.5", "search_query: ", "search_document: "),
        ("nomic-embed-text-v2-moe:latest", "search_query: ", "search_document: "),
        ("jeffh/intfloat-multilingual-e5-large:f16", "query: ", "passage: "),
        ("intfloat/e5-base-v2", "query: ", "passage: "),
        ("bge-m3:567m", "", ""),
        ("bge-large", SEARCHING, ""),
        ("BAAI/bge-small-en-v1.5", SEARCHING, ""),
        ("gte-base", "", ""),
        ("mxbai-embed-large:335m", SEARCHING, ""),
        ("snowflake-arctic-embed:22m", SEARCHING, ""),
        ("snowflake-arctic-embed2", "query: ", ""),
        ("Snowflake/snowflake-arctic-embed-l-v2.0", "query: ", ""),
        ("snowflake-arctic-embed-m-v1.5", SEARCHING, ""),
        ("embeddinggemma:300m", "task: search result | query: ", "title: none | text: "),
        ("granite-embedding:278m", "", ""),
        ("jina/jina-embeddings-v2-base-de", "", ""),
        ("jina-embeddings-v4", "Query: ", "Passage: "),
        ("all-minilm", "", ""),
        ("text-embedding-3-small", "", ""),
    ],
)
def test_a_family_is_known_by_name_and_tag(model: str, query: str, document: str) -> None:
    assert find_family(model) is not None
    assert served_prefixes(of(model)) == (query, document)


@pytest.mark.parametrize(
    "model", ["qwen3-embedding:0.6b", "multilingual-e5-large-instruct", "gte-Qwen2-1.5B-instruct", "e5-mistral-7b"]
)
def test_some_want_an_instruction_before_the_question_alone(model: str) -> None:
    query, document = served_prefixes(of(model))
    assert query.startswith("Instruct: ")
    assert query.rstrip().endswith("\nQuery:")
    assert document == ""


def test_what_is_set_goes_before_what_is_known() -> None:
    assert served_prefixes(of("nomic-embed-text", query_prefix="q: ")) == ("q: ", "search_document: ")
    assert served_prefixes(of("nomic-embed-text", query_prefix="none", document_prefix="none")) == ("", "")


def test_what_is_used_is_told_and_so_is_what_is_not_known() -> None:
    says, is_known = describe_prefixes(of("nomic-embed-text"))
    assert (says, is_known) == (
        "'search_query: ' before questions, 'search_document: ' before documents (nomic-embed-text)",
        True,
    )
    assert describe_prefixes(of("bge-m3")) == ("none (bge-m3)", True)
    says, is_known = describe_prefixes(of("my-own"))
    assert not is_known
    assert says == "none: my-own is not among the known models; see its card and set encoder.query_prefix"
    assert describe_prefixes(of("my-own", query_prefix="q: ", document_prefix="none"))[1]
    assert describe_prefixes(EncoderSettings()) == ("", True), "the bundled model knows itself"
