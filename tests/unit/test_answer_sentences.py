"""Which sentences a short answer may have: those that hold in the lines that they cite."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.checks import count_kept
from pageindex.node import Span
from retriever.answering.context import Piece
from retriever.answering.sentences import check_sentence, choose_sentences, find_quote
from retriever.answering.write import join_sentences
from retriever.types import CitedSentence, DroppedSentence, Hit
from tests.answers import hit
from tests.tables import read_table

MAIL = """\
## Stamps

A stamp pays for the journey of a letter. It does not pay for a parcel.

- Letters up to 20 grams cost 85 cents.
- Royal Mail delivers them within three days.

| weight | price |
|---|---|
| 20 grams | 85 cents |
| 1,000 grams | 290 cents |

See [the rules](rules.md#weights) of the **Post Office**, or `post_office.rules`.
"""


def piece(text: str, first: int = 10, file: str = "mail.md", titles: tuple[str, ...] = ("Mail", "Stamps")) -> Piece:
    span = Span(first, first + text.count("\n") - 1)
    return Piece(titles, text, 1, span, node_id=f"{file}#stamps", folder="/docs", file=file, span=span)


BLOCKS = (piece(MAIL), piece("Bread rises over night.\n", 1, "kitchen.md", ("Kitchen",)))


def check(text: str, quote: str, number: int = 1, question: str = "") -> CitedSentence | DroppedSentence:
    return check_sentence(text, number, quote, BLOCKS, question)


@pytest.mark.parametrize(("text", "quote", "question", "lines"), read_table("claims", "Holds"))
def test_a_sentence_that_holds(text: str, quote: str, question: str, lines: str) -> None:
    found = check(text, quote, 1, question)
    assert isinstance(found, CitedSentence), found
    assert found.citation == f"mail.md:{lines}"
    assert (found.folder, found.node_id) == ("/docs", "mail.md#stamps")
    assert "[1]" not in found.text


@pytest.mark.parametrize(("text", "quote", "number", "question", "reason"), read_table("claims", "Does not hold"))
def test_a_sentence_that_does_not_hold(text: str, quote: str, number: int, question: str, reason: str) -> None:
    found = check(text, quote, number, question)
    assert isinstance(found, DroppedSentence)
    assert found.reason == reason


DOUGH = """\
The dough is proofed for **ninety minutes** (in winter two hours) at 26 degrees.

```json
{"speed": "slow and steady"}
```
"""


def test_a_quote_may_leave_out_emphasis() -> None:
    assert find_quote("minutes in winter two hours", DOUGH)


def test_a_sentence_that_quotes_code_is_dropped() -> None:
    found = check_sentence("The speed is slow and steady.", 1, "speed: slow and steady", [piece(DOUGH)])
    assert isinstance(found, DroppedSentence)
    assert found.reason == "it quotes code"


def test_a_text_without_spaces_between_words() -> None:
    blocks = (piece("邮票支付信件的旅费。它不支付包裹。\n", 1, titles=()),)
    found = check_sentence("邮票支付信件的旅费。", 1, "邮票支付信件的旅费", blocks, languages=("chinese",))
    assert isinstance(found, CitedSentence), found


@given(st.integers(0, 9), st.integers(0, 9), st.sampled_from(["", "never ", "Bob ", "77 ", "evil.example "]))
def test_a_sentence_of_the_block_itself_holds_until_something_is_put_in(start: int, length: int, extra: str) -> None:
    words = MAIL.split("\n")[2].split()
    sentence = words[:9]  # which says no nowhere
    quote = " ".join(sentence[start : start + length])
    place = min(start, len(sentence))
    found = check(" ".join([*sentence[:place], extra.strip(), *sentence[place:]]), quote)
    is_long = len(sentence[start : start + length]) > 2
    assert isinstance(found, CitedSentence if is_long and not extra else DroppedSentence), found


STAMPS = hit(sentence="A stamp pays for the journey of a letter.", node_id="a", file="a.md")


@pytest.mark.parametrize(
    ("other", "texts"),
    [
        (hit(sentence="Bread rises over night."), ["Bread rises over night."]),
        (hit(snippet="Bread rises over night.", sentence=""), []),
        (hit(sentence="A stamp pays for a letter."), []),  # a repetition
        (hit(sentence="Far behind.", score=0.01), []),
        (hit(sentence="Box", title="Box"), []),
    ],
)
def test_which_hits_give_a_sentence(other: Hit, texts: list[str]) -> None:
    first, *others = choose_sentences([STAMPS, other])
    assert (first.text, first.citation) == (STAMPS.sentence, "a.md:12-34")
    assert [item.text for item in others] == texts


def test_of_a_difference_both_sides_are_quoted() -> None:
    both = ("sauerkraut", "kimchi")  # a title above has them
    far = hit(sentence="Kimchi is red.", words=both, score=0.01)
    near = hit(sentence="Sauerkraut is white.", words=both, file="b.md")
    for question, count in (("sauerkraut vs kimchi", 2), ("sauerkraut with kimchi", 1)):
        assert len(choose_sentences([near, far], question)) == count


def test_at_most_three_hits_give_a_sentence() -> None:
    hits = [hit(sentence=f"The {word} is here.", file=word) for word in ("oven", "flour", "butter", "yeast")]
    assert len(choose_sentences(hits)) == 3


def test_the_sentence_whose_section_reads_best_comes_first() -> None:
    hits = [hit(sentence="The oven is hot.", reading_score=7.0)]
    best = hit(sentence="An oven bakes bread.", score=0.01, reading_score=9.0, file="b.md")
    assert [item.text for item in choose_sentences([*hits, best])] == [best.sentence, hits[0].sentence]


def test_true_sentences_pass_and_changed_ones_do_not() -> None:
    """Documents of seven kinds; failures of the unseen sentences were counted, not read."""
    kept = count_kept()
    for half, most in (("seen", 0.04), ("unseen", 0.16), ("new", 0.18), ("later", 0.29)):
        assert kept[half, "true"] >= 0.75
        assert kept[half, "changed"] <= most
        assert kept[half, "invented"] == 0


def test_the_first_quoted_sentence_stays_unless_a_model_cites_its_lines() -> None:
    quoted, other = choose_sentences([STAMPS, hit(sentence="Bread rises over night.", file="b.md")])
    assert join_sentences((quoted, other), [other]) == (quoted, other)
    assert join_sentences((quoted, other), [other, quoted]) == (other, quoted)
    assert join_sentences((), [other]) == (other,)
    steps = replace(quoted, text="Buy a stamp.\nPost the letter.")
    assert join_sentences((steps,), [quoted]) == (steps, quoted), "a list stays whole"
