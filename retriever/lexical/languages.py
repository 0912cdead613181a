"""Which language a text is in, by its script and its function words, and the words of each that a search leaves out.

A text that is English, or in no language that is known here, has no language: it is read as English. Code, names and
short notes are of that kind.
"""

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache

READ = 8_000  # characters of a text that are looked at
# Function words that a language needs in a document, those of several languages counted in parts, and their share of
# its words: a running text has .25 and more, among code less. In a short note, without code, two are enough, of which
# one is of no other language.
LEAST_WORDS, LEAST_SHARE = 4.0, 0.1
LEAST_WORDS_SHORT, LEAST_SHARE_SHORT = 1.5, 0.15
LEAD = 1.5  # times as many as any other language has

# English words that say how a sentence is built, and what is left of them at an apostrophe (`don't`, `it's`). They fill
# people's questions (`how do I ...`) and would lift each section that is written as a conversation. `no`, `not`,
# `without`, `never`, `get` and `use` stay: in technical text they carry meaning (`not found`, a GET request), and BM25
# gives a word of most documents next to no weight anyway. In the other languages negations are left out as well: their
# technical words are English.
_LISTS = {
    "english": """
about above after again all also am an and any are as at a be because been before being below between both but by
can could did do does doing down during each few for from further had has have having he her here hers him his
how i if in into is it its itself just let like may me might more most must my of off on once only or other our
ours out over own please same shall she should so some such than that the their them then there these they this
those through to too under until up us very was we were what when where which while who whom whose why will with
would you your yours yourself
aren couldn d didn doesn don e.g hadn hasn haven i.e isn ll m re s shouldn t ve wasn weren won wouldn
""",
    "german": """
aber als also am an auch auf aus außerdem bei beim bin bis bitte da dabei dafür damit dann daran darauf darf dazu das
dass davon dazu dein deine dem den denn der des dich die dies diese diesem diesen dieser dieses dir doch dort du durch
ein eine einem einen einer eines er es etwa etwas euch euer eure für gegen gibt hab habe haben hat hatte hier ich ihm
ihn ihnen ihr ihre ihrem ihren ihrer im in ins ist ja je jede jedem jeden jeder jedes kann kannst kein keine keinen
können könnt man mein meine meinem meinen meiner mich mir mit muss müssen nach nicht noch nun nur ob oder ohne sein
seine seinem seinen seiner seit sich sie sind so soll sollte sowie über um und uns unser unsere unter viel vom von vor
wann war waren warum was weil welche welchem welchen welcher welches wem wen wenn wer werde werden wie wieder will wir
wird wo woher wohin würde zu zum zur zwischen
""",
    "french": """
a ai alors après as au aussi autre aux avant avec avez avoir avons c car ce ceci cela celle celui ces cet cette ceux
chaque chez ci comme comment d dans de depuis des deux donc dont du elle elles en encore entre es est et étais était
été être eu fait faire faut il ils j je jusqu l la le les leur leurs lors lorsque lui m ma mais me même mes moi mon n
ne ni nos notre nous on ont ou où par parce pas pendant peu peut peux plus pour pourquoi puis puisque qu quand que quel
quelle quelles quels qui quoi s sa sans se sera ses si soit son sont sous suis sur t ta te tes toi ton tous tout toute
toutes tu un une va vers vos votre vous y
""",
    "spanish": """
a al algo algún alguna algunas algunos ante antes aquí así aún aunque bajo cada como cómo con contra cual cuál cuales
cuando cuándo cuánto cuánta cuántos cuántas de del desde donde dónde dos e el él ella ellas ellos en entre era es esa
esas ese eso esos esta está están estar estas este esto estos estoy fue fueron ha hace hacer haces han has hasta hay he
la las le les lo los mas más me mi mí mis mucho muy ni no nos nosotros nuestra nuestro o os otra otro para pero poco
por porque puede puedes puedo pues que qué quien quién quiero se sea según ser si sí sido sin sobre son soy su sus
también tan tanto te tengo tiene tienen tienes todo todos tu tú tus un una unas uno unos va vez y ya yo
""",
    "portuguese": """
a à ainda além algum alguma ao aos após aquela aquele aqui as às até cada com como contra da das de dela dele deles
depois desde dessa desse desta deste do dos e é ela elas ele eles em entre era essa esse esta está estão estar este
estou eu faz fazer foi for foram há isso isto já la lhe mais mas me mesmo meu meus minha minhas muito na não nas nem
nessa nesse nesta neste no nos nós nossa nosso num numa o onde os ou para pela pelas pelo pelos pode podem posso por
porque pra quais qual quando quanto que quê quem são se seja sem ser será seu seus só sobre sua suas também te tem têm
tenho ter teu toda todas todo todos tu tua tudo um uma você vocês
""",
    "italian": """
a abbiamo agli ai al alla alle allo anche ancora avere c che chi ci cioè col come con cosa così cui d da dagli dai dal
dalla dalle dallo degli dei del della delle dello dentro deve di dopo dove due e è ed era essere fa fare fino fra già
gli ha hai hanno ho i il in io l la le lei lo loro lui ma me mi mia mie miei mio molto ne negli nei nel nella nelle
nello noi non nostra nostro o ogni ognuno oppure per perché però più poi posso può puoi qual quale quali quando quanto
quella quelle quelli quello questa queste questi questo qui sarà se sei senza si sia siamo sono sopra sotto sta su sua
sue sugli sui sul sulla sulle suo suoi te ti tra tu tua tue tuo tuoi tutta tutte tutti tutto un una uno vi voi
""",
    "dutch": """
aan al alle als altijd ben bent bij daar dan dat de deze die dit doe door dus een elk elke en er geen had heb hebben
hebt heeft het hier hoe hoeveel hun ik in is ja je jij jou jouw jullie kan kun kunnen maar me meer men met mij mijn
moet moeten mogen naar niet niets nog nu of om omdat onder ons onze ook op over te tegen toch tot tussen u uit uw van
veel voor waar waarom wanneer want waren was wat we wel welk welke wie wij wil word worden wordt zal ze zelf zich zij
zijn zo zonder zou
""",
    "swedish": """
alla allt att av bara blev bli blir då de dem den denna deras dess dessa det detta dig din dina ditt du där efter
eftersom ej eller en er ett finns för från får få ha hade han har hon hos hur här i icke in inom inte jag kan kunde man
med mellan men mig min mina mitt mot måste många när nu något någon några och om oss på samma sedan sig sin sina sitt
ska skall som så till under upp ut utan vad var vara varför varje vart vem vi vid vilka vilken vill vår våra åt än är
över
""",
    "danish": """
af alle alt anden at blev blive bliver både da de dem den denne der deres det dette dig din dine dit dog du efter ej
eller en end er et finder findes for fordi fra før få får gør ham han hans har have havde hende her hos hun hvad hvem
hver hvilken hvis hvor hvordan hvorfor hvornår i ikke ind jeg jer kan kun kunne man mange med meget mellem men mig min
mine mit mod må ned når noget nogle nu og også om op os over på samme selv sig sin sine sit skal skulle som sådan thi
til ud uden under var ved vi vil ville vor være været
""",
    "norwegian": """
alle at av bare begge ble bli blir både da de dem den denne der dere deres det dette din dine ditt du eller en enn er et
etter fordi for fra før få får gjør ha hadde han hans har henne hennes her hos hun hva hvem hver hvilken hvis hvor
hvordan hvorfor i ikke inn ja jeg kan kun kunne man mange med meg mellom men min mine mitt mot må ned når noe noen nå
og også om opp oss over på samme seg selv sin sine sitt skal skulle som så til under ut uten vår var ved være vært vi
vil ville
""",
    "russian": """
а без более больше бы был была были было быть в вам вас ваш весь во вот все всё всего всех вы где да даже для до его ее
её если есть ещё еще же за здесь и из или им их к как какая какие какой какую когда который которая которые кто куда ли
лучше мне много можно мой мы на над надо нам нас наш не него нее ней нельзя нет ни них но ну о об один он она они оно от
очень по под почему при с сам свой сейчас со так также такой там тем то того тоже только том тот ту тут ты у уже
хочу чем что чтобы чья эта эти это этого этой этот эту я
""",
}
STOP_WORDS = {name: frozenset(words.split()) for name, words in _LISTS.items()}
STEMMED = tuple(name for name in STOP_WORDS if name != "english")

