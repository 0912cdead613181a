"""The settings of a recall mode: their types, defaults, bounds and help."""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeVar

from annotated_types import Ge, Gt, Le

from retriever.embedding import EncoderSettings
from retriever.settings.duration import Duration
from retriever.settings.setting import setting
from retriever.settings.stages import (
    ChunkSettings,
    FusionSettings,
    HydeSettings,
    LlmSettings,
    RerankSettings,
    SummarySettings,
)

ENVIRONMENT_PREFIX = "HYBRID_RETRIEVE_"
LEAST_CONTEXT_TOKENS = 100
"""What a context says by itself, without any quotation, takes at most so many tokens."""

Share = Annotated[float, Ge(0), Le(1)]
Count = Annotated[int, Ge(1)]
CountOrNone = Annotated[int, Ge(0)]
Weight = Annotated[float, Ge(0), Le(1e6)]
StageSettings = TypeVar("StageSettings")


@dataclass(frozen=True, slots=True)
class DocumentSettings:
    """Which files of a folder are documents."""

    suffixes: tuple[str, ...] = setting((".md", ".markdown", ".mdx", ".txt"), "Endings of the files that are read.")
    ignore: tuple[str, ...] = setting((), "Patterns of files to leave out, as in .gitignore.")
    max_file_bytes: Count = setting(10_000_000, "Larger files are named and skipped.")


@dataclass(frozen=True, slots=True)
class Profile:
    """Every setting of one recall mode."""

    top_k: Count = setting(5, "How many sections are returned.")
    vector_top_n: Count = setting(40, "How many chunks the dense arm finds for a query.")
    lexical_top_n: Count = setting(100, "How many sections the lexical arm ranks.")
    dense_per_query: CountOrNone = setting(
        0, "How many chunks the dense arm finds for each text of a search, in a list of its own; 0: one list for all."
    )
    lexical_per_query: CountOrNone = setting(0, "How many sections the lexical arm ranks for each text, likewise.")
    candidate_cap: Count = setting(30, "How many fused candidates are kept; top_k of them are returned.")
    candidate_file_roots: CountOrNone = setting(
        5, "From how many of the best files the top sections become candidates."
    )
    neighbor_depth: CountOrNone = setting(1, "How many steps up, down and aside a hit brings in its neighbours.")
    siblings_per_node: CountOrNone = setting(2, "How many nearest siblings of a hit come in.")
    links_per_node: CountOrNone = setting(2, "How many linked sections of a hit come in, in the order of its links.")
    parent_decay: Share = setting(0.75, "A parent's score, as a share of the hit's that brought it in.")
    child_decay: Share = setting(0.7, "A child's score, likewise.")
    sibling_decay: Share = setting(0.6, "A sibling's score, likewise.")
    link_decay: Share = setting(0.5, "A linked section's score, likewise.")
    neighbors: Literal["ranking", "merged"] = setting(
        "ranking", "ranking: neighbours are a list of their own, of neighbor_weight; merged: they join the dense list."
    )
    neighbor_weight: Weight = setting(0.1, "The weight of the neighbours' list in the fusion.")
    neighbor_share: Share = setting(
        0.2, "Which part of the candidates may be neighbours that no arm found, while there are others."
    )
    node_evidence: Literal["best_chunk", "distance_and_rank"] = setting(
        "best_chunk", "A section's dense score: its best chunk's cosine, or that cosine with its rank's share."
    )
    rrf_k: Annotated[float, Gt(0), Le(1e6)] = setting(60, "The k of reciprocal rank fusion: 1 / (k + rank).")
    dense_weight: Weight = setting(1.0, "The weight of the dense list in the fusion.")
    lexical_weight: Weight = setting(1.0, "The weight of the lexical list in the fusion.")
    late_weight: Weight = setting(
        1.0, "The weight of late interaction, which compares the candidates with the question token by token; 0: not."
    )
    late_candidates: Count = setting(
        60, "How many fused sections late interaction compares; candidate_cap of them are kept."
    )
    late_chunks: Count = setting(20, "How many chunks of a candidate late interaction reads, from its first.")
    rank_weighting: Literal["evidence", "constant"] = setting(
        "evidence", "evidence: a rank counts for as much as its arm found for the section; constant: all count as one."
    )
    page_prior: Share = setting(
        0.3, "What sections of link lists and logs lose of their scores: up to this share, by how much of one they are."
    )
    final_summary_chars: CountOrNone = setting(420, "The length of a hit's summary, in characters.")
    final_text_chars: CountOrNone = setting(1500, "The length of a hit's text in answers, in characters.")
    context_tokens: Annotated[int, Ge(LEAST_CONTEXT_TOKENS)] = setting(
        4000, "How many tokens --context may have, by the bundled model's tokenizer."
    )
    refresh_max_files: CountOrNone = setting(50, "An ask re-indexes up to so many changed files before it answers.")
    refresh_seconds: Annotated[float, Ge(0), Le(1e9)] = setting(
        1.0, "A retriever that stays open looks at the folders at most this often."
    )
    change_seconds: Annotated[float, Ge(0), Le(3600)] = setting(
        1.0, "After a change of the embedding model each ask embeds for so long what is left, likely sections first."
    )
    budget: Duration = setting(
        "",
        "The longest time for an answer, such as 800ms or 2s: what of expansion, late interaction and reranking cannot "
        "finish is skipped; empty: no limit.",
    )
    vector_search: Literal["auto", "exact", "chroma"] = setting(
        "auto",
        "auto: exact up to 20,000 chunks; exact: a scan of all vectors, without loading ChromaDB; "
        "chroma: approximate, fast at any size.",
    )
    use_llm: bool = setting(
        False, "Whether a local language model takes part: it expands the question, and may rerank."
    )
    rewordings: CountOrNone = setting(3, "How many other wordings of the question the model writes.")
    rewording_weight: Share = setting(1.0, "The weight of the question in other words, in both arms.")
    hyde_variants: CountOrNone = setting(3, "How many hypothetical passages the model writes.")
    hyde_variant_weight: Share = setting(0.7, "The weight of a hypothetical passage beside the question's 1.")
    passage_lexical_weight: Share = setting(0.5, "The same in the lexical arm, where a passage has many words.")
    hyde_temperature: Annotated[float, Ge(0), Le(2)] = setting(0.3, "The temperature at which passages are written.")
    hyde_max_chars: Count = setting(420, "Passages are cut at a sentence before this length.")
    hyde_skip_max_words: CountOrNone = setting(5, "Questions of at most so many words are not expanded.")
    min_query_length: CountOrNone = setting(10, "Questions of fewer characters are not expanded.")
    entity_boost: Weight = setting(0.0, "What a candidate gains after the reranking for each entity of the question.")
    record: bool = setting(False, "Whether questions and their answers are kept in the index, for `history`.")
    encoder: EncoderSettings = field(default_factory=EncoderSettings)
    chunks: ChunkSettings = field(default_factory=ChunkSettings)
    documents: DocumentSettings = field(default_factory=DocumentSettings)
    summaries: SummarySettings = field(default_factory=SummarySettings)
    llm: LlmSettings = field(default_factory=LlmSettings)
    hyde: HydeSettings = field(default_factory=HydeSettings)
    rerank: RerankSettings = field(default_factory=RerankSettings)
    fusion: FusionSettings = field(default_factory=FusionSettings)

    def part(self, kind: type[StageSettings]) -> StageSettings:
        """The settings that one stage reads: a dataclass with some of the profile's fields."""
        names = (item.name for item in dataclasses.fields(kind))  # type: ignore[arg-type] # a dataclass
        return kind(**{name: getattr(self, name) for name in names})


