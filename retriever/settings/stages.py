"""What a user says about chunks, about the stages that a language model or a reranker takes part in, and the fusion."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le

from retriever.settings.setting import setting

Count = Annotated[int, Ge(1)]
Seconds = Annotated[float, Gt(0), Le(3600)]
Share = Annotated[float, Ge(0), Le(1)]


@dataclass(frozen=True, slots=True)
class ChunkSettings:
    """How long a chunk is."""

    target_tokens: Annotated[int, Ge(1)] = setting(
        100, "Paragraphs, lists and the like are put together up to so many tokens, the breadcrumb aside."
    )
    max_tokens: Annotated[int, Ge(16)] = setting(
        256, "No chunk has more tokens, the breadcrumb included; what has more by itself is cut."
    )


@dataclass(frozen=True, slots=True)
class LlmSettings:
    """Which language model is asked, and for how long."""

    model: str = setting("llama3.2", "The language model, as Ollama names it.")
    url: str = setting("", "The Ollama server; empty: OLLAMA_HOST, else http://127.0.0.1:11434.")
    allow_remote: bool = setting(False, "Whether that server may be another machine: it reads questions and sections.")
    num_ctx: Annotated[int, Ge(1024)] = setting(8192, "The context window that the model is given, in tokens.")
    keep_alive_seconds: Annotated[int, Ge(0)] = setting(600, "How long Ollama keeps the model loaded after a question.")
    seconds: Seconds = setting(30.0, "The longest wait for one answer of the model.")
    load_seconds: Seconds = setting(60.0, "The longest wait, besides, for a model that is not loaded yet.")
    idle_seconds: Seconds = setting(10.0, "The longest silence in the middle of an answer.")


@dataclass(frozen=True, slots=True)
class SummarySettings:
    """Who writes the summaries of sections."""

    kind: Literal["extractive", "llm"] = setting(
        "extractive", "extractive: a section's first sentences; llm: `index` has the language model write them."
    )
    model: str = setting("", "The language model that writes them, as Ollama names it; empty: llm.model.")
    min_chars: Count = setting(800, "Sections with a shorter text keep their first sentences.")


@dataclass(frozen=True, slots=True)
class HydeSettings:
    """How hypothetical passages take part, and when the question is expanded at all."""

    mode: Literal["variants", "average", "keywords", "answer"] = setting(
        "variants",
        "variants: each passage is searched with; average: their mean replaces the question's vector; "
        "keywords: new words of theirs join the question's; answer: one hypothetical answer is searched with.",
    )
    lexical: Literal["expanded", "original"] = setting(
        "expanded", "original: the lexical arm keeps to the question's own words."
    )
    keywords: Count = setting(5, "How many new words join in the mode keywords.")
    bound: Literal["each", "together"] = setting(
        "each",
        "each: no rewording or passage weighs more than the question; together: nor do all of them together.",
    )
    gate: Literal["auto", "always", "never"] = setting(
        "auto", "auto: questions that an expansion does not help are searched as they are."
    )
    cache_entries: Annotated[int, Ge(0)] = setting(
        1000, "How many expansions are kept in your cache folder; 0: none, and no figures for `status --metrics`."
    )


@dataclass(frozen=True, slots=True)
class ExpansionSettings:
    """What the expansion of a question reads of a profile, whose fields have the same names."""

    use_llm: bool
    rewordings: int
    hyde_variants: int
    hyde_temperature: float
    hyde_max_chars: int
    hyde_skip_max_words: int
    min_query_length: int
    hyde: HydeSettings


@dataclass(frozen=True, slots=True)
class QueryWeights:
    """What the weighing of a question's texts reads of a profile, likewise."""

    rewording_weight: float
    hyde_variant_weight: float
    passage_lexical_weight: float
    hyde: HydeSettings


@dataclass(frozen=True, slots=True)
class RerankSettings:
    """Who puts the candidates into their last order."""

    kind: Literal["none", "llm", "cross-encoder"] = setting(
        "none", "llm: the language model; cross-encoder: a model of the extra `models`."
    )
    model: str = setting("BAAI/bge-reranker-large", "The cross-encoder: its name, or the folder it lies in.")
    passes: Annotated[int, Ge(1), Le(2)] = setting(1, "2: the language model ranks in two orders, which are merged.")
    order: Literal["fused", "shuffled"] = setting(
        "fused",
        "How the language model is shown the candidates; shuffled (always alike for a question): for a model that "
        "prefers what stands first.",
    )
    window: Annotated[int, Ge(2), Le(99)] = setting(20, "How many candidates the language model compares at once.")
    blend: Share = setting(
        0.3, "What the order before the reranking weighs beside it, the most at its first ranks (1 / log2(1 + rank))."
    )
    short_chars: Annotated[int, Ge(0)] = setting(
        350, "Around sections of fewer characters the cross-encoder reads sentences of their document."
    )
    context_sentences: Annotated[int, Ge(0)] = setting(5, "How many of these before the section, and after it.")
    batch_size: Count = setting(8, "Candidates that the cross-encoder reads at once.")
    max_length: Annotated[int, Ge(32)] = setting(512, "How many tokens of a candidate the cross-encoder reads.")


@dataclass(frozen=True, slots=True)
class RerankStageSettings:
    """What the reranking reads of a profile, whose fields have the same names."""

    use_llm: bool
    candidate_cap: int
    final_summary_chars: int
    final_text_chars: int
    entity_boost: float
    rerank: RerankSettings


@dataclass(frozen=True, slots=True)
class FusionSettings:
    """How what the arms found becomes one list."""

    method: Literal["rrf", "convex", "blended"] = setting(
        "rrf",
        "rrf: by ranks; convex: by scores on fixed scales; blended: by scores scaled over the candidates, and by age.",
    )
    semantic_weight: Share = setting(0.55, "The weight of the dense score in convex and blended.")
    lexical_weight: Share = setting(0.30, "The weight of the lexical score, likewise.")
    temporal_weight: Share = setting(0.15, "The weight of how new and how often opened a section is, in blended.")
    min_cosine: Annotated[float, Ge(-1), Le(1)] = setting(0.25, "A lower cosine is no dense evidence, in blended.")
    half_life_days: Annotated[float, Gt(0)] = setting(180.0, "After so many days the newness of a document is half.")
