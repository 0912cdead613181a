"""The sentences of a short answer: those of a model that hold in the lines they cite, and those of the documents. Pure.

A model may be wrong, and a document may tell it what to write. So a sentence is taken only with words copied from a
block, and only where its names, its numbers and most of its other words stand in the lines around these words.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence

from pageindex.formats import READERS
from pageindex.node import Span
from retriever.answering.claims import PRONOUN, find_conflict
from retriever.answering.context import Piece
from retriever.lexical.tokens import tokenize
from retriever.searching.passage import sends_elsewhere
from retriever.types import CitedSentence, DroppedSentence, Hit

MAX_CHARS = 400  # of a sentence
LEAST_QUOTED = 3  # words: any text holds shorter ones; of a script without spaces, as many characters
MAX_EXTRACTED = 3
LEAST_SCORE = 0.85  # of the best hit's score: 2.0 sentences an answer in place of 2.9, and hardly a right one fewer
REPEATED = 0.7  # of the terms of the shorter one of two sentences

_WORD = re.compile(r"[^\W_]+")
_MARKER = re.compile(r"\s*\[\d+(?:\s*,\s*\d+)*\]")  # of a citation in the text, which is given beside it
# What may follow an ending in a citation of ours; a colon of another script, and signs that nobody sees, as well.
_GAP = r"[\s*_`\u00ad\u200b-\u200f\u2060-\u2064\ufeff]*"
_LINES = rf"{_GAP}[:\uff1a\ua789\u2236\ufe55\u02d0]{_GAP}(\d+)(\s*[-\u2010-\u2015]\s*\d+)?"
_LINK_TARGET = re.compile(r"\]\([^()\s]*(?:\s+\"[^\"\n]*\")?\)|\]\[[^\[\]\n]*\]")
_SENTENCE_END = re.compile(
    r"[.!?][)\"'*_`]*\s+|[\u3002\uff01\uff1f]|\n[ \t>]*\n|\n[ \t>]*(?:[-*+]|\d{1,9}[.)])[ \t]|\|"
)


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
    text = " ".join(_MARKER.sub("", text).split())
    if not text or len(text) > MAX_CHARS:
        return DroppedSentence(text[:MAX_CHARS], f"it has {len(text):,} characters")
    if not 1 <= number <= len(blocks):
        return DroppedSentence(text, f"there is no block {number}")
    block = blocks[number - 1]
    place = find_quote(quote, block.text)
    if place is None:
        return DroppedSentence(text, f"the words that it quotes do not stand in {block.citation}")
    span, cited = find_cited_lines(block, *place)
    where = f"{block.cited_as or block.file}:{span}"
    start, end = widen_to_sentence(block.text, *place)
    # What is cited is the sentence, not its paragraph; of a table it is the row.
    sentence = cited if cited.lstrip().startswith("|") else block.text[start:end]
    titles = "\n".join(block.titles)
    paragraph = block.text[:start].rpartition("\n\n")[2]
    last = block.text[slice(*widen_to_sentence(block.text, start - 2, start - 2))] if paragraph.strip() else ""
    paragraph = paragraph if PRONOUN.search(sentence) else ""
    terms = set(tokenize("\n".join((sentence, titles, paragraph)), languages))
    if missing := [name for name in find_names(text, block.text) if not terms.issuperset(tokenize(name, languages))]:
        return DroppedSentence(text, f"the name {missing[0]} does not stand in {where}")
    before = "\n".join((titles, paragraph or last, question))
    for part in re.split(r"(?<=[.!?])\s+(?=[A-Z])", text):
        if conflict := find_conflict(part, sentence, before, languages):
            return DroppedSentence(text, f"{where} does not say so: {conflict}")
    quoted = block.text[place[0] : place[1]]
    return CitedSentence(
        text,
        quoted,
        node_id=block.node_ids[0],
        folder=block.folder,
        file=block.file,
        span=span,
        citation_state=block.citation_state,
        cited_as=block.cited_as,
    )


def disarm_citations(text: str) -> str:
    """Return a sentence in which nothing looks like one of our citations, whoever wrote it.

    A document may say `[docs/other.md:3-5]`, in a link's text for instance: nobody should take that for the lines that
    this sentence rests on. Numbers from 100 on are values: no answer has as many sections.

    >>> disarm_citations("Keys are rotated weekly [1] [docs/other.md:3-5], after [429, 503].")
    'Keys are rotated weekly (1) [docs/other.md, lines 3-5], after [429, 503].'
    """
    text = re.sub(r"\[(\d{1,2}(?:\s*,\s*\d{1,2})*)\]", r"(\1)", text)
    citation = re.compile(f"({'|'.join(map(re.escape, READERS))}){_LINES}", re.IGNORECASE)
    return citation.sub(lambda found: f"{found[1]}, line{'s' * bool(found[3])} {found[2]}{found[3] or ''}", text)


def find_quote(quote: str, text: str) -> tuple[int, int] | None:
    """Return where a text has the words of a quote one after another, as (start, end), whatever is between them.

    None where they do not, or are too few to say anything.
    """
    sought = [word for word, _, _ in _list_words(quote)]
    is_unspaced = any(ord(word[0]) >= 0x0E01 for word in sought)  # Thai, and what stands behind it in Unicode
    if len(sought) < LEAST_QUOTED and len("".join(sought)) < (LEAST_QUOTED if is_unspaced else MAX_CHARS):
        return None
    words = list(_list_words(text))
    for first in range(len(words) - len(sought) + 1):
        if all(words[first + place][0] == word for place, word in enumerate(sought)):
            return words[first][1], words[first + len(sought) - 1][2]
    return None


def _list_words(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield each word, folded, with its start and end; where links lead to is not read."""
    seen = _LINK_TARGET.sub(lambda match: " " * len(match[0]), text)
    for match in _WORD.finditer(seen):
        yield unicodedata.normalize("NFKC", match[0]).casefold(), match.start(), match.end()


