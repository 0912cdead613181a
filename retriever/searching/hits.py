"""Candidates become hits: their texts, snippets and citations, and why each is one.

The reasons are for people: the question's words in the section, and what else brought it in. The numbers behind them
are in the hit's evidence.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING

from pageindex.node import MAX_TERM_WORDS, Node, Span, UnitKind
from pageindex.text import FENCES
from retriever.display import RELATIONS, find_highlights
from retriever.embedding.encoder import can_read
from retriever.errors import EncoderError
from retriever.indexing.request import FolderAccess
from retriever.lexical.sections import (
    SEARCHED_FIELDS,
    cut_days,
    find_days,
    find_reader,
    is_status,
    mark_property,
    tokenize_properties,
)
from retriever.lexical.tokens import tokenize, tokenize_unit
from retriever.places.view import View
from retriever.query import FollowUp
from retriever.searching.citations import Anchors
from retriever.searching.confidence import weigh_reading
from retriever.searching.passage import (
    BY_MEANING,
    BY_RANK,
    Asked,
    ScoredUnits,
    as_sentence,
    find_passage,
    holds,
    join,
    measure_words,
    score_node,
)
from retriever.searching.queries import ExpandedQuery
from retriever.searching.question_words import read_kind
from retriever.settings import Profile
from retriever.store import reading
from retriever.text import SNIPPET_CHARS, cut
from retriever.trace import Recorder
from retriever.types import Candidate, Hit, Source, StageName

if TYPE_CHECKING:
    from retriever.embedding.onnx import PassageReader

MAX_TITLE_CHARS = 60
COPIES_SHOWN = 3  # files that a hit names as its copies
ANSWERED_FROM = 5  # hits that the verdict and a short answer are made of, however many are shown
READ_OF_FIRST = 4  # units of the first section, for the reader; of each further one half as many, at least one
# Of the question's words, by their rarity, in a hit that is raised; .25 to .4 do as well. Where it has fewer, the two
# searches know more than the lines: a question in other words than a large documentation's is near to many of them.
LEAST_ASKED = 0.3
MAX_UNIT_CHARS = 900  # of one: it reads 160 tokens


def build_hits(
    view: View,
    rows: "HitRows",
    expanded: ExpandedQuery,
    words: Collection[str],
    profile: Profile,
    reader: "PassageReader | None",
    recorder: Recorder,
) -> tuple[Hit, ...]:
    """Return the hits of candidates, whose rows `read_rows` has read, in their order; what reads best may come first.

    `words` are those of the question, as BM25 reads them. A reader reads the best units of the first sections, and the
    recorder learns how well the best of them reads.
    """
    question, asked = expanded.question, read_asked(view, expanded, words)
    matched = {item.node_id: find_matched_fields(view, rows, item.node_id, words) for item in rows.candidates}
    scored = score_sections(view, rows, matched, asked)
    if reader:
        scored |= read_first(rows, profile.read_passages, scored, asked, reader, question, recorder)
    hits = []
    for candidate in rows.candidates:
        node, key = rows.nodes[candidate.node_id], rows.keys[candidate.node_id]
        assert node.body_span is not None, "only nodes with lines are ranked"
        # The file may have changed since it was indexed: what is cited is where the text stands now.
        cited = rows.anchors.cite(key, node.id, node.body_span, node.body or node.text)
        passage = find_passage(node, asked, scored[node.id], find_matched(candidate))
        text = cut_to_lines(node, passage.span, profile.final_text_chars, passage.sentence)
        looked_through = [" ".join(node.titles), *(unit.in_full for unit in node.units)]
        hits.append(
            Hit(
                rank=0,
                **cited.place,
                passage=passage.span.shift(cited.span.first - node.body_span.first),
                title=node.title,
                breadcrumb=node.breadcrumb,
                snippet=cut(" ".join((passage.sentence or node.summary).split()), SNIPPET_CHARS),
                summary=cut(node.summary, profile.final_summary_chars),
                text=text,
                text_cut=text != node.body,
                score=candidate.score,
                scale=candidate.scale or "rrf",
                evidence=candidate.evidence,
                matched_fields=tuple(dict.fromkeys((*matched[node.id], *find_statuses(view, rows, node.id)))),
                words=find_question_words(question, words, looked_through, asked.languages),
                reasons=list_reasons(candidate, rows.titles),
                sentence=passage.sentence,
                verbatim=tuple(list_verbatim(node, passage.span)),
                reading_score=score_reading(scored[node.id], candidate, rows.candidates[0]),
            )
        )
    raised = put_best_first(hits)
    # Names, what is held as written, a reranker, and the texts that a model wrote to search with know the order better.
    if (
        raised
        and hits[0].evidence[0].source in (Source.SEMANTIC, Source.KEYWORD)
        and not recorder.expansion
        and measure_words(" ".join(raised[0].words), asked) >= LEAST_ASKED * sum(asked.rarity.values())
    ):
        hits = raised
    return tuple(replace(hit, rank=rank) for rank, hit in enumerate(hits, 1))


def read_asked(view: View, expanded: ExpandedQuery, words: Collection[str]) -> Asked:
    """Return what lines are chosen by: the question's words, of a follow-up the new ones, if it has any.

    Words of the questions before find the section alone.
    """
    follow_up, languages = expanded.follow_up or FollowUp(expanded.question), view.lexical.languages
    rarity = {word: term.rarity for word, term in view.lexical.describe(words).items()}
    old = tokenize(" ".join(follow_up.words), languages)
    new = {word: weight for word, weight in rarity.items() if word not in old}
    return Asked(read_kind(expanded.question, follow_up.before), new or rarity, languages)


@dataclass(frozen=True)
class HitRows:
    """The rows of the candidates that become hits."""

    candidates: Sequence[Candidate]
    """Best first, as many as become hits."""
    keys: Mapping[str, int]
    """Of their documents, by node id."""
    nodes: Mapping[str, Node]
    """They, with their texts."""
    fields: Mapping[int, Sequence[tuple[str, str]]]
    """The front matter of a document, by its key."""
    titles: Mapping[str, str]
    """Of the sections that brought some of them in, by node id."""
    anchors: Anchors


def read_rows(view: View, candidates: Sequence[Candidate], profile: Profile, access: FolderAccess) -> HitRows:
    """Read what the hits of the first candidates are made of, at least ANSWERED_FROM.

    Which lines they have is looked up in the files that `access` allows.
    """
    candidates = candidates[: max(profile.top_k, ANSWERED_FROM)]
    beside = {item.via.node_id for candidate in candidates for item in candidate.evidence if item.via}
    view.tree.load_nodes([*(candidate.node_id for candidate in candidates), *beside])
    titles = {node_id: view.tree.node(node_id).title for node_id in beside}
    keys = {item.node_id: view.tree.document_key(item.node_id) for item in candidates}
    anchors = Anchors(view.connection, set(keys.values()), access)
    nodes = view.tree.read(keys)
    fields = reading.fields(view.connection, set(keys.values()))
    return HitRows(candidates, keys, nodes, fields, titles, anchors)


def score_sections(
    view: View, rows: HitRows, matched: Mapping[str, Sequence[tuple[str, str]]], asked: Asked
) -> dict[str, ScoredUnits]:
    """Return the units of each candidate, and of its properties asked for, with their scores by words and shape."""
    documents = rows.anchors.documents
    files = view.tree.read(document.name for document in documents.values())
    scored = {}
    for node_id, fields in matched.items():
        file = files[documents[rows.keys[node_id]].name]
        # Without what is searched as text, and sentences that say what the file is about (`description: ...`).
        named = {key for key, value in fields if key not in SEARCHED_FIELDS and len(value.split()) <= MAX_TERM_WORDS}
        properties = [unit for unit in file.units if unit.kind is UnitKind.FIELD and unit.term.lower() in named]
        scored[node_id] = score_node(rows.nodes[node_id], asked, properties)
    return scored


def find_matched(candidate: Candidate) -> Span | None:
    """Return the lines of the chunk that was found of a candidate, if one was."""
    return next((item.matched for item in candidate.evidence if item.matched), None)


def read_first(
    rows: HitRows,
    count: int,
    scored: Mapping[str, ScoredUnits],
    asked: Asked,
    reader: "PassageReader",
    question: str,
    recorder: Recorder,
) -> dict[str, ScoredUnits]:
    """Return the units of the first candidates with what is read of the best of each; the best counts for the verdict.

    For the verdict the reader reads the rewordings too that were searched with: they ask in words that documents use.
    Where it knows too little of the question's script, or cannot be used, nothing is read, and the recorder has why.
    """
    places = {
        item.node_id: scored[item.node_id].choose_read(max(1, READ_OF_FIRST >> number), find_matched(item), asked)
        for number, item in enumerate(rows.candidates[:count])
    }
    texts = [
        (rows.nodes[node_id].titles, as_sentence(scored[node_id].units[place])[:MAX_UNIT_CHARS])
        for node_id, own in places.items()
        for place in own
    ]
    if not texts:
        return {}
    with recorder.stage(StageName.READ) as note:
        if not can_read(reader.encoder, question):
            note.skip("the reader knows other letters")
            return {}
        if " " not in question.strip() and recorder.signals.form != "unspaced":
            note.skip("a word alone asks nothing")
            return {}
        try:
            readings = reader.read(question, texts)
            rewordings = recorder.expansion.rewordings if recorder.expansion else ()
            reworded = [reading for text in rewordings for reading in reader.read(text, texts)]
        except EncoderError as error:
            recorder.degrade(StageName.READ, error)
            note.skip()
            return {}
        best = max(map(weigh_reading, (*readings, *reworded)))
        recorder.signals = replace(recorder.signals, reading=best)
        note.text = f"{len(readings)} units, the best {best:.1f}"
    read = iter(readings)
    return {
        node_id: scored[node_id].add_readings(own, islice(read, len(own))) for node_id, own in places.items() if own
    }


def lacks_day(question: str, rows: HitRows) -> bool:
    """Return whether a question has a day or a year that none of the first sections has, nor their front matter.

    >>> from pageindex.document import parse_document
    >>> node = parse_document("a.md", "On 2.11.1987 we met; see 2020.").nodes[0].node
    >>> fields = {1: [("date", "1999-05-01")]}
    >>> rows = HitRows([Candidate("a.md", 1.0, ())], {"a.md": 1}, {"a.md": node}, fields, {}, None)
    >>> [lacks_day(text, rows) for text in ("who met in November 1987?", "in 2020?", "in May 1999?", "port 8080")]
    [False, False, False, False]
    >>> lacks_day("who met in 1988?", rows), lacks_day("what was said in 1987 and in 1988?", rows)
    (True, True)
    """
    asked = [day for day in cut_days(question) if "" < day < "2100"]  # a larger number is a port, or a sum
    if not asked:
        return False
    shown = " ".join(
        f"{node.path} {node.breadcrumb} {node.title} {node.text} {rows.fields.get(rows.keys[node.id])}"
        for node in (rows.nodes[item.node_id] for item in rows.candidates[:ANSWERED_FROM])
    )
    days = find_days(shown)
    return not all(day in shown or any(own.startswith(day) for own in days) for day in asked)


def score_reading(scored: ScoredUnits, candidate: Candidate, first: Candidate) -> float | None:
    """Return how well a section's best unit reads, and how near the section is, by rank and meaning; None unread.

    >>> from retriever.types import Evidence
    >>> near = Evidence(Source.SEMANTIC, 1, 0.5, "cosine", 0.02)
    >>> first, half_as_good = Candidate("a", 0.04, ()), Candidate("b", 0.02, (near,))
    >>> score_reading(ScoredUnits((), [4.0, 5.0], is_read=True), half_as_good, first)  # 5 + 4 / 2 + 6 * .5
    10.0
    """
    if not scored.is_read:
        return None
    share = candidate.score / (first.score or 1.0)  # a reranker's may be 0
    cosine = sum(item.score for item in candidate.evidence if item.source is Source.SEMANTIC)  # of one, or none
    return max(scored.scores) + BY_RANK * share + BY_MEANING * cosine


def put_best_first(hits: Sequence[Hit]) -> list[Hit]:
    """Return hits with the one first whose lines read best, the others in their order; all so where none was read.

    >>> from types import SimpleNamespace
    >>> put_best_first([SimpleNamespace(reading_score=score) for score in (4.0, None, 5.0)])[0].reading_score
    5.0
    """
    best = max((hit.reading_score for hit in hits if hit.reading_score is not None), default=None)
    return sorted(hits, key=lambda hit: hit.reading_score != best)


def find_matched_fields(view: View, rows: HitRows, node_id: str, words: Collection[str]) -> tuple[tuple[str, str], ...]:
    """Return what of a document's front matter the question names, where the section is searched by it."""
    node, fields = rows.nodes[node_id], rows.fields.get(rows.keys[node_id], ())
    if not fields or find_reader(view.tree.sections(rows.keys[node_id])).id != node_id:
        return ()
    # Single letters, as the `e` of `eSIM`, stand in hashes; the title is shown anyway.
    telling = {word for word in words if len(word) > 1}
    asked = telling.difference(tokenize("\n".join(node.titles)))
    return tuple(
        (key, value)
        for key, value in fields
        if (key in SEARCHED_FIELDS and not set(words).isdisjoint(tokenize(value)))
        or asked.intersection(tokenize_properties([(key, value)]))
    )


