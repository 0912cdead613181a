"""The sentences of a short answer: those of a model that hold in the lines they cite, and those of the documents. Pure.

A model may be wrong, and a document may tell it what to write. So a sentence is taken only with words copied from a
block, and only where its names, its numbers and most of its other words stand in the lines around these words. Whole
sentences with one number or a `not` changed are near neighbors, so no vector of a sentence can tell whether one says
what another says. Of each language only closed classes of words are known (`closed_words.yaml`). benchmarks/checks.py
measures what passes.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache, cached_property
from itertools import combinations, pairwise
from pathlib import Path

import yaml

from pageindex.blocks import BlockKind, read_blocks
from pageindex.node import Span
from pageindex.text import find_sentences, split_sentences
from pageindex.units import show_block
from retriever.answering.context import Piece
from retriever.embedding import bundled_encoder
from retriever.expansion import QUESTION_MARKS
from retriever.lexical.tokens import is_unspaced, tokenize
from retriever.searching.confidence import READS_NOTHING, weigh_reading
from retriever.searching.hits import put_best_first
from retriever.searching.passage import join
from retriever.searching.question_words import QuestionKind, read_kind
from retriever.settings import EncoderSettings
from retriever.types import CitedSentence, DroppedSentence, Hit

MAX_CHARS = 400  # of a sentence
LEAST_QUOTED = 3  # words: any text holds shorter ones; of a script without spaces, as many characters
MAX_EXTRACTED = 3
LEAST_SCORE = 0.85  # of the highest score: 2.0 sentences an answer in place of 2.9, and hardly a right one fewer
REPEATED = 0.7  # of the terms of the shorter one of two sentences

_SIGNS = "_./\\:@#="  # inside of a name
# A word, or where a link leads to.
_WORD = re.compile(r"\]\([^()\s]*(?:\s+\"[^\"\n]*\")?\)|\]\[[^\[\]\n]*\]|([^\W_]+)")
# Of a block, as models cite one; numbers from 100 on are values.
_MARKER = re.compile(r"\s*\[\d{1,2}(?:\s*,\s*\d{1,2})*\]")


def check_sentence(
    text: str,
    number: int,
    quote: str,
    blocks: Sequence[Piece],
    question: str = "",
    languages: tuple[str, ...] = (),
) -> CitedSentence | DroppedSentence:
    """Return a model's sentence with the lines that it cites, or why it is dropped.

    Args:
        text: the sentence.
        number: the block that it cites, from 1.
        quote: words that are copied from there.
        blocks: what the model was given.
        question: words of it may stand in the sentence, though in no line.
        languages: that the texts are read in beside English.
    """
    text = read_sentence(text)
    if flaw := find_flaw(text, number, blocks, languages):
        return DroppedSentence(text[:MAX_CHARS], flaw)
    block = blocks[number - 1]
    place = find_quote(quote, block.text)
    if place is None:
        return DroppedSentence(text, f"the words that it quotes do not stand in {block.citation}")
    if is_code(block.text, place[0]):
        return DroppedSentence(text, "it quotes code")
    span = find_cited_lines(block, *place)
    sentence, paragraph = read_around(block, span, *place)
    where = f"{block.cited_as or block.file}:{span}"
    titles = "\n".join(block.titles)
    terms = set(tokenize("\n".join((sentence, titles, paragraph)), languages))
    before = "\n".join((titles, paragraph, question))
    for part in split_sentences(text):
        names = {name: tokenize(name, languages) for name in find_names(part, block.text, languages)}
        lost = [name for name, words in names.items() if not terms.issuperset(words) or not (words or name in sentence)]
        if lost:
            return DroppedSentence(text, f"the name {lost[0]} does not stand in {where}")
        if conflict := find_conflict(part, sentence, before, languages):
            return DroppedSentence(text, f"{where} does not say so: {conflict}")
    if question and not languages and not reads_as_answer(text, block.titles, question):
        return DroppedSentence(text, "it does not answer the question")
    return CitedSentence(text, block.text[place[0] : place[1]], **block.place | {"span": span})


def find_flaw(text: str, number: int, blocks: Sequence[Piece], languages: tuple[str, ...]) -> str:
    """Return why a text is no sentence about the block of this number; empty if it may be one.

    >>> block = Piece(("Mail",), "Letters.", 1, Span(1, 1), node_id="", folder="", file="", span=Span(1, 1))
    >>> find_flaw("A stamp pays.", 1, [block], ()), find_flaw("a" * 400, 1, [block], ())
    ('', '')
    >>> [find_flaw(text, number, [block], ()) for text, number in (("a" * 401, 1), ("Yes.", 0), ("Yes.", 2))]
    ['it has 401 characters', 'there is no block 0', 'there is no block 2']
    >>> find_flaw("A stamp?", 1, [block], ()), find_flaw("The mail.", 1, [block], ())
    ('it is a question', 'it says no more than the titles')
    """
    if not text or len(text) > MAX_CHARS:
        return f"it has {len(text):,} characters"
    if not 1 <= number <= len(blocks):
        return f"there is no block {number}"
    if text.endswith(QUESTION_MARKS):
        return "it is a question"
    titles = " ".join(blocks[number - 1].titles)
    says_more = set(tokenize(text, languages)) - set(tokenize(titles, languages))
    return "" if says_more else "it says no more than the titles"


def read_sentence(text: str) -> str:
    """Return what a model wrote as a page shows it, without the numbers of blocks.

    >>> read_sentence("See **the `x`** in [a file](a.md) [1].")
    'See the x in a file.'
    """
    text = " ".join(_MARKER.sub("", text).split())
    # Else `__init__` would be a bold word.
    return text if "__" in text else " ".join(map(show_block, read_blocks(text)))


def find_quote(quote: str, text: str) -> tuple[int, int] | None:
    """Return where a text has the words of a quote one after another, as (start, end), whatever is between them.

    None where they do not stand there, or are too few to say anything.

    >>> find_quote("one TWO three", "Not one [two](file.md), three"), find_quote("file md one", "[a](file.md) one")
    ((4, 29), None)
    >>> find_quote("the oven", "in the oven"), find_quote("日本語", "日本語")
    (None, (0, 3))
    """
    sought = [word for word, _, _ in _list_words(quote)]
    if len(sought) < LEAST_QUOTED and sum(map(is_unspaced, "".join(sought))) < LEAST_QUOTED:
        return None
    words = list(_list_words(text))
    folded = [word for word, _, _ in words]
    for first in range(len(words)):
        last = first + len(sought)
        if folded[first:last] == sought:
            return words[first][1], words[last - 1][2]
    return None


def is_code(text: str, place: int) -> bool:
    r"""Return whether a place of a text is in a block of code.

    >>> text = "Above.\n\n~~~\nrow\n~~~\n\nBelow.\n"
    >>> [is_code(text, text.index(word)) for word in ("Above", "row", "Below")]
    [False, True, False]
    """
    line = text.count("\n", 0, place) + 1
    codes = (block for top in read_blocks(text) for block in top.walk() if block.kind is BlockKind.CODE)
    return any(block.first <= line <= block.last for block in codes)


def reads_as_answer(text: str, titles: Sequence[str], question: str) -> bool:
    """Return whether an English sentence answers a question, as the reader judges lines for the verdict."""
    from retriever.embedding.onnx import open_reader

    (reading,) = open_reader(bundled_encoder(EncoderSettings())).read(question, [(titles, text)])
    return weigh_reading(reading) >= READS_NOTHING


def _list_words(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield each word, folded, with its start and end; where links lead to is not read."""
    for match in _WORD.finditer(text):
        if match[1]:
            yield unicodedata.normalize("NFKC", match[1]).casefold(), *match.span()