def find_cited_lines(block: Piece, start: int, end: int) -> tuple[Span, str]:
    """Return the lines of the paragraphs, items or rows that a part of a block is in, and their text.

    The text of a row of a table has the table's header above it.
    """
    lines = block.text.split("\n")
    first = block.span.first + block.text.count("\n", 0, start)
    last = block.span.first + block.text.count("\n", 0, end)
    for own in block.unit_spans:
        if own.first <= last and first <= own.last:
            first, last = min(first, own.first), max(last, own.last)
    first, last = max(first, block.span.first), min(last, block.span.last)
    top = begin = first - block.span.first
    while top and lines[top].startswith("|") and lines[top - 1].startswith("|"):
        top -= 1
    return Span(first, last), "\n".join(
        [*lines[top : min(begin, top + 1)], *lines[begin : last - block.span.first + 1]]
    )


def widen_to_sentence(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the whole sentences that a part of a text is in, as (start, end)."""
    begin = max((match.end() for match in _SENTENCE_END.finditer(text, 0, start)), default=0)
    close = _SENTENCE_END.search(text, end)
    return begin, close.start() + 1 if close else len(text)


def find_names(text: str, block: str = "") -> Iterator[str]:
    """Yield the words of a sentence that may be names: with a capital, a sign or a digit inside.

    A first word with no more than a capital is one where the block writes it so too.
    """
    for number, word in enumerate(text.split()):
        name = (
            word.strip(".,;:!?()[]{}\"'`*\u201c\u201d\u2018\u2019\u00ab\u00bb\u2026")
            .removesuffix("'s")
            .removesuffix("\u2019s")
        )
        if not any(map(str.isalpha, name)) or (not number and name.istitle() and f" {name}" not in block):
            continue  # a number alone may be written otherwise
        if any(sign.isupper() or sign.isdigit() for sign in name) or re.search(r"\w[_./\\:@#=]+\w", name):
            yield name


def choose_sentences(hits: Sequence[Hit]) -> tuple[CitedSentence, ...]:
    """Return the sentences of the first hits that answer, as the documents say them, the likeliest first.

    From each hit what its passage shows, else the first sentence of its snippet; not its title, nor where to read on.
    The likeliest is that of the section whose lines read best; without a reading, the best hit's.
    """
    chosen: list[CitedSentence] = []
    read = [hit for hit in hits if hit.reading_score is not None]
    best = max(read, key=lambda hit: hit.reading_score or 0.0, default=None)
    for hit in sorted(hits, key=lambda hit: hit is not best):
        first = re.split(r"(?<=[.!?])\s", hit.snippet.removeprefix("\u2026 "), maxsplit=1)[0]  # of plain text
        text = hit.sentence or first
        is_near = not chosen or hit is best or (hit.score >= LEAST_SCORE * hits[0].score and not sends_elsewhere(text))
        text = disarm_citations(text)
        if text not in ("", hit.title) and is_near and not repeats(text, [item.text for item in chosen]):
            chosen.append(
                CitedSentence(
                    text,
                    text,
                    node_id=hit.node_id,
                    folder=hit.folder,
                    file=hit.file,
                    span=hit.passage,
                    citation_state=hit.citation_state,
                    cited_as=hit.cited_as,
                )
            )
    return tuple(chosen[:MAX_EXTRACTED])


def repeats(text: str, others: Iterable[str]) -> bool:
    """Return whether a sentence says nearly what one of the others says, by its words."""
    words = set(tokenize(text))

    def is_near(other: Collection[str]) -> bool:
        shorter = min(len(words), len(other))
        return len(words.intersection(other)) >= REPEATED * shorter > 0

    return any(is_near(set(tokenize(other))) for other in others)