def find_statuses(view: View, rows: HitRows, node_id: str) -> list[tuple[str, str]]:
    """Return what the front matter says of how far a document holds, which stands beside each of its sections.

    What more than half of all documents have tells none apart.
    """
    fields = [field for field in rows.fields.get(rows.keys[node_id], ()) if is_status(*field)]
    held = [len(view.lexical.find_holding([*map(mark_property, tokenize(value))])) for _, value in fields]
    documents = (view.whole or view).counts.documents  # not those of a scope: the terms are of all, too
    return [field for field, count in zip(fields, held, strict=True) if not 2 * count > documents > 1]


def cut_to_lines(node: Node, span: Span | None, max_chars: int, sentence: str = "") -> str:
    r"""Cut a section's text to `max_chars`: from its beginning, or from some lines of it that would be cut off.

    Far in a long line, as of a transcript, it is the sentence and what follows it.

    >>> from pageindex.document import parse_document
    >>> node = parse_document("a.md", "# Talk\n\nGood morning to all. The oven is hot. Thank you.").nodes[-1].node
    >>> cut_to_lines(node, None, 25), cut_to_lines(node, None, 25, "The oven is hot.")
    ('# Talk\n\nGood morning to…', '…The oven is hot. Thank…')
    """
    lines, place = node.body.split("\n"), 0
    begin = node.body.find(sentence)
    before = begin - node.body.rfind("\n", 0, begin) - 1  # in its line
    if before > 0 and before + len(sentence) > max_chars:
        return cut(f"…{node.body[begin:]}", max_chars)
    if span and node.body_span:
        place = max(0, span.first - node.body_span.first)
        if len("\n".join(lines[: place + len(span)])) <= max_chars:
            place = 0
    # Without what opens it, code would be read as text, and a row without the names of its columns.
    opening = (find_opening(lines, place) or ["…"]) if place else []
    return cut("\n".join([*opening, *lines[place:]]), max_chars)