def find_cited_lines(block: Piece, start: int, end: int) -> Span:
    r"""Return the lines of the paragraphs, items or rows that a part of a block is in.

    >>> text, units = "# Mail\n\nOne is\nhere. Two.\n\nThree.\n", (Span(12, 13), Span(15, 15))
    >>> block = Piece((), text, 1, Span(12, 12), units, node_id="", folder="", file="", span=Span(10, 15))
    >>> starts = [text.index(word) for word in ("One", "Three", "Mail")]
    >>> [str(find_cited_lines(block, start, start + 3)) for start in starts]
    ['12-13', '15', '10']
    """
    first, last = (block.span.first + block.text.count("\n", 0, place) for place in (start, end))
    span = join([Span(first, last), *(own for own in block.unit_spans if own.overlap(Span(first, last)))])
    return Span(max(span.first, block.span.first), min(span.last, block.span.last))


def read_around(block: Piece, span: Span, start: int, end: int) -> tuple[str, str]:
    r"""Return the sentences of some lines that a part of the block is in, and what stands above in the paragraph.

    Of a table it is the row, below the names of its columns.

    >>> text = "# Mail\n\nOne. Two is\nhere. Three. Four.\n"
    >>> block = Piece((), text, 1, Span(10, 13), node_id="", folder="", file="", span=Span(10, 13))
    >>> read_around(block, Span(12, 13), text.index("here"), text.index("Three") + 3)
    (' Two is\nhere. Three.', 'One.')
    """
    cited = "\n".join(block.lines(span))
    if header := block.find_header(span.first):
        return "\n".join([block.lines(header)[0], cited]), ""
    offset = block.text.rindex(cited, 0, start + len(cited))
    parts = [(offset + first, offset + last) for first, last in find_sentences(cited)]
    parts = [part for part in parts if part[0] < end and start < part[1]]
    first = parts[0][0]
    return block.text[first : parts[-1][1]], block.text[:first].rpartition("\n\n")[2]


