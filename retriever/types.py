"""The values that the stages hand to one another, in the order of the flow."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

from pageindex.node import Span
from retriever.query import Correction, ExpansionReport, FollowUp, SearchedScope

if TYPE_CHECKING:  # 100 ms that a command without vectors does not spend
    import numpy as np
    import numpy.typing as npt

# (n, d) float32.
FloatMatrix: TypeAlias = "npt.NDArray[np.float32]"

# (n, d) int8: vectors as an index keeps them, each of a length of its own.
WholeMatrix: TypeAlias = "npt.NDArray[np.int8]"


@dataclass(frozen=True, slots=True)
class Chunk:
    """A run of a node's own text that fits the encoder."""

    node_id: str
    span: Span
    """The lines it was cut from; a piece of one long line has that line alone."""
    text: str
    """The text for the encoder: breadcrumb and title, then a piece of the node's text. Equal texts share one vector."""


class Source(StrEnum):
    """The sources of a hit: the rankings that are fused, and the reranking."""

    SEMANTIC = "semantic"
    """The chunks whose vectors are nearest to the question's."""
    KEYWORD = "keyword"
    """The question's words, by BM25."""
    NAME = "name"
    """Sections that bear the question as title, file name or alias, or hold an identifier letter by letter."""
    NEIGHBORS = "neighbors"
    """The tree around what the others found."""
    RERANK = "rerank"
    """The language model or cross-encoder that reads the candidates."""


class RelationKind(StrEnum):
    """How a section stands to another one."""

    PARENT = "parent"
    CHILD = "child"
    SIBLING = "sibling"
    FILE = "file"
    """It is the top section of the other one's file."""


@dataclass(frozen=True, slots=True)
class Relation:
    """The way on which the tree brought a section in."""

    kind: RelationKind
    """The relation of the section to the other one."""
    node_id: str
    """The other one."""

    def __str__(self) -> str:
        """Return `parent of guide.md#install`."""
        return f"{self.kind} of {self.node_id}"


class Ranked(NamedTuple):  # which takes a third of a dataclass's time to make: a search makes hundreds
    """A node in a ranking."""

    node_id: str
    score: float
    """On the ranking's scale; higher is better."""
    evidence: float = 1.0
    """How much its source found for it, 0 to 1: the weight of its rank in the fusion."""
    matched: Span | None = None
    """The lines of the chunk that matched; None where no single chunk did."""
    via: Relation | None = None
    """The hit whose neighbor it is; None where it was found by itself."""
    note: str = ""
    """A further remark of the source, in a few words."""


@dataclass(frozen=True)
class Ranking:
    """The nodes that one source found: each once, best first, ties by node id."""

    source: Source
    scale: str
    """The scale of the scores: `cosine`, `bm25`, `decayed rrf` ..."""
    weight: float
    """Its weight in the fusion, at least 0."""
    items: tuple[Ranked, ...]


MOST_LOGIT = 6.0  # that counts, of a cross-encoder


@dataclass(frozen=True, slots=True)
class Reading:
    """How well a text answers a question, as two models read it."""

    logit: float
    """Of the cross-encoder, which reads both together: above 0, it answers."""
    interaction: float
    """Of the encoder, which reads them apart: late interaction, -1 to 1."""
    with_titles: float = 0.0
    """Late interaction with the titles above the text alone."""

    def weigh(self, by_logit: float, by_interaction: float) -> float:
        """Return the weighted sum of both; beyond MOST_LOGIT a logit says no more."""
        return by_logit * min(MOST_LOGIT, max(-MOST_LOGIT, self.logit)) + by_interaction * self.interaction


class Evidence(NamedTuple):  # as `Ranked`
    """The evidence of one source for one node."""

    source: Source
    rank: int
    """In that source's ranking, from 1."""
    score: float
    scale: str
    share: float
    """The part of the fused score that came from here; the shares of a candidate add up to its score."""
    matched: Span | None = None
    """As in `Ranked`."""
    via: Relation | None = None
    """As in `Ranked`."""
    note: str = ""
    """As in `Ranked`: `2 of 3 entities`."""


class Candidate(NamedTuple):
    """A node after the fusion."""

    node_id: str
    score: float
    evidence: tuple[Evidence, ...]
    """Largest share first."""
    scale: str = ""
    """The scale of the score; empty: that of the profile's fusion."""
    copies: tuple[str, ...] = ()
    """Other nodes with the same text."""