def list_verbatim(node: Node, span: Span) -> list[str]:
    r"""Return the lines of a passage with code or a table as they are written, without fences; none of prose.

    A row comes below the names of its columns.

    >>> from pageindex.document import parse_document
    >>> text = "Run:\n\n~~~sh\npump stop\n~~~\n\n> Off.\n\n| pump | state |\n|---|---|\n| old | off |\n| new | on |"
    >>> node = parse_document("a.md", text).nodes[0].node
    >>> [list_verbatim(node, span) for span in (Span(1, 5), Span(12, 12), Span(7, 7), Span(6, 6))]
    [['Run:', 'pump stop'], ['| pump | state |', '| new | on |'], [], []]
    """
    units = [unit for unit in node.units if unit.kind is not UnitKind.FIELD and holds(span, unit.span)]
    if node.span is None or not units:
        return []
    lines, shown = node.text.split("\n"), join([unit.span for unit in units])
    start, end = shown.first - node.span.first, shown.last - node.span.first + 1
    written = [*find_opening(lines, start)[:1], *lines[start:end]]
    marks = [line.lstrip(" \t>") for line in written]
    if not any(unit.kind is UnitKind.CODE for unit in units) and not any(mark.startswith("|") for mark in marks):
        return []
    return [line for line, mark in zip(written, marks, strict=True) if mark.strip(" |") and not mark.startswith(FENCES)]