def find_names(text: str, block: str, languages: tuple[str, ...]) -> Iterator[str]:
    """Yield the words of a sentence that may be names: with a capital, a sign or a digit inside.

    A first word with no more than a capital is one where the block writes it so too.

    >>> list(find_names("The mail has 3 kg of try_recv() and \u201ceBay\u201d, in May.", "In the mail", ()))
    ['try_recv', 'eBay', 'May']
    >>> list(find_names("Stamps pay.", "of Stamps", ())), list(find_names("Stamps pay.", "of stamps", ()))
    (['Stamps'], [])
    """
    for number, word in enumerate(text.split()):
        name = word.strip(".,;:!?()[]{}\"'`*\u201c\u201d\u2018\u2019\u00ab\u00bb\u2026")
        is_plain = not number and name == name.capitalize() and not (f" {name}" in block and tokenize(name, languages))
        has_sign = any(sign.isupper() or sign.isdigit() for sign in name) or any(sign in _SIGNS for sign in name[1:-1])
        is_name = any(map(str.isalpha, name)) and name.casefold() not in UNITS  # a number may be written otherwise
        if is_name and has_sign and not is_plain:
            yield name


def choose_sentences(hits: Sequence[Hit], question: str = "") -> tuple[CitedSentence, ...]:
    """Return the sentences of the first hits that answer, as the documents say them, the likeliest first.

    From each hit what its passage shows; not its title.
    The likeliest is that of the section whose lines read best; without a reading, the best hit's. Of a difference,
    what has a word of the question which the sentences above lack is the other side.
    """
    is_difference, held = read_kind(question) is QuestionKind.DIFFERENCE, set[str]()
    chosen: list[CitedSentence] = []
    for hit in put_best_first(hits):
        words = set(tokenize(f"{hit.title} {hit.sentence}")).intersection(tokenize(question))
        has_side = is_difference and not held.issuperset(words)
        is_near = not chosen or has_side or hit.score >= LEAST_SCORE * max(other.score for other in hits)
        text = hit.sentence
        if text not in ("", hit.title) and is_near and not repeats(text, chosen):
            held |= words
            chosen.append(CitedSentence(text, text, **hit.place | {"span": hit.passage}))
    return tuple(chosen[:MAX_EXTRACTED])


def repeats(text: str, others: Iterable[CitedSentence]) -> bool:
    """Return whether a sentence says nearly what one of the others says, by its words.

    >>> others = [CitedSentence("Stamps pay.", "", node_id="", folder="", file="", span=Span(1, 1))]
    >>> [repeats(text, others) for text in ("A stamp pays for letters.", "Bread rises.", "It is.")]
    [True, False, False]
    """
    words = set(tokenize(text))
    known = [set(tokenize(other.text)) for other in others]
    return any(len(words & other) >= REPEATED * min(len(words), len(other)) > 0 for other in known)


# Whether a sentence says what the cited one says: its numbers, yes and no, its words and their places.

_KNOWN = yaml.safe_load(Path(__file__).with_name("closed_words.yaml").read_text(encoding="utf-8"))
UNITS = {
    unit: (kind, float(factor))
    for kind, factors in _KNOWN["units"].items()
    for factor, units in factors.items()
    for unit in units.split()
}
NEAR_WORD = 0.5  # of two words' vectors: `purchase` and `buy` have .89, `resigned` and `opposed` .30
ALIKE = 0.65  # of their letters: `lends` and `lent` have .67
NEW_SHARE = 1 / 3  # of the words of a sentence, where some texts are in languages that the bundled encoder cannot read

END = "."  # of a clause
_TOKEN = re.compile(r"\d+(?:[.,:]\d+)*|[^\W\d_]+(?:['.][^\W\d_]+)*|[%.,;:!?()|\u2013\u2014\u3002\uff0c\uff1b]")


