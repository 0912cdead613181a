"""The settings of a recall mode: their types, defaults, bounds and help."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, cast

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

ENVIRONMENT_PREFIX = "HYBRID_RETRIEVE_"
INDEX_SECTIONS = ("encoder", "documents")  # an index, whose content they decide, remembers them
LEAST_CONTEXT_TOKENS = 100  # a context without any quotation takes at most these


def setting(default: Any, help: str, *flags: str) -> Any:  # noqa: ANN401 - as dataclasses.field, which takes the field's own type
    """Return a dataclass field with its default, one sentence of help, and other flags beside its own."""
    return field(default=default, metadata={"help": help, "other_flags": flags})


@dataclass(frozen=True, slots=True)
class Bounds:
    """The range of a number, which pydantic checks."""

    # It is `annotated_types.Interval`, whose import takes longer than all other modules of `--help` together.

    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None

    def __get_pydantic_core_schema__(self, source: type, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        limits = {"ge": self.at_least, "le": self.at_most, "gt": self.above}
        given = {name: limit for name, limit in limits.items() if limit is not None}
        return cast("CoreSchema", {**handler(source), **given})


# The sections of a profile.

Seconds = Annotated[float, Bounds(above=0, at_most=3600)]
Count = Annotated[int, Bounds(1)]
CountOrNone = Annotated[int, Bounds(0)]
Weight = Annotated[float, Bounds(0, 1e6)]
Share = Annotated[float, Bounds(0, 1)]

VectorChoice = Literal["exact", "chroma", "hnsw"]
APPROXIMATE: Final = ("chroma", "hnsw")
"""The kinds of search for vectors that look at a part of them."""


@dataclass(frozen=True, slots=True)
class LlmSettings:
    """Which language model is asked, and for how long."""

    model: str = setting("llama3.2", "The language model, as its server names it.")
    url: str = setting(
        "",
        "Ask the language model at this address. Empty: Ollama, at OLLAMA_HOST, else http://127.0.0.1:11434; an "
        "address with a path, such as /v1: one that speaks OpenAI's API, such as LM Studio, llama.cpp or vLLM.",
        "--ollama-url",
    )
    num_ctx: Annotated[int, Bounds(1024)] = setting(
        8192,
        "The context window, in tokens: Ollama gives it to the model; of other servers it is what they have at most.",
    )
    seconds: Seconds = setting(
        30.0,
        "The longest wait for one answer of the model; a third of it for a server that reranks. A stage asks for as "
        "much as the model can do in a quarter of it, by its measured speed.",
    )


@dataclass(frozen=True, slots=True)
class AnswerSettings:
    """The writer of the sentences of `answer`."""

    kind: Literal["auto", "extractive"] = setting(
        "auto",
        "auto: the language model where its server runs, else the documents are quoted; extractive: they are quoted.",
    )


@dataclass(frozen=True, slots=True)
class RerankSettings:
    """The reranker, which puts the candidates into their last order."""

    kind: Literal["none", "auto", "llm", "onnx", "endpoint"] = setting(
        "none",
        "auto: the language model, if `doctor --llm` saw that it can; llm: it in any case; onnx: a cross-encoder, from "
        "a folder; endpoint: a server's /rerank.",
    )
    model: str = setting("", "onnx: the folder that scripts/export_model.py made; endpoint: the server's name.")
    url: str = setting("", "The server of the kind endpoint, such as http://127.0.0.1:8080/v1.")


# What a user says about the encoder.


@dataclass(frozen=True, slots=True)
class EncoderSettings:
    """Which model turns texts into vectors, and how it is reached."""

    kind: Literal["onnx", "sentence-transformers", "ollama", "openai", "none"] = setting(
        "onnx", "What runs the embedding model; none: search by words and structure alone."
    )
    model: str = setting(
        "",
        "Its name, or a folder that scripts/export_model.py made; english or multilingual: a bundled one; empty: that "
        "for the languages of the documents, when an index is made.",
    )
    url: str = setting("", "The server of the kinds ollama (empty: http://127.0.0.1:11434) and openai (ending in /v1).")
    query_prefix: str = setting(
        "",
        "Put before each question; none: nothing; empty: what the model asks for, which is known of an ONNX folder, of "
        "sentence-transformers, and of the usual models on a server (`status` shows it).",
    )
    document_prefix: str = setting("", "Put before each document, likewise.")
    max_tokens: Annotated[int, Bounds(16)] = setting(
        256,
        "How many tokens of a text are read at most, and no chunk has more; the model's own limit where that is less.",
    )


@dataclass(frozen=True, slots=True)
class DocumentSettings:
    """Which files of a folder are documents."""

    ignore: tuple[str, ...] = setting((), "Patterns of files to leave out, as in .gitignore.", "--ignore")
    dialect: Literal[
        "auto", "commonmark", "obsidian", "mkdocs", "mdbook", "myst", "hugo", "jekyll", "docusaurus", "vitepress", "mdx"
    ] = setting(
        "auto",
        "Read Markdown as this program does; auto: by the files that only one of them has, such as mkdocs.yml.",
    )


@dataclass(frozen=True, slots=True)
class Profile:
    """Every setting of one recall mode."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}  # keys that are no setting

    top_k: Count = setting(5, "How many sections are returned.", "-k", "-n", "--limit")
    vector_top_n: Count = setting(60, "How many chunks semantic search finds for a query.")
    keyword_top_n: Count = setting(100, "How many sections keyword search ranks.")
    candidate_cap: Count = setting(30, "How many fused candidates are kept; top_k of them are returned.")
    candidate_file_roots: CountOrNone = setting(
        5, "From how many of the best files the top sections become candidates."
    )
    neighbor_depth: CountOrNone = setting(1, "How many steps up, down and aside a hit brings in its neighbors.")
    siblings_per_node: CountOrNone = setting(2, "How many nearest siblings of a hit come in.")
    parent_decay: Share = setting(0.75, "A parent's score, as a share of the hit's that brought it in.")
    child_decay: Share = setting(0.7, "A child's score, likewise.")
    sibling_decay: Share = setting(0.6, "A sibling's score, likewise.")
    ranking: Literal["evidence", "classic"] = setting(
        "evidence",
        "evidence: a rank counts for as much as its source found, and neighbors are a list of their own; classic: all "
        "ranks count as one, a section is as good as its best chunk, and neighbors join the semantic list.",
    )
    rrf_k: Annotated[float, Bounds(above=0, at_most=1e6)] = setting(
        60, "The k of reciprocal rank fusion: 1 / (k + rank)."
    )
    semantic_weight: Weight = setting(1.0, "The weight of semantic search in the fusion.")
    keyword_weight: Weight = setting(1.0, "The weight of keyword search in the fusion.")
    name_weight: Weight = setting(
        3.0, "The weight of sections that are called what is asked, or hold an identifier that is asked; 0: off."
    )
    exact: bool = setting(False, "Do not correct typos.")
    page_prior: Share = setting(
        0.4, "What sections of link lists and logs lose of their scores: up to this share, by how much of one they are."
    )
    read_passages: CountOrNone = setting(
        3, "In how many of the first sections the bundled reader reads the best lines, of English questions; 0: none."
    )
    final_summary_chars: CountOrNone = setting(420, "The length of a hit's summary, in characters.")
    final_text_chars: CountOrNone = setting(1500, "The length of a hit's text in answers, in characters.")
    context_tokens: Annotated[int, Bounds(LEAST_CONTEXT_TOKENS)] = setting(
        4000, "How many tokens --context may have.", "--max-tokens"
    )
    refresh_max_files: CountOrNone = setting(50, "An ask re-indexes up to this many changed files before it answers.")
    vector_search: VectorChoice = setting(
        "exact",
        "exact: a scan of all vectors; chroma: ChromaDB's graph; hnsw: the same, as an index in PostgreSQL calls it.",
    )
    use_llm: bool = setting(
        False, "Whether a local language model takes part: it expands the question, and may rerank."
    )
    allow_remote: bool = setting(
        False, "Whether llm.url and rerank.url may be other machines: they read questions and sections."
    )
    hyde: Literal["auto", "always", "never"] = setting(
        "auto", "Which questions are expanded; auto: not those that it does not help."
    )
    hyde_variant_weight: Share = setting(0.7, "The weight of a hypothetical passage beside the question's 1.")
    entity_boost: Weight = setting(
        0.0, "What a candidate gains after the reranking for each name that the question speaks of."
    )
    encoder: EncoderSettings = field(default_factory=EncoderSettings)
    documents: DocumentSettings = field(default_factory=DocumentSettings)
    llm: LlmSettings = field(default_factory=LlmSettings)
    answer: AnswerSettings = field(default_factory=AnswerSettings)
    rerank: RerankSettings = field(default_factory=RerankSettings)