INDEX_SECTIONS = ("encoder", "chunks", "documents", "summaries")
"""The sections that decide what is in an index; an index remembers them."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One leaf of the profile."""

    path: tuple[str, ...]
    """Its keys from the top, such as `("encoder", "kind")`."""
    type: Any
    default: Any
    help: str

    @property
    def key(self) -> str:
        """As in messages: `encoder.kind`."""
        return ".".join(self.path)

    @property
    def flag(self) -> str:
        """As on the command line: `--encoder-kind`."""
        return "--" + "-".join(self.path).replace("_", "-")

    @property
    def variable(self) -> str:
        """As in the environment: `HYBRID_RETRIEVE_ENCODER_KIND`."""
        return ENVIRONMENT_PREFIX + "_".join(self.path).upper()


def settings(kind: type = Profile, above: tuple[str, ...] = ()) -> Iterator[Setting]:
    """Every leaf of the profile, in the order of declaration."""
    for item in dataclasses.fields(kind):
        path = (*above, item.name)
        if dataclasses.is_dataclass(item.type) and isinstance(item.type, type):
            yield from settings(item.type, path)
        else:
            yield Setting(path, item.type, item.default, item.metadata["help"])


def nested(path: tuple[str, ...], value: object) -> dict[str, Any]:
    """`("encoder", "kind")`, `"onnx"` -> `{"encoder": {"kind": "onnx"}}`."""
    head, *rest = path
    return {head: nested(tuple(rest), value) if rest else value}


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Both layers in one; where they meet, `above` wins, section by section."""
    result = dict(below)
    for key, value in above.items():
        under = result.get(key)
        if isinstance(value, Mapping) and isinstance(under, Mapping):
            value = merged(under, value)
        result[key] = value
    return result
