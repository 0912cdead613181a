import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from retriever.lexical.tokens import tokenize


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("The relations were not relating", "relat not relat"),
        ("fastapi.BackgroundTasks", "fastapi.backgroundtasks fastapi backgroundtask background task"),
        ("response_model_exclude", "response_model_exclude respons model exclud"),
        ("kebab-case", "kebab-case kebabcas kebab case"),
        ("OAuth2PasswordBearer", "oauth2passwordbearer oauth2 oauth 2 auth2 auth password bearer"),
        ("OAuth2", "oauth2 oauth 2 auth2 auth"),
        ("getHTTPResponse", "gethttprespons get http respons"),
        ("APIs, IDs and URLs", "api id url"),
        ("sha256sum", "sha256sum sha256 sha 256 sum"),
        ("Python 3.12", "python 3.12 3 12"),
        ("__init__ and _emphasis_.", "init emphasi"),
        ("don't, it's, e.g. this", ""),
        ("how do I do this with it?", ""),
        ("what `$?` means: a && b, C++ or C#", "$? mean && b c++ c c# c"),
        ("if x === y || ?. is -> it!", "x === y || ?. ->"),
        ("## Title\n---\n***** ... - = | ❤️", "titl ❤"),
        ("`std::vec::Vec<T>`", "std vec vec"),
        ("a GET request", "get request"),
        ("你好世界", "你好 好世 世界"),
        ("字", "字"),
        ("用GitHub管理", "用 github git hub 管理"),
        ("Pythonで書く!", "python で書 書く"),
        ("สวัสดีครับ", "สวั วัส สดี ดีค ครั รับ"),
        ("ភាសាខ្មែរ", "ភាសា សាខ្មែ ខ្មែរ"),
        ("한국어 문서", "한국 국어 문서"),
        ("हिन्दी café", "हिन्दी café cafe"),
        ("ज़रूर हाँ λόγοι сёла שָׁלוֹם كِتَاب", "ज़रूर जरूर हाँ हां λόγοι λογοι сёла села שָׁלוֹם שלום كِتَاب كتاب"),
        ("Straße ﬁle \N{FULLWIDTH LATIN CAPITAL LETTER A}B x²", "strass file ab x2 x 2"),
        ("“quoted”—dash…🎉done", "quot dash 🎉 done"),
        ("Fast\u00adAPI zero\u200bwidth", "fastapi fast api zero width"),
        ("\ud800 lone\udfffsurrogate", "lone surrog"),
        ("", ""),
    ],
)
def test_terms_of_a_text(text: str, terms: str) -> None:
    assert tokenize(text) == terms.split()


@settings(deadline=None)  # the first word loads the stemmer
@given(st.text())
@example("ǅ İ ẞ \u0345")
@example("A.-_.b")
def test_terms_are_short_folded_and_not_empty(text: str) -> None:
    for term in tokenize(text):
        assert 0 < len(term) <= 200
        assert not term.isspace()
        assert not any(unicodedata.category(character) == "Cs" for character in term)


@settings(deadline=None)  # the first word loads the stemmer
@given(st.text(), st.text())
def test_texts_are_read_word_by_word(first: str, second: str) -> None:
    assert tokenize(f"{first}\n{second}") == tokenize(first) + tokenize(second)
    assert tokenize(first) == [term for word in first.split() for term in tokenize(word)]


@pytest.mark.parametrize("unit", ["a", "A", "aB", "a.", "a-", "_", "1", "é", "字", "UUs", "-.", "\u0301"])
def test_a_huge_word_takes_linear_time_and_gives_few_terms(unit: str) -> None:
    text = unit * (30_000 // len(unit))
    assert len(set(tokenize(text))) <= 8


def test_a_huge_word_still_matches_itself() -> None:
    key = "k" * 5_000
    assert tokenize(key) == tokenize(f"see {key}.")[-1:] == ["k" * 200]
