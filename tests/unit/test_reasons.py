"""Why a hit is there, in words."""

from hypothesis import given
from hypothesis import strategies as st

from retriever.display import because
from retriever.lexical.tokens import tokenize
from retriever.searching.hits import find_question_words, list_reasons
from retriever.trace import Recorder
from retriever.types import Candidate, Evidence, Relation, RelationKind, Source, StageName


def test_what_else_speaks_for_a_hit() -> None:
    near = Evidence(Source.SEMANTIC, 1, 0.7, "cosine", 0.02)
    words = Evidence(Source.KEYWORD, 2, 7.0, "bm25", 0.01)
    tree = Evidence(Source.NEIGHBORS, 3, 0.01, "rrf", 0.01, via=Relation(RelationKind.SIBLING, "a.md#install"))
    assert list_reasons(Candidate("a.md", 1.0, (near, words)), {}) == ("nearest in meaning",)
    assert list_reasons(Candidate("a.md", 1.0, (words, tree)), {"a.md#install": "Install"}) == ('beside "Install"',)
    assert because(("vacation days", "leave"), ("near in meaning",)) == "*vacation days*, *leave*; near in meaning"
    assert because((), ()) == "words of the question"


@given(st.text(max_size=80), st.text(max_size=200))
def test_any_question_and_text(question: str, text: str) -> None:
    words = find_question_words(question, tokenize(question), [text])
    assert len(set(words)) == len(words)
    assert all(set(tokenize(word)) & set(tokenize(question)) for word in words)


def test_a_stage_takes_the_time_of_its_block() -> None:
    recorder = Recorder()
    with recorder.stage(StageName.HITS):
        pass
    assert 0 <= recorder.stages[0].milliseconds < 1000
