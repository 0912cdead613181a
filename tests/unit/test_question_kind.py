"""What a question asks for, by its words."""

import pytest

from retriever.searching.question_kind import read_kind


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("what is the default of nodeLinker?", "value"),
        ("how long do tokens live", "value"),
        ("Wie viele Tage Urlaub habe ich?", "value"),
        ("What is a snapshot?", "definition"),
        ("snapshot meaning", "definition"),
        ("deref coercion", "definition"),
        ("Was ist ein Vault?", "definition"),
        ("iter vs into_iter", "difference"),
        ("what is the difference between add and install", "difference"),
        ("Can I use it without a network?", "yes or no"),
        ("Darf ich im Dezember frei nehmen?", "yes or no"),
        ("the three ownership rules", "list"),
        ("states of a promise", "list"),
        ("which headers does the proxy add", "list"),
        ("why is the door locked", "why"),
        ("wo liegt der Schlüssel", "where"),
        ("How do I stop the server?", "how to"),
        ("comment arrêter le serveur maintenant", "how to"),
        ("qual é a diferença entre sal e fermento", "difference"),
        ("発酵時間はいくつ", "value"),
        ("生酵母とは", "definition"),
        ("酵母と塩", "other"),
        ("cakes 180", "definition"),
        ("what was the price of bread", "value"),
        ("what are the duties of a guest", "list"),
        ("the oven is cold today", "other"),
        ("做红烧肉需要哪些调料?", "list"),
        ("どうやって設定しますか", "how to"),
        ("어떻게 예약하나요", "how to"),
        ("Сколько стоит билет?", "value"),
        ("Jak zgłosić awarię?", "how to"),
        ("Proč je zavřeno?", "why"),
        ("Var finns nyckeln?", "where"),
        ("Anahtar nerede?", "where"),
        ("Hvor mange gæster kommer der?", "value"),
        ("¿dónde está mi llave?", "where"),
        ("¿cuántas llaves hay?", "value"),
    ],
)
def test_what_a_question_asks_for(question: str, kind: str) -> None:
    assert read_kind(question).value == kind


def test_a_follow_up_asks_for_what_was_asked_before() -> None:
    before = "how long does it bake?"
    kinds = [read_kind(question, before).value for question in ("and rolls?", "what about rolls?", "why?")]
    assert kinds == ["value", "value", "why"]


@pytest.mark.parametrize(("question", "kind"), [("and when?", "value"), ("¿y dónde?", "where"), ("und wo?", "where")])
def test_a_follow_up_may_say_it_behind_a_first_word(question: str, kind: str) -> None:
    assert read_kind(question, "what are the steps").value == kind