# Scripts that say the language by themselves; Chinese is what has Han characters and no Kana. Large ranges take Python
# milliseconds to compile, so that is done where one is used.
_SCRIPTS = {
    "japanese": "[\u3041-\u30ff]",
    "chinese": "[\u3400-\u9fff]",
    "korean": "[\uac00-\ud7a3]",
    "thai": "[\u0e01-\u0e5b]",
    "lao": "[\u0e81-\u0eff]",
    "khmer": "[\u1780-\u17ff]",
    "burmese": "[\u1000-\u109f]",
}
SINGLED = ("chinese", "japanese")  # in these a Han character is a term by itself, beside the pairs that it is in
KANA_SHARE = 0.1  # of the Han and Kana of a text: less is a Chinese text with a Japanese name in it
LANGUAGES = (*STEMMED, *_SCRIPTS)
READ_APART = (*STEMMED, *SINGLED)  # whose words are read otherwise than in English

_WORD = re.compile(r"[^\W\d_]+")


def detect_language(text: str) -> str:
    """The language of a document, one of `LANGUAGES`; empty for English, and where it cannot be told. 0.5 ms."""
    text = text[:READ]
    words = _WORD.findall(text.lower())
    if not text.isascii():
        # Of a script that has no spaces between words, two characters are about a word.
        found = {name: len(re.findall(script, text)) // 2 for name, script in _SCRIPTS.items()}
        if found["japanese"] > KANA_SHARE * (found["japanese"] + found["chinese"]):
            found["japanese"] += found["chinese"]
        name = max(found, key=lambda name: found[name])
        if found[name] > len([word for word in words if word < "\u0e00"]):
            return name
    votes = count_votes(words, tuple(STOP_WORDS))
    (most, name), (second, _) = sorted(((number, name) for name, number in votes.items()), reverse=True)[:2]
    is_long = most >= max(LEAST_WORDS, LEAST_SHARE * len(words))
    is_short = most >= max(LEAST_WORDS_SHORT, LEAST_SHARE_SHORT * len(words))
    return name if (is_long or is_short) and most >= LEAD * second and name != "english" else ""


def detect_question(question: str, languages: Sequence[str]) -> tuple[str, ...]:
    """Which of the languages of the documents a question is read in, beside English; several where they are alike.

    Args:
        question: too short for a sure guess, so that a word of one of them is enough; one without any is read in all.
        languages: of `READ_APART`.
    """
    stemmed = tuple(name for name in languages if name in STEMMED)
    votes = count_votes(_WORD.findall(question.lower()), ("english", *stemmed))
    most = max(votes.values())
    has_han = not question.isascii() and bool(re.search(_SCRIPTS["chinese"], question))
    return tuple(name for name in languages if (has_han if name in SINGLED else votes[name] == most))


def mark_language(name: str) -> str:
    """The term that stands in the index for the language of a node's document; no text gives such a term."""
    return f"={name}"


def count_votes(words: Sequence[str], languages: tuple[str, ...]) -> dict[str, float]:
    """How many of the words are function words of each language; one of several languages counts in parts."""
    speakers = _speakers(languages)
    votes = dict.fromkeys(languages, 0.0)
    for word, times in Counter(words).items():
        for name in speakers.get(word, ()):
            votes[name] += times / len(speakers[word])
    return votes


@cache
def _speakers(languages: tuple[str, ...]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in languages:
        for word in STOP_WORDS[name]:
            found.setdefault(word, []).append(name)
    return found