# `exact`: the lines cited hold what was indexed; `moved`: other lines do, and these are cited; `stale`: none do, or
# several others; `gone`: there is no such document, or it cannot be read; `unchecked`: its folder has not been named
# for this index, so it was not looked at.
CitationState: TypeAlias = Literal["exact", "moved", "stale", "gone", "unchecked"]


@dataclass(frozen=True, kw_only=True)
class Cited:
    """Lines of a file, ready to be cited."""

    node_id: str
    """Of the section that they are in."""
    folder: str
    """The indexed folder, absolute."""
    file: str
    """Relative to `folder`, with `/` on every system."""
    span: Span
    """The lines, where they stand now."""
    citation_state: CitationState = "exact"
    cited_as: str = ""
    """How its file is cited: `file`, in an index of several folders with the name of its folder before it."""

    @property
    def place(self) -> dict[str, Any]:
        """Its fields, for another value at the same place."""
        return {item.name: getattr(self, item.name) for item in fields(Cited)}

    @property
    def cited_lines(self) -> Span:
        """Those that its citation names."""
        return self.span

    @property
    def citation(self) -> str:
        """`file:first-last`, as `Retriever.read` takes it; `file:line` of one line."""
        return f"{self.cited_as or self.file}:{self.cited_lines}"


@dataclass(frozen=True, repr=False)
class Hit(Cited):
    """A section that answers."""

    rank: int
    """From 1."""
    passage: Span
    """Those of its lines that answer, as far as words tell; all of them where nothing in the section stands out."""
    title: str
    breadcrumb: tuple[str, ...]
    """Titles above it, outermost first."""
    snippet: str
    """One line that shows it: `sentence` or `summary`, at most 300 characters, with an ellipsis if cut."""
    summary: str
    """At most `final_summary_chars` characters, cut at a word with an ellipsis."""
    text: str
    """The section's own text, at most `final_text_chars` characters; from its passage on where that would not be in
    them."""
    text_cut: bool
    """Whether `text` is shorter than the section."""
    score: float
    scale: str
    """The scale of the score: `rrf` (a sum of weights / (k + rank)), `reranked` (0 to 1 and what entities add;
    docs/guide/profiles.md). Comparable within one answer only. The first hit, which may be the one that
    reads best, may have less than the second."""
    evidence: tuple[Evidence, ...]
    """Largest share first."""
    matched_fields: tuple[tuple[str, str], ...] = ()
    """(key, value) of its document's front matter that the question or a filter names: `aliases`, `tags` ..."""
    words: tuple[str, ...] = ()
    """The question's words that it has, as the question writes them; neighbors in the question are one phrase."""
    reasons: tuple[str, ...] = ()
    """Further reasons for it, in words: `near in meaning`, `beside "Install"`; the largest share first."""
    sentence: str = ""
    """The part of the passage that answers, as plain text, a list's items as lines; empty where none is shown."""
    verbatim: tuple[str, ...] = ()
    """The lines of a passage with code or a table, as they are written; empty for prose."""
    reading_score: float | None = None
    """How well that answers as it was read, beside the other hits of one answer: a logit; None where it was not."""

    @property
    def cited_lines(self) -> Span:
        """Those of the passage."""
        return self.passage

    def __repr__(self) -> str:
        return f"<Hit {self.rank}: {self.citation} {self.title!r}>"


@dataclass(frozen=True)
class Neighbour(Cited):
    """A file or a section beside another one in the tree, linked with it, or near in meaning."""

    title: str
    breadcrumb: tuple[str, ...]
    """Titles above it, outermost first."""
    summary: str
    """Its first sentences, at most about 200 characters."""
    rank: int = 1
    """Among those near in meaning, from 1."""
    similarity: float = 0.0
    """The cosine of the means of both sections' chunk vectors: about 0 for unrelated ones, 1 for equal ones."""


@dataclass(frozen=True)
class SimilarSections:
    """The sections near in meaning to a section or file."""

    node_id: str
    """The section, with all below it, or the file that was asked about."""
    file: str
    """Relative to its indexed folder."""
    title: str
    sections: tuple[Neighbour, ...]
    """Nearest first; empty where there is nothing else."""


