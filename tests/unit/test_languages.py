"""Which language a text and a question are in, and what its words become."""

import pytest

from retriever.lexical.languages import detect_language, detect_question
from retriever.lexical.tokens import tokenize
from tests.program import PROJECT

NOTES = PROJECT / "tests" / "data" / "languages"
FOLDERS = {"de": "german", "fr": "french", "es": "spanish", "zh": "chinese", "ja": "japanese", "th": ""}


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_language_of_every_note_is_known(folder: str) -> None:
    for note in (NOTES / folder).glob("*.md"):
        assert detect_language(note.read_text(encoding="utf-8")) == FOLDERS[folder], note


def test_english_pages_have_no_language() -> None:
    pages = [*(PROJECT / "docs").rglob("*.md"), *(PROJECT / "tests" / "eval_corpus" / "larder").glob("*.md")]
    pages += (PROJECT.parent / "shared" / "eval" / "corpora").rglob("*.md")
    assert {detect_language(page.read_text(encoding="utf-8")) for page in pages} == {""}


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("", ""),
        ("SELECT a, b FROM c WHERE d IN (1, 2);", ""),
        ("de la de la", ""),  # too little to tell
        ("Schreibtisch 2024 gekauft, die Rechnung liegt im Ordner.", "german"),  # two words are enough in a note
        ("Schreibtisch 2024 gekauft, Rechnung liegt im Ordner.", ""),
        ("La boîte rouge est dans le garage.", "french"),
        ("In the end, Der Spiegel and Las Vegas are names.", ""),
        ("`die()` and `der` " + "x = make(pointer) " * 10, ""),
        ("- Deutsch: der, die, das\n- " + "English, and all of its other words which say what it is. " * 9, ""),
        ("Вы можете отменить заказ, если он ещё не отправлен, и мы вернём деньги.", "russian"),
        ("Het is niet mogelijk om de bestelling te wijzigen als die al is verzonden.", "dutch"),
        ("Você pode cancelar o pedido até a entrega, mas não depois, e o dinheiro é devolvido.", "portuguese"),
        ("Puoi annullare l'ordine se non è ancora partito, ma poi non si può più fare.", "italian"),
        ("Du kan avbryta din beställning om den inte har skickats, men sedan är det för sent.", "swedish"),
        ("주문을 취소하려면 설정에서 주문 내역을 여세요", ""),  # read as English is
        ("大韓民國 헌법은 주문을 취소하려면 설정에서 주문 내역을 여세요", ""),
        ("用 Python 写的脚本在这里", "chinese"),
        ("Pythonで書いたスクリプトを実行します", "japanese"),
    ],
)
def test_the_language_of_a_text(text: str, language: str) -> None:
    assert detect_language(text) == language


@pytest.mark.parametrize(
    ("question", "languages"),
    [
        ("how do I cancel the order?", ()),
        ("wie kündige ich?", ("german",)),
        ("comment annuler ma commande", ("french",)),
        ("Kilometergeld", ("german", "french")),  # no word says it: it is read in all
        ("kubectl rollback", ("german", "french")),
    ],
)
def test_the_languages_of_a_question(question: str, languages: tuple[str, ...]) -> None:
    assert detect_question(question, ("german", "french")) == languages
    assert detect_question(question, ()) == ()
    # Where documents are in English but for a few, a question that says nothing else is.
    says_it = languages != ("german", "french")
    assert detect_question(question, ("german", "french"), is_english=True) == (languages if says_it else ())
    assert detect_question(question, ("german", "french", "chinese")) == languages
    assert "chinese" in detect_question(f"{question} 你好", ("german", "chinese"))


@pytest.mark.parametrize(
    ("text", "language", "terms"),
    [
        ("die Kündigungsfristen", "german", "kündigungsfristen kundigungsfristen kundigungsfrist"),
        ("l'annulation des commandes", "french", "annul command"),
        ("los envíos a Canarias", "spanish", "envíos envio envi canaria canari"),
        ("отменить заказы", "russian", "отменить отмен заказы заказ"),
        ("BackgroundTasks", "german", "backgroundtask background task"),
        ("你好世界", "chinese", "你好 好世 世界 你 好 世 界"),
        ("Pythonで書く", "japanese", "python で書 書く 書"),
    ],
)
def test_a_word_gives_the_terms_of_its_language_beside_the_english_ones(text: str, language: str, terms: str) -> None:
    assert tokenize(text, (language,)) == terms.split()