@cache
def load_words(languages: tuple[str, ...]) -> Mapping[str, str | float]:
    """Return what the closed words of English and some other languages mean: `not`, `more`, `less`, `light`, 12."""
    found: dict[str, str | float] = {}
    for name in ("english", *languages):
        for meaning, words in _KNOWN.get(name, {}).items():
            found |= words if meaning == "numbers" else dict.fromkeys(words.split(", "), meaning)
    return dict(sorted(found.items(), key=lambda item: -len(item[0])))


@dataclass(frozen=True)
class Reading:
    """A text and what is read of it."""

    text: str
    languages: tuple[str, ...] = ()  # beside English

    @cached_property
    def tokens(self) -> list[str]:
        """Words and numbers in lower case, and the ends of clauses."""
        text = unicodedata.normalize("NFKC", self.text).replace("\u2019", "'").casefold()
        return [token if token[0].isalnum() or token == "%" else END for token in _TOKEN.findall(text)]

    @cached_property
    def words(self) -> list[str]:
        return [token for token in self.tokens if token != END]

    @cached_property
    def shape(self) -> list[str]:
        """Its stems, with the other words and the ends of clauses."""
        return [END, *(self.terms.get(token, token) for token in self.tokens), END]

    @cached_property
    def clauses(self) -> "list[Reading]":
        parts = " ".join(self.tokens).split(END + " ")
        return [Reading(part, self.languages) for part in parts if part.strip(" .")]

    @cached_property
    def terms(self) -> dict[str, str]:
        """The words that say something, and the stem of each; numbers aside."""
        known = load_words(self.languages)
        found = {word: tokenize(word, self.languages) for word in self.words if word not in known}
        return {word: terms[-1] for word, terms in found.items() if terms and not word[0].isdecimal()}

    @cached_property
    def stems(self) -> frozenset[str]:
        return frozenset(self.terms.values())

    @cached_property
    def marks(self) -> frozenset[str | float]:
        """Whether it says `not`, and which sides of bounds: `more`, `less`.

        >>> sorted(Reading("no dogs, at most 5 cats").marks), sorted(Reading("at least 5").marks)
        (['less', 'not'], ['more'])
        """
        text, found = f" {' '.join(self.words)} ", set()
        for phrase, meaning in load_words(self.languages).items():
            sought = phrase if is_unspaced(phrase[0]) else f" {phrase} "
            if meaning in ("not", "more", "less") and sought in text:
                found.add(meaning)
                text = text.replace(sought, " ")
        return frozenset(found)

    @cached_property
    def quantities(self) -> list[tuple[str, str, float]]:
        """Its numbers: as written, their kind, and their value in base units.

        >>> Reading("one and a half hours, 1,840 euros").quantities
        [('half', 'time', 5400.0), ('1,840', '', 1840.0)]
        >>> Reading("one box, 3 heavy kilograms, 20 %").quantities
        [('3', '', 3.0), ('20', '', 0.2)]
        """
        known = load_words(self.languages)
        found: list[tuple[str, str, float]] = []
        is_open = False  # whether a fraction or a unit may follow
        for word in self.words:
            value = read_number(word) if word[0].isdecimal() else known.get(word)
            if isinstance(value, int | float):
                if is_open and value < 1:
                    value += found.pop()[2]
                found.append((word, "", value))
                is_open = True
            elif is_open and word in UNITS:
                kind, factor = UNITS[word]
                found[-1] = (found[-1][0], kind, round(found[-1][2] * factor, 6))
                is_open = False
            else:
                is_open = is_open and word not in self.terms
        # `one` alone is often no number
        return [one for one in found if one[0][0].isdecimal() or one[1:] != ("", 1.0)]


def read_number(raw: str) -> float:
    """Return the value of a number; three digits behind a sign are thousands.

    >>> read_number("1,840"), read_number("1,5"), read_number("10:30")
    (1840.0, 1.5, 10.3)
    """
    head, *tail = raw.replace(",", ".").replace(":", ".").split(".")
    is_whole = head != "0" and all(len(part) == 3 for part in tail)
    return float(head + ("" if is_whole else ".") + "".join(tail))