@dataclass(frozen=True)
class IndexState:
    """The index that was searched, and how fresh it is."""

    path: str
    """The index's folder."""
    folders: tuple[str, ...]
    """The indexed folders, absolute."""
    snapshot: str
    """Another one after each change."""
    documents: int
    sections: int
    """Nodes that have lines of their own: what can be cited."""
    chunks: int
    refreshed_files: int = 0
    """Files re-indexed just before this answer."""
    stale_files: int = 0
    """Files that changed on disk and that this answer does not know yet."""
    skipped_files: int = 0
    """Files that could not be read; `status` names them."""
    unchecked_folders: int = 0
    """Folders that are not looked at: they are not there, or nobody has named them for this index."""
    embedded_share: float = 1.0
    """The share of the chunks' texts that have a vector, 0 to 1; below 1 while a first indexing goes on, or where it
    was interrupted: the others are found by words alone."""

    @property
    def fresh(self) -> bool:
        """Whether all files on disk were looked at, and none differs from what was searched."""
        return not self.stale_files and not self.unchecked_folders


class StageName(StrEnum):
    """A part of a search, as the trace and the notes of an answer name it; in the order of the flow."""

    QUESTION = "question"
    REFRESH = "refresh"
    FOLLOW_UP = "follow_up"
    EXPAND = "expand"
    EMBED = "embed"
    SEMANTIC = "semantic"
    KEYWORD = "keyword"
    NAME = "name"
    NEIGHBORS = "neighbors"
    FUSE = "fuse"
    RERANK = "rerank"
    HITS = "hits"
    READ = "read"
    ANSWER = "answer"


@dataclass(frozen=True)
class Stage:
    """One step of a search, timed."""

    name: StageName
    milliseconds: float
    note: str
    """Its result, or why it was skipped, in a few words."""
    skipped: bool = False
    """Whether it was switched off, or had nothing to do."""


@dataclass(frozen=True)
class Degradation:
    """A part of a search that did less than it should."""

    stage: StageName
    reason: str
    """Why, as a sentence; what to do about it where something can be done."""

    def __str__(self) -> str:
        """Return `semantic: the index has no vectors`."""
        return f"{self.stage}: {self.reason}"


# `answered`: a hit probably answers; `weak`: perhaps; `none`: the documents say nothing on it.
Verdict: TypeAlias = Literal["answered", "weak", "none"]


# `question`: begins as questions do, or ends in a question mark; `words`: any other; `unspaced`: in a script without
# spaces between words; `numbers`: no word at all.
QuestionForm: TypeAlias = Literal["question", "words", "unspaced", "numbers"]


@dataclass(frozen=True)
class Signals:
    """The signs of an answer, before they are weighed; see `confidence`."""

    coverage: float
    """The share of the question, by the rarity of its words, that one section covers at most, 0 to 1."""
    known: float
    """The share of the question, likewise, that is words which any section holds, or typos of them, 0 to 1."""
    together: float
    """The share of its words, pair by pair, that stand side by side in one of the first sections too, 0 to 1."""
    form: QuestionForm
    """The form of the question."""
    margin: float | None = None
    """How far the nearest chunk's cosine is above that of unrelated questions, in deviations; None without vectors."""
    lead: float = 0.0
    """How far the first section's score is above the third's, as a share of it, beyond chance, 0 to 1."""
    reading: float | None = None
    """The reading of the best line of the first sections (`confidence.weigh_reading`); None: none was read."""
    in_english: bool = True
    """Whether the question is; the bundled models know other languages in part."""
    abroad: bool = False
    """Whether it or what is nearest to it is not, and the embedding model reads other languages."""
    is_strange: bool = False
    """Whether a word of it is no English one, and in no document."""
    lacks_day: bool = False
    """Whether it has a day or a year that none of the first sections has."""
    is_named: bool = False
    """Whether the question is the name of a section, or the path of its file, and nothing else."""


@dataclass(frozen=True)
class Trace:
    """How an answer was made."""

    stages: tuple[Stage, ...]
    """In the order in which they ran."""
    rankings: tuple[Ranking, ...]
    """The ranking of each source, before the fusion."""
    signals: Signals
    """The signs that the verdict was made of."""
    order: tuple[str, ...] = ()
    """The candidates after the reranking, not yet read, best first, by node id: the hits and those behind them."""