def find_opening(lines: Sequence[str], place: int) -> Sequence[str]:
    """Return what opens the block that a line goes on with: a fence, a table's header; or nothing.

    >>> find_opening(["````md", "```", "not the end", "```", "the code"], 4)
    ['````md']
    >>> find_opening(["```sh", "row", "``` no", "wait"], 3), find_opening(["```sh", "row", "```", "text"], 3)
    (['```sh'], [])
    >>> find_opening(["Boats:", "| boat |", "|---|", "| gig |", "| skiff |"], 4), find_opening(["| boat |", "|---|"], 1)
    (['| boat |', '|---|'], ['| boat |'])
    """
    fence = opened = ""
    for line in lines[:place]:
        mark = line.lstrip(" \t>")
        if not fence and mark.startswith(FENCES):
            opened, fence = line, mark[:1] * (len(mark) - len(mark.lstrip(mark[0])))
        elif fence and mark.startswith(fence) and not mark.strip(f"{fence[0]} \t"):
            fence = ""
    if fence:
        return [opened]
    top = place
    while top and lines[top].lstrip().startswith("|") and lines[top - 1].lstrip().startswith("|"):
        top -= 1
    return lines[top : min(top + 2, place)]


# Why a section is a hit.


def find_question_words(
    question: str, stems: Collection[str], texts: Sequence[str], languages: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Return the question's words that a section has, as the question writes them; neighbors there are one phrase.

    Args:
        question: as it is searched for.
        stems: its words as BM25 reads them.
        texts: of the section, its titles first.
        languages: that both are read in beside English.
    """
    held = frozenset(stems).intersection(chain.from_iterable(tokenize_unit(text, languages) for text in texts))
    return tuple(dict.fromkeys(question[start:end] for start, end in find_highlights(question, held, languages)))


def list_reasons(candidate: Candidate, titles: Mapping[str, str]) -> tuple[str, ...]:
    """List what speaks for a hit besides the question's words in it, as clauses, the largest share first.

    Args:
        candidate: that becomes the hit.
        titles: of the sections that brought others in, by node id.

    >>> from retriever.types import Evidence
    >>> found = Evidence(Source.NAME, 1, 1.0, "", 0.03, note="by name"), Evidence(Source.SEMANTIC, 2, 0.5, "", 0.01)
    >>> list_reasons(Candidate("a.md#oven", 0.04, found, copies=("a.md#oven-1", "b.md", "c.md", "d.md", "e.md")), {})
    ('found by name', 'near in meaning', 'the same in b.md, c.md, d.md and 1 more')
    """
    reasons: dict[str, None] = {}
    for item in candidate.evidence:
        match item.source:
            case Source.SEMANTIC:
                reasons["nearest in meaning" if item.rank == 1 else "near in meaning"] = None
            case Source.NEIGHBORS if item.via is not None:
                title = titles.get(item.via.node_id) or item.via.node_id
                reasons[f'{RELATIONS[item.via.kind]} "{cut(title, MAX_TITLE_CHARS)}"'] = None
            case Source.NAME:
                reasons[f"found {item.note}"] = None
            case Source.RERANK:
                reasons["chosen by the model that reads the candidates"] = None
    _, *files = dict.fromkeys(item.partition("#")[0] for item in (candidate.node_id, *candidate.copies))
    if files:
        more = f" and {len(files) - COPIES_SHOWN} more" if len(files) > COPIES_SHOWN else ""
        reasons[f"the same in {', '.join(files[:COPIES_SHOWN])}{more}"] = None
    return tuple(reasons)
