"""A reranking model behind a server's /rerank: what is asked, what its scores are, and what follows a failure."""

import pytest

from retriever.errors import RerankerError
from retriever.rerank import SENT_TOKENS, EndpointReranker, RerankInput
from retriever.settings import Profile, RerankSettings
from tests.real.conftest import SHIPS_QUESTION
from tests.real.scripted_server import ScriptedServer, status
from tests.shelf import Shelf

SHOWN = [RerankInput("A > B", text) for text in ("the longest", "another", "one")]


def opened(ollama: ScriptedServer) -> EndpointReranker:
    return EndpointReranker(Profile(rerank=RerankSettings(kind="endpoint", model="small", url=ollama.v1)))


def test_all_candidates_are_asked_in_one_request(ollama: ScriptedServer) -> None:
    many = [RerankInput("A", f"text {place}") for place in range(30)]
    scores = opened(ollama).score("text 7", many)
    assert len(scores) == 30
    assert scores.index(max(scores)) == 7
    ((path, body, headers),) = ollama.requests
    assert path == "/v1/rerank"
    assert (body["model"], body["query"], body["top_n"]) == ("small", "text 7", 30)
    assert body["documents"] == [f"A\n{candidate.text}" for candidate in many]
    assert "authorization" not in headers


def test_logits_become_scores_and_stay_in_order(ollama: ScriptedServer) -> None:
    """As llama.cpp gives them for bge-reranker; of others it gives scores from 0 to 1."""
    logits = iter([(0.9, 0.2, 0.1), (7.7, -2.3, -11.0)])
    ollama.rank = lambda asked: {
        "results": [{"index": place, "relevance_score": score} for place, score in enumerate(next(logits))]
    }
    reranker = opened(ollama)
    first, second = (reranker.score(question, SHOWN) for question in "ab")
    assert first == [0.9, 0.2, 0.1]
    assert second == pytest.approx([0.99955, 0.0911, 0.0000167], rel=1e-2)


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ('{"index": 0, "relevance_score": 0.1}', "not one item for each of"),
        ('{"index": 0, "relevance_score": NaN}', "speaks otherwise"),
    ],
    ids=["others are missing", "NaN"],
)
def test_what_is_no_order_is_an_error(ollama: ScriptedServer, scores: str, said: str) -> None:
    ollama.rank = lambda asked: status(200, f'{{"results": [{scores}]}}')
    with pytest.raises(RerankerError, match=said):
        opened(ollama).score("tomatoes", SHOWN)


def test_a_long_text_is_cut_and_does_not_lose_the_others(ollama: ScriptedServer) -> None:
    shown = [RerankInput("A", "tomatoes in a wet summer"), RerankInput("B", "boats " * 2000)]
    opened(ollama).score("tomatoes " * 1000, shown)
    (asked,) = ollama.of_kind("rank")
    assert len(asked.body["query"].split()) <= SENT_TOKENS // 2
    assert max(len(f"{asked.body['query']} {text}".split()) for text in asked.body["documents"]) <= SENT_TOKENS
    assert asked.body["documents"][0] == "A\ntomatoes in a wet summer"


def test_a_candidate_is_sent_as_long_as_a_hit_is_shown(ollama: ScriptedServer, ships: Shelf) -> None:
    rerank = {"kind": "endpoint", "model": "small", "url": ollama.v1}
    assert len(ships.ask(SHIPS_QUESTION, rerank=rerank, final_text_chars=900, top_k=1).hits[0].text) > 800
    (asked,) = ollama.of_kind("rank")
    assert min(map(len, asked.body["documents"])) > 800