# The words of a question as the keyword search reads them, and in which languages texts are read beside English.
Marked: TypeAlias = tuple[Sequence[str], Sequence[str]]


@dataclass(frozen=True, repr=False)
class Answer:
    """The sections found for a question, and how sure, fresh and complete that is."""

    question: str
    profile: str
    hits: tuple[Hit, ...]
    """Best first; empty when nothing was found. The verdict does not take any away."""
    verdict: Verdict
    confidence: float
    """The estimated probability that a right section is among the first five hits, 0 to 1."""
    matched_words: tuple[str, ...]
    """The question's words as the keyword search reads them (stems), for marking them in a text."""
    index: IndexState
    degraded: tuple[Degradation, ...]
    """The stages that were skipped or failed, and why; empty when all went well."""
    trace: Trace
    languages: tuple[str, ...] = ()
    """In which texts are read, beside English."""
    corrections: tuple[Correction, ...] = ()
    """The words of the question that were searched for in another spelling."""
    follow_up: FollowUp | None = None
    """How the question was understood by those before it; None for one that stands alone."""
    expansion: ExpansionReport | None = None
    """The texts searched with besides the question, and why not more; None where no expansion was asked for."""
    scope: SearchedScope | None = None
    """The part of the index that was searched; None for all of it."""
    notes: tuple[str, ...] = ()
    """How the question was read where that may surprise, and why a scope left nothing, as sentences."""

    @property
    def marked(self) -> Marked:
        """Return by what its words are marked in a text."""
        return self.matched_words, self.languages

    def __repr__(self) -> str:
        return f"<Answer to {self.question!r}: {self.verdict}, {len(self.hits)} hits>"


@dataclass(frozen=True)
class CitedSentence(Cited):
    """A sentence of a short answer, and the lines that it rests on: the paragraph, item or row that holds the quote."""

    text: str
    """As the model wrote it, or as the document says it, without markup: one line, or one for each item of a list."""
    quote: str
    """The words of the lines that it rests on; of a sentence that is quoted itself, the same."""


@dataclass(frozen=True)
class DroppedSentence:
    """A sentence of a model that is no part of the answer."""

    text: str
    reason: str
    """The fault of it, in a few words."""


@dataclass(frozen=True)
class ShortAnswer:
    """A few sentences that answer a question, each with its lines, and the sections as ever."""

    answer: Answer
    """The result of `Retriever.search`; `degraded` says as well why no model wrote the sentences."""
    sentences: tuple[CitedSentence, ...] = ()
    """None where the verdict is `none`, and where no sentence has a word of the question."""
    dropped: tuple[DroppedSentence, ...] = ()
    """The sentences of a model that do not hold."""
    writer: str = ""
    """The model that wrote the sentences; empty where they are quoted from the documents."""
    note: str = ""
    """How they came about, in a few words."""


# What a caller may bring: an embedding model, a progress reporter.


class Encoder(Protocol):
    """Texts in, unit vectors out."""

    @property
    def fingerprint(self) -> str:
        """Names the vectors' space: two encoders with one fingerprint give the same vectors (16 hex digits)."""

    @property
    def dimension(self) -> int:
        """The length of a vector."""

    @property
    def max_tokens(self) -> int:
        """How many tokens of a text are read, special ones included; what follows them would be lost."""

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the length of each text in tokens, special ones included, without any cut."""

    def encode_documents(self, texts: Sequence[str]) -> FloatMatrix:
        """Return (n, d) float32, unit rows, in the order of the texts.

        Raises:
            EncoderError: the model cannot be loaded or reached, or gave something that is no vector.
        """

    def encode_queries(self, texts: Sequence[str]) -> FloatMatrix:
        """Do as `encode_documents` for questions (some models want another prefix)."""


class Progress(Protocol):
    """Told how far long work has come; its stages: `reading`, `indexing words`, `embedding`, ..."""

    def start(self, stage: str, total: int, unit: str) -> None:
        """Report that a stage of `total` units begins."""

    def advance(self, stage: str, done: int) -> None:
        """Report that `done` of its units are done."""

    def finish(self, stage: str) -> None:
        """Report that it is over."""