def find_conflict(claim: str, cited: str, before: str = "", languages: tuple[str, ...] = ()) -> str:
    """Return what a sentence says otherwise than the one that it cites, in a few words; empty where it holds.

    Args:
        claim: one sentence.
        cited: the sentences that its quote stands in.
        before: titles, and what stands before in the same paragraph, for words that it refers back to.
        languages: of the texts, beside English.
    """
    said, there, around = (Reading(text, languages) for text in (claim, cited, before))
    given = {quantity[1:] for quantity in there.quantities}
    if wrong := [raw for raw, *quantity in said.quantities if tuple(quantity) not in given]:
        return f"the number {wrong[0]}"
    known = there.stems | around.stems
    new = [word for word, stem in said.terms.items() if stem not in known and word not in UNITS]
    left = [word for word, stem in there.terms.items() if stem not in said.stems]
    far = find_far(new, left)
    return (
        _compare_marks(said, there, has_opposite=len(far) < len(new))
        or _compare_places(said, there, known)
        or (f"other things ({far[0]})" if len(far) > len(said.terms) * (bool(languages) and NEW_SHARE) else "")
    )


def _compare_marks(said: Reading, there: Reading, *, has_opposite: bool) -> str:
    """Return where a clause says no, or at least, and the clause nearest to it does not."""
    asserted = {stem for clause in there.clauses if "not" not in clause.marks for stem in clause.stems}
    for part in said.clauses:
        nearest = max(there.clauses, key=lambda clause: len({*clause.shape} & {*part.shape}), default=there)
        sides = part.marks - {"not"}
        theirs = nearest.marks - {"not"} or there.marks - {"not"}
        if sides and theirs and not sides & theirs:
            return "at least or at most"
        is_denied = "not" in part.marks
        if ("not" in nearest.marks) != is_denied:
            if not has_opposite:  # `closed` and `not open`
                return "it says no, or the other way round"
        elif not is_denied and (denied := (part.stems & there.stems) - asserted):
            return f"what is denied of {min(denied)}"
    return ""


def _compare_places(said: Reading, there: Reading, known: frozenset[str]) -> str:
    """Return a word of a claim that stands where the cited sentence has another of its words."""
    joined = {pair for pair in pairwise(said.shape) if said.stems.issuperset(pair)} & {*pairwise(there.shape)}
    mine, theirs = _join(said.shape, joined), _join(there.shape, joined)
    words = {stem for stem in (*mine, *theirs) if stem in said.stems | there.stems or "_" in stem}
    pairs = {*pairwise(theirs)}
    full = {pair for pair in pairs if all(stem in words or stem[0].isdecimal() for stem in pair)}
    for left, word, right in zip(mine, mine[1:], mine[2:], strict=False):
        if word not in words:
            continue
        # A word of the text is out of place beside one that says something, a new one between any two.
        given, least = (full, 1) if word in known or "_" in word else (pairs, 2)
        fits = {stem: ((left, stem) in given) + ((stem, right) in given) for stem in words.difference(mine) | {word}}
        if not fits[word] and max(fits.values()) >= least:
            return f"{word} in place of {max(fits, key=lambda stem: (fits[stem], stem))}"
    fit = _count_common(mine, pairs)
    for one, other in combinations(sorted(words.intersection(mine, theirs)), 2):
        exchange = {one: other, other: one}
        better = _count_common([exchange.get(stem, stem) for stem in mine], pairs)
        is_apart = not {(one, other), (other, one)} & {*pairwise(mine)}
        if is_apart and better > fit and 2 * better >= len(mine) - 3:
            return f"{one} and {other} are exchanged"
    return ""


def _count_common(stems: Sequence[str], pairs: Collection[tuple[str, str]]) -> int:
    return sum(pair in pairs and END not in pair for pair in pairwise(stems))


def _join(shape: Sequence[str], joined: Collection[tuple[str, str]]) -> list[str]:
    """Return stems, the neighbors that both texts have as one: `command_line`.

    >>> _join(["the", "command", "line", "add"], {("command", "line")})
    ['the', 'command_line', 'add']
    """
    found = [shape[0]]
    for pair in pairwise(shape):
        if pair in joined:
            found[-1] += f"_{pair[1]}"
        else:
            found.append(pair[1])
    return found


def find_far(words: Sequence[str], others: Sequence[str]) -> list[str]:
    """Return the words that neither mean nearly what one of the others means, nor are written like it.

    >>> find_far(["purchase", "lent", "zebra"], ["buy", "lends"]), find_far([], ["buy"]), find_far(["buy"], [])
    (['zebra'], [], ['buy'])
    """
    if not words or not others:
        return list(words)
    vectors = bundled_encoder(EncoderSettings()).encode_documents([*words, *others])
    nearness = (vectors[: len(words)] @ vectors[len(words) :].T).max(axis=1)
    return [
        word
        for word, near in zip(words, nearness, strict=True)
        if near < NEAR_WORD and not any(SequenceMatcher(None, word[:40], one[:40]).ratio() >= ALIKE for one in others)
    ]
