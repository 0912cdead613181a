"""When a question follows others, and which words of those join it."""

from collections.abc import Sequence

from retriever.evaluation import read_questions
from retriever.lexical.bm25 import QuestionTerm
from retriever.searching.follow_up import carry_words, is_follow_up, read_conversation
from tests.program import PROJECT


def test_no_question_of_the_test_corpus_is_taken_for_a_follow_up() -> None:
    asked = read_questions(PROJECT / "tests/eval_corpus/larder.jsonl").questions
    assert [item.question for item in asked if is_follow_up(item.question)] == []


def describe(terms: Sequence[str]) -> dict[str, QuestionTerm]:
    rarity = {"snapshot": 4.0, "forgotten": 1.2, "old": 0.9, "tag": 4.0}
    return {term: QuestionTerm(1, rarity[term]) for term in terms if term in rarity}


def test_rare_words_of_the_questions_before_join() -> None:
    earlier = ["oven", "how are old snapshots forgotten?", "and with a tag?"]
    to_the_last_alone = (earlier[1], ("tag", "snapshots", "forgotten"))
    assert carry_words("why?", earlier, describe) == to_the_last_alone
    assert carry_words("why is the tag forgotten?", earlier, describe)[1] == ("snapshots",), "what the question lacks"
    assert carry_words("why?", ["larder?"], describe)[1] == ()


def test_how_many_is_not_carried() -> None:
    assert carry_words("and tags?", ["how old is a snapshot?"], describe)[1] == ("snapshot",)


def test_a_conversation_is_read_within_limits() -> None:
    many = [f"question {number} in:daily {'word ' * 1_000}" for number in range(50)]
    earlier = read_conversation([*many, "and then?", "in:daily", "oven -since:7d"], "and then?")
    assert [text[:11] for text in earlier] == [f"question {number}" for number in range(45, 50)]
    assert max(map(len, earlier)) <= 300
