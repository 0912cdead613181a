"""What served embedding models are given before each text."""

import pytest

from retriever.embedding.encoder import find_prefixes, served_prefixes
from retriever.settings.schema import EncoderSettings
from tests.tables import read_table


def of(model: str, query_prefix: str = "", document_prefix: str = "") -> EncoderSettings:
    return EncoderSettings("ollama", model, query_prefix=query_prefix, document_prefix=document_prefix)


@pytest.mark.parametrize(("model", "query", "document"), read_table("models", "What goes before each text"))
def test_a_family_is_known_by_name_and_tag(model: str, query: str, document: str) -> None:
    assert find_prefixes(model) == (query, document)


def test_what_is_set_goes_before_what_is_known() -> None:
    assert served_prefixes(of("nomic-embed-text", query_prefix="q: ")) == ("q: ", "search_document: ")
    assert served_prefixes(of("nomic-embed-text", query_prefix="none", document_prefix="none")) == ("", "")
    assert served_prefixes(of("my-own")) == ("", "")