@dataclass(frozen=True, slots=True)
class Setting:
    """One leaf of the profile."""

    path: tuple[str, ...]  # its keys from the top, such as `("encoder", "kind")`
    type: Any
    default: Any
    help: str
    other_flags: tuple[str, ...]  # beside `flag`, the shortest first

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
        return name_variable(*self.path)


def name_variable(*path: str) -> str:
    """Return the environment variable of a setting."""
    return ENVIRONMENT_PREFIX + "_".join(path).upper()


@cache
def list_settings(kind: type = Profile, above: tuple[str, ...] = ()) -> tuple[Setting, ...]:
    """Return every leaf of the profile, in the order of declaration."""
    found: list[Setting] = []
    for item in dataclasses.fields(kind):
        path = (*above, item.name)
        if dataclasses.is_dataclass(item.type) and isinstance(item.type, type):
            found += list_settings(item.type, path)
        else:
            found.append(Setting(path, item.type, item.default, **item.metadata))
    return tuple(found)


def nest(path: tuple[str, ...], value: object) -> dict[str, Any]:
    """Nest a value below its path: `("encoder", "kind")`, `"onnx"` -> `{"encoder": {"kind": "onnx"}}`."""
    head, *rest = path
    return {head: nest(tuple(rest), value) if rest else value}


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two layers; where they meet, `above` wins, section by section."""
    result = dict(below)
    for key, value in above.items():
        under = result.get(key)
        if isinstance(value, Mapping) and isinstance(under, Mapping):
            value = merge(under, value)
        result[key] = value
    return result
