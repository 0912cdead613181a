"""Which sentences a short answer may have: those that hold in the lines that they cite."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.checks import count_kept
from pageindex.node import Span
from retriever.answering.claims import find_conflict
from retriever.answering.context import Piece
from retriever.answering.sentences import check_sentence, choose_sentences
from retriever.answering.write import Checker
from retriever.types import CitedSentence, DroppedSentence, Hit
from tests.answers import hit

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
    return Piece(titles, text, 1, node_id=f"{file}#stamps", folder="/docs", file=file, span=span)


BLOCKS = (piece(MAIL), piece("Bread rises over night.\n", 1, "kitchen.md", ("Kitchen",)))


def check(text: str, quote: str, number: int = 1, question: str = "") -> CitedSentence | DroppedSentence:
    return check_sentence(text, number, quote, BLOCKS, question)


@pytest.mark.parametrize(
    ("text", "quote", "lines"),
    [
        ("A stamp pays for a letter's journey.", "A stamp pays for the journey", "12"),
        ("A stamp pays for the journey. [1]", "a STAMP pays, for the journey", "12"),
        ("A stamp does not pay for a parcel.", "It does not pay for a parcel", "12"),
        ("Letters of up to 20 grams cost 85 cents.", "up to 20 grams cost 85 cents", "14"),
        ("Royal Mail delivers letters within 3 days.", "Royal Mail delivers them within three days", "15"),
        ("At 1000 grams the price is 290 cents.", "| 1,000 grams | 290 cents", "20"),
        ("Yes, a stamp pays for the journey.", "A stamp pays for the journey", "12"),
        ("See the rules of the Post Office.", "See the rules of the Post Office", "22"),
        ("Mail needs a stamp: it pays for the journey.", "stamp pays for the journey", "12"),
        ("Letters up to 20 grams cost 85 cents, and Royal Mail delivers them.", "85 cents. - Royal Mail", "14-15"),
    ],
)
def test_a_sentence_that_holds(text: str, quote: str, lines: str) -> None:
    found = check(text, quote)
    assert isinstance(found, CitedSentence), found
    assert found.citation == f"mail.md:{lines}"
    assert (found.folder, found.node_id) == ("/docs", "mail.md#stamps")
    assert "[1]" not in found.text


def test_a_citation_that_a_model_makes_up_drops_its_sentence() -> None:
    found = check("A stamp pays for the journey (rules.md:3-5).", "A stamp pays for the journey")
    assert isinstance(found, DroppedSentence)


STAMP, PRICE = "A stamp pays for the journey", "Letters up to 20 grams cost 85 cents"
ROYAL = "Royal Mail delivers them within three days"
NO_QUOTE = "the words that it quotes do not stand in mail.md:10-22"
NO_OR_YES = "mail.md:12 does not say so: it says no, or the other way round"


@pytest.mark.parametrize(
    ("text", "quote", "number", "reason"),
    [
        ("", "A stamp pays for", 1, "it has 0 characters"),
        ("stamp " * 100, "A stamp pays for", 1, "it has 599 characters"),
        *(("A stamp pays.", "A stamp pays for", number, f"there is no block {number}") for number in (3, 0, -1)),
        ("A stamp pays.", "A stamp pays for", 2, "the words that it quotes do not stand in kitchen.md:1"),
        *(
            ("A stamp pays.", quote, 1, NO_QUOTE)
            for quote in ("A stamp pays everything", "stamp letter parcel", "A stamp", "", "rules rules.md#weights of")
        ),
        ("Letters cost 95 cents.", PRICE, 1, "mail.md:14 does not say so: the number 95"),
        # It stands in the block, and not in the lines.
        ("Letters cost 290 cents.", PRICE, 1, "mail.md:14 does not say so: the number 290"),
        ("Letters travel two days.", ROYAL, 1, "mail.md:15 does not say so: the number two"),
        ("DHL delivers them within three days.", ROYAL, 1, "the name DHL does not stand in mail.md:15"),
        (
            "Call post_office.send for it.",
            "or `post_office.rules`",
            1,
            "the name post_office.send does not stand in mail.md:22",
        ),
        ("A stamp pays at www.evil.example.", STAMP, 1, "the name www.evil.example does not stand in mail.md:12"),
        ("A stamp does not pay for the journey.", STAMP, 1, NO_OR_YES),
        ("It does pay for a parcel.", "pay for a parcel", 1, NO_OR_YES),
        ("A stamp makes passwords public.", STAMP, 1, "mail.md:12 does not say so: other things (passwords)"),
        # A true sentence does not carry another one.
        (f"{STAMP}. It makes passwords public.", STAMP, 1, "mail.md:12 does not say so: other things (passwords)"),
    ],
)
def test_a_sentence_that_does_not_hold(text: str, quote: str, number: int, reason: str) -> None:
    found = check(text, quote, number)
    assert isinstance(found, DroppedSentence)
    assert found.reason == reason


def test_words_of_the_question_may_stand_in_a_sentence_but_not_its_numbers_and_names() -> None:
    quote = "A stamp pays for the journey"
    assert isinstance(check("A stamp pays for the journey of postcards.", quote), DroppedSentence)
    assert isinstance(
        check("A stamp pays for the journey of postcards.", quote, 1, "who sends postcards?"), CitedSentence
    )
    assert isinstance(check("A stamp of 99 pays the journey.", quote, 1, "what does 99 pay?"), DroppedSentence)
    assert isinstance(check("A stamp of Ann pays the journey.", quote, 1, "what does Ann pay?"), DroppedSentence)


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
    far = hit(sentence="Kimchi is red.", words=("kimchi",), score=0.01)
    near = hit(sentence="Sauerkraut is white.", words=("sauerkraut",), file="b.md")
    for question, count in (("sauerkraut vs kimchi", 2), ("sauerkraut with kimchi", 1)):
        assert len(choose_sentences([near, far], question)) == count


def test_at_most_three_hits_give_a_sentence() -> None:
    hits = [hit(sentence=f"The {word} is here.", file=word) for word in ("oven", "flour", "butter", "yeast")]
    assert len(choose_sentences(hits)) == 3


def test_the_sentence_whose_section_reads_best_comes_first() -> None:
    hits = [hit(sentence="The oven is hot.", reading_score=7.0)]
    best = hit(sentence="An oven bakes bread.", score=0.01, reading_score=9.0, file="b.md")
    assert [item.text for item in choose_sentences([*hits, best])] == [best.sentence, hits[0].sentence]


@given(st.lists(st.sampled_from(["}", "{", '"', "\\", "]", ",", "\n"]), max_size=6).map("".join))
def test_a_sentence_is_told_when_it_is_whole_and_never_a_part_of_it(signs: str) -> None:
    """Whatever signs are in it, at every prefix of what the model writes, thoughts and talk around it too."""
    quote = "A stamp pays for the journey of a letter"
    sentences = [
        {"block": 1, "quote": quote, "text": f"A stamp pays {signs} for the journey of a letter."},
        {"block": 12, "quote": quote, "text": "The journey of a letter is paid by a stamp, which pays for it."},
        {"block": 1, "quote": "Royal Mail delivers them within three days", "text": "Royal Mail delivers in 3 days."},
    ]
    written = f"<think>{signs}</think> So: {json.dumps({'sentences': sentences})}"
    told: list[str] = []
    checker = Checker("", (), lambda sentence: told.append(sentence.text), 4, BLOCKS)
    for end in range(len(written) + 1):
        checker.read(written[:end])
    assert ["".join(filter(str.isalnum, text)) for text in told] == [
        "".join(filter(str.isalnum, str(item["text"]))) for item in (sentences[0], sentences[2])
    ]
    assert [item.reason for item in checker.dropped] == ["there is no block 12"]


def test_true_sentences_pass_and_changed_ones_do_not() -> None:
    """Documents of seven kinds; failures of the unseen sentences were counted, not read."""
    kept = count_kept()
    for half, most in (("seen", 0.04), ("unseen", 0.16), ("new", 0.18), ("later", 0.29)):
        assert kept[half, "true"] >= 0.75
        assert kept[half, "changed"] <= most
        assert kept[half, "invented"] == 0


@pytest.mark.parametrize(
    ("claim", "cited"),
    [
        ("It takes 5 hours.", "It takes 5 minutes."),
        ("It takes at least 5 minutes.", "It takes at most 5 minutes."),
        ("The flag was removed.", "The flag was added."),
        ("Water the leaves.", "Water the bed, never the leaves."),
        ("Trains are faster than planes.", "Planes are faster than trains."),
        ("Files are moved from the disk to the tape.", "Files are moved from the tape to the disk."),
    ],
)
def test_a_sentence_that_is_changed_in_one_way(claim: str, cited: str) -> None:
    assert find_conflict(claim, cited)


@pytest.mark.parametrize(
    ("claim", "cited"),
    [
        ("The dough rests for 90 minutes.", "The dough rests for one and a half hours."),
        ("A big loaf of 1,000 g is baked.", "A big loaf of 1 kg is baked."),
        ("The hostel wants 50 % of the price.", "The hostel wants half of the price."),
        ("The door stays closed.", "Do not open the door."),
        ("No more than 5 guests may row.", "At most 5 guests may row."),
        ("The dog is chased by the cat.", "The cat chases the dog."),
    ],
)
def test_a_sentence_in_other_words(claim: str, cited: str) -> None:
    assert find_conflict(claim, cited) == ""


@pytest.mark.parametrize(
    ("language", "claim", "cited"),
    [
        ("german", "Der Ofen ist in zwei Stunden heiß.", "Der Ofen ist in zwei Stunden nicht heiß."),
        ("french", "Le four est chaud.", "Le four n\u2019est pas chaud."),
        ("spanish", "El horno se abre.", "El horno nunca se abre."),
        ("portuguese", "O forno abre.", "O forno não abre."),
        ("italian", "Il forno si apre.", "Il forno non si apre."),
        ("dutch", "De oven is heet.", "De oven is niet heet."),
        ("swedish", "Ugnen är varm.", "Ugnen är inte varm."),
        ("danish", "Ovnen er varm.", "Ovnen er ikke varm."),
        ("norwegian", "Ovnen er varm.", "Ovnen er aldri varm."),
        ("russian", "Печь горячая.", "Печь не горячая."),
        ("chinese", "邮票支付包裹。", "邮票不支付包裹。"),
        ("japanese", "切手で小包を送れる。", "切手で小包を送れない。"),
    ],
)
def test_a_no_in_each_language_with_stop_words(language: str, claim: str, cited: str) -> None:
    assert find_conflict(claim, cited, languages=(language,)) == "it says no, or the other way round"


def test_numbers_in_words_of_another_language() -> None:
    assert find_conflict("Der Teig ruht 90 Minuten.", "Der Teig ruht anderthalb Stunden.", languages=("german",)) == ""
